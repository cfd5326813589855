// Namespaces by clone() and setns(), the network by `ip` in batches.
//
// Who may have threads is forked here, so children make system calls only until they exec; all that they need is
// prepared before. A cut needs no packet filter, which not every kernel has: the hosts' neighbour tables are written by
// hand, and a host that is cut off has an address there that no interface has.
#include "muster/launch/namespace_hosts.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/eventually.h"
#include "muster/base/files.h"

namespace muster::launch {
namespace {

constexpr int kOwnNamespaces = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWPID | CLONE_NEWIPC;
constexpr const char* kWorkFolder = "/tmp/work";
constexpr std::chrono::seconds kToolTime{30};

// From <linux/mount.h>, which cannot be included beside <sys/mount.h> everywhere.
struct MountAttributes {
  std::uint64_t set = 0;
  std::uint64_t clear = 0;
  std::uint64_t propagation = 0;
  std::uint64_t user_namespace = 0;
};
constexpr std::uint64_t kReadOnly = 1;        // MOUNT_ATTR_RDONLY
constexpr unsigned kRecursive = 0x8000;       // AT_RECURSIVE
constexpr unsigned kTreeClone = 1;            // OPEN_TREE_CLONE
constexpr unsigned kFromDescriptor = 0x0004;  // MOVE_MOUNT_F_EMPTY_PATH

Error refused(std::string what) {
  return Error(ErrorKind::kResource, std::move(what));
}

Error system_failure(const std::string& what) {
  return refused(fmt::format("{}: {}", what, std::strerror(errno)));
}

std::string read_whole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string read_whole(int descriptor) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t got = 0; (got = ::pread(descriptor, part.data(), part.size(), static_cast<off_t>(text.size()))) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  return text;
}

FileDescriptor memory_file(std::string_view text = {}) {
  FileDescriptor file(::memfd_create("hosts", MFD_CLOEXEC));
  if (!file.valid() || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0)
    throw system_failure("a file in memory");
  return file;
}

// A file without a name for what a program prints.
FileDescriptor output_file() {
  std::string name = (std::filesystem::temp_directory_path() / "muster-test-XXXXXX").string();
  FileDescriptor file(::mkostemp(name.data(), O_APPEND | O_CLOEXEC));
  if (!file.valid()) throw system_failure(name);
  ::unlink(name.c_str());
  return file;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words)
    result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// What happens between fork and exec.
struct Entry {
  pid_t target = 0;    // whose namespaces
  int namespaces = 0;  // which of them
  const char* folder = nullptr;
  int signal_all = 0;  // instead of a program: this signal to all that the process sees
};

// A child of this process that runs inside of other namespaces: a process in between enters them, since a process
// number is given at birth, and gives birth to a sibling of its own.
pid_t spawn(const Entry& entry, std::vector<std::string> words, std::vector<std::string> environment, int in, int out,
            int err) {
  std::vector<char*> argv = pointers(words);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::string_view name = text.substr(0, text.find('=') + 1);
    if (std::ranges::none_of(environment, [&](const std::string& own) { return own.starts_with(name); }))
      environment.emplace_back(text);
  }
  std::vector<char*> envp = pointers(environment);
  const FileDescriptor target(static_cast<int>(::syscall(SYS_pidfd_open, entry.target, 0)));
  if (!target.valid()) throw system_failure("a host's first process");
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw system_failure("pipe");
  const FileDescriptor told(ends[0]);
  FileDescriptor tells(ends[1]);
  const pid_t between = ::fork();
  if (between < 0) throw system_failure("fork");
  if (between == 0) {
    if (::setns(target.get(), entry.namespaces) != 0) ::_exit(96);
    const auto child = static_cast<pid_t>(::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0));
    if (child != 0) ::_exit(::write(tells.get(), &child, sizeof child) == sizeof child && child > 0 ? 0 : 95);
    if (entry.signal_all != 0) ::_exit(::kill(-1, entry.signal_all) == 0 || errno == ESRCH ? 0 : 94);
    if ((entry.folder != nullptr && ::chdir(entry.folder) != 0) || ::dup2(in, STDIN_FILENO) < 0 ||
        ::dup2(out, STDOUT_FILENO) < 0 || ::dup2(err, STDERR_FILENO) < 0)
      ::_exit(97);
    ::syscall(SYS_close_range, 3U, ~0U, 0U);  // nothing of the caller crosses
    ::execvpe(argv[0], argv.data(), envp.data());
    ::_exit(98);
  }
  tells = FileDescriptor();
  pid_t child = -1;
  const bool heard = ::read(told.get(), &child, sizeof child) == static_cast<ssize_t>(sizeof child);
  int status = 0;
  ::waitpid(between, &status, 0);
  if (!heard || child <= 0) throw refused("a process cannot enter the host's namespaces");
  return child;
}

