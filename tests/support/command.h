// Runs any command as a user would, with a limit: standard output and error are kept, and nothing of it outlives the
// test, because it is a process group of its own that is killed as one.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "muster/base/deadline.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::testing {

struct CommandResult {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  std::string out;  // standard output and error, as they came
};

class Command {
 public:
  explicit Command(std::vector<std::string> words) {
    std::vector<char*> argv;
    for (std::string& word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string out = (folder_ / "out").string();
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("fork");
    if (pid_ == 0) {
      ::setpgid(0, 0);
      const int fd = ::open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(fd, STDOUT_FILENO);
      ::dup2(fd, STDERR_FILENO);
      ::execvp(argv[0], argv.data());
      ::_exit(98);
    }
    ::setpgid(pid_, pid_);  // both sides do it, whoever comes first
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command() {
    if (pid_ > 0) {
      ::kill(-pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  pid_t pid() const { return pid_; }
  std::string out() const { return slurp(folder_ / "out"); }

  // Until it has ended. Kills it at the limit, which then shows as signal 9.
  CommandResult wait(std::chrono::seconds limit = std::chrono::seconds(120)) {
    int status = 0;
    if (!eventually([&] { return ::waitpid(pid_, &status, WNOHANG) != 0; }, Deadline::after(limit))) {
      ::kill(-pid_, SIGKILL);
      ::waitpid(pid_, &status, 0);
    }
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0, out()};
  }

 private:
  TemporaryFolder folder_;
  pid_t pid_ = -1;
};

inline CommandResult run_command(std::vector<std::string> words) {
  return Command(std::move(words)).wait();
}

}  // namespace muster::testing
