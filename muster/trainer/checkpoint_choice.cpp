// One order of preference, with words for every choice. Why a run has no checkpoint decides what to do about it, so
// that is found out before it is said.
#include "muster/trainer/checkpoint_choice.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/model/checkpoint.h"
#include "muster/trainer/run_failure.h"
#include "muster/trainer/run_lock.h"

namespace muster::trainer {
namespace {

bool is_being_trained(const std::filesystem::path& run) {
  try {
    const RunLock lock(run, Deadline::after(std::chrono::seconds(0)));
    return false;
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kMismatch;
  }
}

// A run that is over will not get one by waiting, and one that failed will fail again where it is resumed.
Error no_checkpoint(const std::filesystem::path& run) {
  const auto error = [&](const std::string& message, const char* remedy) {
    return Error(ErrorKind::kNotFound, message, run.string(), remedy);
  };
  if (const std::string failure = read_failure(run); !failure.empty())
    return error("the run has no checkpoint; it " + failure,
                 "Correct what stopped it, and train anew: muster train JOB.toml");
  if (is_being_trained(run))
    return error("the run has no checkpoint yet",
                 "It is being trained: wait for its first. muster status shows how far it is.");
  return error("the run has no checkpoint and is over", "Train anew: muster train JOB.toml");
}

}  // namespace

ChosenCheckpoint choose_checkpoint(const std::filesystem::path& run, const CheckpointChoice& choice) {
  if (int{choice.best} + int{choice.last} + int{choice.step.has_value()} > 1)
    throw Error(ErrorKind::kInvalidInput, "of the best, the last and a step only one can be meant", run.string(),
                "Give one of --best, --last and --step.");
  const model::CheckpointStore store(run / "checkpoints");
  const std::vector<std::uint64_t> steps = store.list();
  if (steps.empty()) throw no_checkpoint(run);
  const std::uint64_t last = steps.back();
  const auto chosen = [&](std::uint64_t step, std::string why) {
    return ChosenCheckpoint{store.path_of(step), step, std::move(why)};
  };
  if (choice.step) {
    if (std::find(steps.begin(), steps.end(), *choice.step) == steps.end())
      throw Error(ErrorKind::kInvalidInput, fmt::format("there is no checkpoint of step {}", *choice.step),
                  run.string(), fmt::format("Give --best, --last or one of the steps {}.", fmt::join(steps, ", ")));
    return chosen(*choice.step, fmt::format("step {}, as asked for", *choice.step));
  }
  if (choice.last) return chosen(last, fmt::format("step {}, the last of the run", last));
  const std::optional<model::BestCheckpoint> best = store.best();
  if (best) {
    return chosen(best->step,
                  fmt::format("step {}, the best of the run (validation loss {:.4f}); {}", best->step, best->metric,
                              best->step == last ? "also its last" : fmt::format("its last is step {}", last)));
  }
  if (choice.best)
    throw Error(ErrorKind::kNotFound, "no checkpoint of it is marked as the best", run.string(),
                "Nothing was validated yet; --last takes the last one.");
  return chosen(last, fmt::format("step {}, the last of the run: none is marked as the best", last));
}

void refuse_choice(const CheckpointChoice& choice, const std::filesystem::path& given) {
  if (choice == CheckpointChoice()) return;
  throw Error(ErrorKind::kInvalidInput, "--best, --last and --step choose among the checkpoints of a run",
              given.string(), "Give the run's folder, or leave them out.");
}

}  // namespace muster::trainer
