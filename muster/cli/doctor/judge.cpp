// Limits are those beyond which a job was seen to fail or to crawl.
// Each finding says what it was held against.
#include "muster/cli/doctor/judge.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "muster/base/text.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kFewFiles = 1024;     // open at once: connections of a worker to 64 others, and room
constexpr std::uint64_t kFewProcesses = 512;  // and threads
constexpr std::uint64_t kLittleMemory = 1ULL << 30;
constexpr std::uint64_t kLittleShared = 64ULL << 20;  // Gloo's and MPI's; arenas are not there
constexpr double kSoonDays = 14;
constexpr double kClockWrongMs = 60'000;  // certificates count from an hour before, but logs become hard to read
constexpr double kClockWarnMs = 1'000;
constexpr double kSlowShare = 0.5;  // of the median of all links
constexpr double kSlowLatency = 3;  // times it

class Findings {
 public:
  explicit Findings(std::string host) : host_(std::move(host)) {}
  void add(Health health, std::string what, std::string words, std::string remedy = {}) {
    all_.push_back({health, host_, std::move(what), std::move(words), health == Health::kOk ? "" : std::move(remedy)});
  }
  // Warned of, or fine.
  void doubt(bool doubtful, std::string what, std::string words, std::string remedy) {
    add(doubtful ? Health::kWarning : Health::kOk, std::move(what), std::move(words), std::move(remedy));
  }
  std::vector<Diagnosis> take() { return std::move(all_); }

 private:
  const std::string host_;
  std::vector<Diagnosis> all_;
};

void judge_limits(const MachineFacts& facts, Findings& findings) {
  findings.doubt(facts.cores * 2 <= facts.machine_cores, "cores",
                 fmt::format("{} of {} usable ({})", facts.cores, facts.machine_cores, facts.cores_reason),
                 "Affinity or a cgroup keeps half of the machine or more from Muster. If that is not meant, start it "
                 "outside of that limit, or ask the scheduler for more cores.");
  findings.doubt(facts.load > facts.machine_cores, "load",
                 fmt::format("{:.1f} processes want {} cores", facts.load, facts.machine_cores),
                 "Something else computes here: steps will take longer, and figures of links below are too small.");
  findings.doubt(facts.open_files < kFewFiles, "open files", fmt::format("at most {}", facts.open_files),
                 fmt::format("Raise it: ulimit -n {} (LimitNOFILE= of a systemd unit).", 4 * kFewFiles));
  findings.doubt(facts.processes<kFewProcesses, "processes", facts.processes>(1ULL << 40)
                     ? "no limit"
                     : fmt::format("at most {}", facts.processes),
                 "Raise it: ulimit -u (TasksMax= of a systemd unit). Threads count.");
}

void judge_memory(const MachineFacts& facts, Findings& findings) {
  findings.doubt(facts.memory < kLittleMemory, "memory",
                 fmt::format("{} usable ({})", human_bytes(facts.memory), facts.memory_reason),
                 "muster check --memory JOB.toml says what a job takes.");
  findings.doubt(facts.shared_memory < kLittleShared, "/dev/shm",
                 fmt::format("{} free", human_bytes(facts.shared_memory)),
                 "Muster's arenas are not there, but MPI's are: mount it larger (docker run --shm-size=1g).");
}

void judge_names(const MachineFacts& facts, Findings& findings) {
  if (facts.own_addresses.empty()) {
    findings.add(Health::kWarning, "own name", "leads to no address",
                 "Put this host's name into /etc/hosts or DNS, and name hosts by address until then.");
    return;
  }
  const bool local =
      std::all_of(facts.own_addresses.begin(), facts.own_addresses.end(),
                  [](const std::string& address) { return address.starts_with("127.") || address == "::1"; });
  findings.doubt(local, "own name", "leads to " + join_words(facts.own_addresses),
                 "Others cannot reach it there: give --listen an address in numbers, and parallel.interface.");
}

void judge_certificate_facts(const MachineFacts& facts, Findings& findings) {
  if (facts.certificate.empty()) return;
  if (!facts.certificate_wrong.empty()) {
    findings.add(Health::kWrong, "certificate", fmt::format("{}: {}", facts.certificate, facts.certificate_wrong),
                 "Make another: muster certs add (docs/security.md). If it counts elsewhere, look at the clock.");
    return;
  }
  findings.doubt(facts.certificate_days < kSoonDays, "certificate",
                 fmt::format("{}, counts for {:.0f} days more", facts.certificate, std::floor(facts.certificate_days)),
                 "Make another before that: muster certs add (docs/security.md).");
}

