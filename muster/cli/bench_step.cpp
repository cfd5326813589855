// muster bench step: one training step of Muster against the plain LibTorch loop, in turns, in one process.
#include <memory>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "muster/base/clock.h"
#include "muster/cli/bench.h"
#include "muster/compute/threads.h"
#include "muster/data/sources.h"
#include "muster/model/make_model.h"
#include "muster/trainer/session.h"

namespace muster::cli {
namespace {

namespace F = torch::nn::functional;
constexpr double kLr = 1e-3;
constexpr double kMomentum = 0.9;
constexpr double kWeightDecay = 1e-4;
constexpr std::int64_t kClasses = 10;

double milliseconds_since(Clock::Instant start) {
  return std::chrono::duration<double, std::milli>(system_clock().now() - start).count();
}

std::shared_ptr<model::Net> make_net(const StepBench& options, const std::vector<std::int64_t>& shape) {
  model::ModelOptions model;
  model.name = options.model;
  model.input_shape = shape;
  model.classes = kClasses;
  auto net = model::make_model(model, 1);
  net->train();
  return net;
}

// Pictures as the model is usually fed.
std::vector<std::int64_t> shape_for(const std::string& model) {
  if (model.starts_with("resnet")) return {3, 32, 32};
  return {1, 28, 28};
}

class PlainLoop {
 public:
  PlainLoop(const StepBench& options, const data::Dataset& dataset, const std::vector<std::int64_t>& shape)
      : net_(make_net(options, shape)),
        optimizer_(net_->parameters(), torch::optim::SGDOptions(kLr).momentum(kMomentum).weight_decay(kWeightDecay)) {
    // Every batch is ready before the clock starts.
    const auto batches = dataset.size() / static_cast<std::uint64_t>(options.batch);
    for (std::uint64_t b = 0; b < batches; ++b) {
      std::vector<std::int64_t> extents{options.batch};
      extents.insert(extents.end(), shape.begin(), shape.end());
      torch::Tensor input = torch::empty(extents);
      torch::Tensor target = torch::empty({options.batch}, torch::kInt64);
      const std::uint64_t elements = dataset.spec().elements();
      for (std::int64_t i = 0; i < options.batch; ++i) {
        float* place = input.data_ptr<float>() + static_cast<std::uint64_t>(i) * elements;
        target.data_ptr<std::int64_t>()[i] = dataset.read(
            b * static_cast<std::uint64_t>(options.batch) + static_cast<std::uint64_t>(i), {place, elements});
      }
      batches_.emplace_back(std::move(input), std::move(target));
    }
  }

  void step(std::vector<double>& compute_ms, std::vector<double>& update_ms, std::vector<double>& total_ms) {
    const auto& [input, target] = batches_[next_++ % batches_.size()];
    const auto start = system_clock().now();
    optimizer_.zero_grad();
    F::cross_entropy(net_->forward(input), target).backward();
    compute_ms.push_back(milliseconds_since(start));
    const auto update = system_clock().now();
    optimizer_.step();
    update_ms.push_back(milliseconds_since(update));
    total_ms.push_back(milliseconds_since(start));
  }

 private:
  std::shared_ptr<model::Net> net_;
  torch::optim::SGD optimizer_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> batches_;
  std::size_t next_ = 0;
};

struct Times {
  std::vector<double> total, compute, update, wait, load;
};

Json row_of(const StepBench& options, const std::string& strategy, std::int64_t lanes, const Times& times) {
  const double total = median(times.total);
  return {{"bench", "step"},
          {"model", options.model},
          {"strategy", strategy},
          {"workers", 1},
          {"lanes", lanes},
          {"batch", options.batch},
          {"samples_per_s", 1e3 * static_cast<double>(options.batch) / total},
          {"median_ms", total},
          {"compute_ms", median(times.compute)},
          {"update_ms", median(times.update)},
          {"wait_ms", median(times.wait)},
          {"load_ms", median(times.load)}};
}

}  // namespace

void bench_step(const StepBench& options) {
  compute::set_threads(static_cast<int>(options.threads));
  const std::vector<std::int64_t> shape = shape_for(options.model);
  data::SourceOptions source;
  source.source = "synthetic";
  source.shape = shape;
  source.classes = kClasses;
  source.samples = static_cast<std::uint64_t>(options.batch * 16);
  source.test_samples = 1;
  const std::shared_ptr<const data::Dataset> dataset = data::open_source(source).train;

  auto net = make_net(options, shape);
  trainer::SessionOptions session_options;
  session_options.batch = static_cast<std::uint64_t>(options.batch);
  session_options.lanes = static_cast<std::uint64_t>(options.lanes);
  session_options.threads = static_cast<int>(options.threads);
  trainer::Session session(net, compute::Sgd{.lr = kLr, .momentum = kMomentum, .weight_decay = kWeightDecay},
                           session_options);
  PlainLoop plain(options, *dataset, shape);

  Times muster;
  Times torch;
  const auto muster_step = [&](bool timed) {
    const trainer::PhaseTimes before = session.times();
    const auto start = system_clock().now();
    session.step(dataset,
                 [&](trainer::Lane& lane) { lane.backward(F::cross_entropy(net->forward(lane.data), lane.target)); });
    const double total = milliseconds_since(start);
    if (!timed) return;
    const trainer::PhaseTimes after = session.times();
    muster.total.push_back(total);
    muster.compute.push_back(1e3 * (after.compute - before.compute));
    muster.update.push_back(1e3 * (after.update - before.update));
    muster.wait.push_back(1e3 * (after.wait - before.wait));
    muster.load.push_back(1e3 * (after.load - before.load));
  };
  Times warm_up;
  // One untimed step at the start of each turn brings the side's own memory back into the caches.
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    muster_step(false);
    for (std::int64_t i = 0; i < options.steps; ++i)
      muster_step(true);
    plain.step(warm_up.compute, warm_up.update, warm_up.total);
    for (std::int64_t i = 0; i < options.steps; ++i)
      plain.step(torch.compute, torch.update, torch.total);
  }
  torch.wait.assign(torch.total.size(), 0.0);
  torch.load.assign(torch.total.size(), 0.0);
  Json row = row_of(options, "shared_sync", options.lanes, muster);
  row["ratio_to_plain"] = median(muster.total) / median(torch.total);
  print_row(row, options.json);
  print_row(row_of(options, "plain", 1, torch), options.json);
}

}  // namespace muster::cli
