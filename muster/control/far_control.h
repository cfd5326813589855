// FarControl: the coordinator of a job of several hosts, as people command it from any machine that reaches its port
// (proto/control.proto behind ClusterServer), by a certificate or token of theirs.
//
// Within its time a command is sent again, with the same request id, while nobody answers there: between two
// coordinators nobody listens for a moment. After that kPeerLost; kTimeout when it is not known whether it took effect;
// and what the coordinator answers. Thread safety: every method from any thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "muster/control/cluster_client.h"
#include "muster/control/control_calls.h"

namespace muster::control {

class FarControl final : public ControlCalls {
 public:
  // `time` is that of each call. Connects at the first one.
  FarControl(const ClusterTarget& target, std::chrono::milliseconds time);
  ~FarControl() override;

  JobStatus status() override;
  WantedState scale(const std::string& request, const Scaling& scaling) override;
  WantedState stop(const std::string& request) override;
  Change set(const std::string& request, const std::string& assignment) override;

 private:
  struct Parts;
  template <typename Call>
  void call(bool again, const Call& call) const;

  const std::unique_ptr<Parts> parts_;
};

}  // namespace muster::control
