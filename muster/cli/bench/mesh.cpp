// Teams of processes take turns: workers with lanes of their own ("data"), workers that compute lanes together, and
// PyTorch's. All have the same net, batch, lanes and optimizer, and one transformer as all that is in the way.
#include "muster/cli/bench/mesh.h"

#include <filesystem>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/torch.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/base/temporary_folder.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/mesh_peer.h"
#include "muster/cli/bench/rank_processes.h"
#include "muster/cli/bench/team.h"
#include "muster/cli/workers.h"
#include "muster/comm/connect.h"
#include "muster/comm/store.h"
#include "muster/compute/threads.h"
#include "muster/model/allocation_watch.h"
#include "muster/model/divisible.h"
#include "muster/model/make_model.h"
#include "muster/model/profile.h"
#include "muster/pipeline/schedule.h"
#include "muster/trainer/session_core.h"
#include "muster/trainer/task.h"

namespace muster::cli {
namespace {

constexpr const char* kData = "data";
constexpr const char* kTorch = "torch";

// Tokens by chance, and the next one of each.
class RandomTokens final : public data::Dataset {
 public:
  RandomTokens(const MeshBench& options, std::uint64_t samples)
      : samples_(samples),
        spec_{.shape = {options.context},
              .classes = options.vocabulary,
              .input = data::InputKind::kTokens,
              .target = data::TargetKind::kTokens,
              .target_shape = {options.context},
              .vocabulary = options.vocabulary} {}
  std::uint64_t size() const override { return samples_; }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t, std::span<float>) const override { return 0; }
  void read_sample(std::uint64_t id, const data::SampleRoom& room) const override {
    RandomStream random({.seed = 1, .purpose = Purpose::kSynthetic, .sample = id});
    const auto draw = [&] {
      return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(spec_.classes)));
    };
    room.tokens[0] = draw();
    for (std::size_t i = 0; i < room.labels.size(); ++i) {
      room.labels[i] = draw();
      if (i + 1 < room.tokens.size()) room.tokens[i + 1] = room.labels[i];
    }
  }

 private:
  const std::uint64_t samples_;
  const data::SampleSpec spec_;
};

// The net that all teams train.
struct MeshNet {
  explicit MeshNet(const MeshBench& options) : model{.name = "transformer"} {
    model.input_shape = {options.context};
    model.vocabulary = model.classes = options.vocabulary;
    model.each_position = true;
    model.width = options.d_model;
    model.depth = options.layers;
    model.heads = options.heads;
    net = model::make_model(model, 1);
  }
  model::ModelOptions model;
  std::shared_ptr<model::Net> net;
};

// Throws where the net cannot be divided as `team` ("pipeline" or "tensor") has it.
std::shared_ptr<const trainer::StagedModel> stages_of(const MeshBench& options, const std::string& team,
                                                      const MeshNet& made) {
  pipeline::Mesh mesh;
  (team == "tensor" ? mesh.tensor : mesh.pipeline) = static_cast<std::size_t>(options.workers);
  mesh.schedule = pipeline::parse_schedule(options.schedule);
  if (mesh.schedule == pipeline::Schedule::kInterleaved) mesh.chunks = static_cast<std::size_t>(options.chunks);
  const auto lane_samples = static_cast<std::uint64_t>((options.batch + options.lanes - 1) / options.lanes);
  std::vector<model::PieceProfile> profiles = model::profile_pieces(*made.net, made.model);
  return std::make_shared<const trainer::StagedModel>(
      trainer::StagedModel{trainer::Stages(mesh, std::move(profiles), {}, lane_samples), made.net->pieces(),
                           std::dynamic_pointer_cast<model::Divisible>(made.net)});
}

