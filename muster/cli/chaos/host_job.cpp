// Every host has the folders of certificates of both roles, because each may come to coordinate, and agents know the
// addresses of all.
#include "muster/cli/chaos/host_job.h"

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/eventually.h"
#include "muster/base/files.h"
#include "muster/cli/chaos/watch.h"
#include "muster/cli/runs.h"
#include "muster/cli/workers.h"
#include "muster/control/trust_files.h"

namespace muster::cli {
namespace {

constexpr int kHostPort = 7400;
constexpr const char* kHostRuns = "/tmp/work/runs";
constexpr const char* kLooks = "/tmp/work/looks.jsonl";
constexpr const char* kUndisturbed = "/tmp/work/undisturbed";
constexpr const char* kAgentCertificates = "agent-certs";
constexpr const char* kCoordinatorCertificates = "coordinator-certs";
constexpr std::chrono::seconds kHostCommandTime{20};
constexpr int kHostWaitSeconds = 300;  // for a coordinator that is not there yet
constexpr int kRefused = 2;            // exit code
constexpr double kAttachPause = 0.5;
constexpr std::chrono::milliseconds kReferencePause{100};

std::string end_words(const launch::Finished& end) {
  return end.signal != 0 ? fmt::format("signal {}", end.signal) : fmt::format("exit code {}", end.exit_code);
}

// Of the run in the hosts' own work folder.
bool is_of_a_host(const std::filesystem::path& name) {
  return name != "work" && name != "hosts";
}

}  // namespace

HostJob::HostJob(int hosts, const trainer::ResolvedJob& job, std::filesystem::path logs)
    : name_(job.job.name),
      logs_(std::move(logs)),
      ledger_(job.job.ledger),
      hosts_(hosts),
      places_(static_cast<std::size_t>(hosts)) {
  std::error_code code;
  std::filesystem::remove_all(logs_, code);
  make_folder(logs_);
  give_files(job);
  start(0, "train", {"train", "job.toml", "--quiet", "--listen", address(0), "--certs", kCoordinatorCertificates});
  for (int host = 1; host < hosts; ++host)
    start_agent(host);
  start_looking(0);
}

HostJob::~HostJob() {
  for (int host = 0; host < size(); ++host)
    forget(host);
}

std::string HostJob::address(int host) {
  return fmt::format("{}:{}", hosts_[host].address(), kHostPort);
}

void HostJob::give_files(const trainer::ResolvedJob& job) {
  write_atomically(hosts_[0].file("/tmp/work/job.toml"), job.text);
  const TemporaryFolder folder("muster-chaos-");
  control::CertificateTerms terms;
  terms.now = std::chrono::system_clock::now();
  for (int host = 0; host < size(); ++host)
    terms.hosts.push_back(hosts_[host].name());
  const std::filesystem::path certificates = folder.path() / "certs";
  control::create_certificates(certificates, terms);
  for (int host = 0; host < size(); ++host) {
    const auto copy = [&](const std::string& from, const char* to) {
      std::filesystem::copy(certificates / from, hosts_[host].file(std::filesystem::path("/tmp/work") / to));
    };
    copy("agent-" + hosts_[host].name(), kAgentCertificates);
    copy("coordinator", kCoordinatorCertificates);
  }
}

void HostJob::start(int host, const std::string& role, std::vector<std::string> arguments) {
  forget(host);
  arguments.insert(arguments.begin(), own_program());
  place(host).role = role;
  place(host).program = hosts_[host].start(std::move(arguments));
}

void HostJob::start_agent(int host) {
  std::vector<std::string> addresses;
  for (int other = 0; other < size(); ++other)
    addresses.push_back(address(other));
  start(host, "agent",
        {"agent", "--join", fmt::format("{}", fmt::join(addresses, ",")), "--wait", std::to_string(kHostWaitSeconds),
         "--certs", kAgentCertificates});
}

void HostJob::start_looking(int host) {
  Place& there = place(host);
  if (!there.reader) there.reader.emplace(hosts_[host].file(kLooks));
  // Of an earlier time at which it coordinated, the last looks were read by nobody.
  there.reader->next();
  there.looker = hosts_[host].start({own_program(), "chaos", name_, "--role", "look"});
}

void HostJob::keep(int host, const std::string& role, std::optional<launch::HostProgram>& program) {
  if (!program) return;
  if (!program->ended()) program->signal(SIGKILL);
  const launch::Finished end = program->wait(kHostCommandTime);
  std::ofstream(logs_ / fmt::format("{}.txt", hosts_[host].name()), std::ios::app)
      << fmt::format("--- {}, {} ---\n{}{}", role, end_words(end), end.out, end.err);
  program.reset();
}

void HostJob::forget(int host) {
  Place& there = place(host);
  keep(host, "agent", there.former);
  keep(host, there.role, there.program);
}

std::vector<Look> HostJob::looks() {
  std::vector<Look> looks = place(coordinator_).reader->next();
  coordinates_ = coordinates_ || std::ranges::any_of(looks, &Look::live);
  return looks;
}

void HostJob::kill(int host) {
  hosts_[host].kill_all();
  forget(host);
  place(host).looker.reset();
}

void HostJob::come_back(int host, bool wiped) {
  std::error_code code;
  if (wiped) std::filesystem::remove_all(hosts_[host].file(kHostRuns), code);
  start_agent(host);
}

void HostJob::take_over(int host) {
  coordinator_ = host;
  coordinates_ = false;
  place(host).former = std::move(place(host).program);
  place(host).program.reset();
  start_attach(host);
  start_looking(host);
}

void HostJob::start_attach(int host) {
  Place& there = place(host);
  keep(host, there.role, there.program);
  there.role = "attach";
  attached_ = look_clock();
  there.program = hosts_[host].start(
      {own_program(), "attach", name_, "--listen", address(host), "--certs", kCoordinatorCertificates});
}

void HostJob::tend() {
  for (int host = 0; host < size(); ++host) {
    Place& there = place(host);
    if (!there.program || !there.program->ended()) continue;
    const launch::Finished end = there.program->wait();
    if (host == coordinator_) {
      // Refused: somebody still answers for the one that is lost, or has not noticed yet.
      const bool again = !coordinates_ && end.exit_code == kRefused && look_clock() - attached_ > kAttachPause;
      if (again) start_attach(host);
    } else if (end.exit_code != 0 && end.exit_code != 128 + SIGTERM) {  // those go with the job
      deserters_.push_back(fmt::format("the agent of {} ended with {}: {}", hosts_[host].name(), end_words(end),
                                       end.err.substr(end.err.size() - std::min<std::size_t>(end.err.size(), 300))));
      start_agent(host);
    }
  }
}

bool HostJob::over() {
  Place& there = place(coordinator_);
  if (!there.program || !there.program->ended()) return false;
  return coordinates_ || there.program->wait().exit_code != kRefused;
}

int HostJob::exit_code() {
  const launch::Finished end = place(coordinator_).program->wait();
  return end.signal != 0 ? 128 + end.signal : end.exit_code;
}

bool HostJob::stop() {
  return hosts_[coordinator_].run({own_program(), "stop", name_}, kHostCommandTime).exit_code == 0;
}

std::vector<std::string> HostJob::wait_for_agents(std::chrono::seconds limit) {
  std::vector<std::string> late;
  const Deadline deadline = Deadline::after(limit);
  for (int host = 0; host < size(); ++host) {
    Place& there = place(host);
    if (host == coordinator_ || !there.program) continue;
    if (!eventually([&] { return there.program->ended(); }, deadline))
      late.push_back(fmt::format("the {} of {}", there.role, hosts_[host].name()));
  }
  return late;
}

std::vector<std::string> HostJob::leftovers() {
  std::vector<std::string> left;
  for (int host = 0; host < size(); ++host) {
    place(host).looker.reset();
    launch::Host& there = hosts_[host];
    const auto found = [&](const std::string& what) { left.push_back(fmt::format("{} on {}", what, there.name())); };
    for (const pid_t pid : there.processes())
      found(fmt::format("process {}", pid));
    std::ifstream sockets(fmt::format("/proc/{}/net/unix", there.pid()));
    for (std::string line; std::getline(sockets, line);)
      if (const std::size_t name = line.find("@muster-"); name != std::string::npos)
        found("socket " + line.substr(name));
    std::error_code code;
    for (const char* folder : {"/tmp", "/dev/shm"})
      for (const auto& entry : std::filesystem::directory_iterator(there.file(folder), code))
        if (is_of_a_host(entry.path().filename()))
          found(fmt::format("{}/{}", folder, entry.path().filename().string()));
    if (const auto folder = run(host))
      for (const auto& entry : std::filesystem::directory_iterator(*folder / "checkpoints", code))
        if (entry.path().filename().string().starts_with("."))
          found("a checkpoint that was begun, " + entry.path().filename().string());
  }
  return left;
}

std::optional<std::filesystem::path> HostJob::run(int host) {
  const std::vector<std::filesystem::path> runs = list_runs(hosts_[host].file(kHostRuns));
  return runs.empty() ? std::nullopt : std::optional(runs.front());
}

std::uintmax_t HostJob::ledger_bytes(int host) {
  std::uintmax_t bytes = 0;
  const auto folder = run(host);
  if (!folder) return bytes;
  std::error_code code;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*folder / "ledger", code))
    if (entry.is_regular_file(code)) bytes += entry.file_size(code);
  return bytes;
}

