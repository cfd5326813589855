// A process that is started or taken over, watched, and ended with its owner.
//
// Thread safety: one thread at a time.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/base/files.h"
#include "muster/base/process.h"

namespace muster::launch {

struct Command {
  std::string program;                             // a path, or a name that is looked up in PATH
  std::vector<std::string> arguments;              // without the program itself
  std::map<std::string, std::string> environment;  // added to this process's own
  std::string folder{};                            // in which it is started; empty: this process's own
  int input = -1;                                  // descriptor that becomes its standard input; -1: this process's own
  int output = -1;                                 // likewise its standard output
  std::string log{};  // a file, behind whose end its standard output and error go; empty: where this process's own do
  bool own_group = false;  // a process group of its own: signals of the terminal do not reach it
  // Instead of the program: what a copy of this process does; gives its exit code. It saves what the program does
  // before main, which with LibTorch is half a second. REQUIRES: no thread of this process holds a lock, and nothing
  // has computed yet: threads, those of libraries too, are not copied.
  std::function<int()> copy{};
};

// How a process ended.
struct Ending {
  int exit_code = 0;  // when no signal did
  int signal = 0;
  bool unknown = false;  // of one that was taken over: only its parent is told how it ended
  bool good() const { return exit_code == 0 && signal == 0 && !unknown; }
};
// "exit code 2", "killed by signal 9 (Killed)".
std::string to_string(const Ending& ending);

// Where a program of that name is in PATH, if it is.
std::optional<std::string> find_program(const std::string& name);

class ChildProcess {
 public:
  // Throws kNotFound (no such program), kResource. The child is killed when the thread that started it ends, so that
  // nothing is left when this process is killed.
  explicit ChildProcess(const Command& command);
  // Takes over one that another process has started; it may be gone already.
  static ChildProcess adopt(const ProcessId& process);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  // Kills it, if it still runs, and waits for its end.
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Nothing while it runs. One with a group of its own that ends badly takes with it what it has started.
  std::optional<Ending> poll();
  bool ended() const { return ending_.has_value(); }  // and poll() has seen it
  // SIGKILL reaches all of its group, where it has one of its own.
  void kill(int signal) const;
  // A descriptor that becomes readable when the process ends; -1 where the kernel has none.
  int handle() const { return handle_.get(); }

 private:
  ChildProcess() = default;
  void start_program(const Command& command);
  void make_group() const;
  void start_copy(const Command& command);
  pid_t pid_ = -1;
  FileDescriptor handle_;  // a pidfd: readable once the process has ended
  bool adopted_ = false;
  bool own_group_ = false;
  std::optional<Ending> ending_;
};

// Returns when one of the processes with these handles has ended, at the latest after `longest`.
void wait_for_an_end(const std::vector<int>& handles, std::chrono::milliseconds longest);

// Waits until all have ended well, or one of them has not; that one's place in `children` and its end.
struct FirstEnding {
  std::size_t index = 0;
  Ending ending;
};
// Throws kTimeout naming how many still run.
std::optional<FirstEnding> wait_for_all(std::vector<ChildProcess>& children, const Deadline& deadline);

}  // namespace muster::launch
