// Which tensors of a model train, from which epoch on, how fast and with how much weight decay: for fine-tuning, and
// what torch::optim has groups of parameters for. Pure functions of names.
//
// Patterns are those of base/pattern.h. A tensor that a pattern of `freeze` fits does not train: no gradient is
// computed for it, nothing updates it (weight decay and momentum neither), and if it is a buffer no lane changes it. A
// pattern of `unfreeze` ends that once so many epochs are finished. Of several patterns with numbers that fit, the last
// one counts. All of it follows from the job and the epoch alone, so that every worker, and a resumed run, decides the
// same.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "muster/base/pattern.h"

namespace muster::compute {

struct Tuning {
  std::vector<std::string> freeze;
  std::vector<NumberedPattern> unfreeze;         // epochs
  std::vector<NumberedPattern> lr_factors;       // of the step's learning rate
  std::vector<NumberedPattern> decay_factors{};  // of the optimizer's weight decay; 0: none
};

// "layer1.*=2" and "layer1.*=0.1" as the job has them. Throws kInvalidInput: another form, epochs that are not whole
// and at least 1, a factor that is not above 0.
std::vector<NumberedPattern> parse_unfreeze(std::span<const std::string> texts);
std::vector<NumberedPattern> parse_lr_factors(std::span<const std::string> texts);

constexpr std::uint64_t kFrozenForever = std::numeric_limits<std::uint64_t>::max();

// Epochs that must be finished before the tensor trains: 0, some, or kFrozenForever.
std::uint64_t frozen_epochs(const Tuning& tuning, std::string_view name);
double lr_factor(const Tuning& tuning, std::string_view name);
double decay_factor(const Tuning& tuning, std::string_view name);

// Throws kInvalidInput: a pattern that fits no name; one of unfreeze that fits nothing frozen; factors that fit no
// parameter, or that are out of their range; no parameter that trains in the first epoch.
void check_tuning(const Tuning& tuning, std::span<const std::string> parameters, std::span<const std::string> buffers);

}  // namespace muster::compute