// One process of a team.
class Member {
 public:
  explicit Member(const MeshBench& options) : options_(options), group_(meet(options)) {
    compute::set_threads(static_cast<int>(options.threads));
    dataset_ = std::make_shared<RandomTokens>(options, static_cast<std::uint64_t>(options.batch) * 16);
    task_ = trainer::make_task({}, dataset_->spec());
    const MeshNet made(options);
    net_ = made.net;
    net_->train();
    trainer::SessionOptions session;
    session.batch = static_cast<std::uint64_t>(options.batch);
    session.lanes = static_cast<std::size_t>(options.lanes);
    session.threads = static_cast<int>(options.threads);
    session.group = group_;
    trainer::SessionParts parts;
    if (options.team != kData) parts.staged = stages_of(options, options.team, made);
    if (options.team == "pipeline")
      predicted_ = parts.staged->stages.activation_bytes(
          model::measure_pieces(*net_, parts.staged->pieces, made.model), static_cast<std::size_t>(options.lanes),
          static_cast<std::uint64_t>((options.batch + options.lanes - 1) / options.lanes));
    session_ = std::make_unique<trainer::SessionCore>(net_, compute::Sgd{.lr = 1e-3, .momentum = 0.9}, session, parts);
  }

  void run() {
    std::vector<std::int32_t> go(1);
    for (;;) {
      if (group_.rank() == 0) {
        std::string line;
        go[0] = std::getline(std::cin, line) ? 1 : 0;
      }
      group_.broadcast(std::span(go), 0);
      if (go[0] == 0) return;
      step();
      const model::AllocationWatch watch;
      StepTimes times;
      for (std::int64_t i = 0; i < options_.steps; ++i) {
        const trainer::PhaseTimes before = session_->times();
        group_.barrier();
        const auto start = system_clock().now();
        step();
        times.total.push_back(microseconds_since(start) / 1e3);
        times.compute.push_back(1e3 * (session_->times().compute - before.compute));
        times.update.push_back(1e3 * (session_->times().update - before.update));
        times.wait.push_back(1e3 * (session_->times().wait - before.wait));
      }
      const std::vector<std::int64_t> peaks = peaks_of_all(watch.most());
      if (group_.rank() != 0) continue;
      Json turn = to_json(times);
      turn["peak_mb"] = megabytes(peaks);
      turn["predicted_mb"] = megabytes(predicted_);
      fmt::print("{}\n", turn.dump());
      std::fflush(stdout);
    }
  }

 private:
  std::vector<std::int64_t> peaks_of_all(std::int64_t own) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(group_.size()));
    group_.all_gather(std::span<const std::int64_t>(&own, 1), std::span(all));
    return all;
  }
  template <typename Numbers>
  static std::vector<double> megabytes(const Numbers& bytes) {
    std::vector<double> all;
    for (const auto number : bytes)
      all.push_back(static_cast<double>(number) / (1024 * 1024));
    return all;
  }

  static comm::Group meet(const MeshBench& options) {
    comm::GroupOptions meeting;
    meeting.rank = static_cast<int>(options.rank);
    meeting.size = static_cast<int>(options.workers);
    meeting.store = comm::make_file_store(options.rank_folder);
    meeting.backend = "shm";
    meeting.timeout = kRankRunTimeout;
    return comm::make_group(meeting);
  }

  void step() {
    if (options_.team == kData) {
      session_->step(dataset_,
                     [&](trainer::Lane& lane) { lane.backward(task_->loss(net_->forward(lane.data), lane.target)); });
      return;
    }
    session_->step(dataset_, trainer::StagedCode{
                                 [](trainer::Lane&) {}, [](trainer::Lane&) {},
                                 [&](trainer::Lane& lane, const torch::Tensor& answer, const model::TensorTeam& split) {
                                   lane.backward(split.size() > 1 ? task_->divided_loss(answer, lane.target, split)
                                                                  : task_->loss(answer, lane.target));
                                 }});
  }

  const MeshBench& options_;
  comm::Group group_;
  std::shared_ptr<const data::Dataset> dataset_;
  std::shared_ptr<const trainer::Task> task_;
  std::shared_ptr<model::Net> net_;
  std::unique_ptr<trainer::SessionCore> session_;
  std::vector<std::uint64_t> predicted_;  // bytes of activations that each stage holds at most
};

launch::Command member_command(const MeshBench& options, const std::string& team, const std::string& folder,
                               std::int64_t rank) {
  std::vector<std::string> words{"bench", options.by};
  const auto add = [&](const char* flag, const auto& value) {
    words.insert(words.end(), {flag, fmt::format("{}", value)});
  };
  const bool pipeline = options.by == "pipeline";
  if (pipeline) words.emplace_back("--compute");
  add(pipeline ? "--stages" : "--workers", options.workers);
  add("--layers", options.layers);
  add("--d-model", options.d_model);
  add("--heads", options.heads);
  add("--context", options.context);
  add("--vocabulary", options.vocabulary);
  add("--batch", options.batch);
  add("--lanes", options.lanes);
  add("--threads", options.threads);
  add("--steps", options.steps);
  if (pipeline) {
    add("--schedule", options.schedule);
    add("--chunks", options.chunks);
  }
  add("--team", team);
  add("--rank-folder", folder);
  add("--rank", rank);
  return {own_program(), words, {}};
}

