// A job of several hosts in one test: each host an arena, a store and worker processes of its own. The test is all
// agents and the coordinator: it begins generations, sees deaths, starts others in their place, and lets hosts join
// later.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/comm/arena_address.h"
#include "muster/comm/region.h"
#include "muster/comm/roster.h"
#include "muster/control/job_generation.h"
#include "support/sandbox.h"
#include "unit/strategies/host_worker.h"

namespace muster::strategies {

using testing::slurp;

struct HostPlan {
  int workers = 1;
  std::size_t lanes = 1;       // its weight when lanes are divided
  std::string rules{};         // failpoints of its workers
  bool dies_whole = false;     // with one worker of it all are lost, and its arena; if it stops they are out of reach
  std::uint64_t joins_at = 0;  // the committed step of the first host
  std::optional<std::uint64_t> breaks_at{};  // the step in which its connections end
  bool waits_for_sums = false;               // as of a WorkerPlace
  std::chrono::seconds step_timeout = kHostPatience;
};

// The agents of all hosts and the coordinator.
class HostsJob {
 public:
  HostsJob(std::vector<HostPlan> hosts, const Training& training, const Trained& expected, std::string backend = "gloo")
      : training_(training), expected_(expected), backend_(std::move(backend)) {
    for (const HostPlan& plan : hosts) {
      Host& host = hosts_.emplace_back();
      host.plan = plan;
      host.number = hosts_.size();
      host.store_folder = folder_ / fmt::format("store-{}", host.number);
    }
  }
  HostsJob(const HostsJob&) = delete;
  HostsJob& operator=(const HostsJob&) = delete;
  ~HostsJob() {
    for (Host& host : hosts_) {
      host.workers.merge(host.out_of_reach);
      end(host);
    }
  }

  // Until all have ended.
  void run() {
    for (const Deadline deadline = Deadline::after(kHostPatience);;) {
      ASSERT_FALSE(deadline.passed()) << "the job does not end";
      for (Host& host : hosts_) {
        if (!host.started && !host.lost && !finished_ && step() >= host.plan.joins_at) start(host);
        bury(host);
        find_arena(host);
      }
      if (::testing::Test::HasFailure()) return;
      if (std::all_of(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.workers.empty(); })) return;
      if (!begin_generation_if_due()) system_clock().sleep_for(200us);  // sleeps: between two turns of the coordinator
    }
  }

  int deaths() const { return deaths_; }
  std::uint64_t generations() const { return generation_; }
  std::string file(const char* name) const { return slurp(folder_ / name); }

 private:
  struct Host {
    HostPlan plan;
    std::uint64_t number = 0;
    std::filesystem::path store_folder;
    std::shared_ptr<comm::Store> store{};
    std::map<int, pid_t> workers{};
    std::map<int, pid_t> out_of_reach{};
    std::map<int, int> attempts{};
    std::optional<comm::Roster> arena{};
    comm::ArenaAddress address{};
    pid_t server = 0;
    std::uint64_t generation = 0;
    std::uint64_t members = 0;
    bool started = false;
    bool lost = false;
  };

  std::uint64_t step() const { return hosts_.front().arena ? hosts_.front().arena->committed().step : 0; }

  void start(Host& host) {
    host.started = true;
    host.store = comm::make_file_store(host.store_folder);
    for (int seat = 0; seat < host.plan.workers; ++seat)
      start(host, seat);
  }

