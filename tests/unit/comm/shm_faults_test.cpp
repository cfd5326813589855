// Death and standstill of a rank inside every operation of the shm backend, at every failpoint: the others learn who it
// was, at once when its parent saw it die, by themselves otherwise, and never later than the deadline.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/comm/group.h"
#include "muster/comm/shm_backend.h"

namespace muster::comm {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 3;
constexpr int kVictim = 1;
constexpr std::int64_t kStep = 3;  // when the victim goes

using Operate = std::function<void(Group&)>;

struct NamedOperation {
  const char* name;
  Operate operate;
};

template <std::size_t kCount>
std::span<float> scratch() {
  static std::array<float, kCount> memory{};
  return memory;
}

std::vector<NamedOperation> operations() {
  constexpr std::size_t kLong = 120000;  // several rounds
  return {
      {"short all_reduce", [](Group& group) { group.all_reduce(scratch<10>()); }},
      {"long all_reduce", [](Group& group) { group.all_reduce(scratch<kLong>()); }},
      {"reduce_scatter", [](Group& group) { group.reduce_scatter(scratch<3 * kLong>(), scratch<kLong>()); }},
      {"all_gather", [](Group& group) { group.all_gather(scratch<kLong>(), scratch<3 * kLong>()); }},
      {"broadcast", [](Group& group) { group.broadcast(scratch<kLong>(), kVictim); }},
      {"all_to_all",
       [](Group& group) {
         static std::array<float, kLong> output{};
         group.all_to_all(scratch<kLong>(), std::span(output));
       }},
      {"gather", [](Group& group) { group.gather(scratch<kLong>(), scratch<3 * kLong>(), 0); }},
      {"scatter", [](Group& group) { group.scatter(scratch<3 * kLong>(), scratch<kLong>(), 2); }},
      {"barrier", [](Group& group) { group.barrier(); }},
  };
}

// Everyone to the next, more than a ring holds.
void ring(Group& group) {
  static std::array<float, 50000> out{}, in{};
  Pending send = group.start_send(std::span(out), (group.rank() + 1) % kRanks);
  group.receive(std::span(in), (group.rank() + kRanks - 1) % kRanks);
  send.wait();
}

std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(system_clock().now().time_since_epoch()).count();
}

// What a rank saw, in memory that the parent shares.
struct Report {
  ErrorKind kind;
  std::int64_t time_ns;
  std::array<char, 400> message;
};

