// Field by field, under the names of the contract. What a server says that this version does not know is taken for
// "wait" or "go on": later versions only add.
#include "muster/federated/federated_wire.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::federated {
namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::array<std::byte, 32> thirty_two(const std::string& text, const char* what) {
  std::array<std::byte, 32> bytes;
  if (text.size() != bytes.size())
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("a {} of {} bytes instead of {}", what, text.size(), bytes.size()));
  std::memcpy(bytes.data(), text.data(), bytes.size());
  return bytes;
}

KeyAdvert from_wire(const v1::SecureKeys& keys) {
  return {.client = keys.client(),
          .seal_key = thirty_two(keys.seal_key(), "seal key"),
          .mask_key = thirty_two(keys.mask_key(), "mask key"),
          .commitment = thirty_two(keys.commitment(), "commitment"),
          .certificate = keys.certificate(),
          .signature = keys.signature()};
}

void to_wire(const KeyAdvert& advert, v1::SecureKeys& keys) {
  keys.set_client(advert.client);
  keys.set_seal_key(text_of(advert.seal_key));
  keys.set_mask_key(text_of(advert.mask_key));
  keys.set_commitment(text_of(advert.commitment));
  keys.set_certificate(advert.certificate);
  keys.set_signature(advert.signature);
}

SealedShare from_wire(const v1::SealedShare& share) {
  const auto bytes = std::as_bytes(std::span(share.sealed()));
  return {share.client(), {bytes.begin(), bytes.end()}};
}

void to_wire(const SealedShare& share, v1::SealedShare& out) {
  out.set_client(share.client);
  out.set_sealed(text_of(share.sealed));
}

UnmaskShare from_wire(const v1::UnmaskShare& share) {
  UnmaskShare result{.client = share.client(), .of_mask_key = share.of_mask_key()};
  if (share.limbs_size() != static_cast<int>(kShareLimbs))
    throw Error(ErrorKind::kInvalidInput, fmt::format("a share of {} limbs", share.limbs_size()));
  std::ranges::copy(share.limbs(), result.share.begin());
  return result;
}

}  // namespace

Offer from_wire(const v1::OfferedModel& offered) {
  return {.name = offered.name(),
          .model_floats = offered.model_floats(),
          .source = offered.source(),
          .task = offered.task(),
          .narrower_floats = {offered.narrower_floats().begin(), offered.narrower_floats().end()}};
}

void to_wire(const Offer& offer, v1::OfferedModel& offered) {
  offered.set_name(offer.name);
  offered.set_model_floats(offer.model_floats);
  offered.set_source(offer.source);
  offered.set_task(offer.task);
  offered.mutable_narrower_floats()->Assign(offer.narrower_floats.begin(), offer.narrower_floats.end());
}

EnrolWish from_wire(const v1::EnrolRequest& request) {
  EnrolWish wish{.software = request.software(), .submodel = request.submodel()};
  if (request.has_wanted_number()) wish.number = request.wanted_number();
  return wish;
}

void to_wire(const std::string& name, const EnrolWish& wish, v1::EnrolRequest& request) {
  request.set_name(name);
  if (wish.number) request.set_wanted_number(*wish.number);
  request.set_software(wish.software);
  request.set_submodel(wish.submodel);
}

Enrolled from_wire(const v1::EnrolReply& reply) {
  Enrolled enrolled{.number = reply.number(),
                    .run = reply.run(),
                    .job = reply.job(),
                    .data_form = reply.data_form(),
                    .model_floats = reply.model_floats(),
                    .parameters = reply.parameters(),
                    .chunk_bytes = std::clamp<std::uint64_t>(reply.chunk_bytes(), 1, kMostChunkBytes),
                    .silence_seconds = reply.silence_seconds()};
  for (const v1::Tensor& tensor : reply.tensors())
    enrolled.tensors.push_back({tensor.name(), {tensor.shape().begin(), tensor.shape().end()}, tensor.offset()});
  return enrolled;
}