// waitpid's status, or nothing at the deadline.
std::optional<int> wait_for(pid_t pid, const Deadline& deadline) {
  int status = 0;
  if (eventually([&] { return ::waitpid(pid, &status, WNOHANG) != 0; }, deadline)) return status;
  return std::nullopt;
}

// Runs `ip`, `bridge` or `tc` in the network of a process; each line of `batch` is a command.
void run_tool(pid_t network, const std::string& tool, const std::string& batch) {
  if (batch.empty()) return;
  const FileDescriptor in = memory_file(batch);
  const FileDescriptor out = memory_file();
  const pid_t pid = spawn({network, CLONE_NEWNET}, {tool, "-batch", "-"}, {}, in.get(), out.get(), out.get());
  const std::optional<int> status = wait_for(pid, Deadline::after(kToolTime));
  if (!status) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  if (status != 0) throw refused(fmt::format("{} did not do\n{}{}", tool, batch, read_whole(out.get())));
}

// What a host's first process makes of its namespaces. System calls only; returns 0 or the number of the step that
// failed, with errno.
int furnish(const std::string& name, const std::string& known_hosts) {
  const MountAttributes read_only{.set = kReadOnly};
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 1;
  if (::syscall(SYS_mount_setattr, AT_FDCWD, "/", kRecursive, &read_only, sizeof read_only) != 0) return 2;
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) return 3;
  // Interfaces are seen in /sys/class/net, limits in /sys/fs/cgroup: the first are the host's, the second the
  // machine's.
  const auto groups =
      static_cast<int>(::syscall(SYS_open_tree, AT_FDCWD, "/sys/fs/cgroup", kTreeClone | kRecursive | O_CLOEXEC));
  if (::mount("sysfs", "/sys", "sysfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) return 4;
  if (groups >= 0 && ::syscall(SYS_move_mount, groups, "", AT_FDCWD, "/sys/fs/cgroup", kFromDescriptor) != 0) return 5;
  if (::mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") != 0) return 6;
  if (::mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") != 0) return 7;
  if (::mkdir(kWorkFolder, 0700) != 0) return 8;
  if (::sethostname(name.data(), name.size()) != 0) return 9;
  const int file = ::open("/tmp/hosts", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0 || ::write(file, known_hosts.data(), known_hosts.size()) < 0) return 10;
  ::close(file);
  if (::mount("/tmp/hosts", "/etc/hosts", nullptr, MS_BIND, nullptr) != 0 && errno != ENOENT) return 11;
  if (::unlink("/tmp/hosts") != 0 && errno != EBUSY) return 12;
  return 0;
}

// A process that keeps namespaces alive, and ends when its owner does: it waits for the end of a connection whose other
// end only the owner has.
class Holder {
 public:
  // Empty `name`: only a network.
  Holder(const std::string& name, const std::string& known_hosts) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw system_failure("socketpair");
    connection_ = FileDescriptor(ends[0]);
    FileDescriptor other(ends[1]);
    const int flags = name.empty() ? CLONE_NEWNET : kOwnNamespaces;
    pid_ = static_cast<pid_t>(::syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0));
    if (pid_ < 0) throw system_failure("the machine gives no namespaces");
    if (pid_ == 0) hold(other.get(), name, known_hosts);
    other = FileDescriptor();
    std::array<int, 2> answer{-1, 0};
    if (::read(connection_.get(), answer.data(), sizeof answer) != static_cast<ssize_t>(sizeof answer) ||
        answer[0] != 0) {
      errno = answer[1];
      const Error failure = system_failure(fmt::format("step {} of making a host", answer[0]));
      end();
      throw failure;
    }
  }
  Holder(Holder&& other) noexcept : connection_(std::move(other.connection_)), pid_(std::exchange(other.pid_, -1)) {}
  ~Holder() { end(); }

  pid_t pid() const { return pid_; }
  // The kernel ends all processes of its process namespace, and it is gone when they are. REQUIRES: those that are
  // children of this process are waited for at the same time, or were.
  void kill() const {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }

 private:
  [[noreturn]] static void hold(int connection, const std::string& name, const std::string& known_hosts) {
    ::signal(SIGCHLD, SIG_IGN);  // orphans come here, and leave no zombies
    ::signal(SIGINT, SIG_IGN);   // Ctrl-C is for the owner
    std::array<int, 2> answer{0, 0};
    if (!name.empty()) answer[0] = furnish(name, known_hosts);
    if (answer[0] != 0) answer[1] = errno;
    const bool told = ::write(connection, answer.data(), sizeof answer) == static_cast<ssize_t>(sizeof answer);
    if (!told || answer[0] != 0) ::_exit(1);
    ::dup2(connection, STDIN_FILENO);
    ::syscall(SYS_close_range, 1U, ~0U, 0U);
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
    }
    ::_exit(0);
  }
  void end() {
    if (pid_ <= 0) return;
    kill();
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  FileDescriptor connection_;
  pid_t pid_ = -1;
};

std::string address_of(int host) {
  return fmt::format("10.93.71.{}", host + 1);
}
std::string hardware_address_of(int host) {
  return fmt::format("02:00:0a:5d:47:{:02x}", host + 1);
}
constexpr const char* kNobodysAddress = "02:00:0a:5d:47:ff";

// tc's words for a bucket that lets the rate through. It holds little, a few packets as the kernel joins them or what
// goes in a fifth of a millisecond: what a bucket saves up while nobody sends would be a faster link for who sends
// seldom.
std::string bucket(const std::string& rate) {
  const double burst = std::max(131072.0, link_bits(rate) / 8 / 5000);
  return fmt::format("tbf rate {} burst {:.0f} latency 50ms", rate, burst);
}

}  // namespace