class Ranks {
 public:
  Ranks(const Operate& operate, const std::string& rules, std::chrono::milliseconds timeout)
      : region_(create_shm_group_region(kRanks)) {
    reports_ = static_cast<Report*>(
        ::mmap(nullptr, kRanks * sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    for (int rank = 0; rank < kRanks; ++rank) {
      pids_[rank] = ::fork();
      if (pids_[rank] == 0) ::_exit(run(rank, operate, rules, timeout));
    }
  }
  ~Ranks() {
    for (const pid_t pid : pids_) {
      if (pid <= 0) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    ::munmap(reports_, kRanks * sizeof(Report));
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  SharedRegion& region() { return region_; }
  // waitpid's status of the victim, when it is dead or, with WUNTRACED, stopped.
  int wait_for_victim(int options) {
    int status = 0;
    EXPECT_EQ(::waitpid(pids_[kVictim], &status, options), pids_[kVictim]);
    if (!WIFSTOPPED(status)) pids_[kVictim] = -1;
    return status;
  }
  std::array<Report, 2> survivors() {
    std::array<Report, 2> result;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == kVictim) continue;
      int status = 0;
      EXPECT_EQ(::waitpid(pids_[rank], &status, 0), pids_[rank]);
      pids_[rank] = -1;
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << "rank " << rank << " status " << status;
      result[rank == 0 ? 0 : 1] = reports_[rank];
    }
    return result;
  }

 private:
  int run(int rank, const Operate& operate, const std::string& rules, std::chrono::milliseconds timeout) {
    try {
      arm_failpoints(rules);
      SharedRegion mapping = SharedRegion::attach(FileDescriptor(::dup(region_.descriptor())));
      Group group(join_shm_group(std::move(mapping), rank, Deadline::after(60s)), timeout);
      for (std::int64_t step = 0; step < kStep + 3; ++step) {
        const FailpointScope scope(rank, step);
        operate(group);
      }
      return 1;  // nobody was missed
    } catch (const Error& error) {
      Report& report = reports_[rank];
      report.kind = error.kind();
      report.time_ns = monotonic_ns();
      std::strncpy(report.message.data(), error.what(), report.message.size() - 1);
      return 7;
    }
  }

  SharedRegion region_;
  Report* reports_;
  std::array<pid_t, kRanks> pids_{};
};

std::string rule(const std::string& point, const char* action) {
  return point + "=" + action + "@rank=" + std::to_string(kVictim) + ",step=" + std::to_string(kStep);
}

void expect_lost(Ranks& ranks, const std::string& what) {
  for (const Report& report : ranks.survivors()) {
    EXPECT_EQ(report.kind, ErrorKind::kPeerLost) << what << ": " << report.message.data();
    EXPECT_NE(std::string(report.message.data()).find("rank 1"), std::string::npos)
        << what << ": " << report.message.data();
  }
}

std::vector<std::string> points_with(const std::string& prefix) {
  std::vector<std::string> result;
  for (const std::string& name : failpoint_names()) {
    if (name.starts_with(prefix)) result.push_back(name);
  }
  return result;
}

// The victim dies at the point; its parent reports it, and the others must know long before their deadline of a minute.
// How long it takes goes into the test's record: a bound would fail on a busy machine.
void expect_lost_at_once(const NamedOperation& operation, const std::string& point) {
  Ranks ranks(operation.operate, rule(point, "kill"), 60s);
  const int status = ranks.wait_for_victim(0);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
      << operation.name << " did not come to " << point << ", status " << status;
  const std::int64_t seen_ns = monotonic_ns();
  report_lost_rank(ranks.region(), kVictim, "rank 1 was killed by signal 9");
  std::int64_t slowest_ns = 0;
  for (const Report& report : ranks.survivors()) {
    ASSERT_EQ(report.kind, ErrorKind::kPeerLost) << operation.name << " " << point << ": " << report.message.data();
    ASSERT_NE(std::string(report.message.data()).find("rank 1"), std::string::npos) << report.message.data();
    slowest_ns = std::max(slowest_ns, report.time_ns - seen_ns);
  }
  ::testing::Test::RecordProperty("microseconds", static_cast<int>(slowest_ns / 1000));
}

TEST(ShmFaults, ADeathAnywhereInAnyCollectiveIsKnownAtOnceWhenTheParentSawIt) {
  const std::vector<std::string> points = points_with("shm.round.");
  ASSERT_GE(points.size(), 4U);
  for (const NamedOperation& operation : operations()) {
    for (const std::string& point : points)
      expect_lost_at_once(operation, point);
  }
}

TEST(ShmFaults, ADeathAnywhereInAMessageIsKnownAtOnceWhenTheParentSawIt) {
  const std::vector<std::string> points = points_with("shm.message.");
  ASSERT_GE(points.size(), 2U);
  for (const std::string& point : points)
    expect_lost_at_once({"messages", ring}, point);
}

// Each test that goes through all points of a prefix proves that every one of them was met; a point that belongs to
// none of these tests would prove nothing. That of messages between hosts is met in strategies/hosts_test.cpp.
TEST(Failpoints, EveryOneInCommBelongsToATestThatMeetsIt) {
  const std::vector<std::string> prefixes{"shm.round.", "shm.message.", "arena.", "roster.", "comm.message."};
  for (const std::string& name : failpoint_names())
    EXPECT_TRUE(std::ranges::any_of(prefixes, [&](const std::string& prefix) { return name.starts_with(prefix); }))
        << name;
}

TEST(ShmFaults, ADeathThatNobodyReportsIsFoundByThoseWhoWait) {
  for (const NamedOperation& operation : operations()) {
    Ranks ranks(operation.operate, rule("shm.round.before_publish", "kill"), 60s);
    // Not reaped: a parent that does not look leaves a zombie.
    expect_lost(ranks, operation.name);
  }
  Ranks ranks(ring, rule("shm.message.before_write", "kill"), 60s);
  expect_lost(ranks, "messages");
}

// All operations at once: they mostly wait. A busy machine must not hold up the steps before for that long.
TEST(ShmFaults, AStoppedRankIsNamedAtTheDeadline) {
  std::vector<NamedOperation> all = operations();
  all.push_back({"messages", ring});
  std::vector<std::unique_ptr<Ranks>> jobs;
  for (const NamedOperation& operation : all) {
    const bool messages = std::string(operation.name) == "messages";
    jobs.push_back(std::make_unique<Ranks>(
        operation.operate, rule(messages ? "shm.message.before_write" : "shm.round.before_publish", "stop"), 2500ms));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_TRUE(WIFSTOPPED(jobs[i]->wait_for_victim(WUNTRACED))) << all[i].name;
    bool named = false;
    for (const Report& report : jobs[i]->survivors()) {
      EXPECT_EQ(report.kind, ErrorKind::kTimeout) << all[i].name << ": " << report.message.data();
      named |= std::string(report.message.data()).find("rank 1 (pid") != std::string::npos;
    }
    EXPECT_TRUE(named) << all[i].name;
  }
}

}  // namespace
}  // namespace muster::comm
