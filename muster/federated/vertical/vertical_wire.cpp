// What a later version may say and this one does not know is read as the cautious word: to wait. Floats are copied as
// they lie in memory.
#include "muster/federated/vertical/vertical_wire.h"

#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::federated {

static_assert(std::endian::native == std::endian::little);

PartyWish from_wire(const vertical_v1::MeetRequest& request) {
  return {.attempt = request.attempt(),
          .width = request.width(),
          .ids = request.ids(),
          .alignment = request.alignment(),
          .checkpoints = {request.checkpoints().begin(), request.checkpoints().end()},
          .seat = request.seat(),
          .life = request.life(),
          .net = request.has_net() ? std::optional(NetMark{request.net().alignment(), request.net().epochs()})
                                   : std::nullopt};
}

void to_wire(const PartyWish& wish, vertical_v1::MeetRequest& request) {
  request.set_attempt(wish.attempt);
  request.set_width(wish.width);
  request.set_ids(wish.ids);
  request.set_alignment(wish.alignment);
  for (const std::uint64_t step : wish.checkpoints)
    request.add_checkpoints(step);
  request.set_seat(wish.seat);
  request.set_life(wish.life);
  if (!wish.net) return;
  request.mutable_net()->set_alignment(wish.net->alignment);
  request.mutable_net()->set_epochs(wish.net->epochs);
}

PartyOrder from_wire(const vertical_v1::MeetReply& reply) {
  PartyOrder order{.run = reply.run(), .session = reply.session()};
  switch (reply.what_case()) {
    case vertical_v1::MeetReply::kAlign:
      order.what = PartyOrder::What::kAlign;
      break;
    case vertical_v1::MeetReply::kTrain: {
      const vertical_v1::Train& train = reply.train();
      order.what = PartyOrder::What::kTrain;
      order.alignment = train.alignment();
      order.plan = {.train_rows = train.train_rows(),
                    .test_rows = train.test_rows(),
                    .batch = train.batch(),
                    .epochs = train.epochs(),
                    .seed = train.seed(),
                    .checkpoint_steps = train.checkpoint_steps()};
      order.step = train.step();
      break;
    }
    case vertical_v1::MeetReply::kDone:
      order.what = PartyOrder::What::kDone;
      break;
    default:
      order.reason = reply.wait().reason();
  }
  return order;
}

void to_wire(const PartyOrder& order, vertical_v1::MeetReply& reply) {
  reply.set_run(order.run);
  reply.set_session(order.session);
  switch (order.what) {
    case PartyOrder::What::kWait:
      reply.mutable_wait()->set_reason(order.reason);
      return;
    case PartyOrder::What::kAlign:
      reply.mutable_align();
      return;
    case PartyOrder::What::kDone:
      reply.mutable_done();
      return;
    case PartyOrder::What::kTrain:
      vertical_v1::Train& train = *reply.mutable_train();
      train.set_alignment(order.alignment);
      train.set_train_rows(order.plan.train_rows);
      train.set_test_rows(order.plan.test_rows);
      train.set_batch(order.plan.batch);
      train.set_epochs(order.plan.epochs);
      train.set_seed(order.plan.seed);
      train.set_checkpoint_steps(order.plan.checkpoint_steps);
      train.set_step(order.step);
  }
}

Standing from_wire(vertical_v1::Standing standing) {
  if (standing == vertical_v1::DONE) return Standing::kDone;
  return standing == vertical_v1::MEET_AGAIN ? Standing::kMeetAgain : Standing::kWait;
}

vertical_v1::Standing to_wire(Standing standing) {
  if (standing == Standing::kDone) return vertical_v1::DONE;
  return standing == Standing::kMeetAgain ? vertical_v1::MEET_AGAIN : vertical_v1::WAIT;
}

std::vector<float> floats_in(const std::string& bytes) {
  if (bytes.size() % sizeof(float) != 0)
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} bytes are no 32-bit floats", bytes.size()),
                "vertical training", "Both sides need the same version of Muster.");
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::string bytes_of_floats(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace muster::federated
