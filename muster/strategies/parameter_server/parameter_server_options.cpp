// The options of parameter_server: its keys of the job file, what contradicts what, and what follows from them. The job
// file is refused with place and key (check), a program with the name of the option (validate).
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/strategies/parameter_server/consistency.h"
#include "muster/strategies/parameter_server/parameter_server.h"
#include "muster/strategies/parameter_server/server_plan.h"
#include "muster/strategies/strategy_kind.h"

namespace muster::strategies {
namespace {

constexpr std::uint64_t kWindowBytes = 8 << 20;  // of a client

bool any_of(const std::vector<Phase>& phases, std::initializer_list<Consistency> wanted) {
  return std::ranges::any_of(phases,
                             [&](const Phase& phase) { return std::ranges::count(wanted, phase.consistency) > 0; });
}

// Keys that only some ways of consistency look at.
void check_consistency(const Schema& schema, const std::string& consistency, const std::vector<Phase>& phases) {
  struct Rule {
    const char* key;
    std::initializer_list<Consistency> of;
    const char* words;
  };
  using enum Consistency;
  for (const Rule& rule : {Rule{"parallel.staleness", {kSsp}, "ssp"}, Rule{"parallel.backups", {kBackup}, "backup"},
                           Rule{"parallel.staleness_rate", {kAsp, kSsp}, "asp and ssp"},
                           Rule{"parallel.claims", {kBsp, kBackup}, "bsp and backup"}}) {
    if (any_of(phases, rule.of) || !schema.chosen(rule.key)) continue;
    throw schema.invalid(rule.key, fmt::format("has no effect with consistency \"{}\"", consistency),
                         fmt::format("It belongs to {}. Remove it, or change parallel.consistency.", rule.words));
  }
}

// What servers on several hosts cannot do.
void check_hosts(const ParameterServer& chosen, const JobFacts& job) {
  if (job.most_hosts == 1) return;
  const Schema& schema = job.schema;
  if (job.least_hosts != job.most_hosts)
    throw schema.invalid("parallel.hosts", "a range cannot go with parameter_server: servers are placed on all hosts",
                         "Give one number.");
  if (chosen.servers == 0)
    throw schema.invalid("parallel.servers", "workers cannot serve on several hosts: servers are processes there",
                         fmt::format("Give their number; {} puts one on each host.", job.most_hosts));
  if (schema.chosen("parallel.transport") && chosen.transport != "grpc")
    throw schema.invalid("parallel.transport", fmt::format("{} does not reach other hosts", chosen.transport),
                         "Remove it: between hosts calls travel by gRPC.");
  if (chosen.snapshot_seconds > 0)
    throw schema.invalid("parallel.snapshot_seconds", "cannot go with several hosts: a host that is lost has them",
                         "Use parallel.copies = 2, which are on different hosts and lose nothing.");
}

void validate(const ParameterServer& chosen, const StrategyOptions& needs) {
  const std::vector<Phase> phases = parse_phases(chosen.consistency);
  const std::int64_t workers = needs.supervised ? needs.supervised->seats : needs.group.size();
  const std::int64_t servers = chosen.servers == 0 ? workers : chosen.servers;
  if (chosen.servers < 0 || chosen.staleness < 0 || chosen.chunk_kb < 1)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("parameter_server: servers is {}, staleness {} and chunk_kb {}", chosen.servers,
                            chosen.staleness, chosen.chunk_kb),
                {}, "Servers and staleness are 0 or more, a chunk has 1 KiB or more.");
  if (needs.met)
    throw Error(ErrorKind::kUnsupported, "a program's own session of parameter_server trains on one host", {},
                "On several hosts use muster train, or a strategy with a fixed group in the program.");
  if (chosen.transport != "shared_memory" && chosen.transport != "grpc")
    throw Error(ErrorKind::kInvalidInput, fmt::format("parameter_server: no transport \"{}\"", chosen.transport), {},
                "There are shared_memory and grpc.");
  if (chosen.copies < 1 || chosen.copies > servers)
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} copies of every chunk on {} servers", chosen.copies, servers),
                {}, "Copies are on different servers: use as many servers as copies, or more.");
  if (chosen.servers > 0 && !needs.supervised)
    throw Error(ErrorKind::kUnsupported, "nobody has started parameter servers for this program", {},
                "Start a job with muster train, or let every worker serve a part (servers = 0).");
  if (any_of(phases, {Consistency::kBackup}) &&
      (chosen.backups < 1 || static_cast<std::size_t>(chosen.backups) >= needs.lanes))
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("backup: {} of {} lanes of a step are not waited for", chosen.backups, needs.lanes), {},
                "At least one, and fewer than there are lanes.");
  if (chosen.snapshot_seconds > 0 && chosen.folder.empty() && !needs.supervised)
    throw Error(ErrorKind::kInvalidInput, "snapshots need a folder");
  if (chosen.snapshot_seconds > 0 && any_synchronous(phases))
    throw Error(ErrorKind::kInvalidInput, "snapshots of servers cannot go with steps that are taken together", {},
                "Use asp or ssp, or copies = 2, which loses nothing.");
}

}  // namespace