double link_bits(const std::string& rate) {
  char* unit = nullptr;
  const double number = std::strtod(rate.c_str(), &unit);
  const double factor = std::string_view(unit) == "gbit"   ? 1e9
                        : std::string_view(unit) == "mbit" ? 1e6
                        : std::string_view(unit) == "kbit" ? 1e3
                                                           : 0;
  if (!(number > 0 && number < 1e6) || factor == 0)
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no rate of a link", rate), {},
                "Write it as 100mbit, 1gbit or 10gbit.");
  return number * factor;
}

struct HostProgram::State {
  pid_t pid = -1;
  std::optional<int> status;  // waitpid's, once it was waited for
  FileDescriptor out;
  FileDescriptor err;

  void end() {
    if (status) return;
    ::kill(pid, SIGKILL);
    int value = 0;
    ::waitpid(pid, &value, 0);
    status = value;
  }
};

HostProgram::HostProgram(std::shared_ptr<State> state) : state_(std::move(state)) {
}
HostProgram::HostProgram(HostProgram&&) noexcept = default;
HostProgram& HostProgram::operator=(HostProgram&& other) noexcept {
  if (state_) state_->end();
  state_ = std::move(other.state_);
  return *this;
}
HostProgram::~HostProgram() {
  if (state_) state_->end();
}

pid_t HostProgram::pid() const {
  return state_->pid;
}
void HostProgram::signal(int number) const {
  if (!state_->status) ::kill(state_->pid, number);
}
std::string HostProgram::out() const {
  return read_whole(state_->out.get());
}
std::string HostProgram::err() const {
  return read_whole(state_->err.get());
}
bool HostProgram::ended() {
  if (!state_->status) state_->status = wait_for(state_->pid, Deadline::after({}));
  return state_->status.has_value();
}
Finished HostProgram::wait(std::chrono::seconds limit) {
  if (!state_->status) state_->status = wait_for(state_->pid, Deadline::after(limit));
  if (!state_->status) state_->end();
  const int status = *state_->status;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0, out(), err()};
}

struct Host::Parts {
  std::string name;
  std::string address;
  std::optional<Holder> holder;
  std::vector<std::shared_ptr<HostProgram::State>> programs;

  // All of it, even programs whose handles live on.
  ~Parts() {
    if (!holder) return;
    holder->kill();
    for (const std::shared_ptr<HostProgram::State>& program : programs)
      program->end();
  }

  // A signal to all processes of the host but the first.
  void signal_all(int number) const {
    const pid_t pid =
        spawn({.target = holder->pid(), .namespaces = CLONE_NEWPID, .signal_all = number}, {"kill"}, {}, -1, -1, -1);
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (status != 0) throw refused(fmt::format("the processes of {} got no signal", name));
  }

