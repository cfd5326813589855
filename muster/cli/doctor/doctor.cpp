// muster doctor: what a run would meet on this machine, or on a set of them, before it is started. Facts are collected
// on each (facts.h), judged on one (judge.h), and links tried between each two (meeting.h).
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/cores.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/host_name.h"
#include "muster/base/temporary_folder.h"
#include "muster/base/text.h"
#include "muster/base/version.h"
#include "muster/cli/cluster_flags.h"
#include "muster/cli/command.h"
#include "muster/cli/doctor/facts.h"
#include "muster/cli/doctor/judge.h"
#include "muster/cli/doctor/meeting.h"
#include "muster/cli/doctor/probe.h"
#include "muster/cli/ssh_gathering.h"
#include "muster/cli/workers.h"
#include "muster/control/cluster_client.h"
#include "muster/control/cluster_server.h"
#include "muster/coordinator/host_data.h"
#include "muster/trainer/job.h"

namespace muster::cli {
namespace {

constexpr int kMostHosts = 64;
constexpr std::chrono::seconds kFarewell{10};

struct DoctorFlags {
  std::string job;
  std::vector<std::string> assignments;
  std::string hosts;  // names for ssh, or how many with --listen
  std::string name;
  double wait_seconds = 60;
  bool json = false;
  ClusterFlags cluster;
};

void show(const Examination& all, bool json, Outcome& outcome) {
  std::vector<Diagnosis> findings;
  const auto add = [&](std::vector<Diagnosis> more) { findings.insert(findings.end(), more.begin(), more.end()); };
  for (const MachineFacts& host : all.hosts)
    add(judge_machine(host));
  add(judge_together(all.hosts));
  if (all.hosts.size() > 1) add(judge_links(all.hosts, all.links));
  outcome.exit_code = exit_code_for(findings);
  if (json) {
    Json row{{"healthy", outcome.exit_code == 0}, {"findings", Json::array()}, {"hosts", Json::array()}};
    for (const Diagnosis& finding : findings)
      row["findings"].push_back(to_json(finding));
    for (const MachineFacts& host : all.hosts)
      row["hosts"].push_back(to_json(host));
    row["links"] = Json::array();
    for (const LinkFigures& link : all.links)
      row["links"].push_back({{"from", all.hosts[link.from].host},
                              {"to", all.hosts[link.to].host},
                              {"failure", link.failure},
                              {"megabits", link.megabits},
                              {"latency_us", link.latency_us},
                              {"clock_ahead_ms", link.clock_ahead_ms}});
    fmt::print("{}\n", row.dump());
    return;
  }
  std::string host;
  for (const Diagnosis& finding : findings) {
    if (all.hosts.size() > 1 && finding.host != host)
      fmt::print("{}\n", finding.host.empty() ? "together" : finding.host);
    host = finding.host;
    fmt::print("{:<8} {:<13} {}\n", to_string(finding.health), finding.what, finding.words);
    if (!finding.remedy.empty()) fmt::print("{:<22} -> {}\n", "", finding.remedy);
  }
  if (all.hosts.size() > 1) fmt::print("\n{}", matrix_of(all.hosts, all.links));
}

FactsOptions facts_options(const DoctorFlags& flags) {
  FactsOptions options;
  options.host = flags.name;
  options.certificates = flags.cluster.trust.certs;
  if (!flags.job.empty()) options.job = flags.job;
  options.assignments = flags.assignments;
  return options;
}

Deadline wait_of(const DoctorFlags& flags) {
  return Deadline::after(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(flags.wait_seconds)));
}

control::HostCard card_of(const DoctorFlags& flags) {
  control::HostCard card;
  card.version = version();
  card.name = flags.name.empty() ? host_name() : flags.name;
  card.cores = usable_cores().usable;
  return card;
}

// Where others reach this machine: the interface that was named, or the address that is listened on.
std::string own_address(const DoctorFlags& flags) {
  if (!flags.cluster.interface.empty()) return coordinator::address_of_interface(flags.cluster.interface);
  std::string host = flags.cluster.listen.substr(0, flags.cluster.listen.rfind(':'));
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  if (host == "0.0.0.0" || host == "::")
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is every address of this host", host), "--listen",
                "Say by --interface which one the others use.");
  return host;
}

// With --listen: how many.
std::size_t number_of_hosts(const std::string& text) {
  int hosts = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), hosts);
  if (code != std::errc() || end != text.data() + text.size() || hosts < 2 || hosts > kMostHosts)
    throw Error(ErrorKind::kInvalidInput, fmt::format("how many hosts are to be examined? \"{}\"", excerpt(text)),
                "--listen",
                fmt::format("Add --hosts N, from 2 to {}, with this one among them; on the others: muster doctor "
                            "--join.",
                            kMostHosts));
  return static_cast<std::size_t>(hosts);
}