StoredWeights HostJob::undisturbed(std::uint64_t step, std::chrono::seconds limit) {
  // At the end of an epoch only every_epochs makes it write one. Enough stay for that one to be read in peace.
  launch::HostProgram program = hosts_[0].start({own_program(), "train", "job.toml", "--quiet", "--set",
                                                 "parallel.hosts=1", "--set", "parallel.workers=1", "--set",
                                                 "job.ledger=false", "--set", fmt::format("job.runs={}", kUndisturbed),
                                                 "--set", fmt::format("checkpoint.every_steps={}", step), "--set",
                                                 "checkpoint.every_epochs=1", "--set", "checkpoint.keep=50"});
  const std::filesystem::path runs = hosts_[0].file(kUndisturbed);
  const auto has_it = [&] {
    const std::vector<std::filesystem::path> found = list_runs(runs);
    return !found.empty() && has_checkpoint(found.front(), step);
  };
  // Rarely: whoever waits takes the processor from what is waited for.
  const Deadline deadline = Deadline::after(limit);
  while (!has_it() && !program.ended() && !deadline.passed())
    system_clock().sleep_for(kReferencePause);
  if (!has_it()) {
    throw Error(program.ended() ? ErrorKind::kPeerLost : ErrorKind::kTimeout,
                fmt::format("the undisturbed run has not come to step {}", step), {}, program.err());
  }
  return stored_weights(list_runs(runs).front(), step);
}

void HostJob::keep_logs() {
  for (int host = 0; host < size(); ++host) {
    const auto folder = run(host);
    if (!folder) continue;
    std::error_code code;
    const std::filesystem::path to = logs_ / hosts_[host].name();
    std::filesystem::create_directories(to, code);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(*folder, code)) {
      const std::filesystem::path name = entry.path().filename();
      const bool text = name.extension() == ".txt" || name.extension() == ".jsonl" || name.extension() == ".toml";
      if (text && entry.is_regular_file(code))
        std::filesystem::copy_file(entry.path(), to / name, std::filesystem::copy_options::overwrite_existing, code);
    }
  }
}

}  // namespace muster::cli
