// Every write goes through one function that puts the lease's revision among the transaction's conditions: a
// coordinator that was overtaken fails there, whatever it wants to write.
#include "muster/control/job_record.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/host_name.h"
#include "muster/control/job_json.h"

namespace muster::control {
namespace {

constexpr std::size_t kRememberedRequests = 256;
// How often a command is tried again when the state changed between reading and writing. Only threads of this process
// write, so one of them always succeeds.
constexpr int kTries = 1000;

std::string change_name(std::uint64_t number) {
  return fmt::format("change/{:010}", number);
}

void require_request(const std::string& request) {
  const bool plain = !request.empty() && request.size() <= 64 &&
                     request.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz-") == std::string::npos;
  if (!plain) throw Error(ErrorKind::kInvalidInput, "a request id is 1 to 64 lower-case letters, digits and '-'");
}

void scale_workers(WantedState& wanted, int workers) {
  if (workers < wanted.min_workers || workers > wanted.max_workers)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} workers; the job takes {} to {}", workers, wanted.min_workers, wanted.max_workers), {},
                wanted.min_workers == wanted.max_workers
                    ? "Their number is fixed: by parallel.mesh, where the job has one (data x pipeline x tensor), else "
                      "by parallel.workers or --workers, which may be a range, as 1:4."
                    : "The limits are those of parallel.workers = \"MIN:MAX\" of the job, or of --workers.");
  wanted.target_workers = workers;
}

void scale_servers(WantedState& wanted, int servers) {
  if (wanted.max_servers == 0)
    throw Error(
        ErrorKind::kInvalidInput, "the job has no processes of parameter servers", {},
        "Only a job that was started with some (parallel.servers above 0) can have more or fewer. Where workers "
        "serve, scale the workers.");
  if (servers < wanted.min_servers || servers > wanted.max_servers)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} servers; the job takes {} to {}", servers, wanted.min_servers, wanted.max_servers), {},
                "Copies (parallel.copies) are on different servers, and a server has places for so many others. On "
                "several hosts their number stays as it is.");
  wanted.target_servers = servers;
}

// One of another machine is named with it.
std::string words_for_holder(const Lease& lease) {
  const bool elsewhere = !lease.space.empty() && lease.space != process_space();
  return fmt::format("process {}{}", lease.holder.pid, elsewhere ? " on " + lease.host : "");
}

[[noreturn]] void throw_fenced(const std::optional<Lease>& now) {
  throw Error(ErrorKind::kMismatch,
              now ? fmt::format("this process no longer coordinates the job: {} has taken over (epoch {})",
                                words_for_holder(*now), now->epoch)
                  : "this process no longer coordinates the job: its record is gone");
}

}  // namespace

TakeOverDecision decide_take_over(const std::optional<Lease>& lease, ProcessState holder) {
  if (!lease) return {true, "the job had no coordinator yet"};
  if (lease->holder.pid == 0) return {true, "the last coordinator has ended in good order"};
  switch (holder) {
    case ProcessState::kGone:
      return {true, fmt::format("the coordinator (process {}) is gone", lease->holder.pid)};
    case ProcessState::kStopped:
      return {false, fmt::format("process {} coordinates the job and is stopped", lease->holder.pid)};
    case ProcessState::kRunning:
      break;
  }
  return {false, fmt::format("process {} coordinates the job and runs", lease->holder.pid)};
}

TakeOverDecision decide_take_over_of_session(const std::optional<Lease>& lease, bool led) {
  if (led)
    return {false, lease ? fmt::format("{} coordinates the job", words_for_holder(*lease))
                         : "another process coordinates the job"};
  if (!lease) return {true, "the job had no coordinator yet"};
  if (lease->holder.pid == 0) return {true, "the last coordinator has ended in good order"};
  return {true, fmt::format("the coordinator ({}) has lost its session", words_for_holder(*lease))};
}

JobRecord::JobRecord(std::shared_ptr<Store> store, std::string prefix)
    : store_(std::move(store)), prefix_(std::move(prefix)) {
}

std::optional<Json> JobRecord::read(const std::string& name) const {
  const std::optional<Entry> entry = store_->get(key(name));
  if (!entry) return std::nullopt;
  return parse_json(entry->value, entry->key);
}

