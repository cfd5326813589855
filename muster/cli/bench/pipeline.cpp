// Stages are processes that train a model which sleeps instead of computing, so that there may be more of them than
// cores; all else is what a job does: sessions, schedules, activations and gradients through the arena, commits.
#include "muster/cli/bench/pipeline.h"

#include <chrono>
#include <memory>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/rank_processes.h"
#include "muster/cli/bench/schedule_picture.h"
#include "muster/comm/connect.h"
#include "muster/comm/store.h"
#include "muster/data/sources.h"
#include "muster/model/net.h"
#include "muster/pipeline/schedule.h"
#include "muster/trainer/session_core.h"

namespace muster::cli {
namespace {

// Takes its time forward, and twice that backward.
struct Sleeping : torch::autograd::Function<Sleeping> {
  static void sleep(double milliseconds) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
  }
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x, double milliseconds) {
    context->saved_data["milliseconds"] = milliseconds;
    sleep(milliseconds);
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    sleep(2 * context->saved_data["milliseconds"].toDouble());
    return {gradients[0], torch::Tensor()};
  }
};

class SleepingNet final : public model::Net {
 public:
  SleepingNet(std::size_t pieces, double milliseconds) : milliseconds_(milliseconds) {
    for (std::size_t i = 0; i < pieces; ++i)
      weights_.push_back(register_parameter(fmt::format("weight{}", i), torch::zeros({1})));
  }
  torch::Tensor forward(torch::Tensor x) override {
    for (const model::Piece& piece : pieces())
      x = piece.forward(x);
    return x;
  }
  std::vector<model::Piece> pieces() override {
    std::vector<model::Piece> all;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const std::string name = fmt::format("weight{}", i);
      all.push_back({name,
                     {name},
                     [this, i](const torch::Tensor& x) { return Sleeping::apply(x + weights_[i], milliseconds_); },
                     {}});
    }
    return all;
  }

 private:
  const double milliseconds_;
  std::vector<torch::Tensor> weights_;
};

constexpr std::uint64_t kLaneSamples = 2;

class Stage {
 public:
  explicit Stage(const PipelineBench& options) : options_(options) {
    comm::GroupOptions group;
    group.rank = static_cast<int>(options.rank);
    group.size = static_cast<int>(options.stages);
    group.store = comm::make_file_store(options.rank_folder);
    group.backend = "shm";
    group.timeout = kRankRunTimeout;
    group_ = comm::make_group(group);
  }

  void run() {
    for (const std::int64_t lanes : options_.lanes) {
      double plain = 0;  // 1f1b's, to compare with
      for (const std::string& schedule : options_.schedules) {
        Json row = measure(schedule, static_cast<std::size_t>(lanes));
        const double median_ms = row["median_ms"];
        if (schedule == "1f1b") plain = median_ms;
        if (plain > 0) row["ratio_to_1f1b"] = median_ms / plain;
        if (group_.rank() == 0) print_row(row, options_.json);
      }
    }
    if (group_.rank() == 0 && !options_.picture.empty()) write_atomically(options_.picture, draw_schedules(traces_));
  }

