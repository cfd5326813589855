// What tests of the supervisor have in common: workers that have no model, and a test as a list of stages, each of
// which looks at the reports until it has seen what it waits for, and may do something to the workers then.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "muster/base/files.h"
#include "muster/launch/supervisor.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::launch {

using namespace std::chrono_literals;
using control::WorkerState;
using muster::testing::slurp;
using muster::testing::TemporaryFolder;

inline Command shell(const std::string& script) {
  return {"sh", {"-c", script}, {}};
}
inline Command worker(const std::string& mode) {
  return {SUPERVISED_WORKER, {mode}, {}};
}

using Stage = std::function<bool(const SupervisorReport&)>;

class SupervisorTest : public ::testing::Test {
 protected:
  // Supervisors remove what dead ones left: those of other programs on this machine must not do it here.
  void SetUp() override { ::setenv("TMPDIR", temporary_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("TMPDIR"); }

  int run(const Command& command, int seats, std::vector<Stage> stages = {}) {
    options_.seats = seats;
    if (wishes_.workers == 0) wishes_.workers = seats;
    options_.wishes = [this] {
      if (clock_ == &quick_clock_) quick_clock_.advance(100ms);
      return wishes_;
    };
    options_.requested_signal = [this] { return signal_; };
    options_.tell = [this](const std::string& text) { told_ += text + "\n"; };
    std::size_t stage = 0;
    Deadline patience = Deadline::after(30s);
    options_.report = [&](const SupervisorReport& report) {
      EXPECT_GE(report.generation, last_.generation);
      EXPECT_GE(report.step, last_.step);
      last_ = report;
      if (stage == stages.size()) return;
      if (stages[stage](report)) {
        ++stage;
        patience = Deadline::after(30s);
      }
      if (patience.passed()) throw std::runtime_error(fmt::format("stage {} did not come to an end", stage));
    };
    const int code = store_.empty() ? Supervisor(command, options_, *clock_).run()
                                    : Supervisor(command, options_, store_, *clock_).run();
    EXPECT_EQ(stage, stages.size()) << "it ended before its time";
    return code;
  }

  // All of these are members, and no others have a process.
  static bool members_are(const SupervisorReport& report, const std::vector<int>& seats) {
    std::vector<int> found;
    for (const control::Worker& worker : report.workers) {
      if (!worker.member()) return false;
      found.push_back(worker.rank);
    }
    return found == seats;
  }
  // As members_are(), and they have committed steps since the stage before.
  Stage trains(std::vector<int> seats) {
    return [this, seats = std::move(seats), since = std::optional<std::uint64_t>()](const auto& report) mutable {
      if (!members_are(report, seats)) return false;
      if (!since) since = report.step;
      if (report.step <= *since) return false;
      pids_ = pids_of(report);
      return true;
    };
  }
  // Sends `signal` to these seats.
  static Stage send(int signal, std::vector<int> seats) {
    return [signal, seats = std::move(seats)](const SupervisorReport& report) {
      for (const control::Worker& worker : report.workers) {
        if (std::find(seats.begin(), seats.end(), worker.rank) != seats.end()) ::kill(worker.process.pid, signal);
      }
      return true;
    };
  }
  static std::map<int, pid_t> pids_of(const SupervisorReport& report) {
    std::map<int, pid_t> pids;
    for (const control::Worker& worker : report.workers)
      pids[worker.rank] = worker.process.pid;
    return pids;
  }

  // A supervisor in a process of its own that is killed once its workers have made some steps: store_ and pids_ say
  // which.
  void orphans(const Command& command, int seats) {
    const TemporaryFolder folder;
    const pid_t supervisor = ::fork();
    if (supervisor == 0) {
      options_.seats = seats;
      options_.wishes = [seats] { return Wishes{seats, false}; };
      options_.report = [&](const SupervisorReport& report) {
        if (report.step < 5 || static_cast<int>(report.workers.size()) < seats) return;
        std::string text = report.store + "\n";
        for (const control::Worker& worker : report.workers)
          text += fmt::format("{}\n", worker.process.pid);
        write_atomically(folder / "report", text);
      };
      Supervisor(command, options_).run();
      ::_exit(1);
    }
    EXPECT_TRUE(testing::eventually([&] { return std::filesystem::exists(folder / "report"); }));
    ::kill(supervisor, SIGKILL);
    ::waitpid(supervisor, nullptr, 0);
    std::istringstream lines(slurp(folder / "report"));
    std::getline(lines, store_);
    for (int seat = 0; seat < seats; ++seat)
      lines >> pids_[seat];
  }

  const TemporaryFolder temporary_;
  SupervisorOptions options_;
  // Runs ahead, where a test would wait for what the policy waits for. Workers say when they gave a sign of life by the
  // machine's own clock, so it is not for who looks whether they are silent or hung.
  FakeClock quick_clock_;
  const Clock* clock_ = &system_clock();
  std::string store_;  // of workers to take over
  Wishes wishes_{0, false};
  int signal_ = 0;
  std::string told_;
  SupervisorReport last_;
  std::map<int, pid_t> pids_;  // when trains() was last satisfied
};

}  // namespace muster::launch
