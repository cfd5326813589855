// muster bench step: one training step of Muster against the plain LibTorch loop, in turns, in one process. All batches
// are ready before the clock starts: it measures the step and not the reading.
#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "muster/base/clock.h"
#include "muster/base/random.h"
#include "muster/cli/bench/bench.h"
#include "muster/compute/threads.h"
#include "muster/data/sources.h"
#include "muster/model/make_model.h"
#include "muster/strategies/all_reduce/all_reduce.h"
#include "muster/strategies/registry.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "muster/strategies/strategy_kind.h"
#include "muster/trainer/session.h"
#include "muster/trainer/session_core.h"

namespace muster::cli {
namespace {

namespace F = torch::nn::functional;
constexpr double kLr = 1e-3;
constexpr double kMomentum = 0.9;
constexpr double kWeightDecay = 1e-4;
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kVocabulary = 256;
constexpr std::int64_t kContext = 64;

bool reads_text(const std::string& model) {
  return model == "transformer";
}

// Text that says nothing: tokens by chance, one more than the context, because each has a next one to be guessed.
class RandomText final : public data::Dataset {
 public:
  explicit RandomText(std::uint64_t samples) : samples_(samples) {}
  std::uint64_t size() const override { return samples_; }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override {
    RandomStream random({.seed = 1, .purpose = Purpose::kSynthetic, .sample = id});
    for (float& token : features)
      token = static_cast<float>(random.below(kVocabulary));
    return 0;
  }

 private:
  const std::uint64_t samples_;
  const data::SampleSpec spec_{.shape = {kContext + 1}};
};

// Of the next token in text, of the class otherwise.
torch::Tensor loss_of(const std::string& model, model::Net& net, const torch::Tensor& input,
                      const torch::Tensor& target) {
  if (!reads_text(model)) return F::cross_entropy(net.forward(input), target);
  const torch::Tensor tokens = input.to(torch::kInt64);
  return F::cross_entropy(net.forward(tokens.slice(1, 0, kContext)).flatten(0, 1), tokens.slice(1, 1).flatten());
}

// Gradients of the model's size, and nothing computed for them.
torch::Tensor loss_of_nothing(model::Net& net) {
  torch::Tensor loss = torch::zeros({});
  for (const torch::Tensor& parameter : net.parameters())
    loss = loss + parameter.flatten()[0];
  return loss * 0.0;
}

double milliseconds_since(Clock::Instant start) {
  return std::chrono::duration<double, std::milli>(system_clock().now() - start).count();
}

std::shared_ptr<model::Net> make_net(const StepBench& options, const std::vector<std::int64_t>& shape) {
  model::ModelOptions model;
  model.name = options.model;
  model.input_shape = shape;
  model.classes = kClasses;
  if (options.width > 0) model.hidden = {options.width, options.width};
  if (reads_text(options.model)) {
    model.input_shape = {kContext};
    model.vocabulary = kVocabulary;
    model.classes = kVocabulary;
    model.each_position = true;
  }
  auto net = model::make_model(model, 1);
  net->train();
  return net;
}

// Pictures as the model is usually fed.
std::vector<std::int64_t> shape_for(const std::string& model) {
  if (model.starts_with("resnet")) return {3, 32, 32};
  if (reads_text(model)) return {kContext + 1};
  return {1, 28, 28};
}

std::unique_ptr<torch::optim::Optimizer> torch_optimizer(const StepBench& options,
                                                         const std::vector<torch::Tensor>& parameters) {
  if (options.optimizer == "adam")
    return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(kLr));
  return std::make_unique<torch::optim::SGD>(
      parameters, torch::optim::SGDOptions(kLr).momentum(kMomentum).weight_decay(kWeightDecay));
}

compute::OptimizerOptions own_optimizer(const StepBench& options) {
  if (options.optimizer == "adam") return compute::Adam{.lr = kLr};
  return compute::Sgd{.lr = kLr, .momentum = kMomentum, .weight_decay = kWeightDecay};
}

class PlainLoop {
 public:
  PlainLoop(const StepBench& options, const data::Dataset& dataset, const std::vector<std::int64_t>& shape)
      : model_(options.model),
        net_(make_net(options, shape)),
        optimizer_(torch_optimizer(options, net_->parameters())) {
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
    optimizer_->zero_grad();
    loss_of(model_, *net_, input, target).backward();
    compute_ms.push_back(milliseconds_since(start));
    const auto update = system_clock().now();
    optimizer_->step();
    update_ms.push_back(milliseconds_since(update));
    total_ms.push_back(milliseconds_since(start));
  }

