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

std::shared_ptr<const data::Dataset> make_data(const StepBench& options, std::int64_t batch) {
  data::SourceOptions source;
  source.source = "synthetic";
  source.shape = shape_for(options.model);
  source.classes = kClasses;
  source.samples = static_cast<std::uint64_t>(batch * 16);
  source.test_samples = 1;
  return data::open_source(source).train;
}

trainer::SessionOptions make_session_options(const StepBench& options, std::int64_t batch, std::int64_t lanes,
                                             const std::string& strategy, const comm::Group& group) {
  trainer::SessionOptions session;
  session.batch = static_cast<std::uint64_t>(batch);
  session.lanes = static_cast<std::uint64_t>(lanes);
  session.threads = static_cast<int>(options.threads);
  session.strategy = strategy;
  session.group = group;
  return session;
}

}  // namespace

struct StepContender::State {
  State(const StepBench& bench, std::int64_t batch, std::int64_t lanes, const std::string& strategy,
        const comm::Group& group)
      : options(bench),
        dataset(make_data(bench, batch)),
        net(make_net(bench, shape_for(bench.model))),
        session(net, compute::Sgd{.lr = kLr, .momentum = kMomentum, .weight_decay = kWeightDecay},
                make_session_options(bench, batch, lanes, strategy, group)) {}

  void step(StepTimes* times) {
    const trainer::PhaseTimes before = session.times();
    const auto start = system_clock().now();
    session.step(dataset,
                 [&](trainer::Lane& lane) { lane.backward(F::cross_entropy(net->forward(lane.data), lane.target)); });
    const double total = milliseconds_since(start);
    if (times == nullptr) return;
    const trainer::PhaseTimes after = session.times();
    times->total.push_back(total);
    times->compute.push_back(1e3 * (after.compute - before.compute));
    times->update.push_back(1e3 * (after.update - before.update));
    times->wait.push_back(1e3 * (after.wait - before.wait));
    times->load.push_back(1e3 * (after.load - before.load));
  }

  const StepBench& options;
  std::shared_ptr<const data::Dataset> dataset;
  std::shared_ptr<model::Net> net;
  trainer::Session session;
};

StepContender::StepContender(const StepBench& options, std::int64_t batch, std::int64_t lanes,
                             const std::string& strategy, const comm::Group& group) {
  compute::set_threads(static_cast<int>(options.threads));
  state_ = std::make_unique<State>(options, batch, lanes, strategy, group);
}
StepContender::~StepContender() = default;

void StepContender::turn(StepTimes& times) {
  state_->step(nullptr);
  for (std::int64_t i = 0; i < state_->options.steps; ++i)
    state_->step(&times);
}

Json step_row(const StepBench& options, const std::string& strategy, std::int64_t workers, std::int64_t lanes,
              const StepTimes& times) {
  const double total = median(times.total);
  const auto shown = [](const std::vector<double>& values) { return values.empty() ? 0.0 : median(values); };
  return {{"bench", "step"},
          {"model", options.model},
          {"strategy", strategy},
          {"workers", workers},
          {"lanes", lanes},
          {"batch", options.batch * workers},
          {"samples_per_s", 1e3 * static_cast<double>(options.batch * workers) / total},
          {"median_ms", total},
          {"compute_ms", shown(times.compute)},
          {"update_ms", shown(times.update)},
          {"wait_ms", shown(times.wait)},
          {"load_ms", shown(times.load)}};
}

void bench_step(const StepBench& options) {
  if (!options.workers.empty()) return bench_workers(options);
  StepContender muster(options, options.batch, options.lanes, "shared_sync", {});
  PlainLoop plain(options, *make_data(options, options.batch), shape_for(options.model));
  StepTimes ours;
  StepTimes torch;
  StepTimes warm_up;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    muster.turn(ours);
    plain.step(warm_up.compute, warm_up.update, warm_up.total);
    for (std::int64_t i = 0; i < options.steps; ++i)
      plain.step(torch.compute, torch.update, torch.total);
  }
  Json row = step_row(options, "shared_sync", 1, options.lanes, ours);
  row["ratio_to_plain"] = median(ours.total) / median(torch.total);
  print_row(row, options.json);
  print_row(step_row(options, "plain", 1, 1, torch), options.json);
}

}  // namespace muster::cli
