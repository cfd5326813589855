// Cases in the order of their weight: refusals, good ends, stops that were asked for, then losses. Each returns a
// verdict with its reason, and what follows from it is the supervisor's.
#include "muster/launch/worker_ending.h"

#include <signal.h>

namespace muster::launch {

bool asked_to_end(const Ending& ending) {
  return ending.signal == 0 && !ending.unknown &&
         (ending.exit_code == 128 + SIGTERM || ending.exit_code == 128 + SIGINT);
}

EndingJudgement judge_ending(const EndingView& view, const Ending& ending) {
  using Verdict = EndingVerdict;
  if (view.refused && !view.evicted) return {Verdict::kRefused, "it was refused by the others"};
  if (ending.good()) return {Verdict::kFinished, "it is done"};
  if (view.evicted) return {Verdict::kNothing, "it was one too many"};
  const bool said_so = ending.signal == 0 && !ending.unknown && ending.exit_code <= 128;
  if (view.done && said_so && view.signal == 0)
    return {Verdict::kStopped, "its training is done, what followed failed"};
  if (view.done && view.signal == 0 && asked_to_end(ending))
    return {Verdict::kStopped, "all workers of the job have stopped, and it knew before this host was told"};
  if (view.signal != 0) {
    if (!view.began || view.signal == SIGKILL) return {Verdict::kStopped, "all were told to end"};
    if (!view.member) return {Verdict::kNothing, "it came when all were told to end"};
    if (ending.signal == 0 || ending.signal == view.signal || view.done)
      return {Verdict::kStopped, "it did as it was told"};
  }
  if (view.hopeless || (view.finishing && !view.fixed))
    return {Verdict::kNothing, "it came too late, or left too late"};
  if (view.fixed) return {Verdict::kBroken, "it was one of a fixed group"};
  // A shell says so of a command that was killed.
  const bool killed = ending.signal != 0 || ending.exit_code > 128;
  const bool could_not_begin = !view.ready && !view.others && !view.member && !killed && !ending.unknown;
  if (!could_not_begin) return {Verdict::kLost, "somebody takes its place"};
  // It has said why it gave up. Another one would do the same, unless it looked for an arena that was not to be had any
  // more: that of a founder that is dead, or that is dying and will be seen to be in a moment.
  if (view.founder_lost) return {Verdict::kLost, "the worker that made its arena is lost as well"};
  if (view.founder_lives) return {Verdict::kGaveUp, "it gave up before it could train, unless its founder is dying"};
  return {Verdict::kHopeless, "it gave up before it could train, and nobody trains"};
}

}  // namespace muster::launch
