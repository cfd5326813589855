// What the end of a worker's process means for its job: a judgement as a pure function of what is known then. The
// supervisor acts on it.
#pragma once

#include <string>

#include "muster/launch/child_process.h"

namespace muster::launch {

// What is known when a worker has ended.
struct EndingView {
  // of the worker
  bool evicted = false;        // it was one too many
  bool member = false;         // it trained
  bool ready = false;          // it sat in the arena
  bool done = false;           // it has said that its work is done
  bool refused = false;        // it would have trained something else than the others
  bool founder_lives = false;  // it did not make the arena, and the one that does, or did, lives
  bool founder_lost = false;   // the one by which it was told to find the arena has ended since
  // of the job
  bool began = false;      // there has been a generation
  bool others = false;     // there are members, other than this one
  int signal = 0;          // that was passed on to all workers; 0: none
  bool finishing = false;  // a worker has finished the job
  bool hopeless = false;   // it is known that nobody can begin
  bool fixed = false;      // its workers have made a group that nobody can join later
};

enum class EndingVerdict {
  kRefused,   // the job is not what was asked for
  kFinished,  // the job is done
  kStopped,   // as the signal asked
  kNothing,   // how it ended says nothing
  kBroken,    // nobody can take its place, so the job cannot go on
  kGaveUp,    // nobody can begin, unless the founder turns out to be dying as well
  kHopeless,  // nobody can begin
  kLost,      // somebody takes its place
};

struct EndingJudgement {
  EndingVerdict verdict = EndingVerdict::kNothing;
  std::string reason;  // in words
};

// Whether its exit code says that it was asked to end, and did.
bool asked_to_end(const Ending& ending);

EndingJudgement judge_ending(const EndingView& view, const Ending& ending);

}  // namespace muster::launch
