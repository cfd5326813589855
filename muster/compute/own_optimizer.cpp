// An algorithm that is the program's: its function is called with the same blocks, and under the same rules, as those
// of this folder.
#include <set>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/compute/algorithms.h"

namespace muster::compute {
namespace {

class Own final : public Optimizer {
 public:
  explicit Own(OwnOptimizer options) : options_(std::move(options)) {}

  const std::vector<std::string>& slot_names() const override { return options_.slots; }

  void update(const BlockInput& input, const TensorStep& step, double /*trust_ratio*/,
              const BlockOutput& output) const override {
    check_block(input, step, slots(), output);
    options_.update(input, step, output);
  }

 private:
  const OwnOptimizer options_;
};

}  // namespace

std::unique_ptr<const Optimizer> make_own(const OwnOptimizer& options) {
  const char* const name = options.name.c_str();
  if (!options.update)
    throw Error(ErrorKind::kInvalidInput, fmt::format("{}: OwnOptimizer::update is empty", name), {},
                "Give the function that writes a block of parameters.");
  require_not_negative(name, "lr", options.lr);
  require_not_negative(name, "weight_decay", options.weight_decay);
  if (options.slots.size() > kMaxSlots)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{}: {} slots of state, at most {} are kept", name, options.slots.size(), kMaxSlots));
  // They are names in checkpoints.
  std::set<std::string> names{"updates", "extra"};
  for (const std::string& slot : options.slots) {
    if (slot.empty() || slot.find('/') != std::string::npos || !names.insert(slot).second)
      throw Error(ErrorKind::kInvalidInput, fmt::format("{}: a slot of state cannot be called \"{}\"", name, slot), {},
                  "Use names of their own, without a slash; updates and extra are Muster's.");
  }
  return std::make_unique<Own>(options);
}

}  // namespace muster::compute