void to_wire(const Enrolled& enrolled, v1::EnrolReply& reply) {
  reply.set_number(enrolled.number);
  reply.set_run(enrolled.run);
  reply.set_job(enrolled.job);
  reply.set_data_form(enrolled.data_form);
  reply.set_model_floats(enrolled.model_floats);
  reply.set_parameters(enrolled.parameters);
  reply.set_chunk_bytes(enrolled.chunk_bytes);
  reply.set_silence_seconds(enrolled.silence_seconds);
  for (const TensorPlace& place : enrolled.tensors) {
    v1::Tensor& tensor = *reply.add_tensors();
    tensor.set_name(place.name);
    tensor.mutable_shape()->Assign(place.shape.begin(), place.shape.end());
    tensor.set_offset(place.offset);
  }
}

TaskAnswer from_wire(const v1::NextTaskReply& reply) {
  TaskAnswer answer;
  if (reply.has_task()) {
    const v1::Task& task = reply.task();
    answer.kind = TaskAnswer::Kind::kTask;
    answer.task = {.round = task.round(),
                   .local_epochs = static_cast<std::int64_t>(task.local_epochs()),
                   .rate = task.rate(),
                   .prox = task.prox(),
                   .controls = task.controls(),
                   .kept_before = task.kept_before(),
                   .clip = task.clip(),
                   .compress = task.compress().empty() ? "none" : task.compress()};
    if (task.has_secure())
      answer.task.secure = SecureTask{.threshold = task.secure().threshold(),
                                      .most_clients = task.secure().most_clients(),
                                      .range = task.secure().range(),
                                      .most_samples = task.secure().most_samples(),
                                      .noise = task.secure().noise()};
  } else if (reply.has_finished()) {
    answer.kind = TaskAnswer::Kind::kFinished;
    answer.reason = reply.finished().reason();
  } else {
    answer.reason = reply.wait().reason();
    answer.again = std::chrono::milliseconds(std::min<std::uint64_t>(reply.wait().again_ms(), 60'000));
  }
  return answer;
}

void to_wire(const TaskAnswer& answer, v1::NextTaskReply& reply) {
  switch (answer.kind) {
    case TaskAnswer::Kind::kTask: {
      v1::Task& task = *reply.mutable_task();
      task.set_round(answer.task.round);
      task.set_local_epochs(static_cast<std::uint64_t>(answer.task.local_epochs));
      task.set_rate(answer.task.rate);
      task.set_prox(answer.task.prox);
      task.set_controls(answer.task.controls);
      task.set_kept_before(answer.task.kept_before);
      task.set_clip(answer.task.clip);
      task.set_compress(answer.task.compress);
      if (const auto& secure = answer.task.secure) {
        task.mutable_secure()->set_threshold(secure->threshold);
        task.mutable_secure()->set_most_clients(secure->most_clients);
        task.mutable_secure()->set_range(secure->range);
        task.mutable_secure()->set_most_samples(secure->most_samples);
        task.mutable_secure()->set_noise(secure->noise);
      }
      break;
    }
    case TaskAnswer::Kind::kFinished:
      reply.mutable_finished()->set_reason(answer.reason);
      break;
    case TaskAnswer::Kind::kWait:
      reply.mutable_wait()->set_reason(answer.reason);
      reply.mutable_wait()->set_again_ms(static_cast<std::uint64_t>(answer.again.count()));
      break;
  }
}

UpdateChunk from_wire(const v1::SendUpdateRequest& request) {
  return {.round = request.round(),
          .digest = request.digest(),
          .total_bytes = request.total_bytes(),
          .offset = request.offset(),
          .data = std::as_bytes(std::span(request.data())),
          .samples = request.samples(),
          .loss = request.loss(),
          .test = {.samples = request.tested(),
                   .loss = request.test_loss(),
                   .metric = request.test_metric(),
                   .metric_name = request.metric_name()}};
}

void to_wire(const std::string& name, const UpdateChunk& chunk, v1::SendUpdateRequest& request) {
  request.set_name(name);
  request.set_round(chunk.round);
  request.set_digest(chunk.digest);
  request.set_total_bytes(chunk.total_bytes);
  request.set_offset(chunk.offset);
  request.set_data(chunk.data.data(), chunk.data.size());
  request.set_samples(chunk.samples);
  request.set_loss(chunk.loss);
  request.set_tested(chunk.test.samples);
  request.set_test_loss(chunk.test.loss);
  request.set_test_metric(chunk.test.metric);
  request.set_metric_name(chunk.test.metric_name);
}

UpdateAnswer from_wire(const v1::SendUpdateReply& reply) {
  using Verdict = UpdateAnswer::Verdict;
  UpdateAnswer answer{.received = reply.received(), .reason = reply.reason()};
  switch (reply.verdict()) {
    case v1::SendUpdateReply::ACCEPTED:
      answer.verdict = Verdict::kAccepted;
      break;
    case v1::SendUpdateReply::REFUSED:
      answer.verdict = Verdict::kRefused;
      break;
    case v1::SendUpdateReply::LATE:
      answer.verdict = Verdict::kLate;
      break;
    default:
      answer.verdict = Verdict::kPartial;
  }
  return answer;
}

void to_wire(const UpdateAnswer& answer, v1::SendUpdateReply& reply) {
  reply.set_received(answer.received);
  reply.set_reason(answer.reason);
  switch (answer.verdict) {
    case UpdateAnswer::Verdict::kPartial:
      reply.set_verdict(v1::SendUpdateReply::PARTIAL);
      break;
    case UpdateAnswer::Verdict::kAccepted:
      reply.set_verdict(v1::SendUpdateReply::ACCEPTED);
      break;
    case UpdateAnswer::Verdict::kRefused:
      reply.set_verdict(v1::SendUpdateReply::REFUSED);
      break;
    case UpdateAnswer::Verdict::kLate:
      reply.set_verdict(v1::SendUpdateReply::LATE);
      break;
  }
}

SecureMessage from_wire(const v1::SecureStepRequest& request) {
  SecureMessage message{.round = request.round(),
                        .step = static_cast<SecureStep>(std::clamp<int>(request.step(), 0, 5)),
                        .says = request.says(),
                        .signature = request.signature(),
                        .reason = request.reason()};
  if (request.has_keys()) message.keys = from_wire(request.keys());
  for (const v1::SealedShare& share : request.shares())
    message.shares.push_back(from_wire(share));
  for (const v1::UnmaskShare& share : request.unmask())
    message.unmask.push_back(from_wire(share));
  return message;
}

void to_wire(const std::string& name, const SecureMessage& message, v1::SecureStepRequest& request) {
  request.set_name(name);
  request.set_round(message.round);
  request.set_step(static_cast<v1::SecureStepRequest::Step>(message.step));
  request.set_says(message.says);
  request.set_reason(message.reason);
  if (!message.says) return;
  if (message.step == SecureStep::kKeys) to_wire(message.keys, *request.mutable_keys());
  for (const SealedShare& share : message.shares)
    to_wire(share, *request.add_shares());
  request.set_signature(message.signature);
  for (const UnmaskShare& share : message.unmask) {
    v1::UnmaskShare& out = *request.add_unmask();
    out.set_client(share.client);
    out.set_of_mask_key(share.of_mask_key);
    out.mutable_limbs()->Assign(share.share.begin(), share.share.end());
  }
}

SecureAnswer from_wire(const v1::SecureStepReply& reply) {
  SecureAnswer answer{.verdict = static_cast<SecureAnswer::Verdict>(std::clamp<int>(reply.verdict(), 0, 3)),
                      .reason = reply.reason()};
  answer.keys.threshold = reply.threshold();
  for (const v1::SecureKeys& keys : reply.keys())
    answer.keys.adverts.push_back(from_wire(keys));
  for (const v1::SealedShare& share : reply.shares())
    answer.shares.push_back(from_wire(share));
  answer.survivors.assign(reply.survivors().begin(), reply.survivors().end());
  for (const v1::SignedAgreement& one : reply.agreements())
    answer.agreements.push_back({one.client(), one.signature()});
  return answer;
}

void to_wire(const SecureAnswer& answer, v1::SecureStepReply& reply) {
  reply.set_verdict(static_cast<v1::SecureStepReply::Verdict>(answer.verdict));
  reply.set_reason(answer.reason);
  reply.set_threshold(answer.keys.threshold);
  for (const KeyAdvert& advert : answer.keys.adverts)
    to_wire(advert, *reply.add_keys());
  for (const SealedShare& share : answer.shares)
    to_wire(share, *reply.add_shares());
  reply.mutable_survivors()->Assign(answer.survivors.begin(), answer.survivors.end());
  for (const SignedAgreement& one : answer.agreements) {
    v1::SignedAgreement& out = *reply.add_agreements();
    out.set_client(one.client);
    out.set_signature(one.signature);
  }
}

}  // namespace muster::federated
