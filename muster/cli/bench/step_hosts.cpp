// muster bench step --hosts: teams in turns on hosts that share nothing but links of a given rate (namespace_hosts.h).
// Beside them, on this machine, processes that share nothing at all: what they do is the ceiling.
#include <sys/stat.h>

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/temporary_folder.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/host_roles.h"
#include "muster/cli/bench/link_probe.h"
#include "muster/cli/bench/step_teams.h"
#include "muster/cli/bench/team.h"
#include "muster/cli/cluster_flags.h"
#include "muster/cli/workers.h"
#include "muster/control/trust_files.h"
#include "muster/launch/namespace_hosts.h"
#include "muster/strategies/registry.h"
#include "muster/strategies/strategy_traits.h"

namespace muster::cli {
namespace {

using launch::HostProgram;
using launch::Hosts;

constexpr int kLinkPort = 7300;
constexpr int kFirstPort = 7400;  // of the teams
constexpr std::chrono::seconds kProbeLimit{120};

// A team of one kind, on all hosts.
struct HostTeam {
  std::string name;
  std::int64_t each = 1;                // workers on each host
  std::vector<HostProgram> programs{};  // the first is the one that is told to take its turns, or has it as a child
  std::unique_ptr<Team> team{};
  std::vector<double> bytes{};  // that left the hosts, a step: of each turn
};

// Two files without bytes, by which the first host's process is told and answers.
TeamChannel make_channel(Hosts& hosts, const std::string& turns) {
  const auto open_pipe = [&](const char* ending) {
    const std::string path = hosts[0].file(turns + ending).string();
    // Both ends, so that neither side has to be there first.
    FileDescriptor made(::mkfifo(path.c_str(), 0600) == 0 ? ::open(path.c_str(), O_RDWR | O_CLOEXEC) : -1);
    if (!made.valid()) throw_system_error("make", path);
    return made;
  };
  TeamChannel channel;
  channel.commands = open_pipe(".in");
  channel.answers = open_pipe(".out");
  return channel;
}

std::vector<std::string> words_of(const launch::Command& command) {
  std::vector<std::string> words{command.program};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  return words;
}

std::vector<std::string> environment_of(const launch::Command& command) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : command.environment)
    variables.push_back(fmt::format("{}={}", name, value));
  return variables;
}

// Makes the teams and lets them take their turns.
class HostsBench {
 public:
  explicit HostsBench(const StepBench& options) : options_(options), hosts_(static_cast<int>(options.hosts)) {
    if (!options_.link.empty()) hosts_.shape(options_.link);
    link_bits_ = measure_link();
    for (const std::int64_t each : options_.workers) {
      for (const std::string& strategy : options_.strategies)
        start_muster(strategy, each);
      if (!options_.against.empty()) start_ddp(each);
      const std::int64_t all = each * options_.hosts;
      apart_.push_back(start_team(options_, kApart, all, fmt::format("{}/{}", folder_.path().string(), all)));
    }
  }

  void run() {
    for (std::int64_t round = 0; round < options_.rounds; ++round) {
      for (const auto& team : teams_) {
        const std::uint64_t before = sent_bytes();
        team->team->take_turn();
        // One step of a turn is not timed.
        team->bytes.push_back(static_cast<double>(sent_bytes() - before) / static_cast<double>(options_.steps + 1));
      }
      for (const auto& team : apart_)
        team->take_turn();
    }
  }

  void print() const {
    for (const auto& team : teams_)
      print_row(row_of(*team), options_.json);
    for (const auto& team : apart_) {
      Json row = step_row(options_, kApart, team->workers(), team->workers(), team->times());
      row["hosts"] = options_.hosts;
      row["link"] = link_name();
      print_row(row, options_.json);
    }
  }

 private:
  std::string link_name() const { return options_.link.empty() ? "unlimited" : options_.link; }

  double measure_link() {
    const auto start = [&](int host, const char* role) {
      return hosts_[host].start({own_program(), "bench", "step", "--role", role, "--address",
                                 fmt::format("{}:{}", hosts_[1].address(), kLinkPort), "--link", options_.link});
    };
    HostProgram listens = start(1, "link-listens");
    HostProgram connects = start(0, "link-connects");
    const launch::Finished end = connects.wait(kProbeLimit);
    if (end.exit_code != 0) throw Error(ErrorKind::kIo, "the link cannot be measured", {}, end.err);
    const Json answer = Json::parse(end.out);
    return 8 * answer.at("bytes").get<double>() / answer.at("seconds").get<double>();
  }

  HostTeam& add_team(const std::string& name, std::int64_t each) {
    teams_.push_back(std::make_unique<HostTeam>(HostTeam{name, each}));
    return *teams_.back();
  }
  // Of the team that was added last; no two have the same.
  std::string address() {
    return fmt::format("{}:{}", hosts_[0].address(), kFirstPort + static_cast<int>(teams_.size()));
  }
  std::string turns() const { return fmt::format("/tmp/work/team-{}", teams_.size()); }

  void connect(HostTeam& team, TeamChannel channel) const {
    channel.look = [&team] {
      for (HostProgram& program : team.programs) {
        if (program.ended())
          throw Error(ErrorKind::kPeerLost, fmt::format("a process of {} ended", team.name), {}, program.err());
      }
    };
    team.team = std::make_unique<Team>(team.name, team.each * options_.hosts, std::move(channel));
  }