Traits ParameterServer::traits() const {
  const std::vector<Phase> phases = parse_phases(consistency);
  return {.keeps_bits = !any_of(phases, {Consistency::kAsp, Consistency::kSsp, Consistency::kBackup}),
          .replaces_workers = true,
          .crosses_hosts = true,
          .claims_lanes = true,
          .goes_apart = true,
          .needs_servers = true};
}

void ParameterServer::add_keys(Section& parallel) {
  parallel.field(
      "consistency", &consistency,
      "parameter_server: how lanes become updates: bsp (all of a step together), asp (each as it comes), ssp (as it "
      "comes, nobody more than `staleness` steps ahead), backup (a step goes without its last lanes). Several with "
      "their steps: \"asp:200, bsp\".");
  parallel
      .field("servers", &servers,
             "parameter_server: processes that hold the model, on all hosts together, which muster scale --servers "
             "changes on one host; 0: every worker holds a part (one host).")
      .range(0, 64);
  parallel
      .field("copies", &copies,
             "parameter_server: of every part of the model, on different servers, and different hosts where there are "
             "several; all but one of them may be lost.")
      .range(1, 64);
  parallel.field("staleness", &staleness, "parameter_server, ssp: steps that a worker may be ahead of the slowest.")
      .range(0, 1e15);
  parallel.field("backups", &backups, "parameter_server, backup: lanes of a step that are not waited for.")
      .range(1, 63);
  parallel.field("staleness_rate", &staleness_rate,
                 "parameter_server, asp and ssp: an update that comes n versions late has 1/n of the learning rate.");
  parallel.field("chunk_kb", &chunk_kb, "parameter_server: size of the parts that the model is cut into.")
      .range(64, 1 << 16);
  parallel
      .field("transport", &transport,
             "parameter_server: how calls travel on one host: shared_memory, or grpc (streams over a Unix socket, with "
             "a token). Between hosts: always gRPC.")
      .one_of({"shared_memory", "grpc"});
  parallel
      .field("snapshot_seconds", &snapshot_seconds,
             "parameter_server, asp and ssp, copies = 1: how often a server writes its part down, for the one that "
             "replaces it; lanes since then are computed again. 0: never.")
      .range(0, 86400);
  parallel.field("event_log", &event_log,
                 "parameter_server: file for what was leased and applied, one JSON object a line.");
}

void ParameterServer::check(const JobFacts& job) const {
  const Schema& schema = job.schema;
  std::vector<Phase> phases;
  check_value(schema, "parallel.consistency", [&] { phases = parse_phases(consistency); });
  check_hosts(*this, job);
  const std::int64_t processes = servers == 0 ? job.workers : servers;
  if (copies > processes)
    throw schema.invalid("parallel.copies", fmt::format("{} copies cannot be on {} servers", copies, processes),
                         "Copies are on different servers: raise parallel.servers, or lower the copies.");
  if (snapshot_seconds > 0 && any_synchronous(phases))
    throw schema.invalid("parallel.snapshot_seconds",
                         "cannot go with bsp or backup: steps that were taken together cannot be taken again by a part "
                         "of the model",
                         "Use asp or ssp, or copies = 2, with which a lost server loses nothing.");
  if (snapshot_seconds > 0 && copies > 1)
    throw schema.invalid("parallel.snapshot_seconds", "has no effect with copies, which lose nothing",
                         "Remove one of the two keys.");
  if (any_of(phases, {Consistency::kBackup}) && static_cast<std::uint64_t>(backups) >= job.lanes)
    throw schema.invalid("parallel.backups", fmt::format("{} of {} lanes cannot be left out", backups, job.lanes),
                         "Lower it, or raise job.lanes.");
  check_consistency(schema, consistency, phases);
}

std::vector<Doubt> ParameterServer::doubts(std::uint64_t steps) const {
  const std::vector<Phase> phases = parse_phases(consistency);
  if (phases.size() == 1 || phases.back().step < steps) return {};
  return {{"parallel.consistency", fmt::format("{} begins after {} steps, and training ends after {}",
                                               to_string(phases.back().consistency), phases.back().step, steps)}};
}

ServerProcesses ParameterServer::server_processes() const {
  return {.count = static_cast<int>(servers), .workers_serve = servers == 0, .copies = static_cast<int>(copies)};
}

StateMemory ParameterServer::memory(const StateFigures& figures) const {
  const bool keeps_lanes = is_synchronous(parse_phases(consistency).back().consistency);
  const auto held = static_cast<std::uint64_t>(copies);
  StateMemory memory;
  memory.versions = 2 * held * figures.version_bytes() + figures.workers * figures.version_bytes();
  memory.gradients = figures.workers * figures.parameter_bytes;
  // Servers keep gradients until a step is over.
  if (keeps_lanes) memory.gradients += held * figures.lanes * figures.parameter_bytes;
  // Every client has a window of calls at every server.
  memory.exchange = figures.workers * std::min(figures.parameter_bytes, kWindowBytes);
  return memory;
}

std::unique_ptr<Strategy> ParameterServer::make(StrategyOptions needs) const {
  validate(*this, needs);
  return make_parameter_server(*this, std::move(needs));
}

template StrategyChoice::StrategyChoice(ParameterServer);
template ParameterServer* StrategyChoice::get();

}  // namespace muster::strategies
