// A data source and a task of your own for `muster train`, with no program around them: build this file as a shared
// object (it links muster::headers alone) and name it in a job, as examples/own_task.toml does.
//
// The source: points in the plane, of which those in a ring are rare (class 1). The task: focal loss (Lin et al. 2017),
// which leaves easy samples out, and the F1 score of the rare class.
#include <cmath>
#include <random>
#include <stdexcept>

#include "muster/data/user_sources.h"
#include "muster/trainer/user_tasks.h"

namespace {

class Ring final : public muster::data::Dataset {
 public:
  Ring(std::uint64_t samples, std::uint64_t seed, double width) : samples_(samples), seed_(seed), width_(width) {}

  std::uint64_t size() const override { return samples_; }
  const muster::data::SampleSpec& spec() const override { return spec_; }
  // A function of the number alone, in every process.
  std::int64_t read(std::uint64_t id, std::span<float> features) const override {
    std::mt19937_64 random(seed_ * 1'000'003 + id);
    for (float& feature : features)
      feature = static_cast<float>(random() >> 11) * 0x1p-52F - 1;
    return std::abs(std::hypot(features[0], features[1]) - 0.6F) < width_ / 2 ? 1 : 0;
  }

 private:
  muster::data::SampleSpec spec_{.shape = {2}, .classes = 2, .class_names = {"plane", "ring"}};
  std::uint64_t samples_, seed_;
  double width_;
};

// Without a test set of its own: data.test_fraction of the samples is held out.
muster::data::OwnSets open_ring(const muster::data::OwnSourceOptions& options) {
  const auto samples = static_cast<std::uint64_t>(options.own.get<std::int64_t>("samples"));
  return {.train = std::make_shared<Ring>(samples, options.seed, options.own.get<double>("width")),
          .description = "points of a plane with a ring"};
}

class Focal final : public muster::trainer::OwnTask {
 public:
  explicit Focal(double gamma) : gamma_(gamma) {}

  torch::Tensor losses(const torch::Tensor& answer, const torch::Tensor& target) const override {
    const torch::Tensor log_chance = answer.log_softmax(1).gather(1, target.unsqueeze(1)).squeeze(1);
    return -(1 - log_chance.exp()).pow(gamma_) * log_chance;
  }

  std::vector<std::string> figure_names() const override { return {"accuracy", "hits", "said", "there"}; }
  torch::Tensor figures(const torch::Tensor& answer, const torch::Tensor& target) const override {
    const torch::Tensor said = answer.argmax(1);
    return torch::stack({said.eq(target), said.mul(target), said, target}, 1).to(torch::kFloat64);
  }
  // The means of the columns over all samples.
  std::vector<muster::trainer::Metric> metrics(std::span<const double> means) const override {
    return {{"accuracy", means[0]}, {"f1", 2 * means[1] / std::max(means[2] + means[3], 1e-12)}};
  }

 private:
  double gamma_;
};

std::shared_ptr<const muster::trainer::OwnTask> make_focal(const muster::data::SampleSpec& spec,
                                                           const muster::OwnOptions& options) {
  if (spec.classes != 2) throw std::invalid_argument("it is for two classes");
  return std::make_shared<Focal>(options.get<double>("gamma"));
}

}  // namespace

// The last braces are keys of their own, each with its default and limits: [data.options] and [loss.options].
MUSTER_SOURCES({"ring",
                "points of a plane, of which those in a ring are rare",
                open_ring,
                {{"samples", 4000, "How many there are.", 10, 1e9}, {"width", 0.1, "Of the ring.", 0.001, 1}}})
MUSTER_TASKS({"focal",
              "focal loss of two classes, with the F1 score of the second",
              make_focal,
              {{"gamma", 2.0, "How much easy samples are left out; 0 is cross-entropy.", 0, 10}}})
