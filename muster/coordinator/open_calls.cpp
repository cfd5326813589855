// Calls hold the lock together; whoever closes waits for all of them, so that none writes into a record that was given
// up.
#include "muster/coordinator/open_calls.h"

#include <mutex>

#include "muster/base/error.h"

namespace muster::coordinator {

void OpenCalls::open(control::ControlCalls& calls) {
  const std::unique_lock lock(mutex_);
  calls_ = &calls;
}

void OpenCalls::close() {
  const std::unique_lock lock(mutex_);
  calls_ = nullptr;
}

control::ControlCalls& OpenCalls::opened() {
  if (calls_ == nullptr)
    throw Error(ErrorKind::kPeerLost, "the coordinator takes no commands: the job has not begun, or is over", {},
                "Try again in a moment.");
  return *calls_;
}

control::JobStatus OpenCalls::status() {
  const std::shared_lock lock(mutex_);
  return opened().status();
}

control::WantedState OpenCalls::scale(const std::string& request, const control::Scaling& scaling) {
  const std::shared_lock lock(mutex_);
  return opened().scale(request, scaling);
}

control::WantedState OpenCalls::stop(const std::string& request) {
  const std::shared_lock lock(mutex_);
  return opened().stop(request);
}

control::Change OpenCalls::set(const std::string& request, const std::string& assignment) {
  const std::shared_lock lock(mutex_);
  return opened().set(request, assignment);
}

}  // namespace muster::coordinator