 private:
  Json measure(const std::string& name, std::size_t lanes) {
    pipeline::Mesh mesh;
    mesh.pipeline = static_cast<std::size_t>(options_.stages);
    mesh.schedule = pipeline::parse_schedule(name);
    if (mesh.schedule == pipeline::Schedule::kInterleaved) mesh.chunks = static_cast<std::size_t>(options_.chunks);
    const auto net = std::make_shared<SleepingNet>(mesh.parts(), options_.sleep / static_cast<double>(mesh.chunks));
    std::vector<model::PieceProfile> profiles;
    for (const model::Piece& piece : net->pieces())
      profiles.push_back({.name = piece.name,
                          .multiply_adds = 1,
                          .output_bytes = static_cast<std::uint64_t>(options_.width) * sizeof(float)});
    trainer::SessionOptions session_options;
    session_options.batch = kLaneSamples * lanes;
    session_options.lanes = lanes;
    session_options.group = group_;
    trainer::SessionParts parts;
    parts.staged = std::make_shared<const trainer::StagedModel>(
        trainer::StagedModel{trainer::Stages(mesh, profiles, {}, kLaneSamples), net->pieces()});
    trainer::SessionCore session(net, compute::Sgd{.lr = 0}, session_options, parts);
    data::SourceOptions source;
    source.source = "synthetic";
    source.shape = {1, 1, options_.width};
    source.samples = session_options.batch * static_cast<std::uint64_t>(options_.steps + 1);
    source.test_samples = 1;
    const std::shared_ptr<const data::Dataset> dataset = data::open_source(source).train;
    std::vector<trainer::StagedCode::Computed> computed;
    const trainer::StagedCode code{[](trainer::Lane&) {}, [](trainer::Lane&) {},
                                   [](trainer::Lane& lane, const torch::Tensor& answer, const model::TensorTeam&) {
                                     lane.backward(answer.mean());
                                   },
                                   [&](const trainer::StagedCode::Computed& box) { computed.push_back(box); }};
    session.step(dataset, code);  // the first one warms up
    const double before = session.times().compute;
    std::vector<double> milliseconds;
    Clock::Instant start;
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      group_.barrier();
      computed.clear();
      start = system_clock().now();
      session.step(dataset, code);
      milliseconds.push_back(std::chrono::duration<double, std::milli>(system_clock().now() - start).count());
    }
    if (!options_.picture.empty() && static_cast<std::int64_t>(lanes) == options_.lanes.front())
      keep_trace(name, lanes, start, computed);
    return row_of(name, mesh, lanes, milliseconds, 1e3 * (session.times().compute - before));
  }

  // What every stage has done of the last step, to the first one.
  void keep_trace(const std::string& name, std::size_t lanes, Clock::Instant start,
                  const std::vector<trainer::StagedCode::Computed>& computed) {
    constexpr std::size_t kFields = 5;
    std::vector<double> own;
    for (const trainer::StagedCode::Computed& box : computed) {
      for (const double field : {static_cast<double>(box.lane), static_cast<double>(box.part), box.forward ? 1.0 : 0.0,
                                 milliseconds_between(start, box.begin), milliseconds_between(start, box.end)})
        own.push_back(field);
    }
    // Stages have as many chunks, so they have as much to tell.
    std::vector<double> all(own.size() * static_cast<std::size_t>(group_.size()));
    group_.gather(std::span<const double>(own), std::span(all), 0);
    ScheduleTrace trace{.title = fmt::format("{}, {} lanes", name, lanes),
                        .stages = static_cast<std::size_t>(group_.size())};
    for (std::size_t at = 0; at < all.size(); at += kFields)
      trace.computed.push_back({.stage = at / own.size(),
                                .lane = static_cast<std::size_t>(all[at]),
                                .part = static_cast<std::size_t>(all[at + 1]),
                                .forward = all[at + 2] != 0,
                                .begin = all[at + 3],
                                .end = all[at + 4]});
    traces_.push_back(std::move(trace));
  }

  static double milliseconds_between(Clock::Instant from, Clock::Instant to) {
    return std::chrono::duration<double, std::milli>(to - from).count();
  }

  // `computed`: milliseconds of this stage, of all steps.
  Json row_of(const std::string& name, const pipeline::Mesh& mesh, std::size_t lanes,
              const std::vector<double>& milliseconds, double computed) {
    double all = computed;
    group_.all_reduce(std::span(&all, 1));
    const double total = std::accumulate(milliseconds.begin(), milliseconds.end(), 0.0);
    return {{"bench", "pipeline"},
            {"schedule", name},
            {"stages", options_.stages},
            {"chunks", mesh.chunks},
            {"lanes", lanes},
            {"sleep_ms", options_.sleep},
            {"median_ms", median(milliseconds)},
            {"bubble", 1 - all / (static_cast<double>(options_.stages) * total)},
            {"bubble_theory", pipeline::bubble_of({mesh.pipeline, lanes, mesh.chunks})}};
  }

  const PipelineBench& options_;
  comm::Group group_;
  std::vector<ScheduleTrace> traces_;
};

std::vector<std::string> rank_arguments(const PipelineBench& options, const std::string& folder) {
  std::vector<std::string> words{"bench",         "pipeline",
                                 "--stages",      std::to_string(options.stages),
                                 "--lanes",       fmt::format("{}", fmt::join(options.lanes, ",")),
                                 "--schedule",    fmt::format("{}", fmt::join(options.schedules, ",")),
                                 "--chunks",      std::to_string(options.chunks),
                                 "--sleep",       fmt::format("{}", options.sleep),
                                 "--steps",       std::to_string(options.steps),
                                 "--width",       std::to_string(options.width),
                                 "--rank-folder", folder};
  if (!options.picture.empty()) words.insert(words.end(), {"--picture", options.picture});
  if (options.json) words.emplace_back("--json");
  return words;
}

}  // namespace

void bench_pipeline(const PipelineBench& options) {
  for (const std::string& schedule : options.schedules)
    pipeline::parse_schedule(schedule);
  if (!options.rank_folder.empty()) return Stage(options).run();
  run_rank_processes(options.stages, false, [&](const std::string& folder) { return rank_arguments(options, folder); });
}

}  // namespace muster::cli
