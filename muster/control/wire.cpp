// Field by field, in both directions side by side. Errors travel as a status with their kind, place and remedy, so that
// a client throws the very error that the server met.
#include "muster/control/wire.h"

#include <fmt/format.h>

#include "muster/base/text.h"

namespace muster::control {
namespace {

constexpr std::size_t kMostTextBytes = 4096;

// Texts on the wire are UTF-8, whatever a path or a message holds.
std::string clean(const std::string& text) {
  return excerpt(text, kMostTextBytes);
}

std::optional<ErrorKind> kind_named(const std::string& name) {
  for (int kind = 0; kind <= static_cast<int>(ErrorKind::kInterrupted); ++kind)
    if (to_string(static_cast<ErrorKind>(kind)) == name) return static_cast<ErrorKind>(kind);
  return std::nullopt;
}

grpc::StatusCode code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidInput:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case ErrorKind::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case ErrorKind::kMismatch:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case ErrorKind::kUnsupported:
      return grpc::StatusCode::UNIMPLEMENTED;
    case ErrorKind::kResource:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case ErrorKind::kPeerLost:
      return grpc::StatusCode::UNAVAILABLE;
    case ErrorKind::kTimeout:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    default:
      return grpc::StatusCode::INTERNAL;
  }
}

}  // namespace

void to_wire(const JobStatus& status, v1::StatusReply& reply) {
  reply.set_job(clean(status.job));
  reply.set_run(clean(status.run));
  reply.set_state(clean(status.state));
  reply.set_reason(clean(status.reason));
  reply.set_generation(status.generation);
  reply.set_step(status.step);
  reply.set_total_steps(status.total_steps);
  reply.set_epoch(status.epoch);
  reply.set_samples_per_second(status.samples_per_second);
  reply.set_min_workers(status.min_workers);
  reply.set_max_workers(status.max_workers);
  reply.set_target_workers(status.target_workers);
  reply.set_min_servers(status.min_servers);
  reply.set_max_servers(status.max_servers);
  reply.set_target_servers(status.target_servers);
  reply.set_servers(status.servers);
  reply.set_leaving_servers(status.leaving_servers);
  reply.set_coordinator_pid(status.coordinator_pid);
  for (const Worker& member : status.members) {
    v1::Member& out = *reply.add_members();
    out.set_rank(member.rank);
    out.set_pid(member.process.pid);
    out.set_start_time(member.process.start_time);
    out.set_state(std::string(to_string(member.state)));
    out.set_restarts(member.restarts);
    if (member.lane) out.set_lane(*member.lane);
    if (member.step) out.set_step(*member.step);
    out.set_waits_for(clean(member.waits_for));
    out.set_seconds(member.seconds);
    out.set_stage(clean(member.stage));
  }
  for (const HostStatus& host : status.hosts) {
    v1::Host& out = *reply.add_hosts();
    out.set_number(host.number);
    out.set_name(clean(host.name));
    out.set_workers(host.workers);
    out.set_first_lane(host.first_lane);
    out.set_last_lane(host.last_lane);
    out.set_step(host.step);
    out.set_silent_seconds(host.silent_seconds);
    out.set_place(clean(host.place));
    if (host.checkpoint) out.set_checkpoint(*host.checkpoint);
    out.set_alarm(clean(host.alarm));
  }
  reply.set_job_generation(status.job_generation);
  reply.set_coordinator_host(clean(status.coordinator_host));
  reply.set_started(clean(status.started));
  for (const Change& change : status.changes) {
    v1::JobChange& out = *reply.add_changes();
    out.set_number(change.number);
    out.set_assignment(clean(change.assignment));
    if (change.applied_at_step) out.set_applied_at_step(*change.applied_at_step);
  }
  for (const std::string& alarm : status.alarms)
    reply.add_alarms(clean(alarm));
}

