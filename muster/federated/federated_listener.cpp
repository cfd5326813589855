// Each call: may the caller, who is it, translate, ask, translate back. Calls that wait hold a thread each, so only so
// many do; the others are told to come again.
#include "muster/federated/federated_listener.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "federated.grpc.pb.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/control/credentials.h"
#include "muster/control/guarded_port.h"
#include "muster/control/wire.h"
#include "muster/federated/federated_wire.h"

namespace muster::federated {
namespace {

constexpr int kMostFederatedThreads = 320;
constexpr int kMostFederatedWaits = 256;

using control::AuthorizeCall;
using Identify = std::function<std::optional<control::CallerIdentity>(const grpc::ServerContextBase&)>;

class FederatedService final : public v1::Federated::Service {
 public:
  using Note = std::function<void(const std::string&)>;
  FederatedService(std::vector<OfferedModel> models, AuthorizeCall authorize, Identify identify, Note note)
      : models_(std::move(models)),
        authorize_(std::move(authorize)),
        identify_(std::move(identify)),
        note_(std::move(note)) {}

  grpc::Status Enrol(grpc::ServerContext* context, const v1::EnrolRequest* request, v1::EnrolReply* reply) override {
    return answer(*context, "Enrol", request->name(),
                  [&](const std::string& name) { to_wire(of(*context).enrol(name, from_wire(*request)), *reply); });
  }

  grpc::Status NextTask(grpc::ServerContext* context, const v1::NextTaskRequest* request,
                        v1::NextTaskReply* reply) override {
    return answer(*context, "NextTask", request->name(), [&](const std::string& name) {
      if (!request->leaves().empty()) {
        of(*context).leave(name, request->leaves());
        to_wire({.reason = "it has left"}, *reply);
        return;
      }
      waiting(request->wait_ms(), [&](std::chrono::milliseconds wait) {
        to_wire(of(*context).next_task(name, request->samples(), wait), *reply);
      });
    });
  }

  grpc::Status ReadModel(grpc::ServerContext* context, const v1::ReadModelRequest* request,
                         v1::ReadModelReply* reply) override {
    return answer(*context, "ReadModel", request->name(), [&](const std::string& name) {
      const ModelPart part = request->what() == v1::ReadModelRequest::CONTROL ? ModelPart::kControl : ModelPart::kModel;
      const ModelChunk chunk =
          of(*context).read_model(name, request->round(), part, request->offset(), request->bytes());
      reply->set_data(chunk.data.data(), chunk.data.size());
      reply->set_total_bytes(chunk.total_bytes);
    });
  }

  grpc::Status SendUpdate(grpc::ServerContext* context, const v1::SendUpdateRequest* request,
                          v1::SendUpdateReply* reply) override {
    return answer(*context, "SendUpdate", request->name(), [&](const std::string& name) {
      to_wire(of(*context).send_update(name, from_wire(*request)), *reply);
    });
  }

  grpc::Status ListModels(grpc::ServerContext* context, const v1::ListModelsRequest*,
                          v1::ListModelsReply* reply) override {
    return answer(*context, "ListModels", "", [&](const std::string&) {
      for (const OfferedModel& model : models_)
        to_wire(model.offer, *reply->add_models());
    });
  }

  grpc::Status SecureStep(grpc::ServerContext* context, const v1::SecureStepRequest* request,
                          v1::SecureStepReply* reply) override {
    return answer(*context, "SecureStep", request->name(), [&](const std::string& name) {
      waiting(request->wait_ms(), [&](std::chrono::milliseconds wait) {
        to_wire(of(*context).secure_step(name, from_wire(*request), wait), *reply);
      });
    });
  }

 private:
  // Who answers for the model that a call names. Throws Error{kNotFound}.
  FederatedCalls& of(const grpc::ServerContext& context) const {
    const auto& metadata = context.client_metadata();
    const auto named = metadata.find(kModelKey);
    if (named == metadata.end()) return *models_.front().calls;
    const std::string_view name(named->second.data(), named->second.size());
    const auto found = std::ranges::find(models_, name, [](const OfferedModel& model) { return model.offer.name; });
    if (found != models_.end()) return *found->calls;
    throw Error(ErrorKind::kNotFound, fmt::format("the server has no model \"{}\"", excerpt(std::string(name), 80)), {},
                "ListModels says which it has.");
  }

  // Only so many calls wait; the others are told to come again.
  template <typename Body>
  void waiting(std::uint64_t wanted_ms, const Body& body) {
    const bool may_wait = waits_.fetch_add(1) < kMostFederatedWaits;
    const auto wanted = std::chrono::milliseconds(
        std::min<std::uint64_t>(wanted_ms, static_cast<std::uint64_t>(kLongestTaskWait.count())));
    try {
      body(may_wait ? wanted : std::chrono::milliseconds(0));
    } catch (...) {
      --waits_;
      throw;
    }
    --waits_;
  }

  template <typename Body>
  grpc::Status answer(const grpc::ServerContext& context, std::string_view call, const std::string& said,
                      const Body& body) const {
    std::string name = said;
    if (authorize_) {
      if (grpc::Status status = authorize_(context, call); !status.ok()) return status;
      const auto identity = identify_(context);
      if (!identity) return {grpc::StatusCode::UNAUTHENTICATED, "its certificate does not count any more"};
      name = identity->name;
    }
    try {
      body(name);
      return grpc::Status::OK;
    } catch (const Error& error) {
      const bool own = error.kind() == ErrorKind::kIo || error.kind() == ErrorKind::kResource;
      if (!own) return control::to_status(error);
      // Not the client's business, and none of its mistakes: it tries again, and people here are told.
      if (note_) note_(fmt::format("{} of {} failed: {}", call, name, error.what()));
      return control::to_status(Error(ErrorKind::kPeerLost, "the server cannot store what comes", {}, "Try again."));
    } catch (const std::exception& error) {
      return {grpc::StatusCode::INTERNAL, error.what()};
    }
  }

  const std::vector<OfferedModel> models_;
  const AuthorizeCall authorize_;
  const Identify identify_;
  const Note note_;
  std::atomic<int> waits_{0};
};

}  // namespace

struct FederatedListener::Parts {
  explicit Parts(const control::ClusterListen& listen) : port(listen) {}
  control::GuardedPort port;
};

FederatedListener::FederatedListener(const std::vector<OfferedModel>& models, const control::ClusterListen& listen) {
  if (listen.trust.any() && listen.trust.certs.empty())
    throw Error(ErrorKind::kInvalidInput, "a token does not tell one client from another", {},
                "Give --certs: `muster certs add CERTS client NAME` makes a client's certificate.");
  parts_ = std::make_unique<Parts>(listen);
  control::GuardedPort& port = parts_->port;
  port.open(
      std::make_unique<FederatedService>(models, port.authorize(), port.trust() ? port.trust()->identify : Identify(),
                                         port.note()),
      [](grpc::ServerBuilder& builder) {
        control::limit_server(builder, {.threads = kMostFederatedThreads, .request_bytes = kMostMessageBytes});
      },
      "clients");
}

FederatedListener::~FederatedListener() = default;

const std::string& FederatedListener::address() const {
  return parts_->port.address();
}

}  // namespace muster::federated
