// Runs the built `muster` program as a user does, and keeps what it printed.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/base/json.h"
#include "support/eventually.h"
#include "support/finished.h"

namespace muster::testing {

// One run of the program in a folder of the test's. Standard output and error go to files there, so that nothing can
// block. Killed when it goes out of scope.
class Program {
 public:
  Program(const std::filesystem::path& folder, std::vector<std::string> arguments) : folder_(folder) {
    arguments.insert(arguments.begin(), MUSTER_PROGRAM);
    std::vector<char*> argv;
    for (std::string& argument : arguments)
      argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string out = (folder_ / "stdout").string();
    const std::string err = (folder_ / "stderr").string();
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("fork");
    if (pid_ == 0) {
      const int out_fd = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      const int err_fd = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      if (::chdir(folder_.c_str()) != 0) ::_exit(97);
      // Who is killed cannot clean up: what it leaves goes with the test's folder.
      ::setenv("TMPDIR", std::filesystem::absolute(folder_).c_str(), 1);
      ::dup2(out_fd, STDOUT_FILENO);
      ::dup2(err_fd, STDERR_FILENO);
      ::execv(MUSTER_PROGRAM, argv.data());
      ::_exit(98);
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  std::string out() const { return read("stdout"); }
  std::string err() const { return read("stderr"); }

  // Until it has ended. Kills it at the deadline, which then shows as signal 9.
  Finished wait(std::chrono::seconds limit = std::chrono::seconds(120)) {
    int status = 0;
    if (!eventually([&] { return ::waitpid(pid_, &status, WNOHANG) != 0; }, Deadline::after(limit))) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, &status, 0);
    }
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0, read("stdout"),
            read("stderr")};
  }

 private:
  std::string read(const char* name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
  pid_t pid_ = -1;
};

inline Finished run_program(const std::filesystem::path& folder, std::vector<std::string> arguments) {
  return Program(folder, std::move(arguments)).wait();
}

// The rows of --json output.
inline std::vector<Json> rows(const std::string& text) {
  std::vector<Json> result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) result.push_back(Json::parse(line));
  }
  return result;
}

}  // namespace muster::testing