launch::Command torch_command(const MeshBench& options, const std::string& folder, std::int64_t rank) {
  const std::string threads = std::to_string(options.threads);
  const std::string python =
      options.python.empty() ? launch::find_program("/usr/bin/python3").value_or("python3") : options.python;
  std::vector<std::string> words{"-c",
                                 std::string(kMeshPeer),
                                 std::to_string(rank),
                                 std::to_string(options.workers),
                                 "file://" + folder + "/torch",
                                 options.by,
                                 options.schedule};
  for (const std::int64_t number : {options.layers, options.d_model, options.heads, options.context, options.vocabulary,
                                    options.batch, options.lanes, options.threads, options.steps, options.chunks})
    words.push_back(std::to_string(number));
  return {python,
          words,
          {{"OMP_NUM_THREADS", threads},
           {"OPENBLAS_NUM_THREADS", threads},
           {"GLOO_SOCKET_IFNAME", "lo"},
           {"PYTHONWARNINGS", "ignore"}}};
}

void check(const MeshBench& options) {
  if (options.batch < options.lanes || options.batch % options.lanes != 0)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} sequences cannot be cut into {} equal lanes", options.batch, options.lanes), "--batch",
                "Give a multiple of the lanes.");
  if (options.lanes < options.workers)
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} workers and {} lanes", options.workers, options.lanes),
                "--lanes", "Give at least as many lanes as workers, so that each has one to compare with.");
  if (options.heads < options.workers && options.by == "tensor")
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} workers cannot share {} heads", options.workers, options.heads), "--heads");
  // Said once and here, and not by each of the processes. What has a rank was looked at by who started it.
  if (options.rank_folder.empty()) stages_of(options, options.by, MeshNet(options));
}

}  // namespace

void bench_mesh(const MeshBench& options) {
  check(options);
  if (!options.rank_folder.empty()) return Member(options).run();
  const TemporaryFolder folder("muster-bench-");
  std::vector<std::unique_ptr<Team>> teams;
  std::vector<std::string> names{kData, options.by};
  if (!options.against.empty()) names.emplace_back(kTorch);
  for (const std::string& name : names) {
    const std::string place = fmt::format("{}/{}", folder.path().string(), name);
    std::filesystem::create_directories(place);
    auto team = std::make_unique<Team>(name, options.workers);
    for (std::int64_t rank = 0; rank < options.workers; ++rank)
      team->start(name == kTorch ? torch_command(options, place, rank) : member_command(options, name, place, rank),
                  rank);
    teams.push_back(std::move(team));
  }
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    for (const auto& team : teams)
      team->take_turn();
  }
  const auto rate = [&](const Team& team) {
    return 1e3 * static_cast<double>(options.batch) / median(team.times().total);
  };
  for (const auto& team : teams) {
    Json row{{"bench", options.by},          {"team", team->strategy()},
             {"workers", options.workers},   {"layers", options.layers},
             {"d_model", options.d_model},   {"lanes", options.lanes},
             {"batch", options.batch},       {"median_ms", median(team->times().total)},
             {"samples_per_s", rate(*team)}, {"process_mb", static_cast<double>(team->memory_kb()) / 1024}};
    if (team->strategy() == options.by) {
      row["wait_ms"] = median(team->times().wait);
      if (options.by == "pipeline") {
        row["schedule"] = options.schedule;
        for (const char* const key : {"peak_mb", "predicted_mb"})
          row[key] = team->told().at(key);
      }
      if (options.schedule == "interleaved") row["chunks"] = options.chunks;
    }
    if (team->strategy() != kData) row["ratio_to_data"] = rate(*team) / rate(*teams.front());
    if (!options.against.empty() && team->strategy() != kTorch)
      row["ratio_to_torch"] = rate(*team) / rate(*teams.back());
    print_row(row, options.json);
  }
}

}  // namespace muster::cli
