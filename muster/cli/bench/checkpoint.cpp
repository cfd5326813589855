// muster bench checkpoint: what checkpoints in the background cost training. Turns of K steps, one with a checkpoint at
// its start and one without, of the same session; what is not written at the end of a turn is waited for in it.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include <torch/torch.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/temporary_folder.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/rank_processes.h"
#include "muster/comm/connect.h"
#include "muster/comm/store.h"
#include "muster/compute/threads.h"
#include "muster/data/sources.h"
#include "muster/model/make_model.h"
#include "muster/trainer/checkpoint_writer.h"
#include "muster/trainer/session.h"
#include "muster/trainer/training_state.h"

namespace muster::cli {
namespace {

namespace F = torch::nn::functional;
constexpr std::int64_t kClasses = 10;
constexpr std::chrono::minutes kWriteTimeout{10};

double milliseconds_since(Clock::Instant start) {
  return std::chrono::duration<double, std::milli>(system_clock().now() - start).count();
}

std::uint64_t bytes_in(const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

// What one rank trains.
class Trainee {
 public:
  Trainee(const CheckpointBench& options, const comm::Group& group)
      : dataset_(make_data(options, group.size())),
        net_(make_net(options, dataset_->spec())),
        session_(net_, compute::Sgd{.lr = 1e-3, .momentum = 0.9}, session_options(options, group)) {}

  void steps(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      session_.step(dataset_, [this](trainer::Lane& lane) {
        lane.backward(F::cross_entropy(net_->forward(lane.data), lane.target));
      });
    }
  }
  const trainer::Session& session() const { return session_; }

 private:
  static std::shared_ptr<const data::Dataset> make_data(const CheckpointBench& options, int workers) {
    data::SourceOptions source;
    source.source = "synthetic";
    source.shape = options.model.starts_with("resnet") ? std::vector<std::int64_t>{3, 32, 32}
                                                       : std::vector<std::int64_t>{1, 28, 28};
    source.classes = kClasses;
    source.samples = static_cast<std::uint64_t>(16 * options.batch * workers);
    source.test_samples = 1;
    return data::open_source(source).train;
  }
  static std::shared_ptr<model::Net> make_net(const CheckpointBench& options, const data::SampleSpec& spec) {
    model::ModelOptions model;
    model.name = options.model;
    model.input_shape = spec.shape;
    model.classes = spec.classes;
    auto net = model::make_model(model, 1);
    net->train();
    return net;
  }
  static trainer::SessionOptions session_options(const CheckpointBench& options, const comm::Group& group) {
    trainer::SessionOptions session;
    session.batch = static_cast<std::uint64_t>(options.batch * group.size());
    session.lanes = static_cast<std::uint64_t>(group.size());
    session.group = group;
    return session;
  }

  std::shared_ptr<const data::Dataset> dataset_;
  std::shared_ptr<model::Net> net_;
  trainer::Session session_;
};

struct Figures {
  std::vector<double> with, without, ratio, blocked, writing, overrun;  // of each turn; milliseconds but for ratio
  std::uint64_t bytes = 0;                                              // of a checkpoint
};

// The turns of the first rank, which also writes.
class Turns {
 public:
  Turns(const CheckpointBench& options, Trainee& trainee)
      : options_(options),
        trainee_(trainee),
        store_(folder(), {.keep = 2}),
        writer_(store_, {.done = [this](const auto& written) {
                  if (!written.failure.empty()) failure_ = written.failure;
                  written_at_ = system_clock().now();
                }}) {}

