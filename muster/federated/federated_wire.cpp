// Field by field, under the names of the contract. What a server says that this version does not know is taken for
// "wait" or "go on": later versions only add.
#include "muster/federated/federated_wire.h"

#include <algorithm>

namespace muster::federated {

Offer from_wire(const v1::OfferedModel& offered) {
  return {.name = offered.name(),
          .model_floats = offered.model_floats(),
          .source = offered.source(),
          .task = offered.task()};
}

void to_wire(const Offer& offer, v1::OfferedModel& offered) {
  offered.set_name(offer.name);
  offered.set_model_floats(offer.model_floats);
  offered.set_source(offer.source);
  offered.set_task(offer.task);
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

}  // namespace muster::federated