// `by_ssh`: has the others come; null: they come by themselves.
void run_first(const DoctorFlags& flags, std::size_t hosts, SshGathering* by_ssh, Outcome& outcome) {
  // The file that the others are told is the resolved one: they may not have it.
  const std::string text = flags.job.empty() ? "" : trainer::load_job(flags.job, flags.assignments).text;
  DoctorDesk desk(hosts, text);
  desk.join(card_of(flags));
  MachineFacts facts = collect_facts(facts_options(flags));
  facts.probe = own_address(flags);
  control::ClusterListen listen = listen_by(flags.cluster);
  listen.note = [](const std::string& line) { tell(line); };
  const control::ClusterServer server(desk, listen);
  if (by_ssh != nullptr)
    by_ssh->start(server.address(), "doctor");
  else
    tell(fmt::format("hosts join by: muster doctor --join {}", server.address()));
  const auto lost = [by_ssh] { return by_ssh == nullptr ? std::nullopt : by_ssh->lost(); };
  const Examination all = examine(desk, std::move(facts), hosts, wait_of(flags), tell, lost);
  // They have still to hear that it is over.
  if (by_ssh != nullptr) by_ssh->wait(Deadline::after(kFarewell));
  show(all, flags.json, outcome);
}

void run_other(const DoctorFlags& flags) {
  if (!flags.job.empty() || !flags.assignments.empty())
    throw Error(ErrorKind::kInvalidInput, "the first host says which job it is", "--join",
                "Leave the job file and --set out.");
  control::ClusterClient client(join_by(flags.cluster));
  const TemporaryFolder folder("muster-doctor-");
  const auto look = [&](const std::string& job) {
    FactsOptions options = facts_options(flags);
    if (!job.empty()) {
      options.job = folder.path() / "job.toml";
      write_atomically(*options.job, job);
    }
    return collect_facts(options);
  };
  const std::string own = flags.cluster.interface.empty() ? address_towards(flags.cluster.join)
                                                          : coordinator::address_of_interface(flags.cluster.interface);
  be_examined(client, card_of(flags), own, look, wait_of(flags));
  tell("examined; what was found is told on the first host");  // whose standard output ssh may make ours
}

void run_doctor(DoctorFlags flags, Outcome& outcome) {
  if (flags.job.empty() && !flags.assignments.empty() && flags.cluster.join.empty())
    throw Error(ErrorKind::kInvalidInput, "there is no job whose values could be set", "--set",
                "Name its file: muster doctor job.toml --set data.batch=64");
  if (names_hosts(flags.hosts)) flags.cluster.hosts = std::exchange(flags.hosts, {});
  if (!flags.cluster.join.empty()) {
    run_other(flags);
  } else if (flags.cluster.by_ssh()) {
    if (!flags.cluster.listen.empty())
      throw Error(ErrorKind::kInvalidInput, "--listen beside --hosts with names", {},
                  "Leave one of them out: hosts that ssh reaches are told where to join.");
    SshGathering by_ssh(flags.cluster);
    if (flags.name.empty()) flags.name = by_ssh.own_name();  // the others have the names that were typed, too
    run_first(flags, static_cast<std::size_t>(by_ssh.hosts()), &by_ssh, outcome);
  } else if (!flags.cluster.listen.empty()) {
    run_first(flags, number_of_hosts(flags.hosts), nullptr, outcome);
  } else {
    if (!flags.hosts.empty() && flags.hosts != "1")
      throw Error(ErrorKind::kInvalidInput, "the other hosts have to find this one", "--hosts",
                  "Name them, as a,b, and ssh starts it there; or add --listen ADDRESS:PORT, and on the others: muster "
                  "doctor --join ADDRESS:PORT.");
    show({{collect_facts(facts_options(flags))}, {}}, flags.json, outcome);
  }
}

}  // namespace

void add_doctor(CLI::App& app, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("doctor", "Examine this machine, or several, before a run.");
  auto flags = std::make_shared<DoctorFlags>();
  command->add_option("job", flags->job, "A job file: is it right here, and has every host the same data?");
  command->add_option("--set", flags->assignments, "section.key=value, over what the file says; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--hosts", flags->hosts,
                      "Hosts to be examined together, this one among them, reached by ssh: a,b,c; or with --listen how "
                      "many there are");
  add_ssh_flags(*command, flags->cluster);
  command->add_option("--name", flags->name, "What this host is called. None: its host name");
  command->add_option("--wait", flags->wait_seconds, "Seconds to wait for the other hosts")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Everything as one JSON object");
  add_either_flags(*command, flags->cluster);
  command->footer(
      "A line for each thing: ok, warning or wrong, and what to do. Of a machine: versions, cores and what limits "
      "them,\n"
      "open files and processes, memory, /dev/shm, its own name, MPI and Slurm, the certificates of --certs and how\n"
      "long they count, and whether the job fits its data. Of several also: that versions and data are the same, that\n"
      "each reaches each other, how far clocks differ, and a table of bandwidth and latency between each two.\n"
      "Hosts trust each other as agents and coordinator do (--certs, or --insecure); links are tried on the addresses\n"
      "that --interface names, or by which they reach the first host, and at ports that the system chooses, as "
      "workers\n"
      "do. Exit code: 0 when nothing is wrong (there may be warnings), 1 when something is, 2 for a mistake.\n"
      "\nExamples:\n"
      "  muster doctor\n"
      "  muster doctor job.toml --hosts a,b,c                  all of them, by ssh\n"
      "  muster doctor job.toml --set data.path=/data/train    with other values than the file's\n"
      "  muster doctor job.toml --json | jq '.findings[] | select(.health != \"ok\")'\n"
      "  muster doctor job.toml --listen 10.0.0.1:7400 --hosts 3 --certs coordinator     on one host\n"
      "  muster doctor --join 10.0.0.1:7400 --certs agent                                on each of the others");
  command->callback([flags, &outcome] { run_doctor(*flags, outcome); });
}

}  // namespace muster::cli
