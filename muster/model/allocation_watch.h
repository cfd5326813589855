// How much memory of tensors this thread holds, as torch's allocator reports it: every allocation, before it is
// touched. What the libraries below it take for themselves is not in it.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <limits>
#include <memory>

namespace muster::model {

// The type of the totals in torch's memory reports, which is another in LibTorch 1.13 than in 2.
template <typename Total>
Total total_in(void (c10::MemoryReportingInfoBase::*)(void*, std::int64_t, Total, Total, c10::Device));
using ReportedTotal = decltype(total_in(&c10::MemoryReportingInfoBase::reportMemoryUsage));

// Where torch keeps who is told of operations and allocations; not a constant in newer releases.
inline c10::DebugInfoKind profiler_slot() {
  return c10::DebugInfoKind::PROFILER_STATE;
}

// Counts from its beginning to its end, on its thread. One at a time.
class AllocationWatch {
 public:
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  // An allocation with which more than `limit` bytes are held throws kResource.
  explicit AllocationWatch(std::int64_t limit = kNoLimit);
  std::int64_t held() const;  // less than 0: more was given back than was taken
  std::int64_t most() const;

 private:
  class Reporter;
  const std::shared_ptr<Reporter> reporter_;
  const c10::DebugInfoGuard guard_;
};

}  // namespace muster::model
