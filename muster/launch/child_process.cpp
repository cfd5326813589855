// Between fork and exec nothing allocates: all that the child needs is made before. Signals are held meanwhile, because
// a child would run its parent's handlers and the signal would be lost.
#include "muster/launch/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"

namespace muster::launch {
namespace {

constexpr std::chrono::milliseconds kPollInterval{2};
constexpr int kNotStarted = 127;  // as shells count
// A process that was killed and is not gone by then is stuck in the kernel, and writes nothing any more.
constexpr std::chrono::milliseconds kLongestDeath{10000};

// What a child needs after fork, made before it: between fork and exec nothing may allocate.
struct Image {
  explicit Image(const Command& command) : path(find_program(command.program).value_or("")) {
    if (path.empty()) {
      const bool is_path = command.program.find('/') != std::string::npos;
      throw Error(ErrorKind::kNotFound, is_path ? fmt::format("\"{}\" is no program that can be run", command.program)
                                                : fmt::format("no program \"{}\" in PATH", command.program));
    }
    words.push_back(command.program);
    words.insert(words.end(), command.arguments.begin(), command.arguments.end());
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (!command.environment.contains(text.substr(0, text.find('=')))) variables.push_back(text);
    }
    for (const auto& [name, value] : command.environment)
      variables.push_back(fmt::format("{}={}", name, value));
    point_to(words, argv);
    point_to(variables, envp);
  }

  static void point_to(std::vector<std::string>& texts, std::vector<char*>& pointers) {
    for (std::string& text : texts)
      pointers.push_back(text.data());
    pointers.push_back(nullptr);
  }

  std::string path;
  std::vector<std::string> words;
  std::vector<std::string> variables;
  std::vector<char*> argv;
  std::vector<char*> envp;
};

// Right after fork, in the child; nothing here allocates. False: it is not where it should be, or has no parent any
// more.
bool become_child(const Command& command, pid_t parent) {
  if (command.own_group) ::setpgid(0, 0);
  if (command.input >= 0) ::dup2(command.input, STDIN_FILENO);
  if (command.output >= 0) ::dup2(command.output, STDOUT_FILENO);
  if (!command.log.empty()) {
    const int log = ::open(command.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log < 0 || ::dup2(log, STDOUT_FILENO) < 0 || ::dup2(log, STDERR_FILENO) < 0) return false;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const bool there = command.folder.empty() || ::chdir(command.folder.c_str()) == 0;
  return there && ::getppid() == parent;
}

// As exec does: what the parent does at a signal is not the child's affair.
void forget_handlers() {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)
      continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(number, &action, nullptr);
  }
}

// No signal reaches this thread while it lives, nor what is forked meanwhile until allow(): a child would run its
// parent's handler before it is itself, and the signal would be lost.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  ~SignalsHeld() { allow(); }

  void allow() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

FileDescriptor open_handle(pid_t pid) {
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace

std::string to_string(const Ending& ending) {
  if (ending.unknown) return "it is gone";
  if (ending.signal != 0) return fmt::format("killed by signal {} ({})", ending.signal, ::strsignal(ending.signal));
  return fmt::format("exit code {}", ending.exit_code);
}

std::optional<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return ::access(name.c_str(), X_OK) == 0 ? std::optional(name) : std::nullopt;
  // As execvp does; the search path is the launcher's business, not a setting of ours.
  std::string path;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "PATH=", 5) == 0) path = *entry + 5;
  }
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string candidate = path.substr(begin, end - begin) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return std::nullopt;
}

ChildProcess::ChildProcess(const Command& command) : own_group_(command.own_group) {
  if (command.copy)
    start_copy(command);
  else
    start_program(command);
}

// Here as well as in the child: neither may go on as if it were done, and it fails only if the other was first.
void ChildProcess::make_group() const {
  if (own_group_) ::setpgid(pid_, pid_);
}

void ChildProcess::start_copy(const Command& command) {
  const pid_t parent = ::getpid();
  std::fflush(nullptr);  // or the child would print it as well
  const SignalsHeld held;
  pid_ = ::fork();
  if (pid_ < 0) throw_system_error("start", "a worker");
  if (pid_ == 0) {
    forget_handlers();
    held.allow();
    const bool there = become_child(command, parent);
    for (const auto& [name, value] : command.environment)
      ::setenv(name.c_str(), value.c_str(), 1);
    std::exit(there ? command.copy() : kNotStarted);
  }
  make_group();
  handle_ = open_handle(pid_);
}