JobStatus from_wire(const v1::StatusReply& reply) {
  JobStatus status;
  status.job = reply.job();
  status.run = reply.run();
  status.state = reply.state();
  status.reason = reply.reason();
  status.generation = reply.generation();
  status.step = reply.step();
  status.total_steps = reply.total_steps();
  status.epoch = reply.epoch();
  status.samples_per_second = reply.samples_per_second();
  status.min_workers = reply.min_workers();
  status.max_workers = reply.max_workers();
  status.target_workers = reply.target_workers();
  status.min_servers = reply.min_servers();
  status.max_servers = reply.max_servers();
  status.target_servers = reply.target_servers();
  status.servers = reply.servers();
  status.leaving_servers = reply.leaving_servers();
  status.coordinator_pid = reply.coordinator_pid();
  for (const v1::Member& member : reply.members()) {
    Worker& out = status.members.emplace_back();
    out.rank = member.rank();
    out.process = {member.pid(), member.start_time()};
    out.state = worker_state_named(member.state()).value_or(WorkerState::kEmpty);
    out.restarts = member.restarts();
    if (member.has_lane()) out.lane = member.lane();
    if (member.has_step()) out.step = member.step();
    out.waits_for = member.waits_for();
    out.seconds = member.seconds();
    out.stage = member.stage();
  }
  for (const v1::Host& host : reply.hosts()) {
    HostStatus& out =
        status.hosts.emplace_back(HostStatus{host.number(), host.name(), host.workers(), host.first_lane(),
                                             host.last_lane(), host.step(), host.silent_seconds(), host.place()});
    if (host.has_checkpoint()) out.checkpoint = host.checkpoint();
    out.alarm = host.alarm();
  }
  status.job_generation = reply.job_generation();
  status.coordinator_host = reply.coordinator_host();
  status.started = reply.started();
  for (const v1::JobChange& change : reply.changes()) {
    Change& out = status.changes.emplace_back();
    out.number = change.number();
    out.assignment = change.assignment();
    if (change.has_applied_at_step()) out.applied_at_step = change.applied_at_step();
  }
  status.alarms.assign(reply.alarms().begin(), reply.alarms().end());
  return status;
}

void to_wire(const WantedState& wanted, v1::WantedReply& reply) {
  reply.set_min_workers(wanted.min_workers);
  reply.set_max_workers(wanted.max_workers);
  reply.set_target_workers(wanted.target_workers);
  reply.set_stop(wanted.stop);
  reply.set_min_servers(wanted.min_servers);
  reply.set_max_servers(wanted.max_servers);
  reply.set_target_servers(wanted.target_servers);
}

WantedState from_wire(const v1::WantedReply& reply) {
  return {reply.min_workers(), reply.max_workers(), reply.target_workers(), reply.stop(),
          reply.min_servers(), reply.max_servers(), reply.target_servers()};
}

Scaling scaling_of(const v1::ScaleRequest& request) {
  Scaling scaling;
  if (request.has_workers()) scaling.workers = request.workers();
  if (request.has_servers()) scaling.servers = request.servers();
  return scaling;
}

void to_wire(const std::string& request, const Scaling& scaling, v1::ScaleRequest& message) {
  message.set_request(request);
  if (scaling.workers) message.set_workers(*scaling.workers);
  if (scaling.servers) message.set_servers(*scaling.servers);
}

void to_wire(const Change& change, v1::SetReply& reply) {
  reply.set_number(change.number);
  if (change.applied_at_step) reply.set_applied_at_step(*change.applied_at_step);
}

Change from_wire(const v1::SetReply& reply, const std::string& assignment) {
  Change change{reply.number(), assignment, std::nullopt};
  if (reply.has_applied_at_step()) change.applied_at_step = reply.applied_at_step();
  return change;
}

grpc::Status to_status(const Error& error) {
  v1::ErrorDetail detail;
  detail.set_kind(std::string(to_string(error.kind())));
  detail.set_message(clean(error.message()));
  detail.set_where(clean(error.where()));
  detail.set_remedy(clean(error.remedy()));
  return {code_of(error.kind()), excerpt(error.what(), 512), detail.SerializeAsString()};
}

Error from_status(const grpc::Status& status, const std::string& where) {
  v1::ErrorDetail detail;
  if (!status.error_details().empty() && detail.ParseFromString(status.error_details()))
    if (const std::optional<ErrorKind> kind = kind_named(detail.kind()))
      return Error(*kind, detail.message(), detail.where(), detail.remedy());
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return Error(ErrorKind::kPeerLost, "the coordinator went away during the call", where, "Try again.");
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Error(ErrorKind::kTimeout, "the coordinator did not answer in time", where,
                   "It may be stopped or overloaded; a command may or may not have taken effect, and may be repeated.");
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return Error(ErrorKind::kResource, excerpt(status.error_message(), 200), where);
    case grpc::StatusCode::UNIMPLEMENTED:
      return Error(ErrorKind::kUnsupported, "the coordinator does not know this command", where,
                   "It was started by another version of Muster: use that one.");
    default:
      return Error(ErrorKind::kIo, fmt::format("the call failed ({})", excerpt(status.error_message(), 200)), where);
  }
}

}  // namespace muster::control
