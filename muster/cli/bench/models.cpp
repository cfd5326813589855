// muster bench models: forward and backward of each model of the zoo, and of the same net in Python's torch, in turns.
// Ratios are of turns that follow each other, so that a slow moment of the machine is both sides'.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/team.h"
#include "muster/cli/bench/torch_peer.h"
#include "muster/compute/threads.h"
#include "muster/model/make_model.h"

namespace muster::cli {
namespace {

struct Milliseconds {
  double wall = 0;
  double cpu = 0;
};

// A turn's figure is the median of its steps; the ratio is of turns that follow each other, whatever else the machine
// does meanwhile.
struct Comparison {
  std::vector<double> ours, theirs, ratios;

  void add(const std::vector<double>& our_turn, const std::vector<double>& their_turn) {
    ours.insert(ours.end(), our_turn.begin(), our_turn.end());
    if (their_turn.empty()) return;
    theirs.insert(theirs.end(), their_turn.begin(), their_turn.end());
    ratios.push_back(median(our_turn) / median(their_turn));
  }
};

// A model with one batch, which both sides see again and again.
class Contender {
 public:
  Contender(const model::ModelOptions& options, std::int64_t batch) : net_(model::make_model(options, 1)) {
    net_->train();
    std::vector<std::int64_t> shape{batch};
    shape.insert(shape.end(), options.input_shape.begin(), options.input_shape.end());
    input_ = options.vocabulary ? torch::randint(*options.vocabulary, shape, torch::kInt64) : torch::randn(shape);
    target_ = torch::zeros({batch * (options.each_position ? options.input_shape[0] : 1)}, torch::kInt64);
  }

  Milliseconds step() {
    for (torch::Tensor& parameter : net_->parameters())
      parameter.mutable_grad() = torch::Tensor();
    const double cpu_start = cpu_seconds();
    const auto start = system_clock().now();
    torch::Tensor scores = net_->forward(input_);
    torch::nn::functional::cross_entropy(scores.flatten(0, -2), target_).backward();
    const std::chrono::duration<double, std::milli> wall = system_clock().now() - start;
    return {wall.count(), 1e3 * (cpu_seconds() - cpu_start)};
  }

  std::int64_t parameters() const {
    std::int64_t count = 0;
    for (const torch::Tensor& parameter : net_->parameters())
      count += parameter.numel();
    return count;
  }

 private:
  std::shared_ptr<model::Net> net_;
  torch::Tensor input_;
  torch::Tensor target_;
};

std::unique_ptr<Team> start_peer(const ModelsBench& bench, const model::ModelOptions& options) {
  const Json spec{{"shape", options.input_shape},
                  {"classes", options.classes},
                  {"vocabulary", options.vocabulary.value_or(0)},
                  {"columns", options.columns}};
  const std::string threads = std::to_string(bench.threads);
  // Debian's packages belong to the system's Python, whatever other one comes first in PATH.
  const std::string python = launch::find_program("/usr/bin/python3").value_or("python3");
  auto peer = std::make_unique<Team>("torch", 1);
  peer->start({python,
               {"-c", std::string(kTorchPeer), options.name, std::to_string(bench.batch), threads,
                std::to_string(bench.steps), spec.dump()},
               {{"OMP_NUM_THREADS", threads}, {"OPENBLAS_NUM_THREADS", threads}, {"PYTHONWARNINGS", "ignore"}}},
              0);
  return peer;
}

void bench_one(const ModelsBench& bench, const model::ModelOptions& options) {
  Contender muster(options, bench.batch);
  const std::unique_ptr<Team> peer = bench.against.empty() ? nullptr : start_peer(bench, options);
  Comparison wall, cpu;
  for (std::int64_t round = 0; round < bench.rounds; ++round) {
    std::vector<double> wall_turn, cpu_turn;
    muster.step();
    for (std::int64_t i = 0; i < bench.steps; ++i) {
      const Milliseconds step = muster.step();
      wall_turn.push_back(step.wall);
      cpu_turn.push_back(step.cpu);
    }
    const Json answer = peer ? peer->ask() : Json{{"wall", Json::array()}, {"cpu", Json::array()}};
    if (peer && answer.at("parameters").get<std::int64_t>() != muster.parameters()) {
      throw Error(ErrorKind::kMismatch, fmt::format("{} has {} parameters here and {} in Python", options.name,
                                                    muster.parameters(), answer.at("parameters").dump()));
    }
    wall.add(wall_turn, answer.at("wall").get<std::vector<double>>());
    cpu.add(cpu_turn, answer.at("cpu").get<std::vector<double>>());
  }
  Json row{{"bench", "models"},
           {"model", options.name},
           {"batch", bench.batch},
           {"input", fmt::format("{}", fmt::join(options.input_shape, "x"))},
           {"threads", bench.threads},
           {"parameters", muster.parameters()},
           {"recompute", options.recompute},
           {"median_ms", median(wall.ours)},
           {"cpu_ms", median(cpu.ours)},
           {"samples_per_s", 1e3 * static_cast<double>(bench.batch) / median(wall.ours)}};
  if (peer) {
    row["torch_ms"] = median(wall.theirs);
    row["torch_cpu_ms"] = median(cpu.theirs);
    row["ratio"] = median(wall.ratios);
    row["cpu_ratio"] = median(cpu.ratios);
  }
  print_row(row, bench.json);
}

}  // namespace

void bench_models(const ModelsBench& bench) {
  compute::set_threads(static_cast<int>(bench.threads));
  std::vector<model::ModelOptions> chosen;
  for (const std::string& name : bench.models)
    chosen.push_back(model::find_model(name).typical);
  if (bench.models.empty()) {
    for (const model::ModelEntry& entry : model::models())
      chosen.push_back(entry.typical);
  }
  for (model::ModelOptions& options : chosen) {
    if (options.input_shape.size() == 3 && options.input_shape[1] == 224) {
      options.input_shape = {options.input_shape[0], bench.side, bench.side};
    }
    options.recompute = bench.recompute;
    bench_one(bench, options);
  }
}

}  // namespace muster::cli
