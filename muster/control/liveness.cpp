// Three judgements, each from a view to a verdict with its reason. Processor time and the wish to run count, not the
// clock alone: on a machine that has too much to do nobody may be taken for dead.
#include "muster/control/liveness.h"

#include <fmt/format.h>

namespace muster::control {
namespace {

// A sign of life takes microseconds, but the threads of a process do not share fairly on a machine with too much to do.
constexpr int kSpunLivenesses = 5;

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Judgement judge_silence(const Seen& seen, std::chrono::nanoseconds liveness, std::chrono::nanoseconds patience) {
  if (seen.lasts < liveness) return {};
  if (seen.stopped >= liveness / 2)
    return {true, fmt::format("gave no sign of life for {:.1f} s: it is stopped", seconds(seen.lasts))};
  if (seen.idle >= liveness / 2)
    return {true,
            fmt::format("gave no sign of life for {:.1f} s, and nothing keeps it from running", seconds(seen.lasts))};
  if (seen.given >= kSpunLivenesses * liveness)
    return {true, fmt::format("gave no sign of life for {:.1f} s, in which it was given {:.1f} s of processor time",
                              seconds(seen.lasts), seconds(seen.given))};
  if (seen.lasts >= patience && seen.given.count() == 0)
    return {true, fmt::format("gave no sign of life for {:.0f} s, and was given no processor time at all",
                              seconds(seen.lasts))};
  return {};
}

Judgement judge_work(const Seen& seen, std::chrono::nanoseconds limit, std::chrono::nanoseconds liveness) {
  if (seen.lasts < limit || (seen.given < limit / 2 && seen.idle < liveness)) return {};
  return {true, fmt::format("for {:.0f} s without getting on", seconds(seen.lasts))};
}

Judgement judge_start(std::chrono::nanoseconds since_progress, bool stopped, std::chrono::nanoseconds patience,
                      std::chrono::nanoseconds liveness) {
  if (stopped && since_progress >= liveness)
    return {true, fmt::format("has not begun to train, and is stopped for {:.0f} s", seconds(since_progress))};
  if (since_progress < patience) return {};
  return {true, fmt::format("has not begun to train, and for {:.0f} s it has neither computed nor read or written "
                            "anything",
                            seconds(since_progress))};
}

}  // namespace muster::control
