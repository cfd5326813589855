// muster bench optimizer: Muster's optimizer kernels against torch::optim on the parameters of one model. Both get the
// same gradient in memory of their own, and take turns.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "muster/base/clock.h"
#include "muster/cli/bench/bench.h"
#include "muster/comm/region.h"
#include "muster/compute/module_binding.h"
#include "muster/compute/slice_update.h"
#include "muster/compute/threads.h"
#include "muster/model/make_model.h"
#include "muster/strategies/host_layout.h"

namespace muster::cli {
namespace {

struct Contest {
  std::string name;
  compute::OptimizerOptions ours;
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)> theirs;
};

std::vector<Contest> contests() {
  using torch::Tensor;
  return {
      {"sgd", compute::Sgd{.lr = 1e-3, .momentum = 0.9, .weight_decay = 1e-4},
       [](std::vector<Tensor> parameters) -> std::unique_ptr<torch::optim::Optimizer> {
         return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                                    torch::optim::SGDOptions(1e-3).momentum(0.9).weight_decay(1e-4));
       }},
      {"adam", compute::Adam{.lr = 1e-3},
       [](std::vector<Tensor> parameters) -> std::unique_ptr<torch::optim::Optimizer> {
         return std::make_unique<torch::optim::Adam>(std::move(parameters), torch::optim::AdamOptions(1e-3));
       }},
      {"adamw", compute::AdamW{.lr = 1e-3},
       [](std::vector<Tensor> parameters) -> std::unique_ptr<torch::optim::Optimizer> {
         return std::make_unique<torch::optim::AdamW>(std::move(parameters), torch::optim::AdamWOptions(1e-3));
       }},
  };
}

double time_ms(const std::function<void()>& work) {
  const auto start = system_clock().now();
  work();
  return std::chrono::duration<double, std::milli>(system_clock().now() - start).count();
}

void run_contest(const Contest& contest, const OptimizerBench& options) {
  model::ModelOptions model_options;
  model_options.name = options.model;
  model_options.input_shape =
      options.model.starts_with("resnet") ? std::vector<std::int64_t>{3, 32, 32} : std::vector<std::int64_t>{1, 28, 28};
  model_options.classes = options.model == "resnet18" ? 1000 : 10;
  const auto net = model::make_model(model_options, 1);
  const compute::ModuleBinding binding(net);
  const auto optimizer = compute::make_optimizer(contest.ours);
  const strategies::StrategyOptions memory{binding.layout(), binding.buffer_layout(), optimizer->slots(), 1};
  const std::size_t version_bytes = strategies::version_bytes(memory);
  const comm::SharedRegion region =
      comm::SharedRegion::create(2 * version_bytes + strategies::lane_bytes(memory), {.shared = false});
  const std::array<compute::Version, 2> versions{
      strategies::carve_version(memory, region.bytes().first(version_bytes)).state,
      strategies::carve_version(memory, region.bytes().subspan(version_bytes, version_bytes)).state};
  binding.read_parameters(versions[0].parameters);

  // The same gradient for both sides, in each side's own memory.
  const auto theirs = contest.theirs(net->parameters());
  for (torch::Tensor& parameter : net->parameters())
    parameter.mutable_grad() = torch::randn_like(parameter) * 1e-2;
  const compute::LaneArea lane = strategies::carve_lane(memory, region.bytes().subspan(2 * version_bytes)).area;
  for (std::size_t i = 0; i < lane.present.size(); ++i)
    lane.present[i] = 1;
  for (std::size_t i = 0; i < lane.gradient.size(); ++i)
    lane.gradient[i] = 1e-2F * static_cast<float>(i % 7) - 3e-2F;

  const std::vector<compute::TensorRule> rules(binding.layout().tensors().size(),
                                               {compute::weight_decay(contest.ours), true, true});
  const compute::UpdateRule rule{optimizer.get(), 1e-3, std::nullopt, rules};
  const compute::LaneGradient sum{lane.gradient.data(), lane.present.data()};
  const compute::BlockRange slice{0, binding.layout().blocks().size()};
  std::size_t current = 0;
  const auto update = [&] {
    compute::update_slice(binding.layout(), sum, rule, {}, slice, versions[current], versions[1 - current], {});
    current = 1 - current;
  };
  std::vector<double> ours_ms;
  std::vector<double> theirs_ms;
  for (std::int64_t round = -2; round < options.rounds; ++round) {
    const double a = time_ms(update);
    const double b = time_ms([&] { theirs->step(); });
    if (round < 0) continue;  // the first turns touch memory for the first time
    ours_ms.push_back(a);
    theirs_ms.push_back(b);
  }
  const double ours = median(ours_ms);
  const double torch = median(theirs_ms);
  print_row({{"bench", "optimizer"},
             {"optimizer", contest.name},
             {"model", options.model},
             {"parameters", binding.layout().parameter_count()},
             {"median_ms", ours},
             {"torch_ms", torch},
             {"times_faster", torch / ours}},
            options.json);
}

}  // namespace

void bench_optimizer(const OptimizerBench& options) {
  compute::set_threads(1);
  for (const Contest& contest : contests())
    run_contest(contest, options);
}

}  // namespace muster::cli
