// The processes are ssh's, in groups of their own: Ctrl-C is for the coordinator, which ends the job in good order.
// What goes to the other machine before the agent starts fits into a pipe, so that nothing here waits for it.
#include "muster/launch/ssh_agents.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/temporary_folder.h"
#include "muster/base/text.h"
#include "muster/control/trust_files.h"
#include "muster/launch/bundle.h"

namespace muster::launch {
namespace {

constexpr std::chrono::seconds kFarewell{10};
constexpr std::chrono::seconds kConfiguration{10};  // to read files and, where it says so, run commands
constexpr std::chrono::minutes kLook{10};           // a slow login, and half a gigabyte that is read and compared
constexpr std::chrono::minutes kCopy{30};
constexpr std::chrono::milliseconds kPollOfAgents{20};
constexpr int kSshFailed = 255;

struct Pipe {
  FileDescriptor out;  // to read from
  FileDescriptor in;
};

Pipe make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ErrorKind::kResource, fmt::format("no pipe: {}", std::strerror(errno)));
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// Few enough bytes for a pipe that nobody reads yet.
void write_all(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(descriptor, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) throw Error(ErrorKind::kIo, fmt::format("ssh takes no input: {}", std::strerror(errno)));
    done += static_cast<std::size_t>(wrote);
  }
}

Ending finish(ChildProcess& process, const Deadline& deadline, const std::string& what) {
  for (;; wait_for_an_end({process.handle()}, kPollOfAgents)) {
    if (const std::optional<Ending> ending = process.poll()) return *ending;
    if (deadline.passed()) throw Error(ErrorKind::kTimeout, what + " does not end");
  }
}

// What a shell command here says and does.
Ending run_shell(const std::string& text, const Deadline& deadline) {
  ChildProcess process({.program = "sh", .arguments = {"-c", text}, .environment = {}, .own_group = true});
  return finish(process, deadline, text);
}

// The sha256 of its list of checksums, by which all of its files are known. Throws kNotFound, kInvalidInput.
std::string sums_of_bundle(const std::filesystem::path& bundle) {
  std::error_code code;
  if (!std::filesystem::exists(bundle, code))
    throw Error(ErrorKind::kNotFound, "there is no such bundle", bundle.string(), "muster bundle makes one.");
  const Error none(ErrorKind::kInvalidInput, fmt::format("is no bundle: it has no {}", kBundleSums), bundle.string(),
                   "muster bundle makes one.");
  if (std::filesystem::is_directory(bundle, code)) {
    if (!std::filesystem::exists(bundle / kBundleSums, code)) throw none;
    return file_sum(bundle / kBundleSums);
  }
  const TemporaryFolder folder("muster-sums-");
  const std::filesystem::path sums = folder.path() / kBundleSums;
  // Its own words would only say once more that it is none.
  run_shell(fmt::format("zstd -q -d -c {} 2>/dev/null | tar -x -O -f - --wildcards '*/{}' > {} 2>/dev/null",
                        shell_word(std::filesystem::absolute(bundle).string()), kBundleSums, shell_word(sums.string())),
            Deadline::after(kCopy));
  if (std::filesystem::file_size(sums, code) == 0 || code) throw none;
  return file_sum(sums);
}

Error lost_host(const std::string& host, const Ending& ending) {
  if (ending.exit_code == kSshFailed)
    return {ErrorKind::kPeerLost,
            fmt::format("host {}: ssh could not connect, or lost the connection", host),
            {},
            fmt::format("ssh -o BatchMode=yes {} true has to work without a question.", host)};
  if (ending.exit_code == kNoProgramThere)
    return {ErrorKind::kNotFound,
            fmt::format("host {} has no muster", host),
            {},
            "Install it there, say where it is by --remote-muster PATH, or have it copied: --bundle FILE of muster "
            "bundle."};
  const bool mistake = ending.exit_code == 2;
  return {mistake ? ErrorKind::kInvalidInput : ErrorKind::kPeerLost,
          fmt::format("host {}: its agent ended with {}", host, to_string(ending)),
          {},
          "What it said stands above."};
}

}  // namespace