std::optional<JobIdentity> JobRecord::identity() const {
  const std::optional<Json> json = read("identity");
  return json ? std::optional(identity_from(*json, key("identity"))) : std::nullopt;
}

std::optional<Launch> JobRecord::launch() const {
  const std::optional<Json> json = read("launch");
  return json ? std::optional(launch_from(*json, key("launch"))) : std::nullopt;
}

std::optional<LedCluster> JobRecord::cluster() const {
  const std::optional<Json> json = read("cluster");
  return json ? std::optional(cluster_from(*json, key("cluster"))) : std::nullopt;
}

WantedState JobRecord::wanted() const {
  const std::optional<Json> json = read("wanted");
  return json ? wanted_from(*json, key("wanted")) : WantedState{};
}

std::vector<Change> JobRecord::changes() const {
  std::vector<Change> changes;
  for (const Entry& entry : store_->list(key("change/")))
    changes.push_back(change_from(parse_json(entry.value, entry.key), entry.key));
  return changes;
}

Membership JobRecord::membership() const {
  const std::optional<Json> json = read("membership");
  return json ? membership_from(*json, key("membership")) : Membership{};
}

Standing JobRecord::standing() const {
  const std::optional<Json> json = read("standing");
  return json ? standing_from(*json, key("standing")) : Standing{};
}

std::optional<Lease> JobRecord::lease() const {
  const std::optional<Json> json = read("lease");
  return json ? std::optional(lease_from(*json, key("lease"))) : std::nullopt;
}

std::optional<std::string> JobRecord::endpoint() const {
  const std::optional<Json> json = read("endpoint");
  const std::optional<Lease> now = lease();
  // An address of an earlier coordinator leads nowhere, or to somebody who took the name.
  if (!json || !now || json_get<std::uint64_t>(*json, "epoch", key("endpoint")) != now->epoch) return std::nullopt;
  return json_get<std::string>(*json, "address", key("endpoint"));
}

std::string JobRecord::served_in() const {
  const std::optional<Json> json = read("endpoint");
  return json && json->contains("space") ? json_get<std::string>(*json, "space", key("endpoint")) : "";
}

Lease JobRecord::take_over(const ProcessId& self, bool by_force) {
  const std::string name = key("lease");
  const std::optional<Entry> entry = store_->get(name);
  const std::optional<Lease> before =
      entry ? std::optional(lease_from(parse_json(entry->value, name), name)) : std::nullopt;
  const bool sessions = store_->has_sessions();
  const std::optional<Entry> leader = sessions ? store_->get(key("leader")) : std::nullopt;
  // One whose answer was lost may have been made.
  const bool own = leader && before && before->holder == self && before->space == process_space();
  const TakeOverDecision decision =
      sessions ? decide_take_over_of_session(before, leader && !own)
               : decide_take_over(before, before ? state_of(before->holder) : ProcessState::kGone);
  if (!decision.allowed && (!by_force || sessions))
    throw Error(ErrorKind::kMismatch, decision.reason, {},
                "Use muster status, scale and stop to talk to it; end it first if another is to take over.");
  const Lease lease{self, before ? before->epoch + 1 : 1, process_space(), host_name()};
  Transaction taking{.conditions = {{name, entry ? entry->revision : 0}}, .writes = {{name, to_json(lease).dump()}}};
  if (sessions) {
    taking.conditions.push_back({key("leader"), leader ? leader->revision : 0});
    taking.writes.push_back({key("leader"), to_json(lease).dump(), true});
  }
  const std::optional<std::uint64_t> revision = store_->commit(taking);
  if (!revision)
    throw Error(ErrorKind::kMismatch, "another process has taken over the job at this very moment", {},
                "Use muster status to see which.");
  const MutexLock lock(mutex_);
  own_ = lease;
  own_revision_ = *revision;
  leader_revision_ = sessions ? *revision : 0;
  return lease;
}

bool JobRecord::leads() const {
  const std::optional<Lease> now = lease();
  const MutexLock lock(mutex_);
  return own_ && own_ == now;
}

bool JobRecord::is_led() const {
  return store_->has_sessions() && store_->get(key("leader")).has_value();
}

