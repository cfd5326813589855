// Plots of a study as SVG, each a whole picture of its own: for files, and for the page (study_page.h). Pure.
//
// Points are trials that have an outcome. Darker lines and points are better ones.
#pragma once

#include <string>
#include <vector>

#include "muster/tuning/importance.h"
#include "muster/tuning/study_plan.h"
#include "muster/tuning/trial.h"

namespace muster::cli {

// Values of the first objective in the order in which trials ended, and the best so far.
std::string plot_history(const tuning::StudyPlan& plan, const tuning::History& history);
// An axis for each key and one for the objective; a line for each trial.
std::string plot_parallel(const tuning::StudyPlan& plan, const tuning::History& history);
// For each key: its values against the objective.
std::string plot_slices(const tuning::StudyPlan& plan, const tuning::History& history);
// How much of the variance each key explains alone (fANOVA, importance.h).
std::string plot_importance(const std::vector<tuning::Importance>& shares);
// Of two objectives: all trials and the Pareto front.
std::string plot_front(const tuning::StudyPlan& plan, const tuning::History& history);

// Text as it may stand in SVG and HTML.
std::string escaped(std::string_view text);

}  // namespace muster::cli
