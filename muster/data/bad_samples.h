// BadSamples: what a job does about samples that cannot be used, and the account of those it met.
//
// A bad sample is a line of a table with too few fields, a not-a-number, a truncated picture. Either the first one ends
// the job, or they are skipped, counted and shown, up to a limit: a file of which much is bad is the wrong file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/mutex.h"

namespace muster::data {

enum class OnBadSample { kFail, kSkip };

struct BadSampleOptions {
  OnBadSample on_bad_sample = OnBadSample::kFail;
  std::uint64_t limit = 100;  // skipped samples beyond which the job fails after all; of each process
  std::size_t examples = 10;  // so many are kept in words
};

// Thread safety: any number of threads at once.
class BadSamples {
 public:
  explicit BadSamples(const BadSampleOptions& options) : options_(options) {}

  // Counts one, or throws: `error` itself if samples may not be skipped, kDamaged naming the limit and the last of them
  // once there are more than the limit.
  void report(const Error& error);

  bool skipping() const { return options_.on_bad_sample == OnBadSample::kSkip; }
  std::uint64_t count() const;
  // Each in words, with file and line; the first of them, in the order in which they were met.
  std::vector<std::string> examples() const;

 private:
  const BadSampleOptions options_;
  mutable Mutex mutex_;
  std::uint64_t count_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> examples_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::data