void judge_job(const MachineFacts& facts, Findings& findings) {
  if (facts.job.empty()) return;
  if (!facts.job_wrong.empty()) {
    findings.add(Health::kWrong, "job", fmt::format("{}: {}", facts.job, facts.job_wrong), facts.job_remedy);
    return;
  }
  findings.add(Health::kOk, "job", fmt::format("{} fits its data here", facts.job));
  for (const std::string& doubt : facts.job_doubts)
    findings.add(Health::kWarning, "job", doubt, "muster check says more.");
  const std::int64_t wanted = facts.job_workers * facts.job_threads;
  findings.doubt(wanted > facts.cores, "workers",
                 fmt::format("{} of {} thread{} on {} cores", facts.job_workers, facts.job_threads,
                             facts.job_threads == 1 ? "" : "s", facts.cores),
                 fmt::format("They take turns: --workers {} on this host (muster agent), or parallel.workers.",
                             std::max<std::int64_t>(1, facts.cores / std::max<std::int64_t>(1, facts.job_threads))));
}

// Whether all say the same of `what`.
template <typename Get>
void judge_same(const std::vector<MachineFacts>& hosts, const char* what, Health otherwise, const std::string& remedy,
                const Get& get, Findings& findings) {
  std::map<std::string, std::vector<std::string>> said;
  for (const MachineFacts& host : hosts)
    said[get(host)].push_back(host.host);
  if (said.size() == 1) {
    findings.add(Health::kOk, what, fmt::format("{} on all hosts", said.begin()->first));
    return;
  }
  std::vector<std::string> words;
  for (const auto& [value, names] : said)
    words.push_back(fmt::format("{} on {}", value, join_words(names)));
  findings.add(otherwise, what, fmt::format("{}", fmt::join(words, "; ")), remedy);
}

// Bits are those of one host where both are the same.
void judge_kernels(const std::vector<MachineFacts>& hosts, Findings& findings) {
  std::vector<std::string> blas;
  std::vector<std::string> aten;
  for (const MachineFacts& host : hosts) {
    blas.push_back(host.kernels.blas);
    aten.push_back(host.kernels.aten);
  }
  const auto known = [](const std::string& name) { return name.empty() ? std::string("not known") : name; };
  judge_same(
      hosts, "BLAS kernels", Health::kWarning, compute::remedy_for_blas(blas),
      [&](const MachineFacts& host) { return known(host.kernels.blas); }, findings);
  judge_same(
      hosts, "ATen kernels", Health::kWarning, compute::remedy_for_aten(aten),
      [&](const MachineFacts& host) { return known(host.kernels.aten); }, findings);
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void judge_clocks(const std::vector<MachineFacts>& hosts, const std::vector<LinkFigures>& links, Findings& findings) {
  double most = 0;
  const LinkFigures* worst = nullptr;
  for (const LinkFigures& link : links) {
    if (!link.failure.empty() || std::abs(link.clock_ahead_ms) < most) continue;
    most = std::abs(link.clock_ahead_ms);
    worst = &link;
  }
  if (worst == nullptr) return;
  const Health health = most > kClockWrongMs ? Health::kWrong : most > kClockWarnMs ? Health::kWarning : Health::kOk;
  findings.add(health, "clocks",
               health == Health::kOk
                   ? fmt::format("differ by {:.1f} ms at most", most)
                   : fmt::format("that of {} is {:.1f} s {} that of {}", hosts[worst->to].host, most / 1000,
                                 worst->clock_ahead_ms > 0 ? "before" : "behind", hosts[worst->from].host),
               "Training does not go by them, certificates and logs do: let chrony or systemd-timesyncd set them.");
}

}  // namespace

std::vector<Diagnosis> judge_machine(const MachineFacts& facts) {
  Findings findings(facts.host);
  findings.add(
      Health::kOk, "versions",
      fmt::format("Muster {}, LibTorch {}, {}, {}", facts.muster, facts.kernels.torch, facts.c_library, facts.kernel));
  judge_limits(facts, findings);
  judge_memory(facts, findings);
  judge_names(facts, findings);
  findings.add(Health::kOk, "launchers",
               fmt::format("MPI {}, mpirun {}, Slurm {}", facts.mpi.empty() ? "not in this build" : facts.mpi,
                           facts.mpirun.empty() ? "not found" : facts.mpirun,
                           facts.slurm.empty()       ? "not found"
                           : facts.slurm_job.empty() ? facts.slurm
                                                     : fmt::format("{}, in job {}", facts.slurm, facts.slurm_job)));
  judge_certificate_facts(facts, findings);
  judge_job(facts, findings);
  return findings.take();
}

