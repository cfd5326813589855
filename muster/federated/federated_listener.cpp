// Each call: may the caller, who is it, translate, ask, translate back. Calls that wait hold a thread each, so only so
// many do; the others are told to come again.
#include "muster/federated/federated_listener.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "federated.grpc.pb.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/text.h"
#include "muster/control/audit.h"
#include "muster/control/credentials.h"
#include "muster/control/tcp_gate.h"
#include "muster/control/wire.h"
#include "muster/federated/federated_wire.h"

namespace muster::federated {
namespace {

constexpr int kMostFederatedThreads = 320;
constexpr int kMostFederatedWaits = 256;
constexpr int kMostFederatedMetadataBytes = 4 * 1024;

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
  explicit Parts(std::function<void(const std::string&)> its_note) : note(std::move(its_note)) {}

  const std::function<void(const std::string&)> note;
  Log log{LogLevel::kWarning};
  control::Audit audit{[this](const std::string& line, bool refusal) {
    if (refusal) log.warning(line);  // people should see it
    note(line);
  }};
  std::optional<control::ServerTrust> trust;
  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<grpc::Server> server;  // ended before the service
  std::optional<control::TcpGate> gate;
};

FederatedListener::FederatedListener(const std::vector<OfferedModel>& models, const control::ClusterListen& listen)
    : parts_(std::make_unique<Parts>(listen.note)) {
  control::is_loopback(listen.address);  // throws for what is no address
  if (listen.trust.any() && listen.trust.certs.empty())
    throw Error(ErrorKind::kInvalidInput, "a token does not tell one client from another", {},
                "Give --certs: `muster certs add CERTS client NAME` makes a client's certificate.");
  if (listen.trust.any()) parts_->trust.emplace(control::make_server_trust(listen.trust, parts_->audit));
  parts_->service =
      std::make_unique<FederatedService>(models, parts_->trust ? parts_->trust->authorize : AuthorizeCall(),
                                         parts_->trust ? parts_->trust->identify : Identify(), parts_->note);
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(kMostFederatedThreads);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  builder.SetMaxReceiveMessageSize(kMostMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMostFederatedMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  int port = 0;
  if (parts_->trust) {
    control::limit_strangers(builder);
    parts_->gate.emplace(builder, listen.address, *parts_->trust, parts_->audit);
  } else {
    builder.AddListeningPort(listen.address, grpc::InsecureServerCredentials(), &port);
  }
  builder.RegisterService(parts_->service.get());
  parts_->server = builder.BuildAndStart();
  if (!parts_->server || (port == 0 && !parts_->gate))
    throw Error(ErrorKind::kIo, "cannot listen for clients", listen.address,
                "Is it an address of this machine, and is the port free?");
  address_ = parts_->gate ? parts_->gate->address()
                          : fmt::format("{}:{}", listen.address.substr(0, listen.address.rfind(':')), port);
  if (parts_->gate) parts_->gate->open();
}

FederatedListener::~FederatedListener() {
  parts_->gate.reset();
  parts_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  parts_->server->Wait();
}

}  // namespace muster::federated