  // The states ('R', 'T', ...) of its processes, by their numbers there.
  std::vector<std::pair<pid_t, char>> states() const {
    std::vector<std::pair<pid_t, char>> result;
    std::error_code gone;
    const std::filesystem::path folder = fmt::format("/proc/{}/root/proc", holder->pid());
    for (const auto& entry : std::filesystem::directory_iterator(folder, gone)) {
      const std::string number = entry.path().filename().string();
      if (number.find_first_not_of("0123456789") != std::string::npos || number == "1") continue;
      const std::string status = read_whole(entry.path() / "stat");
      const std::size_t close = status.rfind(')');
      if (close == std::string::npos || close + 2 >= status.size()) continue;  // gone meanwhile
      // A zombie whose other threads have not ended yet still holds its files.
      std::istringstream fields(status.substr(close + 2));
      char state = 'X';
      fields >> state;
      long threads = 0;
      for (int field = 4; field <= 20; ++field)  // as proc(5) numbers them
        fields >> threads;
      if ((state != 'Z' && state != 'X') || threads > 1) result.emplace_back(std::stoi(number), state);
    }
    return result;
  }

  // Column `field` of eth0's line in /proc/net/dev, which begins with 8 figures of what came.
  std::uint64_t traffic(int field) const {
    std::istringstream lines(read_whole(fmt::format("/proc/{}/net/dev", holder->pid())));
    for (std::string line; std::getline(lines, line);) {
      const std::size_t colon = line.find("eth0:");
      if (colon == std::string::npos) continue;
      std::istringstream figures(line.substr(colon + 5));
      std::uint64_t value = 0;
      for (int i = 0; i <= field; ++i)
        figures >> value;
      return value;
    }
    throw refused(name + " has no eth0");
  }
};

