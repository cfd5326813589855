// A job trains on hosts that are network namespaces (launch/namespace_hosts.h), and when its steps have their pace one
// more host joins. Workers write down each step (host_roles.h); what is asked is how long the longest of the others'
// steps took meanwhile, and when the new host had its first one, beside what the link needs for the state alone.
#include "muster/cli/bench/join.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/step_teams.h"
#include "muster/cli/cluster_flags.h"
#include "muster/cli/workers.h"
#include "muster/comm/gloo_transport.h"
#include "muster/launch/namespace_hosts.h"

namespace muster::cli {
namespace {

using launch::HostProgram;
using launch::Hosts;

constexpr int kPort = 7400;
constexpr const char* kSteps = "/tmp/work/join";
constexpr std::size_t kWarmUp = 3;
constexpr std::chrono::seconds kLongest{600};  // until something is to be seen

struct JoinBench {
  std::int64_t hosts = 2;
  double mb = 100;
  std::string link = "10gbit";
  double sleep = 200;
  std::int64_t steps = 12;
  std::int64_t rounds = 3;
  bool json = false;
};

struct Step {
  double at = 0;  // its end, seconds of the wall clock, which namespaces share
  double ms = 0;
};

std::vector<Step> steps_of(const launch::Host& host) {
  std::vector<Step> steps;
  std::ifstream file(host.file(std::string(kSteps) + ".steps"));
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // its end is not written yet
    const Json json = Json::parse(line);
    steps.push_back({json.at("at"), json.at("ms")});
  }
  return steps;
}

double now() {
  return std::chrono::duration<double>(system_clock().wall().time_since_epoch()).count();
}

// One job, and one host that joins it.
class Join {
 public:
  explicit Join(const JoinBench& options) : options_(options), hosts_(static_cast<int>(options.hosts) + 1) {
    hosts_.shape(options.link);
    for (int host = 0; host < newcomer(); ++host)
      start(host);
  }

  Json run() {
    const auto count = static_cast<std::size_t>(options_.steps);
    const std::vector<Step> before = wait_for(0, kWarmUp + count);
    const double asked = now();
    const std::uint64_t received = hosts_[newcomer()].received_bytes();
    start(newcomer());
    const Step first = wait_for(newcomer(), 1).front();
    const auto bytes = static_cast<double>(hosts_[newcomer()].received_bytes() - received);
    wait_for(newcomer(), count);
    const std::vector<Step> all = steps_of(hosts_[0]);

    std::vector<double> usual, during, after;
    for (std::size_t i = kWarmUp; i < all.size(); ++i) {
      if (all[i].at < asked) usual.push_back(all[i].ms);
      // The step in which it first takes part counts among those that it may have held up.
      else if (all[i].at <= first.at + 1e-3 * first.ms)
        during.push_back(all[i].ms);
      else
        after.push_back(all[i].ms);
    }
    if (during.empty() || after.empty()) throw Error(ErrorKind::kTimeout, "no step was made while a host joined");
    // Parameters and momentum.
    const double state = 2e6 * options_.mb;
    const double transfer = 8 * state / launch::link_bits(options_.link);
    const double longest = *std::ranges::max_element(during);
    return {{"usual_ms", median(usual)},
            {"longest_usual_ms", *std::ranges::max_element(usual)},
            {"longest_ms", longest},
            {"times_usual", longest / median(usual)},
            {"after_ms", median(after)},
            {"steps_meanwhile", during.size()},
            {"takes_part_s", first.at - asked},
            {"state_mb", 1e-6 * state},
            {"received_mb", 1e-6 * bytes},
            {"state_at_line_rate_s", transfer},
            {"beside_transfer_s", first.at - asked - transfer}};
  }

 private:
  int newcomer() const { return static_cast<int>(options_.hosts); }

  void start(int host) {
    StepBench step;
    step.model = "mlp";
    step.batch = 2;
    step.sleep = options_.sleep;
    step.joins = true;
    // Of an mlp 784-w-w-10: w * w + 794 * w parameters, nearly.
    step.width = std::max<std::int64_t>(1, std::llround(-397 + std::sqrt(397.0 * 397 + 1e6 * options_.mb / 4)));
    std::vector<std::string> words{own_program()};
    const std::vector<std::string> more = step_words(step, kEarly);
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--role", host == 0 ? "coordinator" : "agent", "--workers", "1", "--turns", kSteps});
    words.insert(words.end(), {"--address", fmt::format("{}:{}", hosts_[0].address(), kPort)});
    words.insert(words.end(), {"--hosts", std::to_string(options_.hosts)});
    programs_.push_back(hosts_[host].start(words));
  }

  // What the host has written when it has made so many steps.
  std::vector<Step> wait_for(int host, std::size_t count) {
    for (const Deadline deadline = Deadline::after(kLongest);;) {
      std::vector<Step> steps = steps_of(hosts_[host]);
      if (steps.size() >= count) return steps;
      for (HostProgram& program : programs_) {
        if (program.ended()) throw Error(ErrorKind::kPeerLost, "a process of the job ended", {}, program.err());
      }
      if (deadline.passed())
        throw Error(ErrorKind::kTimeout,
                    fmt::format("{} made {} steps of {}", hosts_[host].name(), steps.size(), count), {},
                    programs_.back().err());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  const JoinBench& options_;
  Hosts hosts_;
  std::vector<HostProgram> programs_;
};

void bench_join(const JoinBench& options) {
  launch::link_bits(options.link);
  require_network(comm::missing_gloo());
  if (const std::string why = Hosts::impossible(); !why.empty())
    throw Error(ErrorKind::kUnsupported, fmt::format("hosts cannot be made here: {}", why), "bench join",
                "They are network namespaces: run it as root, with iproute2 installed.");
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    Json row{{"bench", "join"}, {"hosts", options.hosts}, {"link", options.link}, {"mb", options.mb}};
    row["sleep_ms"] = options.sleep;
    row.update(Join(options).run());
    print_row(row, options.json);
  }
}

}  // namespace

void add_join_bench(CLI::App& bench) {
  CLI::App* join = bench.add_subcommand("join", "A host joins a job while it trains: what the others notice of it.");
  auto options = std::make_shared<JoinBench>();
  join->add_option("--hosts", options->hosts, "Hosts that train already")
      ->capture_default_str()
      ->check(CLI::Range(2, 63));
  join->add_option("--mb", options->mb, "Millions of bytes of parameters; with momentum the state has twice as many")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 100000.0));
  join->add_option("--link", options->link, "What each host's link carries, as 1gbit")->capture_default_str();
  join->add_option("--sleep", options->sleep, "Milliseconds that a lane sleeps instead of being computed")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 60000.0));
  join->add_option("--steps", options->steps, "Steps before, by which the usual time is known, and after")
      ->capture_default_str()
      ->check(CLI::Range(3, 10000));
  join->add_option("--rounds", options->rounds, "Jobs, each with a host that joins")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  join->add_flag("--json", options->json, "One JSON object a line");
  join->footer(
      "Hosts are network namespaces that this command makes (root). times_usual is the longest step from the start of\n"
      "the new host's agent to its first step, beside the median of those before; takes_part_s ends with that first\n"
      "step, beside_transfer_s is the same without what the link needs for the state at its full rate. Lanes sleep\n"
      "instead of being computed because hosts share this machine's cores: a process that starts takes them from all.");
  join->callback([options] { bench_join(*options); });
}

}  // namespace muster::cli
