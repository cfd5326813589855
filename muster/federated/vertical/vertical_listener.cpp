// Each call: may the caller, who is it, translate, ask, translate back. What is refused stands in the audit as well:
// who knocked with which name, and how often.
#include "muster/federated/vertical/vertical_listener.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/control/credentials.h"
#include "muster/control/guarded_port.h"
#include "muster/control/wire.h"
#include "muster/federated/vertical/vertical_wire.h"
#include "vertical.grpc.pb.h"

namespace muster::federated {
namespace {

constexpr int kMostVerticalThreads = 128;  // a call of each party waits in one

using IdentifyParty = std::function<std::optional<control::CallerIdentity>(const grpc::ServerContextBase&)>;

std::chrono::milliseconds bounded(std::uint64_t wanted_ms) {
  return std::chrono::milliseconds(
      std::min<std::uint64_t>(wanted_ms, static_cast<std::uint64_t>(kLongestVerticalWait.count())));
}

class VerticalService final : public vertical_v1::Vertical::Service {
 public:
  VerticalService(VerticalCalls& calls, control::AuthorizeCall authorize, IdentifyParty identify, control::Audit& audit)
      : calls_(calls), authorize_(std::move(authorize)), identify_(std::move(identify)), audit_(audit) {}

  grpc::Status Meet(grpc::ServerContext* context, const vertical_v1::MeetRequest* request,
                    vertical_v1::MeetReply* reply) override {
    return answer(*context, "Meet", request->name(), [&](const std::string& name) {
      to_wire(calls_.meet(name, from_wire(*request), bounded(request->wait_ms())), *reply);
    });
  }

  grpc::Status ReadPoints(grpc::ServerContext* context, const vertical_v1::ReadPointsRequest* request,
                          vertical_v1::ReadPointsReply* reply) override {
    return answer(*context, "ReadPoints", request->name(), [&](const std::string& name) {
      const PointsPart part =
          calls_.read_points(name, request->session(), request->offset(), bounded(request->wait_ms()));
      reply->set_standing(to_wire(part.standing));
      reply->set_data(part.data.data(), part.data.size());
      reply->set_total(part.total);
    });
  }

  grpc::Status SendPoints(grpc::ServerContext* context, const vertical_v1::SendPointsRequest* request,
                          vertical_v1::SendPointsReply* reply) override {
    return answer(*context, "SendPoints", request->name(), [&](const std::string& name) {
      const PointsKind kind =
          request->kind() == vertical_v1::SendPointsRequest::OWN ? PointsKind::kOwn : PointsKind::kRaised;
      const PointsTaken taken = calls_.send_points(name, request->session(), kind, request->total(), request->offset(),
                                                   std::as_bytes(std::span(request->data())));
      reply->set_standing(to_wire(taken.standing));
      reply->set_bytes(taken.bytes);
    });
  }

  grpc::Status ReadPlaces(grpc::ServerContext* context, const vertical_v1::ReadPlacesRequest* request,
                          vertical_v1::ReadPlacesReply* reply) override {
    return answer(*context, "ReadPlaces", request->name(), [&](const std::string& name) {
      const PlacesPart part =
          calls_.read_places(name, request->session(), request->offset(), bounded(request->wait_ms()));
      reply->set_standing(to_wire(part.standing));
      for (const std::uint64_t place : part.places)
        reply->add_places(place);
      reply->set_total(part.total);
      reply->set_train_rows(part.train_rows);
      reply->set_alignment(part.alignment);
    });
  }

  grpc::Status Exchange(grpc::ServerContext* context, const vertical_v1::ExchangeRequest* request,
                        vertical_v1::ExchangeReply* reply) override {
    return answer(*context, "Exchange", request->name(), [&](const std::string& name) {
      const StepAnswer step = calls_.exchange(name, request->session(), request->step(),
                                              floats_in(request->activations()), bounded(request->wait_ms()));
      reply->set_standing(to_wire(step.standing));
      reply->set_gradient(bytes_of_floats(step.gradient));
    });
  }

  grpc::Status GiveUp(grpc::ServerContext* context, const vertical_v1::GiveUpRequest* request,
                      vertical_v1::GiveUpReply*) override {
    return answer(*context, "GiveUp", request->name(),
                  [&](const std::string& name) { calls_.give_up(name, request->seat(), request->reason()); });
  }

 private:
  template <typename Body>
  grpc::Status answer(const grpc::ServerContext& context, std::string_view call, const std::string& said,
                      const Body& body) {
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
      if (error.kind() == ErrorKind::kInvalidInput)
        audit_.refused({.who = fmt::format("\"{}\"", name), .what = call, .from = context.peer()}, error.message());
      return control::to_status(error);
    } catch (const std::exception& error) {
      return {grpc::StatusCode::INTERNAL, error.what()};
    }
  }

  VerticalCalls& calls_;
  const control::AuthorizeCall authorize_;
  const IdentifyParty identify_;
  control::Audit& audit_;  // which limits what strangers can make it write
};

}  // namespace

struct VerticalListener::Parts {
  explicit Parts(const control::ClusterListen& listen) : port(listen) {}
  control::GuardedPort port;
};

VerticalListener::VerticalListener(VerticalCalls& calls, const control::ClusterListen& listen) {
  if (listen.trust.any() && listen.trust.certs.empty())
    throw Error(ErrorKind::kInvalidInput, "a token does not tell one party from another", {},
                "Give --certs: `muster certs add CERTS client NAME` makes a party's certificate.");
  parts_ = std::make_unique<Parts>(listen);
  control::GuardedPort& port = parts_->port;
  port.open(
      std::make_unique<VerticalService>(calls, port.authorize(),
                                        port.trust() ? port.trust()->identify : IdentifyParty(), port.audit()),
      [](grpc::ServerBuilder& builder) {
        control::limit_server(builder, {.threads = kMostVerticalThreads, .request_bytes = kMostVerticalBytes});
        // Without certificates, too: connections that say nothing do not stay.
        control::limit_strangers(builder);
      },
      "parties");
}

VerticalListener::~VerticalListener() = default;

const std::string& VerticalListener::address() const {
  return parts_->port.address();
}

}  // namespace muster::federated
