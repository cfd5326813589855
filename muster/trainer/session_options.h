// What a session is told beside the model and its optimizer. No torch here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "muster/comm/group.h"
#include "muster/compute/exemption.h"
#include "muster/compute/schedule.h"
#include "muster/compute/tuning.h"
#include "muster/data/lane_plan.h"
#include "muster/data/sampling.h"
#include "muster/strategies/strategy_choice.h"

namespace muster::trainer {

struct SessionOptions {
  std::uint64_t batch = 64;              // samples of a step, over all lanes
  std::optional<std::uint64_t> lanes{};  // empty: data::default_lanes(batch); part of the result
  int threads = 1;                       // of LibTorch and BLAS while a lane is computed; part of the result
  std::uint64_t seed = 1;
  compute::Schedule schedule{};
  std::optional<double> clip_norm{};  // above 0; empty: no clipping
  compute::Exemption exempt = compute::Exemption::kNone;
  compute::Tuning tuning{};  // which tensors train, from which epoch on, and how fast; nothing said: all alike
  strategies::StrategyChoice strategy = strategies::default_strategy();  // LocalSgd{.period = 8}, say
  int loader_threads = 1;
  std::size_t prefetch = 4;  // lanes that are read ahead
  // Instead of each sample once an epoch in a random order: data::weighted(), or an order of the program's own.
  std::optional<data::Sampling> sampling{};
  std::optional<double> mixup_alpha{};  // blends pairs of a lane's samples; targets are then rows of probabilities
  std::chrono::seconds load_timeout{60};
  comm::Group group{};  // the workers that train together; synchronize() says who they are by itself
  strategies::Claims claims = strategies::Claims::kStatic;
  // This share of all lanes, chosen by the seed, is computed once more, by another worker where there is one, and
  // compared bit by bit; a difference ends training with kMismatch and names the tensor. For finding code that draws
  // random numbers of its own or keeps something from lane to lane.
  double verify_rate = 0;
  // So many steps in a row without a finite gradient end training with kCompute, on all workers alike: what follows
  // would be the same. 0: it goes on, however many there are.
  std::uint64_t most_skipped = 100;
  std::chrono::seconds step_timeout{300};  // for the other workers' lanes of a step
  // SIGINT and SIGTERM end training after the step in work, with a checkpoint (Session::checkpoint says where), by
  // Error{kInterrupted} out of the loop, on all workers alike; a second one ends the process. What handles these
  // signals itself keeps doing so. synchronize() sets it under `muster run`: it is how `muster stop` ends a program.
  bool stop_on_signals = false;
  // False: instead of the exception lanes() ends after that step, with no checkpoint, and Session::stop_requested() is
  // true: the program finishes by itself, and soon, because whoever asked waits for it.
  bool throw_when_stopped = true;
  // Writes of the program's own to parameters and buffers (clamp, moving averages, target networks): called as the last
  // thing of every step that is applied, with where the session stands after it, while the module's tensors show the
  // step's result and can be written to in place. What it writes is committed with the step or not at all, so it counts
  // once whoever is lost. One worker of each host calls it: it goes by the tensors and the cursor alone, waits for
  // nobody, and draws from LibTorch's default generator. For shared_sync and all_reduce.
  std::function<void(const data::Cursor& after)> after_commit{};
  // A file for rows of figures, one JSON object a line, as the metrics.jsonl of `muster train`: about a hundred steps
  // of an epoch with loss, rate and what lanes report, each evaluation and measuring. The worker that leads writes,
  // behind what is there. Empty: metrics.jsonl of the run's folder under `muster run`, else none.
  std::filesystem::path metrics{};
};

// The lanes of a step. Throws Error{kInvalidInput} that names the option when one has no meaning: a batch without
// samples, lanes that do not fit it, a norm to clip to that is not above 0, ...
std::size_t check_options(const SessionOptions& options);

// Throws Error{kInvalidInput}. For a value that comes later, too.
void check_clip_norm(const std::optional<double>& clip_norm);

}  // namespace muster::trainer