 private:
  const std::string model_;
  std::shared_ptr<model::Net> net_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> batches_;
  std::size_t next_ = 0;
};

std::shared_ptr<const data::Dataset> make_data(const StepBench& options, std::int64_t batch) {
  if (reads_text(options.model)) return std::make_shared<RandomText>(static_cast<std::uint64_t>(batch * 16));
  data::SourceOptions source;
  source.source = "synthetic";
  source.shape = shape_for(options.model);
  source.classes = kClasses;
  source.samples = static_cast<std::uint64_t>(batch * 16);
  source.test_samples = 1;
  return data::open_source(source).train;
}

trainer::SessionOptions make_session_options(const StepBench& options, std::int64_t batch, std::int64_t lanes,
                                             const std::string& strategy, const StepCompany& company) {
  trainer::SessionOptions session;
  session.batch = static_cast<std::uint64_t>(batch);
  session.lanes = static_cast<std::uint64_t>(lanes);
  session.threads = static_cast<int>(options.threads);
  session.strategy = strategies::strategy_named(strategy);
  if (auto* const all_reduce = session.strategy.get<strategies::AllReduce>()) all_reduce->overlap = options.overlap;
  if (auto* const sync = session.strategy.get<strategies::SharedSync>()) sync->exchange_early = options.overlap;
  session.group = company.group;
  if (options.slow > 1) session.claims = strategies::Claims::kDynamic;
  return session;
}

}  // namespace

struct StepContender::State {
  State(const StepBench& bench, std::int64_t batch, std::int64_t lanes, const std::string& strategy,
        const StepCompany& company)
      : options(bench),
        dataset(make_data(bench, batch)),
        net(make_net(bench, shape_for(bench.model))),
        session(net, own_optimizer(bench), make_session_options(bench, batch, lanes, strategy, company),
                {.supervised = company.supervised}),
        slow(bench.slow > 1 && company.group.rank() == company.group.size() - 1) {}

  void compute(trainer::Lane& lane, StepTimes* times) {
    const auto start = system_clock().now();
    if (options.sleep > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options.sleep));
    lane.backward(options.sleep > 0 ? loss_of_nothing(*net) : loss_of(options.model, *net, lane.data, lane.target));
    if (times != nullptr) ++times->lanes;
    if (!slow) return;
    // Asleep, so that it leaves its core to others, as a slower machine would. By its best lane so far: what disturbs
    // one lane is not to be multiplied.
    const auto spent = system_clock().now() - start;
    best_lane = best_lane ? std::min(*best_lane, spent) : spent;
    std::this_thread::sleep_for(*best_lane * options.slow - spent);
  }

  void step(StepTimes* times) {
    const trainer::PhaseTimes before = session.times();
    const auto start = system_clock().now();
    const auto own = [&](trainer::Lane& lane) { compute(lane, times); };
    // Who may be joined makes a step as programs do, whoever comes or goes meanwhile.
    if (options.joins)
      session.train_until(session.cursor().step + 1, dataset, own);
    else
      session.step(dataset, own);
    const double total = milliseconds_since(start);
    if (times == nullptr) return;
    const trainer::PhaseTimes after = session.times();
    times->total.push_back(total);
    times->compute.push_back(1e3 * (after.compute - before.compute));
    times->update.push_back(1e3 * (after.update - before.update));
    times->wait.push_back(1e3 * (after.wait - before.wait));
    times->load.push_back(1e3 * (after.load - before.load));
    times->exchange.push_back(1e3 * (after.exchange - before.exchange));
  }

  const StepBench& options;
  std::shared_ptr<const data::Dataset> dataset;
  std::shared_ptr<model::Net> net;
  trainer::SessionCore session;
  const bool slow;
  std::optional<Clock::Instant::duration> best_lane;  // of a slow worker
};

StepContender::StepContender(const StepBench& options, std::int64_t batch, std::int64_t lanes,
                             const std::string& strategy, const StepCompany& company) {
  compute::set_threads(static_cast<int>(options.threads));
  state_ = std::make_unique<State>(options, batch, lanes, strategy, company);
}
StepContender::~StepContender() = default;

std::size_t StepContender::state_bytes() const {
  return state_->session.state_bytes();
}

void StepContender::turn(StepTimes& times) {
  state_->step(nullptr);
  for (std::int64_t i = 0; i < state_->options.steps; ++i)
    state_->step(&times);
}

void StepContender::step(StepTimes& times) {
  state_->step(&times);
}

Json step_row(const StepBench& options, const std::string& strategy, std::int64_t workers, std::int64_t lanes,
              const StepTimes& times) {
  const double total = median(times.total);
  const auto shown = [](const std::vector<double>& values) { return values.empty() ? 0.0 : median(values); };
  return {{"bench", "step"},
          {"model", options.model},
          {"optimizer", options.optimizer},
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
  if (options.hosts > 1 || !options.role.empty()) return bench_hosts(options);
  if (!options.workers.empty()) return bench_workers(options);
  StepContender muster(options, options.batch, options.lanes, strategies::default_strategy().name(), {});
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
  Json row = step_row(options, strategies::default_strategy().name(), 1, options.lanes, ours);
  row["ratio_to_plain"] = median(ours.total) / median(torch.total);
  print_row(row, options.json);
  print_row(step_row(options, "plain", 1, 1, torch), options.json);
}

}  // namespace muster::cli
