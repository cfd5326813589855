// Who runs trials: processes of jobs and programs, or threads of a benchmark. It acts and tells; it decides nothing.
//
// Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/tuning/trial.h"

namespace muster::tuning {

// Something that came of a trial.
struct TrialNews {
  enum class What {
    kReport,    // objective values at a resource; it goes on
    kPaused,    // it has come to `until`, its state is kept, and nothing of it runs
    kFinished,  // it has come to its own end
    kStopped,   // it ended because stop() was called; its state is kept
    kDied,      // it ended otherwise, and may be begun again
    kFailed,    // it ended, and beginning again cannot help: values that make no job, a loss that is not a number
  };
  std::uint64_t number = 0;
  What what = What::kReport;
  Report report{};               // kReport
  std::string reason{};          // kDied, kFailed
  double seconds = 0;            // not of kReport: since it was started
  double processor_seconds = 0;  // likewise
  double start_seconds = 0;      // likewise: until it had told something
};

class TrialExecutor {
 public:
  virtual ~TrialExecutor() = default;

  // Begins the trial, or goes on where its state is; until its resource is `until`, or to its end when that is 0.
  // Throws only what would hold for every trial (no such program): that ends the study.
  virtual void start(const Trial& trial, std::uint64_t until) = 0;
  // Asks the trial to end soon and keep its state; kStopped tells when it has. Nothing if it does not run.
  virtual void stop(std::uint64_t number) = 0;
  // What came since the last call; waits at most `longest` for something to come.
  virtual std::vector<TrialNews> wait(std::chrono::milliseconds longest) = 0;
  // The trial has ended for good, or is the best so far: what is not needed any more can go.
  virtual void ended(const Trial& /*trial*/) {}
  virtual void best(const Trial& /*trial*/) {}
};

}  // namespace muster::tuning
