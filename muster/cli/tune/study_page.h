// A study as one HTML file: plots and the table of its trials. Nothing in it is fetched from anywhere. Pure.
#pragma once

#include <string>

#include "muster/tuning/study_log.h"

namespace muster::cli {

std::string study_page(const tuning::StudyLog& log);

}  // namespace muster::cli