Host::Host(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {
}
Host::Host(Host&&) noexcept = default;
Host::~Host() = default;

const std::string& Host::name() const {
  return parts_->name;
}
const std::string& Host::address() const {
  return parts_->address;
}
pid_t Host::pid() const {
  return parts_->holder->pid();
}
std::filesystem::path Host::file(const std::filesystem::path& path) const {
  return std::filesystem::path(fmt::format("/proc/{}/root", pid())) / path.relative_path();
}

HostProgram Host::start(std::vector<std::string> words, const std::vector<std::string>& environment) {
  auto state = std::make_shared<HostProgram::State>();
  state->out = output_file();
  state->err = output_file();
  const FileDescriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::vector<std::string> all = environment;
  all.insert(all.end(), {"TMPDIR=/tmp", fmt::format("HOME={}", kWorkFolder)});
  state->pid = spawn({.target = pid(), .namespaces = kOwnNamespaces, .folder = kWorkFolder}, std::move(words),
                     std::move(all), null.get(), state->out.get(), state->err.get());
  std::erase_if(parts_->programs, [](const auto& other) { return other->status.has_value(); });
  parts_->programs.push_back(state);
  return HostProgram(std::move(state));
}
Finished Host::run(std::vector<std::string> words, std::chrono::seconds limit) {
  return start(std::move(words)).wait(limit);
}

void Host::kill_all() {
  parts_->signal_all(SIGKILL);
  if (!eventually([&] { return parts_->states().empty(); }, Deadline::after(kToolTime)))
    throw refused(fmt::format("processes of {} do not end", name()));
}
void Host::freeze() {
  parts_->signal_all(SIGSTOP);
  const auto stands_still = [](const std::pair<pid_t, char>& process) { return process.second == 'T'; };
  if (!eventually([&] { return std::ranges::all_of(parts_->states(), stands_still); }, Deadline::after(kToolTime)))
    throw refused(fmt::format("processes of {} do not stop", name()));
}
void Host::thaw() {
  parts_->signal_all(SIGCONT);
}
std::vector<pid_t> Host::processes() const {
  std::vector<pid_t> result;
  for (const auto& [pid, state] : parts_->states())
    result.push_back(pid);
  return result;
}

std::uint64_t Host::received_bytes() const {
  return parts_->traffic(0);
}
std::uint64_t Host::sent_bytes() const {
  return parts_->traffic(8);
}

struct Hosts::Parts {
  std::optional<Holder> hub;  // the network that has the bridge
  std::deque<Host> hosts;

  void check(int host) const {
    if (host < 0 || host >= static_cast<int>(hosts.size())) throw refused(fmt::format("no host {}", host));
  }
  static std::string neighbour(int host, const std::string& hardware_address) {
    return fmt::format("neigh replace {} lladdr {} dev eth0 nud permanent\n", address_of(host), hardware_address);
  }
  // All others, as they are when nothing is cut.
  std::string neighbours(int host) const {
    std::string lines;
    for (int other = 0; other < static_cast<int>(hosts.size()); ++other)
      if (other != host) lines += neighbour(other, hardware_address_of(other));
    return lines;
  }
  void point(int from, int to, const std::string& hardware_address) const {
    run_tool(hosts[static_cast<std::size_t>(from)].pid(), "ip", neighbour(to, hardware_address));
  }
};

std::string Hosts::impossible() {
  if (::geteuid() != 0) return "namespaces are for root alone";
  for (const char* tool : {"ip", "tc", "bridge"})
    if (::access(fmt::format("/usr/sbin/{}", tool).c_str(), X_OK) != 0 &&
        ::access(fmt::format("/sbin/{}", tool).c_str(), X_OK) != 0)
      return "iproute2 is not installed";
  std::error_code none;
  if (std::filesystem::read_symlink("/proc/self/exe", none).string().starts_with("/tmp/"))
    return "this program lies below /tmp, which hosts have of their own";
  try {
    const Hosts hosts(1);
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

Hosts::Hosts(int count) : parts_(std::make_unique<Parts>()) {
  if (count < 1 || count > 200) throw refused("1 to 200 hosts");
  std::string known = "127.0.0.1 localhost\n";
  for (int host = 0; host < count; ++host)
    known += fmt::format("{} host-{}\n", address_of(host), host);
  parts_->hub.emplace("", "");
  std::string links =
      "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n"
      "link set br0 addrgenmode none\nlink set br0 up\n";
  std::string table;
  for (int host = 0; host < count; ++host) {
    auto parts = std::make_unique<Host::Parts>();
    parts->name = fmt::format("host-{}", host);
    parts->address = address_of(host);
    parts->holder.emplace(parts->name, known);
    links += fmt::format("link add h{0} type veth peer name eth0 address {1} netns {2}\n", host,
                         hardware_address_of(host), parts->holder->pid());
    // The bridge knows who is where, and so tells nobody else what is for one of them.
    links += fmt::format("link set h{0} addrgenmode none\nlink set h{0} master br0\nlink set h{0} up\n", host);
    links += fmt::format("link set h{0} type bridge_slave flood off learning off\n", host);
    table += fmt::format("fdb add {} dev h{} master static\n", hardware_address_of(host), host);
    parts_->hosts.emplace_back(std::move(parts));
  }
  run_tool(parts_->hub->pid(), "ip", links);
  run_tool(parts_->hub->pid(), "bridge", table);
  for (int host = 0; host < count; ++host) {
    std::string own = fmt::format(
        "link set lo up\nlink set eth0 addrgenmode none\naddress add {}/24 dev eth0\n"
        "link set eth0 up\n",
        address_of(host));
    own += parts_->neighbours(host);
    run_tool((*this)[host].pid(), "ip", own);
  }
}

Hosts::~Hosts() = default;

int Hosts::size() const {
  return static_cast<int>(parts_->hosts.size());
}
Host& Hosts::operator[](int host) {
  parts_->check(host);
  return parts_->hosts[static_cast<std::size_t>(host)];
}

void Hosts::cut(int host) {
  for (int other = 0; other < size(); ++other) {
    if (other == host) continue;
    cut_one_way(host, other);
    cut_one_way(other, host);
  }
}
void Hosts::cut_one_way(int from, int to) {
  parts_->check(from);
  parts_->check(to);
  parts_->point(from, to, kNobodysAddress);
}
void Hosts::heal() {
  for (int from = 0; from < size(); ++from)
    run_tool((*this)[from].pid(), "ip", parts_->neighbours(from));
}
void Hosts::link_down(int host) {
  run_tool((*this)[host].pid(), "ip", "link set eth0 down\n");
}
void Hosts::link_up(int host) {
  // What an interface knows of its neighbours goes when it goes down.
  run_tool((*this)[host].pid(), "ip", "link set eth0 up\n" + parts_->neighbours(host));
}
void Hosts::shape(const std::string& rate) {
  std::string hub;
  for (int host = 0; host < size(); ++host) {
    const auto line = [&](const std::string& device) {
      return rate.empty() ? fmt::format("qdisc replace dev {} root noqueue\n", device)
                          : fmt::format("qdisc replace dev {} root {}\n", device, bucket(rate));
    };
    hub += line(fmt::format("h{}", host));
    run_tool((*this)[host].pid(), "tc", line("eth0"));
  }
  run_tool(parts_->hub->pid(), "tc", hub);
}

}  // namespace muster::launch