  void start(Host& host, int seat) {
    WorkerPlace place{
        host.number,         seat,           host.plan.workers, host.attempts[seat]++, {}, host.store_folder,
        folder_ / "cluster", folder_.path(), backend_};
    place.breaks_at = host.plan.breaks_at;
    place.waits_for_sums = host.plan.waits_for_sums;
    place.holds = host.plan.joins_at == 0 &&
                  std::ranges::any_of(hosts_, [](const Host& other) { return other.plan.joins_at > 0; });
    place.step_timeout = host.plan.step_timeout;
    if (host.arena) place.arena = host.address.text();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      int code = kHostFailed;
      try {
        arm_failpoints(host.plan.rules);
        code = HostWorker(place, training_, expected_).run();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "host %d, seat %d: %s\n", static_cast<int>(host.number), seat, error.what());
      }
      ::_exit(code);
    }
    host.workers[seat] = child;
  }

  static void end(Host& host) {
    if (host.server > 0) host.workers[-1] = host.server;
    host.server = 0;
    for (const auto& entry : host.workers) {
      ::kill(entry.second, SIGKILL);
      ::waitpid(entry.second, nullptr, 0);
    }
    host.workers.clear();
  }

  void bury(Host& host) {
    for (int seat = 0; seat < host.plan.workers; ++seat) {
      int status = 0;
      if (!host.workers.contains(seat)) continue;
      if (finished_ && (host.members >> seat & 1) == 0) ::kill(host.workers[seat], SIGKILL);
      if (::waitpid(host.workers[seat], &status, WNOHANG | WUNTRACED) != host.workers[seat]) continue;
      if (WIFSTOPPED(status)) {
        // Nobody closes its connections: those who wait for it hear nothing.
        for (const auto& entry : host.workers)
          ::kill(entry.second, SIGSTOP);
        host.out_of_reach = std::exchange(host.workers, {});
        ++deaths_;
        host.lost = changed_ = true;
        host.members = 0;
        return;
      }
      host.workers.erase(seat);
      changed_ |= (host.members >> seat & 1) != 0;
      host.members &= ~(std::uint64_t{1} << seat);
      if (!WIFSIGNALED(status)) {
        EXPECT_EQ(WEXITSTATUS(status), kGoodBits) << "host " << host.number << ", seat " << seat;
        finished_ = true;
        continue;
      }
      EXPECT_EQ(WTERMSIG(status), SIGKILL) << "host " << host.number << ", seat " << seat;
      if (finished_) continue;
      ++deaths_;
      if (!host.plan.dies_whole) {
        start(host, seat);
        continue;
      }
      host.lost = true;
      changed_ = true;
      end(host);
      host.members = 0;
      host.arena.reset();
      return;
    }
  }

  void find_arena(Host& host) {
    if (host.arena || !host.started || host.lost) return;
    try {
      host.address = comm::ArenaAddress::parse(host.store->get("arena", Deadline::after(0ns)));
    } catch (const Error&) {
      return;
    }
    auto region = std::make_shared<const comm::SharedRegion>(
        comm::fetch_region(host.address.server, Deadline::after(kHostPatience)));
    host.arena.emplace(comm::Roster::attach(region, host.address.nonce, comm::kAnyRank));
    // In a process of its own, which outlives the workers: this one forks, and must not have threads.
    host.server = ::fork();
    ASSERT_GE(host.server, 0);
    if (host.server == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const comm::RegionServer server(*region);
      host.store->set("supervisor", server.address());
      for (;;)
        ::pause();
    }
    host.address.server = host.store->get("supervisor", Deadline::after(kHostPatience));
  }

  std::uint64_t newcomers(const Host& host) const {
    std::uint64_t ready = 0;
    for (const auto& entry : host.workers) {
      const auto occupant = host.arena ? host.arena->board().occupant(entry.first) : std::nullopt;
      if (occupant && occupant->pid == entry.second) ready |= std::uint64_t{1} << entry.first;
    }
    return ready & ~host.members;
  }

  // Whether somebody has lost the others although nothing has changed here.
  bool broken() const {
    try {
      comm::make_file_store(folder_ / "cluster")->get(control::broken_key(generation_), Deadline::after(0ns));
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  bool begin_generation_if_due() {
    bool due = changed_ || broken();
    for (const Host& host : hosts_) {
      const std::uint64_t ready = newcomers(host);
      const bool all_here = (host.members | ready) == (std::uint64_t{1} << host.plan.workers) - 1;
      // The first generation waits for those who are there from the start, a host that joins for all its workers.
      if (generation_ == 0 && host.plan.joins_at == 0 && !all_here) return false;
      due |= ready != 0 && (host.members != 0 || all_here) && !finished_;
    }
    if (!due) return false;
    control::JobGeneration job;
    job.number = ++generation_;
    job.lanes = training_.shape.lanes;
    std::size_t weights = 0;
    for (Host& host : hosts_) {
      const std::uint64_t ready = newcomers(host);
      const bool all_here = (host.members | ready) == (std::uint64_t{1} << host.plan.workers) - 1;
      if (!finished_ && (host.members != 0 || all_here)) host.members |= ready;
      if (host.members != 0) weights += host.plan.lanes;
    }
    std::size_t weight = 0;
    for (const Host& host : hosts_) {
      if (host.members == 0) continue;
      const std::size_t first = weight * job.lanes / weights;
      weight += host.plan.lanes;
      job.hosts.push_back({host.number, "h", host.members, first, weight * job.lanes / weights});
    }
    changed_ = false;
    if (job.hosts.empty()) return true;
    if (std::ranges::all_of(hosts_, [](const Host& host) { return host.members != 0 || host.lost; }))
      std::ofstream(folder_ / "all_joined") << "\n";
    for (Host& host : hosts_) {
      if (host.members == 0) continue;
      host.store->set(control::hosts_key(++host.generation), job.to_text());
      host.arena->begin_generation(host.generation, host.members);
    }
    return true;
  }

  const Training& training_;
  const Trained& expected_;
  const std::string backend_;
  const testing::TemporaryFolder folder_;
  std::deque<Host> hosts_;
  std::uint64_t generation_ = 0;
  bool changed_ = false;
  bool finished_ = false;
  int deaths_ = 0;
};

}  // namespace muster::strategies