SshWay ssh_way(const std::string& host, const SshOptions& options) {
  const auto program = find_program(options.program);
  if (!program)
    throw Error(ErrorKind::kNotFound, fmt::format("there is no {} here", options.program), {},
                "Install it (Debian: openssh-client).");
  Pipe pipe = make_pipe();
  ChildProcess process(
      {.program = *program, .arguments = {"-G", host}, .environment = {}, .output = pipe.in.get(), .own_group = true});
  pipe.in = FileDescriptor();
  const Deadline deadline = Deadline::after(kConfiguration);
  std::string text;
  char part[4096];
  for (;;) {
    // A configuration may have commands run that never end.
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.remaining());
    pollfd ready{pipe.out.get(), POLLIN, 0};
    const int polled = left.count() > 0 ? ::poll(&ready, 1, static_cast<int>(left.count())) : 0;
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0)
      throw Error(
          ErrorKind::kTimeout,
          fmt::format("ssh has not read its configuration for {} within {} s", excerpt(host), kConfiguration.count()),
          {}, fmt::format("See what takes so long: ssh -G {}", excerpt(host)));
    const ssize_t got = ::read(pipe.out.get(), part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(part, static_cast<std::size_t>(got));
  }
  if (!finish(process, deadline, "ssh -G").good())
    throw Error(ErrorKind::kInvalidInput, fmt::format("ssh does not understand the host \"{}\"", excerpt(host)));
  SshWay way{host};
  std::istringstream lines(text);
  for (std::string key, value; lines >> key && std::getline(lines >> std::ws, value);) {
    if (key == "hostname") way.host = value;
    if ((key == "proxyjump" || key == "proxycommand") && value != "none") way.direct = false;
  }
  return way;
}

void SshAgents::start(const NamedHost& host, RemoteAgent agent, const std::filesystem::path& certs) {
  std::string secrets;
  if (!certs.empty()) {
    const control::CertificateFiles files = control::read_certificate_files(certs);
    for (const std::string* text : {&files.authorities, &files.certificate, &files.key}) {
      agent.certificate_bytes.push_back(text->size());
      secrets += *text;
    }
  }
  if (!options_.bundle.empty()) bring_bundle(host.name, agent);
  Pipe pipe = make_pipe();
  Command command{.program = options_.program,
                  .arguments = ssh_arguments(host.name, remote_script(agent)),
                  .environment = {},
                  .input = pipe.out.get(),
                  .own_group = true};
  agents_.push_back({host.name, ChildProcess(command), std::move(pipe.in)});
  pipe.out = FileDescriptor();
  write_all(agents_.back().line.get(), secrets);
}

void SshAgents::bring_bundle(const std::string& host, RemoteAgent& agent) {
  if (bundle_sums_.empty()) bundle_sums_ = sums_of_bundle(options_.bundle);
  const std::string folder = ".cache/muster/bundle-" + bundle_sums_.substr(0, 16);
  agent.bundled = "./" + folder + "/bin/muster";
  agent.bundle_sums = bundle_sums_;
  const auto ssh = [&](const std::string& script) {
    std::string words = shell_word(options_.program);
    for (const std::string& word : ssh_arguments(host, script))
      words += " " + shell_word(word);
    return words;
  };
  const Ending found = run_shell(ssh(looking_script(agent)) + " </dev/null", Deadline::after(kLook));
  // A machine that cannot be reached is found out when its agent is started.
  if (found.exit_code != kNoProgramThere) return;
  options_.tell(fmt::format("host {} has no muster: the bundle is copied there", host));
  const std::string path = std::filesystem::absolute(options_.bundle).string();
  const std::string unpacked = std::filesystem::is_directory(options_.bundle)
                                   ? fmt::format("tar -C {} -c -f - .", shell_word(path))
                                   : fmt::format("zstd -q -d -c {}", shell_word(path));
  const Ending ending =
      run_shell(fmt::format("{} | {}", unpacked, ssh(unpacking_script(folder, bundle_sums_))), Deadline::after(kCopy));
  if (!ending.good())
    throw Error(ErrorKind::kIo, fmt::format("the bundle could not be copied to host {}: {}", host, to_string(ending)),
                path, "What ssh, tar and sha256sum said stands above.");
}

std::optional<Error> SshAgents::lost() {
  for (Agent& agent : agents_) {
    const std::optional<Ending> ending = agent.process.poll();
    if (ending && !ending->good()) return lost_host(agent.host, *ending);
  }
  return std::nullopt;
}

void SshAgents::wait(const Deadline& deadline) {
  for (Agent& agent : agents_)
    while (!agent.process.poll() && !deadline.passed())
      wait_for_an_end({agent.process.handle()}, kPollOfAgents);
}

SshAgents::~SshAgents() {
  for (Agent& agent : agents_)
    agent.line = FileDescriptor();
  try {
    wait(Deadline::after(kFarewell));
  } catch (const std::exception&) {
    // They are killed with their handles.
  }
}

}  // namespace muster::launch
