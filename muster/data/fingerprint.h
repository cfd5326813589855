// What a data set holds, in a few digits: for hosts that have to have the same one.
//
// It covers the number of samples and what they look like, the label of every sample where the set knows labels without
// reading (pictures, IDX, CIFAR-10, tables, arrays), and input and target of kPrintedSamples samples, evenly spread,
// bit by bit as training gets them before augmentation. What differs between these samples alone is not noticed here;
// names, sizes and pieces of the files are compared beside it (trainer/data_agreement.h).
#pragma once

#include <cstdint>
#include <string>

#include "muster/data/dataset.h"

namespace muster::data {

inline constexpr std::uint64_t kPrintedSamples = 32;

// Sixteen hexadecimal digits. A sample that is damaged counts as that. Throws what reading throws beside.
std::string fingerprint(const Dataset& dataset);

}  // namespace muster::data
