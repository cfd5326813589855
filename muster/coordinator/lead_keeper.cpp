// A loss to a process of this machine is not told: that process ends this one, whose workers it takes over. Were they
// killed here, as those of another machine have to be, there would be nothing left to take.
#include "muster/coordinator/lead_keeper.h"

#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/process.h"

namespace muster::coordinator {
namespace {

// Sooner than a standby that finds nobody leading takes over (standby.h): after a time without a quorum the
// coordinator that was there goes on.
constexpr std::chrono::milliseconds kLookAtLead{300};

}  // namespace

LeadKeeper::LeadKeeper(control::JobRecord& record, Tell tell) : record_(record), tell_(std::move(tell)) {
  thread_ = std::thread([this] {
    for (;;) {
      {
        const MutexLock lock(mutex_);
        if (!ends_) changed_.wait_for(mutex_, kLookAtLead);
        if (ends_ || !overtaken_.empty()) return;
      }
      look();
    }
  });
}

LeadKeeper::~LeadKeeper() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::string LeadKeeper::overtaken() const {
  const MutexLock lock(mutex_);
  return overtaken_;
}

void LeadKeeper::look() {
  try {
    record_.keep_lead();
    if (std::exchange(away_, false)) tell_("the job's store answers again; this process coordinates still");
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kMismatch) {
      see_loss(error.message());
    } else if (!std::exchange(away_, true)) {
      tell_(
          fmt::format("the job's store: {} Training goes on; hosts stay as they are until it answers.", error.what()));
    }
  }
}

void LeadKeeper::see_loss(const std::string& words) {
  try {
    const std::optional<control::Lease> now = record_.lease();
    if (now && now->space == process_space()) return;
  } catch (const Error&) {
    return;  // seen again at the next look
  }
  tell_(words);
  const MutexLock lock(mutex_);
  overtaken_ = words;
}

}  // namespace muster::coordinator
