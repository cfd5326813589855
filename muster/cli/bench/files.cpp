// muster bench files: does training wait for its files? The same steps from files and from tensors that are ready, in
// turns; the difference is what reading costs.
#include <memory>
#include <vector>

#include <torch/torch.h>

#include "muster/base/clock.h"
#include "muster/cli/bench/bench.h"
#include "muster/compute/threads.h"
#include "muster/data/sources.h"
#include "muster/model/make_model.h"
#include "muster/trainer/session.h"
#include "muster/trainer/session_core.h"

namespace muster::cli {
namespace {

namespace F = torch::nn::functional;

// Every sample decoded and normalised beforehand.
class ReadyDataset final : public data::Dataset {
 public:
  explicit ReadyDataset(const data::Dataset& source)
      : spec_(source.spec()), features_(source.size() * spec_.elements()), labels_(source.size()) {
    for (std::uint64_t id = 0; id < source.size(); ++id) {
      labels_[id] = source.read(id, {features_.data() + id * spec_.elements(), spec_.elements()});
    }
  }
  std::uint64_t size() const override { return labels_.size(); }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override {
    std::copy_n(features_.data() + id * spec_.elements(), spec_.elements(), features.data());
    return labels_[id];
  }

 private:
  data::SampleSpec spec_;
  std::vector<float> features_;
  std::vector<std::int64_t> labels_;
};

class Side {
 public:
  Side(const FilesBench& options, std::shared_ptr<const data::Dataset> dataset)
      : dataset_(std::move(dataset)),
        net_(make_net(options, dataset_->spec())),
        session_(net_, compute::Sgd{.lr = 0.01, .momentum = 0.9}, session_options(options)) {}

  double steps_ms(std::int64_t steps) {
    const auto start = system_clock().now();
    for (std::int64_t i = 0; i < steps; ++i) {
      session_.step(dataset_, [this](trainer::Lane& lane) {
        lane.backward(F::cross_entropy(net_->forward(lane.data), lane.target));
      });
    }
    return std::chrono::duration<double, std::milli>(system_clock().now() - start).count() / static_cast<double>(steps);
  }
  double load_ms() const { return 1e3 * session_.core().times().load / static_cast<double>(session_.cursor().step); }

 private:
  static std::shared_ptr<model::Net> make_net(const FilesBench& options, const data::SampleSpec& spec) {
    model::ModelOptions model;
    model.name = options.model;
    model.input_shape = spec.shape;
    model.classes = spec.classes;
    auto net = model::make_model(model, 1);
    net->train();
    return net;
  }
  static trainer::SessionOptions session_options(const FilesBench& options) {
    trainer::SessionOptions session;
    session.batch = static_cast<std::uint64_t>(options.batch);
    return session;
  }

  std::shared_ptr<const data::Dataset> dataset_;
  std::shared_ptr<model::Net> net_;
  trainer::Session session_;
};

}  // namespace

void bench_files(const FilesBench& options) {
  compute::set_threads(1);
  data::SourceOptions source;
  source.source = options.source;
  source.path = options.path;
  const data::Data opened = data::open_source(source);
  Side files(options, opened.train);
  Side memory(options, std::make_shared<ReadyDataset>(*opened.train));
  std::vector<double> files_ms;
  std::vector<double> memory_ms;
  for (std::int64_t round = -1; round < options.rounds; ++round) {
    const double a = files.steps_ms(options.steps);
    const double b = memory.steps_ms(options.steps);
    if (round < 0) continue;
    files_ms.push_back(a);
    memory_ms.push_back(b);
  }
  print_row({{"bench", "files"},
             {"source", options.source},
             {"model", options.model},
             {"batch", options.batch},
             {"files_ms", median(files_ms)},
             {"memory_ms", median(memory_ms)},
             {"ratio_to_memory", median(files_ms) / median(memory_ms)},
             {"load_ms", files.load_ms()}},
            options.json);
}

}  // namespace muster::cli
