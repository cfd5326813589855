// Each call: is the caller allowed, ask, translate back. What the answers and refusals of ControlCalls become on the
// wire is wire.h's to say.
#include "muster/control/control_service.h"

#include <utility>

#include "control.grpc.pb.h"
#include "muster/control/grpc_service.h"
#include "muster/control/wire.h"

namespace muster::control {
namespace {

class ControlService final : public v1::Control::Service {
 public:
  ControlService(ControlCalls& calls, AuthorizeCall authorize) : calls_(calls), authorize_(std::move(authorize)) {}

  grpc::Status Status(grpc::ServerContext* context, const v1::StatusRequest*, v1::StatusReply* reply) override {
    return answer_call(authorize_, *context, "Status", [&] { to_wire(calls_.status(), *reply); });
  }

  grpc::Status Scale(grpc::ServerContext* context, const v1::ScaleRequest* request, v1::WantedReply* reply) override {
    return answer_call(authorize_, *context, "Scale",
                       [&] { to_wire(calls_.scale(request->request(), scaling_of(*request)), *reply); });
  }

  grpc::Status Stop(grpc::ServerContext* context, const v1::StopRequest* request, v1::WantedReply* reply) override {
    return answer_call(authorize_, *context, "Stop", [&] { to_wire(calls_.stop(request->request()), *reply); });
  }

  grpc::Status Set(grpc::ServerContext* context, const v1::SetRequest* request, v1::SetReply* reply) override {
    return answer_call(authorize_, *context, "Set",
                       [&] { to_wire(calls_.set(request->request(), request->assignment()), *reply); });
  }

 private:
  ControlCalls& calls_;
  const AuthorizeCall authorize_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_control_service(ControlCalls& calls, AuthorizeCall authorize) {
  return std::make_unique<ControlService>(calls, std::move(authorize));
}

}  // namespace muster::control
