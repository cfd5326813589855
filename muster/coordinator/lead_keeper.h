// LeadKeeper: a coordinator whose record is in an etcd looks again and again whether it leads still. A session that has
// ended because the etcd was away is begun anew, if nobody has taken over (JobRecord::keep_lead); if somebody has, that
// is said here, and this coordinator is to end.
// Thread safety: overtaken() from any thread. A thread of its own looks.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "muster/base/mutex.h"
#include "muster/control/job_record.h"

namespace muster::coordinator {

class LeadKeeper {
 public:
  using Tell = std::function<void(const std::string&)>;

  // Begins to look. `record` outlives it; `tell` gets words for people, from its thread.
  LeadKeeper(control::JobRecord& record, Tell tell);
  LeadKeeper(const LeadKeeper&) = delete;
  LeadKeeper& operator=(const LeadKeeper&) = delete;
  ~LeadKeeper();

  // Who has taken over on another machine, in words; empty: nobody is known to have.
  std::string overtaken() const;

 private:
  void look();
  void see_loss(const std::string& words);

  control::JobRecord& record_;
  const Tell tell_;
  bool away_ = false;  // of the thread: the store did not answer
  mutable Mutex mutex_;
  Condition changed_;
  std::string overtaken_ MUSTER_GUARDED_BY(mutex_);
  bool ends_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster::coordinator
