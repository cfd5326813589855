// Predictions as rows of a CSV file: what a model says of each sample. No torch here.
#pragma once

#include <string>

#include "muster/data/data_form.h"

namespace muster::cli {

// "sample,class,probability", and a column for each class where `probabilities`; or the names of the values. `sample`
// is what the first column is called.
std::string answers_header(const data::DataForm& form, const std::string& sample, bool probabilities);

// `answer` has a probability of each class, or the values as the net gives them.
std::string answer_row(const std::string& sample, const float* answer, const data::SampleSpec& spec,
                       bool probabilities);

}  // namespace muster::cli
