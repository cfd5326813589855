// A call is tried again with the same request id until it was answered or the deadline passes: between coordinators
// nobody listens for a moment. The token is shown only to a process of the user it belongs to.
#include "muster/control/control_client.h"

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "control.grpc.pb.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/control/access_token.h"
#include "muster/control/commands_folder.h"
#include "muster/control/job_store.h"
#include "muster/control/local_connection.h"
#include "muster/control/wire.h"

namespace muster::control {
namespace {

constexpr std::chrono::milliseconds kRetryPause{50};

std::vector<std::string> names_of_living(const Membership& membership) {
  std::vector<std::string> names;
  for (const Worker& member : membership.members)
    if (state_of(member.process) != ProcessState::kGone)
      names.push_back(fmt::format("{} (pid {})", member.rank, member.process.pid));
  return names;
}

// The token is only for a process of the user whose token it is.
uid_t owner_of(const std::filesystem::path& token) {
  struct stat status {};
  if (::stat(token.c_str(), &status) != 0) throw_system_error("cannot be examined", token);
  return status.st_uid;
}

}  // namespace

ControlClient::ControlClient(std::filesystem::path run)
    : run_(std::move(run)), folder_(commands_folder(run_)), record_(open_record_store(folder_)) {
}

std::string ControlClient::new_request() {
  return random_hex(16);
}

// Calls until it succeeds, the coordinator says no, or the deadline passes.
template <typename Call>
void ControlClient::call(const Deadline& deadline, const Call& call) const {
  while (true) {
    // Beside a record in an etcd a leader of this machine is noted, which needs no etcd to be reached.
    const std::optional<NotedLeader> noted = noted_leader(folder_);
    const bool near = noted && state_of(noted->lease.holder) != ProcessState::kGone;
    const std::optional<Lease> lease = near ? noted->lease : record_.lease();
    if (lease && !lease->space.empty() && lease->space != process_space() && lease->holder.pid != 0)
      throw Error(ErrorKind::kPeerLost,
                  fmt::format("the job is coordinated on {} (process {})", lease->host, lease->holder.pid),
                  run_.string(), "Type it there, or on a host that has an agent of the job.");
    if (!lease || state_of(lease->holder) == ProcessState::kGone || lease->holder.pid == 0) {
      const std::vector<std::string> living = names_of_living(record_.membership());
      throw Error(ErrorKind::kPeerLost,
                  lease && lease->holder.pid != 0
                      ? fmt::format("the coordinator (pid {}) is gone{}", lease->holder.pid,
                                    living.empty() ? "" : "; workers still run: " + join_words(living))
                      : "the job has no coordinator: it is over, or has not begun",
                  run_.string(),
                  living.empty() ? "Go on with muster train JOB.toml --resume --run " + run_.string() + "."
                                 : fmt::format("Take them over with muster attach {}, which does as it is told then. "
                                               "Without anybody they write a checkpoint after a while and end.",
                                               run_.string()));
    }
    std::optional<Error> failure;
    try {
      const std::optional<std::string> address = near ? noted->address : record_.endpoint();
      if (!address)
        throw Error(ErrorKind::kPeerLost, "the coordinator does not listen yet", run_.string(), "Try again.");
      FileDescriptor socket = connect_local(*address, owner_of(token_file(folder_)), "coordinator", deadline);
      const std::string token = read_token(token_file(folder_));
      grpc::ChannelArguments arguments;
      arguments.SetMaxReceiveMessageSize(kMostReplyBytes);
      const auto stub =
          v1::Control::NewStub(grpc::CreateCustomInsecureChannelFromFd("coordinator", socket.release(), arguments));
      grpc::ClientContext context;
      context.AddMetadata(kTokenKey, token);
      context.set_deadline(std::chrono::system_clock::now() +
                           std::min<std::chrono::nanoseconds>(deadline.remaining(), std::chrono::hours(1)));
      const grpc::Status status = call(*stub, context);
      if (status.ok()) return;
      failure = from_status(status, run_.string());
      // A new coordinator makes a new token a moment before it puts its address into the record.
      const bool retry = status.error_code() == grpc::StatusCode::UNAVAILABLE;
      if (!retry) throw *failure;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kPeerLost) throw;
      failure = error;
    }
    if (deadline.remaining() <= kRetryPause) throw *failure;
    system_clock().sleep_for(kRetryPause);
  }
}

JobStatus ControlClient::status(const Deadline& deadline) const {
  try {
    v1::StatusReply reply;
    call(deadline, [&](v1::Control::Stub& stub, grpc::ClientContext& context) {
      return stub.Status(&context, v1::StatusRequest(), &reply);
    });
    JobStatus status = from_wire(reply);
    status.live = true;
    return status;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kPeerLost) return from_record(error.message());
    if (error.kind() == ErrorKind::kTimeout) return from_record("the coordinator does not answer");
    throw;
  }
}

JobStatus ControlClient::from_record(std::string alarm) const {
  JobStatus status;
  const Standing standing = record_.standing();
  const Membership membership = record_.membership();
  const WantedState wanted = record_.wanted();
  const std::optional<Lease> lease = record_.lease();
  if (const std::optional<JobIdentity> identity = record_.identity()) status.job = identity->name;
  status.run = run_.string();
  status.state = to_string(standing.phase);
  status.reason = standing.reason;
  status.generation = membership.generation;
  status.step = standing.step;
  status.total_steps = standing.total_steps;
  status.min_workers = wanted.min_workers;
  status.max_workers = wanted.max_workers;
  status.target_workers = wanted.target_workers;
  status.min_servers = wanted.min_servers;
  status.max_servers = wanted.max_servers;
  status.target_servers = wanted.target_servers;
  status.members = membership.members;
  for (Worker& member : status.members)
    member.state = state_of_member(state_of(member.process));
  // A job that is over needs no coordinator; one that is not has lost it.
  const ProcessState holder = lease && lease->holder.pid != 0 ? state_of(lease->holder) : ProcessState::kGone;
  if (holder != ProcessState::kGone) status.coordinator_pid = lease->holder.pid;
  if (holder == ProcessState::kStopped) alarm += fmt::format(" (process {} is stopped)", lease->holder.pid);
  if (!is_over(standing.phase) || holder != ProcessState::kGone) status.alarms.push_back(std::move(alarm));
  return status;
}

WantedState ControlClient::scale(const Scaling& scaling, const Deadline& deadline, const std::string& request) const {
  v1::ScaleRequest message;
  to_wire(request, scaling, message);
  v1::WantedReply reply;
  call(deadline,
       [&](v1::Control::Stub& stub, grpc::ClientContext& context) { return stub.Scale(&context, message, &reply); });
  return from_wire(reply);
}

WantedState ControlClient::stop(const Deadline& deadline, const std::string& request) const {
  v1::StopRequest message;
  message.set_request(request);
  v1::WantedReply reply;
  call(deadline,
       [&](v1::Control::Stub& stub, grpc::ClientContext& context) { return stub.Stop(&context, message, &reply); });
  return from_wire(reply);
}

Change ControlClient::set(const std::string& assignment, const Deadline& deadline, const std::string& request) const {
  v1::SetRequest message;
  message.set_request(request);
  message.set_assignment(assignment);
  v1::SetReply reply;
  call(deadline,
       [&](v1::Control::Stub& stub, grpc::ClientContext& context) { return stub.Set(&context, message, &reply); });
  return from_wire(reply, assignment);
}

}  // namespace muster::control