void JobRecord::keep_lead() {
  std::uint64_t lease_revision = 0;
  std::uint64_t leader_revision = 0;
  std::string text;
  {
    const MutexLock lock(mutex_);
    if (!own_ || leader_revision_ == 0) return;
    lease_revision = own_revision_;
    leader_revision = leader_revision_;
    text = to_json(*own_).dump();
  }
  const std::optional<Entry> leader = store_->get(key("leader"));
  if (leader && leader->revision == leader_revision) return;
  const std::optional<std::uint64_t> revision = store_->commit(
      {.conditions = {{key("lease"), lease_revision}, {key("leader"), 0}}, .writes = {{key("leader"), text, true}}});
  if (!revision) {
    throw_if_fenced(lease_revision, leader_revision);
    return;
  }
  const MutexLock lock(mutex_);
  leader_revision_ = *revision;
}

void JobRecord::release() {
  std::optional<Lease> lease;
  std::uint64_t revision = 0;
  bool sessions = false;
  {
    const MutexLock lock(mutex_);
    lease = std::exchange(own_, std::nullopt);
    revision = own_revision_;
    sessions = leader_revision_ != 0;
  }
  if (!lease) return;
  Transaction giving{.conditions = {{key("lease"), revision}},
                     .writes = {{key("lease"), to_json(Lease{{}, lease->epoch, lease->space, lease->host}).dump()}}};
  if (sessions) giving.writes.push_back({key("leader"), std::nullopt});
  store_->commit(giving);
}

void JobRecord::throw_if_fenced(std::uint64_t lease_revision, std::uint64_t leader_revision) const {
  const std::optional<Entry> now = store_->get(key("lease"));
  if (!now || now->revision != lease_revision) throw_fenced(lease());
  if (leader_revision == 0) return;
  const std::optional<Entry> leader = store_->get(key("leader"));
  if (leader && leader->revision == leader_revision) return;
  // Nobody has taken over yet: keep_lead() may settle it.
  throw Error(ErrorKind::kPeerLost, "this process has lost its session in the job's store for a while", {},
              "Try again: it begins another one as soon as the store answers, unless somebody takes over.");
}

bool JobRecord::write(const Writes& writes, std::vector<Transaction::Condition> conditions) {
  std::uint64_t lease_revision = 0;
  std::uint64_t leader_revision = 0;
  {
    const MutexLock lock(mutex_);
    MUSTER_CHECK(own_.has_value(), "writes to a job's record need its lease");
    lease_revision = own_revision_;
    leader_revision = leader_revision_;
  }
  conditions.push_back({key("lease"), lease_revision});
  if (leader_revision != 0) conditions.push_back({key("leader"), leader_revision});
  if (store_->commit({conditions, writes})) return true;
  throw_if_fenced(lease_revision, leader_revision);
  return false;
}

void JobRecord::begin(const JobIdentity& identity, const WantedState& wanted) {
  Writes writes{{key("wanted"), to_json(wanted).dump()}};
  if (!this->identity()) writes.push_back({key("identity"), to_json(identity).dump()});
  // The generation lives on: it never goes back, also over a resumption.
  writes.push_back({key("membership"), to_json(Membership{.generation = membership().generation}).dump()});
  writes.push_back({key("standing"), to_json(Standing{}).dump()});
  writes.push_back({key("cluster"), std::nullopt});  // of hosts that trained it before
  write(writes);
}

void JobRecord::put_launch(const Launch& launch) {
  write({{key("launch"), to_json(launch).dump()}});
}

void JobRecord::put_cluster(const LedCluster& cluster) {
  write({{key("cluster"), to_json(cluster).dump()}});
}

void JobRecord::put_membership(const Membership& membership) {
  const std::uint64_t before = this->membership().generation;
  if (membership.generation < before)
    throw Error(ErrorKind::kMismatch, fmt::format("generation {} after generation {}", membership.generation, before),
                key("membership"));
  write({{key("membership"), to_json(membership).dump()}});
}

void JobRecord::put_standing(const Standing& standing) {
  write({{key("standing"), to_json(standing).dump()}});
}

void JobRecord::put_endpoint(const std::string& address) {
  std::uint64_t epoch = 0;
  {
    const MutexLock lock(mutex_);
    MUSTER_CHECK(own_.has_value(), "writes to a job's record need its lease");
    epoch = own_->epoch;
  }
  write({{key("endpoint"), Json{{"address", address}, {"epoch", epoch}, {"space", process_space()}}.dump()}});
}

