// The same connection as an agent's (coordinator_channel.h), and the same calls as on the job's own machine. Only a
// command is repeated: who looks wants to know that nobody is there.
#include "muster/control/far_control.h"

#include <grpcpp/grpcpp.h>

#include "control.grpc.pb.h"
#include "muster/base/clock.h"
#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/control/attendant.h"
#include "muster/control/coordinator_channel.h"
#include "muster/control/wire.h"

namespace muster::control {
namespace {

constexpr std::chrono::milliseconds kRetryPause{100};

}  // namespace

struct FarControl::Parts {
  Parts(const ClusterTarget& target, std::chrono::milliseconds longest)
      : where(target.address),
        time(longest),
        channel(channel_to_coordinator(target)),
        stub(v1::Control::NewStub(channel)),
        attendant(channel) {}

  const std::string where;
  const std::chrono::milliseconds time;
  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<v1::Control::Stub> stub;
  const Attendant attendant;
};

FarControl::FarControl(const ClusterTarget& target, std::chrono::milliseconds time)
    : parts_(std::make_unique<Parts>(target, time)) {
}

FarControl::~FarControl() = default;

template <typename Call>
void FarControl::call(bool again, const Call& call) const {
  const Deadline deadline = Deadline::after(parts_->time);
  while (true) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline.remaining());
    const grpc::Status status = call(*parts_->stub, context);
    if (status.ok()) return;
    const bool nobody = status.error_code() == grpc::StatusCode::UNAVAILABLE && status.error_details().empty();
    const Error error = nobody ? unreachable(status, parts_->where) : from_status(status, parts_->where);
    // One that has just taken over listens a moment before it takes commands, and says so.
    if (!again || error.kind() != ErrorKind::kPeerLost || deadline.remaining() <= kRetryPause) throw Error(error);
    system_clock().sleep_for(kRetryPause);
  }
}

JobStatus FarControl::status() {
  v1::StatusReply reply;
  call(false, [&](auto& stub, auto& context) { return stub.Status(&context, v1::StatusRequest(), &reply); });
  JobStatus status = from_wire(reply);
  status.live = true;
  return status;
}

WantedState FarControl::scale(const std::string& request, const Scaling& scaling) {
  v1::ScaleRequest message;
  to_wire(request, scaling, message);
  v1::WantedReply reply;
  call(true, [&](auto& stub, auto& context) { return stub.Scale(&context, message, &reply); });
  return from_wire(reply);
}

WantedState FarControl::stop(const std::string& request) {
  v1::StopRequest message;
  message.set_request(request);
  v1::WantedReply reply;
  call(true, [&](auto& stub, auto& context) { return stub.Stop(&context, message, &reply); });
  return from_wire(reply);
}

Change FarControl::set(const std::string& request, const std::string& assignment) {
  v1::SetRequest message;
  message.set_request(request);
  message.set_assignment(assignment);
  v1::SetReply reply;
  call(true, [&](auto& stub, auto& context) { return stub.Set(&context, message, &reply); });
  return from_wire(reply, assignment);
}

}  // namespace muster::control
