// Commands to a job for callers of its coordinator's own process (those that agents of other hosts pass on): from when
// the record is open until it is given up. Before and after that they throw kPeerLost.
// Thread safety: every method from any thread.
#pragma once

#include <shared_mutex>
#include <string>

#include "muster/control/control_calls.h"

namespace muster::coordinator {

class OpenCalls final : public control::ControlCalls {
 public:
  // `calls` lives until close() has returned.
  void open(control::ControlCalls& calls);
  // Returns when no call is in work any more.
  void close();

  control::JobStatus status() override;
  control::WantedState scale(const std::string& request, const control::Scaling& scaling) override;
  control::WantedState stop(const std::string& request) override;
  control::Change set(const std::string& request, const std::string& assignment) override;

 private:
  // REQUIRES: mutex_ is held, shared.
  control::ControlCalls& opened();

  std::shared_mutex mutex_;
  control::ControlCalls* calls_ = nullptr;
};

}  // namespace muster::coordinator