void JobRecord::mark_applied(std::uint64_t number, std::uint64_t step) {
  const std::optional<Json> json = read(change_name(number));
  if (!json) throw Error(ErrorKind::kNotFound, fmt::format("the job has no change {}", number));
  Change change = change_from(*json, key(change_name(number)));
  change.applied_at_step = step;
  write({{key(change_name(number)), to_json(change).dump()}});
}

void JobRecord::keep_change(const Change& change) {
  write({{key(change_name(change.number)), to_json(change).dump()}});
}

std::optional<Json> JobRecord::remembered(const std::string& request, const Json& asked) const {
  require_request(request);
  const std::optional<Json> before = read("request/" + request);
  if (!before) return std::nullopt;
  const std::string where = key("request/" + request);
  if (json_get<Json>(*before, "asked", where) != asked)
    throw Error(ErrorKind::kMismatch, fmt::format("request {} was used before, for something else", request));
  return json_get<Json>(*before, "answer", where);
}

JobRecord::Writes JobRecord::remember(const std::string& request, const Json& asked, const Json& answer) const {
  Writes writes{{key("request/" + request), Json{{"asked", asked}, {"answer", answer}}.dump()}};
  std::vector<Entry> known = store_->list(key("request/"));
  std::sort(known.begin(), known.end(), [](const Entry& a, const Entry& b) { return a.revision < b.revision; });
  for (std::size_t i = 0; i + kRememberedRequests <= known.size(); ++i)
    writes.push_back({known[i].key, std::nullopt});
  return writes;
}

WantedState JobRecord::command(const std::string& request, const Json& asked,
                               void (*apply)(WantedState&, const Json&)) {
  for (int tries = 0; tries < kTries; ++tries) {
    if (const std::optional<Json> answer = remembered(request, asked)) return wanted_from(*answer, request);
    const std::optional<Entry> entry = store_->get(key("wanted"));
    WantedState wanted = entry ? wanted_from(parse_json(entry->value, entry->key), entry->key) : WantedState{};
    apply(wanted, asked);
    Writes writes = remember(request, asked, to_json(wanted));
    writes.push_back({key("wanted"), to_json(wanted).dump()});
    if (write(writes, {{key("wanted"), entry ? entry->revision : 0}, {key("request/" + request), 0}})) return wanted;
  }
  throw Error(ErrorKind::kTimeout, "the job's record changed again and again");
}

WantedState JobRecord::scale(const std::string& request, const Scaling& scaling) {
  Json asked{{"command", "scale"}};
  if (scaling.workers) asked["workers"] = *scaling.workers;
  if (scaling.servers) asked["servers"] = *scaling.servers;
  return command(request, asked, [](WantedState& wanted, const Json& now) {
    if (!now.contains("workers") && !now.contains("servers"))
      throw Error(ErrorKind::kInvalidInput, "neither a number of workers nor one of servers was given");
    if (now.contains("workers")) scale_workers(wanted, now.at("workers").get<int>());
    if (now.contains("servers")) scale_servers(wanted, now.at("servers").get<int>());
  });
}

WantedState JobRecord::stop(const std::string& request) {
  return command(request, {{"command", "stop"}}, [](WantedState& wanted, const Json&) { wanted.stop = true; });
}

Change JobRecord::change(const std::string& request, const std::string& assignment) {
  const Json asked{{"command", "set"}, {"assignment", assignment}};
  for (int tries = 0; tries < kTries; ++tries) {
    if (const std::optional<Json> answer = remembered(request, asked)) return change_from(*answer, request);
    const std::vector<Change> known = changes();
    const Change next{known.empty() ? 1 : known.back().number + 1, assignment, std::nullopt};
    Writes writes = remember(request, asked, to_json(next));
    writes.push_back({key(change_name(next.number)), to_json(next).dump()});
    if (write(writes, {{key(change_name(next.number)), 0}, {key("request/" + request), 0}})) return next;
  }
  throw Error(ErrorKind::kTimeout, "the job's record changed again and again");
}

}  // namespace muster::control