void ChildProcess::start_program(const Command& command) {
  Image image(command);
  const pid_t parent = ::getpid();
  // exec closes this pipe; what comes through it before is the errno of an exec that failed.
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_system_error("make a pipe for", image.path);
  const FileDescriptor result(ends[0]);
  FileDescriptor report(ends[1]);
  std::optional<SignalsHeld> held(std::in_place);
  pid_ = ::fork();
  if (pid_ < 0) throw_system_error("start", image.path);
  if (pid_ == 0) {
    forget_handlers();
    held->allow();
    if (become_child(command, parent)) ::execve(image.path.c_str(), image.argv.data(), image.envp.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = ::write(report.get(), &error, sizeof error);
    ::_exit(kNotStarted);
  }
  held.reset();
  make_group();
  report = FileDescriptor();
  handle_ = open_handle(pid_);
  int error = 0;
  if (::read(result.get(), &error, sizeof error) == sizeof error) {
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
    errno = error;
    throw_system_error("start", image.path);
  }
}

ChildProcess ChildProcess::adopt(const ProcessId& process) {
  ChildProcess adopted;
  adopted.pid_ = process.pid;
  adopted.adopted_ = true;
  adopted.handle_ = open_handle(process.pid);
  // Looked at after the handle was opened: it cannot become another process any more.
  const bool gone = !adopted.handle_.valid() && errno == ESRCH;
  if (!adopted.handle_.valid() && !gone)
    throw_system_error("cannot be watched", fmt::format("process {}", process.pid));
  if (gone || state_of(process) == ProcessState::kGone) adopted.ending_ = Ending{.unknown = true};
  return adopted;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      handle_(std::move(other.handle_)),
      adopted_(other.adopted_),
      own_group_(other.own_group_),
      ending_(std::exchange(other.ending_, std::nullopt)) {
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0 || ending_) return;
  kill(SIGKILL);
  if (!adopted_) {
    ::waitpid(pid_, nullptr, 0);
    return;
  }
  pollfd wanted{handle_.get(), POLLIN, 0};
  ::poll(&wanted, 1, static_cast<int>(kLongestDeath.count()));
}

std::optional<Ending> ChildProcess::poll() {
  if (adopted_) {
    pollfd wanted{handle_.get(), POLLIN, 0};
    if (!ending_ && ::poll(&wanted, 1, 0) == 1) ending_ = Ending{.unknown = true};
    return ending_;
  }
  if (ending_) return ending_;
  // Before it is reaped: as long as it is there no other group can have its number.
  siginfo_t info{};
  if (own_group_ && ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      info.si_pid == pid_ && (info.si_code != CLD_EXITED || info.si_status != 0))
    ::kill(-pid_, SIGKILL);
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_)
    ending_ = WIFSIGNALED(status) ? Ending{.signal = WTERMSIG(status)} : Ending{.exit_code = WEXITSTATUS(status)};
  return ending_;
}

void ChildProcess::kill(int signal) const {
  if (ending_) return;
  if (adopted_)
    ::syscall(SYS_pidfd_send_signal, handle_.get(), signal, nullptr, 0);
  else if (!own_group_ || signal != SIGKILL || ::kill(-pid_, signal) != 0)
    ::kill(pid_, signal);
}

void wait_for_an_end(const std::vector<int>& handles, std::chrono::milliseconds longest) {
  std::vector<pollfd> wanted;
  for (const int handle : handles)
    wanted.push_back({handle, POLLIN, 0});  // one below 0 is left out
  ::poll(wanted.data(), wanted.size(), static_cast<int>(longest.count()));
}

std::optional<FirstEnding> wait_for_all(std::vector<ChildProcess>& children, const Deadline& deadline) {
  for (;;) {
    std::size_t running = 0;
    for (std::size_t i = 0; i < children.size(); ++i) {
      const std::optional<Ending> ending = children[i].poll();
      if (!ending)
        ++running;
      else if (!ending->good())
        return FirstEnding{i, *ending};
    }
    if (running == 0) return std::nullopt;
    if (deadline.passed())
      throw Error(ErrorKind::kTimeout, fmt::format("{} of {} processes still run", running, children.size()));
    system_clock().sleep_for(kPollInterval);
  }
}

}  // namespace muster::launch