std::vector<Diagnosis> judge_together(const std::vector<MachineFacts>& hosts) {
  if (hosts.size() < 2) return {};
  Findings findings("");
  judge_same(
      hosts, "Muster", Health::kWrong,
      "Use the same version on all hosts (muster bundle makes a copy that runs elsewhere).",
      [](const MachineFacts& host) { return host.muster; }, findings);
  judge_same(
      hosts, "LibTorch", Health::kWarning, compute::remedy_for_torch(),
      [](const MachineFacts& host) { return host.kernels.torch; }, findings);
  judge_kernels(hosts, findings);
  std::set<std::string> names;
  for (const MachineFacts& host : hosts)
    if (!names.insert(host.host).second)
      findings.add(Health::kWarning, "names", fmt::format("two hosts are called {}", host.host),
                   "Give each a --name: status and logs tell them apart by it.");
  std::set<std::string> inputs;
  for (const MachineFacts& host : hosts)
    for (const auto& [what, print] : host.data)
      inputs.insert(what);
  for (const std::string& what : inputs)
    judge_same(
        hosts, what.c_str(), Health::kWrong, "Bring the same files to all hosts, at the place that the job names.",
        [&](const MachineFacts& host) { return host.data.contains(what) ? host.data.at(what) : "not there"; },
        findings);
  return findings.take();
}

std::vector<Diagnosis> judge_links(const std::vector<MachineFacts>& hosts, const std::vector<LinkFigures>& links) {
  Findings findings("");
  std::vector<double> rates;
  std::vector<double> latencies;
  for (const LinkFigures& link : links) {
    if (!link.failure.empty()) {
      findings.add(Health::kWrong, "link",
                   fmt::format("{} does not reach {} at {}: {}", hosts[link.from].host, hosts[link.to].host,
                               hosts[link.to].probe, link.failure),
                   "Look at firewalls, routes and --interface; workers connect to ports that the system chooses.");
      continue;
    }
    rates.push_back(link.megabits);
    latencies.push_back(link.latency_us);
  }
  if (rates.empty()) return findings.take();
  const double rate = median_of(rates);
  const double latency = median_of(latencies);
  for (const LinkFigures& link : links) {
    if (!link.failure.empty()) continue;
    const bool slow = link.megabits < kSlowShare * rate;
    const bool late = link.latency_us > kSlowLatency * latency && link.latency_us > 1000;
    if (slow || late)
      findings.add(
          Health::kWarning, "link",
          fmt::format("from {} to {}: {:.0f} Mbit/s and {:.0f} us, the median is {:.0f} and {:.0f}",
                      hosts[link.from].host, hosts[link.to].host, link.megabits, link.latency_us, rate, latency),
          "A step is as slow as its slowest link: another cable, switch or interface?");
  }
  findings.add(Health::kOk, "links",
               fmt::format("{} of {} ways tried, {:.0f} Mbit/s and {:.0f} us there and back in the median",
                           rates.size(), links.size(), rate, latency));
  judge_clocks(hosts, links, findings);
  return findings.take();
}

int exit_code_for(const std::vector<Diagnosis>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Diagnosis& finding) { return finding.health == Health::kWrong; })
             ? 1
             : 0;
}

std::string matrix_of(const std::vector<MachineFacts>& hosts, const std::vector<LinkFigures>& links) {
  std::size_t width = 8;
  for (const MachineFacts& host : hosts)
    width = std::max(width, host.host.size() + 2);
  const auto table = [&](const char* title, const auto& cell) {
    std::string text = fmt::format("{:<{}}", title, width);
    for (const MachineFacts& host : hosts)
      text += fmt::format("{:>{}}", host.host, width);
    for (std::size_t from = 0; from < hosts.size(); ++from) {
      text += fmt::format("\n{:<{}}", hosts[from].host, width);
      for (std::size_t to = 0; to < hosts.size(); ++to) {
        const auto link = std::find_if(links.begin(), links.end(),
                                       [&](const LinkFigures& one) { return one.from == from && one.to == to; });
        const std::string words = link == links.end() ? "-" : link->failure.empty() ? cell(*link) : "none";
        text += fmt::format("{:>{}}", words, width);
      }
    }
    return text + "\n";
  };
  return table("Mbit/s", [](const LinkFigures& link) { return fmt::format("{:.0f}", link.megabits); }) +
         table("us", [](const LinkFigures& link) { return fmt::format("{:.0f}", link.latency_us); });
}

}  // namespace muster::cli
