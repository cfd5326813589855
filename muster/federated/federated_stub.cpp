// One stub, a deadline for each call: of those that wait at the server, what they wait and some more. A connection that
// is lost is made again by gRPC; who calls tries again.
#include "muster/federated/federated_stub.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "federated.grpc.pb.h"
#include "muster/control/attendant.h"
#include "muster/federated/client_channel.h"
#include "muster/federated/federated_wire.h"

namespace muster::federated {
namespace {

constexpr std::chrono::seconds kShortCall{20};
constexpr std::chrono::seconds kChunkCall{120};  // a chunk over a slow line: 1 MiB at 70 kbit/s

class FederatedStub final : public FederatedCalls {
 public:
  FederatedStub(const control::ClusterTarget& target, std::string model)
      : FederatedStub(target.address, std::move(model), make_client_channel(target)) {}

  std::vector<Offer> list_models() {
    v1::ListModelsReply reply;
    call(kShortCall,
         [&](grpc::ClientContext& context) { return stub_->ListModels(&context, v1::ListModelsRequest(), &reply); });
    std::vector<Offer> offers;
    for (const v1::OfferedModel& model : reply.models())
      offers.push_back(from_wire(model));
    return offers;
  }

  Enrolled enrol(const std::string& name, const EnrolWish& wish) override {
    v1::EnrolRequest request;
    to_wire(name, wish, request);
    v1::EnrolReply reply;
    call(kShortCall, [&](grpc::ClientContext& context) { return stub_->Enrol(&context, request, &reply); });
    return from_wire(reply);
  }

  TaskAnswer next_task(const std::string& name, std::uint64_t samples, std::chrono::milliseconds wait) override {
    v1::NextTaskRequest request;
    request.set_name(name);
    request.set_samples(samples);
    request.set_wait_ms(static_cast<std::uint64_t>(wait.count()));
    v1::NextTaskReply reply;
    call(kShortCall + wait, [&](grpc::ClientContext& context) { return stub_->NextTask(&context, request, &reply); });
    return from_wire(reply);
  }

  void leave(const std::string& name, const std::string& reason) override {
    v1::NextTaskRequest request;
    request.set_name(name);
    request.set_leaves(reason);
    v1::NextTaskReply reply;
    call(kShortCall, [&](grpc::ClientContext& context) { return stub_->NextTask(&context, request, &reply); });
  }

  ModelChunk read_model(const std::string& name, std::uint64_t round, ModelPart part, std::uint64_t offset,
                        std::uint64_t bytes) override {
    v1::ReadModelRequest request;
    request.set_name(name);
    request.set_round(round);
    request.set_what(part == ModelPart::kControl ? v1::ReadModelRequest::CONTROL : v1::ReadModelRequest::MODEL);
    request.set_offset(offset);
    request.set_bytes(bytes);
    v1::ReadModelReply reply;
    call(kChunkCall, [&](grpc::ClientContext& context) { return stub_->ReadModel(&context, request, &reply); });
    const auto data = std::as_bytes(std::span(reply.data()));
    return {{data.begin(), data.end()}, reply.total_bytes()};
  }

  UpdateAnswer send_update(const std::string& name, const UpdateChunk& chunk) override {
    v1::SendUpdateRequest request;
    to_wire(name, chunk, request);
    v1::SendUpdateReply reply;
    call(kChunkCall, [&](grpc::ClientContext& context) { return stub_->SendUpdate(&context, request, &reply); });
    return from_wire(reply);
  }

  SecureAnswer secure_step(const std::string& name, const SecureMessage& message,
                           std::chrono::milliseconds wait) override {
    v1::SecureStepRequest request;
    to_wire(name, message, request);
    request.set_wait_ms(static_cast<std::uint64_t>(wait.count()));
    v1::SecureStepReply reply;
    call(kChunkCall + wait, [&](grpc::ClientContext& context) { return stub_->SecureStep(&context, request, &reply); });
    return from_wire(reply);
  }

 private:
  FederatedStub(std::string where, std::string model, const std::shared_ptr<grpc::Channel>& channel)
      : where_(std::move(where)),
        model_(std::move(model)),
        stub_(v1::Federated::NewStub(channel)),
        attendant_(channel) {}

  template <typename Call>
  void call(std::chrono::milliseconds longest, const Call& call) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + longest);
    if (!model_.empty()) context.AddMetadata(kModelKey, model_);
    require_answer(call(context), where_);
  }

  const std::string where_;
  const std::string model_;
  const std::unique_ptr<v1::Federated::Stub> stub_;
  const control::Attendant attendant_;
};

}  // namespace

std::unique_ptr<FederatedCalls> make_federated_stub(const control::ClusterTarget& target, const std::string& model) {
  return std::make_unique<FederatedStub>(target, model);
}

std::vector<Offer> list_models(const control::ClusterTarget& target) {
  return FederatedStub(target, {}).list_models();
}

}  // namespace muster::federated
