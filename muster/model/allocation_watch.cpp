// The watch is in the slot that torch has for a profiler, whose reports of memory come from the allocator itself. What
// a thread frees that another one took counts for the one that frees it.
#include "muster/model/allocation_watch.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::model {

class AllocationWatch::Reporter final : public c10::MemoryReportingInfoBase {
 public:
  explicit Reporter(std::int64_t limit) : limit_(limit) {}
  void reportMemoryUsage(void* /*pointer*/, std::int64_t size, ReportedTotal /*allocated*/, ReportedTotal /*reserved*/,
                         c10::Device /*device*/) override {
    held_ += size;
    most_ = std::max(most_, held_);
    if (size > 0 && held_ > limit_)
      throw Error(ErrorKind::kResource,
                  fmt::format("the model alone takes more than {}", human_bytes(static_cast<std::uint64_t>(limit_))));
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t held() const { return held_; }
  std::int64_t most() const { return most_; }

 private:
  const std::int64_t limit_;
  std::int64_t held_ = 0;
  std::int64_t most_ = 0;
};

AllocationWatch::AllocationWatch(std::int64_t limit)
    : reporter_(std::make_shared<Reporter>(limit)), guard_(profiler_slot(), reporter_) {
}

std::int64_t AllocationWatch::held() const {
  return reporter_->held();
}

std::int64_t AllocationWatch::most() const {
  return reporter_->most();
}

}  // namespace muster::model