  double with_checkpoint(Figures& figures) {
    const auto start = system_clock().now();
    std::optional<trainer::TrainingState> spare = writer_.spare(Deadline::after(kWriteTimeout));
    if (!spare) throw Error(ErrorKind::kTimeout, "the disk did not answer");
    writer_.submit(trainer::capture(trainee_.session().core(), std::move(*spare)), std::nullopt);
    figures.blocked.push_back(milliseconds_since(start));
    trainee_.steps(options_.every);
    const auto end = system_clock().now();
    if (!writer_.wait(Deadline::after(kWriteTimeout))) throw Error(ErrorKind::kTimeout, "the disk did not answer");
    if (!failure_.empty()) throw Error(ErrorKind::kIo, "a checkpoint was not written: " + failure_);
    figures.overrun.push_back(milliseconds_since(end));
    figures.writing.push_back(std::chrono::duration<double, std::milli>(written_at_ - start).count());
    figures.bytes = bytes_in(store_.path_of(store_.list().back()));
    return std::chrono::duration<double, std::milli>(end - start).count() + figures.overrun.back();
  }
  double without() {
    const auto start = system_clock().now();
    trainee_.steps(options_.every);
    return milliseconds_since(start);
  }

 private:
  std::filesystem::path folder() const {
    return options_.folder.empty() ? scratch_.path() : std::filesystem::path(options_.folder);
  }

  const CheckpointBench& options_;
  Trainee& trainee_;
  const TemporaryFolder scratch_{"muster-bench-"};
  model::CheckpointStore store_;
  // by the writing thread, read when it has finished
  std::string failure_;
  Clock::Instant written_at_{};
  trainer::CheckpointWriter writer_;
};

Json row_of(const CheckpointBench& options, std::int64_t workers, const Figures& figures) {
  const double step = median(figures.without) / static_cast<double>(options.every);
  return {{"bench", "checkpoint"},
          {"model", options.model},
          {"workers", workers},
          {"batch", options.batch * workers},
          {"every_steps", options.every},
          {"rounds", options.rounds},
          {"ratio", median(figures.ratio)},
          {"state_mb", static_cast<double>(figures.bytes) / (1 << 20)},
          {"step_ms", step},
          {"blocked_ms", median(figures.blocked)},
          {"writing_ms", median(figures.writing)},
          {"overrun_ms", median(figures.overrun)},
          {"cost_ms", median(figures.with) - median(figures.without)}};
}

void run_rank(const CheckpointBench& options) {
  const std::int64_t workers = options.workers.front();
  comm::GroupOptions meeting;
  meeting.rank = static_cast<int>(options.rank);
  meeting.size = static_cast<int>(workers);
  meeting.store = comm::make_file_store(options.rank_folder);
  if (workers > 1) meeting.backend = "shm";
  meeting.timeout = kRankRunTimeout;
  const comm::Group group = comm::make_group(meeting);
  compute::set_threads(1);
  Trainee trainee(options, group);
  if (options.rank != 0) return trainee.steps(2 * options.every * (1 + options.rounds));
  Turns turns(options, trainee);
  Figures figures;
  turns.with_checkpoint(figures);  // touches all memory for the first time
  turns.without();
  figures = {};
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    // In changing order, so that a machine that gets slower or faster does not count.
    double without = 0;
    if (round % 2 == 0) without = turns.without();
    figures.with.push_back(turns.with_checkpoint(figures));
    if (round % 2 != 0) without = turns.without();
    figures.without.push_back(without);
    figures.ratio.push_back(figures.with.back() / without);
  }
  print_row(row_of(options, workers, figures), options.json);
}

}  // namespace

void bench_checkpoint(const CheckpointBench& options) {
  if (!options.rank_folder.empty()) return run_rank(options);
  for (const std::int64_t workers : options.workers) {
    run_rank_processes(workers, false, [&](const std::string& folder) {
      std::vector<std::string> words{"bench",         "checkpoint",
                                     "--rank-folder", folder,
                                     "--workers",     std::to_string(workers),
                                     "--model",       options.model,
                                     "--batch",       std::to_string(options.batch),
                                     "--every",       std::to_string(options.every),
                                     "--rounds",      std::to_string(options.rounds)};
      if (!options.folder.empty()) words.insert(words.end(), {"--folder", options.folder});
      if (options.json) words.emplace_back("--json");
      return words;
    });
  }
}

}  // namespace muster::cli