  void start_muster(const std::string& strategy, std::int64_t each) {
    HostTeam& team = add_team(strategy, each);
    TeamChannel channel = make_channel(hosts_, turns());
    for (int host = 0; host < hosts_.size(); ++host) {
      std::vector<std::string> words{own_program()};
      const std::vector<std::string> step = step_words(options_, strategy);
      words.insert(words.end(), step.begin(), step.end());
      words.insert(words.end(), {"--role", host == 0 ? "coordinator" : "agent", "--address", address()});
      words.insert(words.end(), {"--hosts", std::to_string(options_.hosts), "--workers", std::to_string(each)});
      words.insert(words.end(), {"--turns", turns()});
      if (strategy == kWithCerts) words.insert(words.end(), {"--certs", certificates_of(host)});
      team.programs.push_back(hosts_[host].start(words));
    }
    connect(team, std::move(channel));
  }

  // Where the host finds those of its role, of an authority that is made for this run.
  std::string certificates_of(int host) {
    const std::filesystem::path authority = folder_.path() / "certs";
    if (!std::filesystem::exists(authority)) {
      control::CertificateTerms terms;
      terms.now = system_clock().wall();
      for (int each = 0; each < hosts_.size(); ++each)
        terms.hosts.push_back(hosts_[each].address());
      control::create_certificates(authority, terms);
    }
    const std::string place = "/tmp/work/certs";
    const std::filesystem::path seen = hosts_[host].file(place);
    if (!std::filesystem::exists(seen)) {
      const std::string own = host == 0 ? "coordinator" : "agent-" + hosts_[host].address();
      std::filesystem::copy(authority / own, seen, std::filesystem::copy_options::recursive);
    }
    return place;
  }

  void start_ddp(std::int64_t each) {
    HostTeam& team = add_team("ddp", each);
    TeamChannel channel = make_channel(hosts_, turns());
    for (std::int64_t rank = 0; rank < each * options_.hosts; ++rank) {
      const launch::Command command =
          ddp_command(options_, {rank, each * options_.hosts, "tcp://" + address(), kHostInterface, turns()});
      team.programs.push_back(hosts_[static_cast<int>(rank / each)].start(words_of(command), environment_of(command)));
    }
    connect(team, std::move(channel));
  }

  std::uint64_t sent_bytes() {
    std::uint64_t sum = 0;
    for (int host = 0; host < hosts_.size(); ++host)
      sum += hosts_[host].sent_bytes();
    return sum;
  }

  Json row_of(const HostTeam& team) const {
    const StepTimes& times = team.team->times();
    const std::int64_t workers = team.team->workers();
    const auto speed_up = [&](const Team& other) { return median(other.times().total) / median(times.total); };
    Json row = step_row(options_, team.name, workers, workers, times);
    // The first turn has what hosts give each other at the start, too.
    const double bytes = *std::ranges::min_element(team.bytes);
    row["hosts"] = options_.hosts;
    row["link"] = link_name();
    row["link_gbit_per_s"] = 1e-9 * link_bits_;
    row["bytes_between_hosts"] = bytes;
    if (!times.exchange.empty()) {
      const double seconds = 1e-3 * median(times.exchange);
      row["exchange_ms"] = 1e3 * seconds;
      const double rate = options_.link.empty() ? link_bits_ : launch::link_bits(options_.link);
      if (seconds > 0) row["link_share"] = 8 * bytes / static_cast<double>(options_.hosts) / seconds / rate;
    }
    for (const auto& other : apart_) {
      if (other->workers() == workers) row["of_ceiling"] = speed_up(*other);
    }
    for (const auto& other : teams_) {
      if (other->name == "ddp" && other->each == team.each) row["ratio_to_ddp"] = speed_up(*other->team);
    }
    return row;
  }

  const StepBench& options_;
  const TemporaryFolder folder_{"muster-bench-"};
  Hosts hosts_;
  double link_bits_ = 0;  // a second, as measured
  std::vector<std::unique_ptr<HostTeam>> teams_;
  std::vector<std::unique_ptr<Team>> apart_;
};

// Programs of users, which these measurements are, have sessions without servers there.
bool measured(const std::string& strategy) {
  const strategies::Traits traits = strategies::strategy_named(strategy).traits();
  return traits.crosses_hosts && traits.workers_hold_state();
}

std::vector<std::string> measured_strategies() {
  std::vector<std::string> names = strategies::strategy_names();
  std::erase_if(names, [](const std::string& name) { return !measured(name); });
  return names;
}

}  // namespace

void bench_hosts(const StepBench& options) {
  if (!options.role.empty()) return run_host_role(options);
  check_teams(options);
  if (options.slow > 1)
    throw Error(ErrorKind::kInvalidInput, "one host that is slow is not measured", "--slow",
                "Use it with --workers, without --hosts.");
  for (const std::string& strategy : options.strategies) {
    if (strategy != kEarly && strategy != kWithCerts && !measured(strategy))
      throw Error(ErrorKind::kInvalidInput, fmt::format("{} is not measured on several hosts", strategy),
                  "--strategies", fmt::format("Use {}.", fmt::join(measured_strategies(), ", ")));
  }
  if (!options.link.empty()) launch::link_bits(options.link);
  require_network(comm::missing_gloo());
  if (const std::string why = Hosts::impossible(); !why.empty())
    throw Error(ErrorKind::kUnsupported, fmt::format("hosts cannot be made here: {}", why), "--hosts",
                "They are network namespaces: run it as root, with iproute2 installed.");
  StepBench complete = options;
  if (complete.workers.empty()) complete.workers = {1};
  HostsBench bench(complete);
  bench.run();
  bench.print();
}

}  // namespace muster::cli
