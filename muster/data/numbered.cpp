// Reading costs nothing, so nothing is read ahead in vain. Inputs have one element, because loaders know no samples
// without any.
#include "muster/data/numbered.h"

#include "muster/base/error.h"

namespace muster::data {
namespace {

class Numbered final : public Dataset {
 public:
  explicit Numbered(std::uint64_t samples) : samples_(samples) {}

  std::uint64_t size() const override { return samples_; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override {
    features[0] = 0;
    return static_cast<std::int64_t>(id);
  }
  bool knows_labels() const override { return true; }

 private:
  const std::uint64_t samples_;
  const SampleSpec spec_{.shape = {1}};
};

}  // namespace

std::shared_ptr<const Dataset> numbered(std::uint64_t samples) {
  if (samples == 0)
    throw Error(ErrorKind::kInvalidInput, "a data set of no samples", "numbered",
                "Give the number of samples of an epoch.");
  return std::make_shared<Numbered>(samples);
}

}  // namespace muster::data
