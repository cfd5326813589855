// One stub, a deadline for each call: what it waits at the other side, and what its bytes take over a slow line. Who
// calls tries again.
#include "muster/federated/vertical/vertical_stub.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "muster/control/attendant.h"
#include "muster/federated/client_channel.h"
#include "muster/federated/vertical/vertical_wire.h"
#include "vertical.grpc.pb.h"

namespace muster::federated {
namespace {

constexpr std::chrono::seconds kShortVerticalCall{20};
constexpr std::chrono::seconds kLastVerticalCall{2};
constexpr std::chrono::seconds kLongVerticalCall{120};  // 1 MiB at 70 kbit/s

class VerticalStub final : public VerticalCalls {
 public:
  VerticalStub(std::string where, const std::shared_ptr<grpc::Channel>& channel)
      : where_(std::move(where)), stub_(vertical_v1::Vertical::NewStub(channel)), attendant_(channel) {}

  PartyOrder meet(const std::string& name, const PartyWish& wish, std::chrono::milliseconds wait) override {
    vertical_v1::MeetRequest request;
    request.set_name(name);
    to_wire(wish, request);
    request.set_wait_ms(static_cast<std::uint64_t>(wait.count()));
    vertical_v1::MeetReply reply;
    call(kShortVerticalCall + wait,
         [&](grpc::ClientContext& context) { return stub_->Meet(&context, request, &reply); });
    return from_wire(reply);
  }

  PointsPart read_points(const std::string& name, std::uint64_t session, std::uint64_t offset,
                         std::chrono::milliseconds wait) override {
    vertical_v1::ReadPointsRequest request;
    request.set_name(name);
    request.set_session(session);
    request.set_offset(offset);
    request.set_wait_ms(static_cast<std::uint64_t>(wait.count()));
    vertical_v1::ReadPointsReply reply;
    call(kLongVerticalCall + wait,
         [&](grpc::ClientContext& context) { return stub_->ReadPoints(&context, request, &reply); });
    const auto data = std::as_bytes(std::span(reply.data()));
    return {.standing = from_wire(reply.standing()), .data = {data.begin(), data.end()}, .total = reply.total()};
  }

  PointsTaken send_points(const std::string& name, std::uint64_t session, PointsKind kind, std::uint64_t total,
                          std::uint64_t offset, std::span<const std::byte> data) override {
    vertical_v1::SendPointsRequest request;
    request.set_name(name);
    request.set_session(session);
    request.set_kind(kind == PointsKind::kOwn ? vertical_v1::SendPointsRequest::OWN
                                              : vertical_v1::SendPointsRequest::RAISED);
    request.set_total(total);
    request.set_offset(offset);
    request.set_data(data.data(), data.size());
    vertical_v1::SendPointsReply reply;
    call(kLongVerticalCall, [&](grpc::ClientContext& context) { return stub_->SendPoints(&context, request, &reply); });
    return {.standing = from_wire(reply.standing()), .bytes = reply.bytes()};
  }

  PlacesPart read_places(const std::string& name, std::uint64_t session, std::uint64_t offset,
                         std::chrono::milliseconds wait) override {
    vertical_v1::ReadPlacesRequest request;
    request.set_name(name);
    request.set_session(session);
    request.set_offset(offset);
    request.set_wait_ms(static_cast<std::uint64_t>(wait.count()));
    vertical_v1::ReadPlacesReply reply;
    call(kLongVerticalCall + wait,
         [&](grpc::ClientContext& context) { return stub_->ReadPlaces(&context, request, &reply); });
    return {.standing = from_wire(reply.standing()),
            .places = {reply.places().begin(), reply.places().end()},
            .total = reply.total(),
            .train_rows = reply.train_rows(),
            .alignment = reply.alignment()};
  }

  StepAnswer exchange(const std::string& name, std::uint64_t session, std::uint64_t step,
                      std::span<const float> activations, std::chrono::milliseconds wait) override {
    vertical_v1::ExchangeRequest request;
    request.set_name(name);
    request.set_session(session);
    request.set_step(step);
    request.set_activations(bytes_of_floats(activations));
    request.set_wait_ms(static_cast<std::uint64_t>(wait.count()));
    vertical_v1::ExchangeReply reply;
    call(kLongVerticalCall + wait,
         [&](grpc::ClientContext& context) { return stub_->Exchange(&context, request, &reply); });
    return {.standing = from_wire(reply.standing()), .gradient = floats_in(reply.gradient())};
  }

  void give_up(const std::string& name, const std::string& seat, const std::string& reason) override {
    vertical_v1::GiveUpRequest request;
    request.set_name(name);
    request.set_seat(seat);
    request.set_reason(reason);
    vertical_v1::GiveUpReply reply;
    call(kLastVerticalCall, [&](grpc::ClientContext& context) { return stub_->GiveUp(&context, request, &reply); });
  }

 private:
  template <typename Call>
  void call(std::chrono::milliseconds longest, const Call& call) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + longest);
    require_answer(call(context), where_);
  }

  const std::string where_;
  const std::unique_ptr<vertical_v1::Vertical::Stub> stub_;
  const control::Attendant attendant_;
};

}  // namespace

std::unique_ptr<VerticalCalls> make_vertical_stub(const control::ClusterTarget& target) {
  return std::make_unique<VerticalStub>(target.address, make_client_channel(target));
}

}  // namespace muster::federated
