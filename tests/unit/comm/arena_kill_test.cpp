// kill -9 of processes that train on an arena: at every failpoint, at random moments, and while stopped. After each
// death the committed version must be the serial reference's, and the rest goes on in the same arena to the same end.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/hash.h"
#include "muster/base/random.h"
#include "muster/comm/arena.h"
#include "support/eventually.h"
#include "support/sandbox.h"
#include "unit/comm/arena_job.h"

namespace muster::comm {
namespace {

using muster::testing::slurp;
using muster::testing::status_of_child;
using ::testing::HasSubstr;
using testing::job_options;
using testing::kJobNonce;
using testing::SerialReference;

constexpr std::chrono::seconds kPatience{20};
// A sanitizer makes every fork many times as dear, and sees nothing between processes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kKills = 100;
#else
constexpr int kKills = 1000;
#endif

bool was_killed(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

// An arena, the parent's view of it, and the worker processes.
class Host {
 public:
  explicit Host(int ranks, std::uint64_t first_step = 0)
      : region_(std::make_shared<const SharedRegion>(SharedRegion::create(Arena::bytes(job_options(ranks))))),
        ranks_(ranks),
        first_step_(first_step),
        reference_(first_step) {}
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() {
    for (const auto& entry : workers_)
      kill_and_confirm(entry.second);
  }

  // Makes the arena in a process of its own, which `rules` may kill: then it is no arena yet, and is made anew.
  int create(const std::string& rules) {
    const auto make = [&](const std::string& armed) {
      return status_of_child([&] {
        arm_failpoints(armed);
        const FailpointScope scope(1, 3);
        testing::fill_first_version(Arena::create(region_, job_options(ranks_, first_step_)));
        return 0;
      });
    };
    int deaths = 0;
    if (was_killed(make(rules))) {
      ++deaths;
      EXPECT_THROW(Arena::attach(region_, kJobNonce, kAnyRank), Error) << "attached to an arena that is not made";
      EXPECT_EQ(make(""), 0);
    }
    arena_.emplace(Arena::attach(region_, kJobNonce, kAnyRank));
    return deaths;
  }

  // Begins the next generation in a process of its own; if `rules` kill it, another completes what it began.
  int begin(std::uint64_t members, const std::string& rules) {
    ++generation_;
    const auto begin_in_child = [&](const std::string& armed) {
      return status_of_child([&] {
        arm_failpoints(armed);
        const FailpointScope scope(1, 3);
        Arena::attach(region_, kJobNonce, kAnyRank).begin_generation(generation_, members);
        return 0;
      });
    };
    if (!was_killed(begin_in_child(rules))) return 0;
    check_committed();
    EXPECT_EQ(begin_in_child(""), 0);
    return 1;
  }
  void begin(std::uint64_t members) { arena_->begin_generation(++generation_, members); }

  void start(int rank, std::uint64_t target, const std::string& rules = "",
             std::chrono::milliseconds patience = kPatience) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is cut short leaves no workers behind
      ::_exit(worker(rank, target, rules, patience));
    }
    workers_[rank] = child;
  }

  // Waits for a worker to end or to stop; gives its rank and waitpid's status.
  std::pair<int, int> wait_for_any() {
    std::pair<int, int> found{-1, -1};
    const auto one_ended = [&] {
      for (const auto& [rank, pid] : workers_) {
        int status = 0;
        if (::waitpid(pid, &status, WNOHANG | WUNTRACED) != pid) continue;
        found = {rank, status};
        return true;
      }
      return false;
    };
    EXPECT_TRUE(muster::testing::eventually(one_ended, Deadline::after(kPatience))) << "no worker ended";
    if (!WIFSTOPPED(found.second)) workers_.erase(found.first);
    return found;
  }
  // Waits for all to end well.
  void finish() {
    while (!workers_.empty()) {
      const auto [rank, status] = wait_for_any();
      if (rank < 0) return;
      EXPECT_EQ(status, 0) << "rank " << rank;
    }
  }

  void kill(int rank) {
    kill_and_confirm(workers_.at(rank));
    workers_.erase(rank);
  }
  pid_t pid(int rank) const { return workers_.at(rank); }

  // The committed version is whole, and is the one that a serial program has at that step.
  void check_committed() {
    const VersionPin pin = arena_->pin();
    ASSERT_EQ(sha256(pin.bytes()), reference_.hash_at(pin.step())) << "at step " << pin.step();
    ASSERT_TRUE(testing::is_note(arena_->note())) << arena_->note();
  }

  Arena& arena() { return *arena_; }
  // A view through a mapping of its own, as a process that was not forked has.
  Arena attach(int rank) const {
    return Arena::attach(std::make_shared<const SharedRegion>(
                             SharedRegion::attach(FileDescriptor(::fcntl(region_->descriptor(), F_DUPFD_CLOEXEC, 0)))),
                         kJobNonce, rank);
  }
  std::uint64_t generation() const { return generation_; }
  const SharedRegion& region() const { return *region_; }

 private:
  static void kill_and_confirm(pid_t pid) {
    ::kill(pid, SIGKILL);
    EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
  }

  int worker(int rank, std::uint64_t target, const std::string& rules, std::chrono::milliseconds patience) const {
    try {
      arm_failpoints(rules);
      Arena arena = attach(rank);
      testing::work(arena, rank, generation_, target, patience);
      return 0;
    } catch (const Error& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      return 1;
    }
  }

  std::shared_ptr<const SharedRegion> region_;
  int ranks_;
  std::uint64_t first_step_;
  SerialReference reference_;
  std::optional<Arena> arena_;
  std::uint64_t generation_ = 0;
  std::map<int, pid_t> workers_;
};

// Processes that leave claims of every kind behind in generation 1, and are dead.
void leave_claims_behind(Host& host) {
  host.begin(0b111);
  for (const int rank : {1, 2}) {
    const int status = status_of_child([&] {
      Arena arena = host.attach(rank);
      arena.enter(1, Deadline::after(kPatience));
      arena.claim(rank == 1 ? 0 : 2);
      arena.start(rank == 1 ? 0 : 2);
      arena.lane(rank == 1 ? 0 : 2)[5] = std::byte{77};
      arena.claim(rank == 1 ? 1 : 3);
      ::kill(::getpid(), SIGKILL);
      return 0;
    });
    ASSERT_TRUE(was_killed(status));
  }
}

// Those of steps and members, or those of a host that takes up the state of another one.
std::vector<std::string> arena_failpoints(bool adopting) {
  std::vector<std::string> names = failpoint_names();
  std::erase_if(names, [&](const std::string& name) {
    return !(name.starts_with("arena.") || name.starts_with("roster.")) || name.starts_with("arena.adopt.") != adopting;
  });
  return names;
}

class ArenaKill : public ::testing::TestWithParam<const char*> {};

// Creation, a change of members and steps, where exactly one process meets the failpoint as rank 1 in step 3.
TEST_P(ArenaKill, AtEveryFailpointLeavesTheCommittedVersionWhole) {
  const std::string action = GetParam();
  const std::vector<std::string> names = arena_failpoints(false);
  ASSERT_GE(names.size(), 25U);
  for (const std::string& name : names) {
    SCOPED_TRACE(name + "=" + action);
    const std::string rule = name + "=" + action + "@rank=1,step=3";
    // Those that are not workers are only killed: nobody waits for them.
    const std::string kill_rule = name + "=kill@rank=1,step=3";
    constexpr std::uint64_t kTarget = 8;
    Host host(3, 3);
    int deaths = host.create(kill_rule);
    leave_claims_behind(host);
    deaths += host.begin(0b011, kill_rule);
    host.check_committed();
    host.start(0, kTarget);
    host.start(1, kTarget, deaths == 0 ? rule : "");
    if (deaths == 0) {
      const auto [rank, status] = host.wait_for_any();
      ASSERT_EQ(rank, 1);
      if (action == "stop") {
        ASSERT_TRUE(WIFSTOPPED(status)) << status;
        host.check_committed();
        host.kill(1);  // a stopped process may wake up and write: first it is killed, then its work is given away
      } else {
        ASSERT_TRUE(was_killed(status)) << status;
      }
      ++deaths;
      host.check_committed();
      host.arena().fail(1, "rank 1 was killed");
      host.begin(0b011);
      host.start(1, kTarget);
    }
    host.finish();
    EXPECT_EQ(deaths, 1) << "nobody came by";
    EXPECT_EQ(host.arena().committed().step, kTarget);
    host.check_committed();
    if (HasFatalFailure()) return;
  }
}

// A fresh host takes up the state of others, which are further; exactly one process meets the failpoint.
TEST_P(ArenaKill, WhileAHostTakesUpTheStateOfAnotherLeavesItWhereItWasOrThere) {
  const std::string action = GetParam();
  const std::vector<std::string> names = arena_failpoints(true);
  ASSERT_GE(names.size(), 7U);
  for (const std::string& name : names) {
    SCOPED_TRACE(name + "=" + action);
    constexpr std::uint64_t kTarget = testing::kJobAhead + 4;
    Host host(3, 3);
    host.create("");
    host.arena().mark_fresh();
    host.begin(0b011);
    host.start(0, kTarget);
    host.start(1, kTarget, name + "=" + action + "@rank=1,step=3");
    const auto [rank, status] = host.wait_for_any();
    ASSERT_EQ(rank, 1);
    if (action == "stop") {
      ASSERT_TRUE(WIFSTOPPED(status)) << status;
      host.check_committed();
      host.kill(1);
    } else {
      ASSERT_TRUE(was_killed(status)) << status;
    }
    host.check_committed();
    const std::uint64_t step = host.arena().committed().step;
    EXPECT_TRUE(host.arena().fresh() ? step == 3 || step == testing::kJobAhead : step >= testing::kJobAhead) << step;
    host.arena().fail(1, "rank 1 was killed");
    host.begin(0b011);
    host.start(1, kTarget);
    host.finish();
    EXPECT_EQ(host.arena().committed().step, kTarget);
    EXPECT_FALSE(host.arena().fresh());
    host.check_committed();
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(AndStop, ArenaKill, ::testing::Values("kill", "stop"),
                         [](const auto& test) { return std::string(test.param); });

TEST(ArenaRandomKill, AThousandTimesLosesNoCommittedStep) {
  constexpr int kRanks = 4;
  constexpr std::uint64_t kForever = kMostStep;
  RandomStream random({.seed = 42, .purpose = Purpose::kLane});
  Host host(kRanks);
  host.create("");
  std::uint64_t members = 0b0111;
  host.begin(members);
  for (int rank = 0; rank < 3; ++rank)
    host.start(rank, kForever);
  std::uint64_t last_step = 0;
  std::uint64_t advanced = 0;  // generations in which a step was committed
  for (int kills = 0; kills < kKills;) {
    // Half of them strike while members come together, half once these have committed something.
    const bool patient = random.below(2) == 0;
    const auto committed = [&] { return !patient || host.arena().committed().step != last_step; };
    ASSERT_TRUE(muster::testing::eventually(committed, Deadline::after(kPatience))) << "nobody commits any more";
    // sleeps: the kill falls anywhere inside a step
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));
    // One member, sometimes two at the same moment.
    std::uint64_t dead = 0;
    for (std::uint64_t count = random.below(8) == 0 ? 2 : 1; count > 0 && dead != members; ++kills) {
      int rank = static_cast<int>(random.below(kRanks));
      while ((members >> rank & 1) == 0 || (dead >> rank & 1) != 0)
        rank = (rank + 1) % kRanks;
      host.kill(rank);
      dead |= std::uint64_t{1} << rank;
      --count;
      if (random.below(2) == 0) host.arena().fail(rank, "killed");
    }
    host.check_committed();
    if (HasFatalFailure()) return;
    const std::uint64_t step = host.arena().committed().step;
    ASSERT_GE(step, last_step);
    advanced += step > last_step ? 1 : 0;
    last_step = step;
    // Most are replaced; some leave, and some join.
    if (random.below(4) == 0 && members != dead) {
      members &= ~dead;
      dead = 0;
    }
    const std::uint64_t joining = random.below(3) == 0 ? 0b1111 & ~members : 0;
    members |= joining;
    host.begin(members);
    for (int rank = 0; rank < kRanks; ++rank)
      if (((dead | joining) >> rank & 1) != 0) host.start(rank, kForever);
  }
  for (int rank = 0; rank < kRanks; ++rank)
    if ((members >> rank & 1) != 0) host.kill(rank);
  host.check_committed();
  // Nobody is left, and the arena goes on all the same.
  const std::uint64_t target = host.arena().committed().step + 20;
  host.begin(0b0011);
  host.start(0, target);
  host.start(1, target);
  host.finish();
  EXPECT_EQ(host.arena().committed().step, target);
  host.check_committed();
  EXPECT_GT(advanced, kKills / 4U);
  RecordProperty("steps", std::to_string(target));
}

TEST(ArenaStop, IsReportedByThoseWhoWaitWithRankPidAndPlace) {
  Host host(2);
  host.create("");
  host.begin(0b11);
  host.start(1, 100, "arena.commit.before_arrival=stop@step=2");
  const pid_t stopped = host.pid(1);
  Arena arena = host.attach(0);
  arena.enter(1, Deadline::after(kPatience));
  testing::do_step(arena, 0, Deadline::after(kPatience));
  testing::do_step(arena, 0, Deadline::after(kPatience));
  const auto [rank, status] = host.wait_for_any();
  ASSERT_TRUE(rank == 1 && WIFSTOPPED(status));
  try {
    testing::do_step(arena, 0, Deadline::after(std::chrono::milliseconds(100)));
    ADD_FAILURE() << "committed without rank 1";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.what(), HasSubstr("rank 1 (pid " + std::to_string(stopped) +
                                        ", stopped) has not come to the commit of step 2"));
  }
  host.check_committed();
  // It wakes up before anybody was evicted: nothing changes but the time.
  ASSERT_EQ(::kill(stopped, SIGCONT), 0);
  arena.commit(Outcome::kFlip, Deadline::after(kPatience));
  EXPECT_EQ(arena.step(), 3U);
  EXPECT_EQ(arena.committed().generation, 1U);
  host.check_committed();
}

TEST(ArenaDeath, IsFoundByThoseWhoWaitEvenIfNoParentTells) {
  Host host(2);
  host.create("");
  host.begin(0b11);
  host.start(1, 100, "arena.job.half_slice=kill@step=1");
  const pid_t dead = host.pid(1);
  Arena arena = host.attach(0);
  arena.enter(1, Deadline::after(kPatience));
  testing::do_step(arena, 0, Deadline::after(kPatience));
  try {
    testing::do_step(arena, 0, Deadline::after(kPatience));
    ADD_FAILURE() << "committed without rank 1";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    EXPECT_THAT(error.what(),
                HasSubstr("rank 1 (pid " + std::to_string(dead) + ") died and had not come to the commit of step 1"));
  }
  EXPECT_EQ(host.wait_for_any().first, 1);
}

// Runs `body` in a child that stops at the failpoint of `rules`; `meanwhile` runs here before it goes on. Gives the
// child's exit code.
int stopped_and_continued(const std::string& rules, const std::function<int()>& body,
                          const std::function<void()>& meanwhile) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    arm_failpoints(rules);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status)) << status;
  meanwhile();
  ::kill(child, SIGCONT);
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  return WEXITSTATUS(status);
}

TEST(ArenaStop, ACommitThatComesTooLateIsFencedOff) {
  Host host(2);
  host.create("");
  host.begin(0b01);
  const int code = stopped_and_continued(
      "arena.commit.before_flip=stop",
      [&] {
        Arena arena = host.attach(0);
        arena.enter(1, Deadline::after(kPatience));
        try {
          arena.commit(Outcome::kFlip, Deadline::after(kPatience));
          return 1;
        } catch (const Error& error) {
          return error.kind() == ErrorKind::kPeerLost ? 42 : 2;
        }
      },
      [&] { host.begin(0b11); });
  EXPECT_EQ(code, 42);
  EXPECT_EQ(host.arena().committed(), (CommitWord{2, 0, 0}));
}

// Who enters frees lanes of those that are gone. Stopped in the middle of it, while another one takes their place in a
// later generation, it has nothing more to free.
TEST(ArenaStop, AnEntryThatComesTooLateFreesNoLanesOfThoseWhoCameSince) {
  Host host(3);
  host.create("");
  leave_claims_behind(host);  // in generation 1: ranks 1 and 2
  host.begin(0b001);
  const int code = stopped_and_continued(
      "arena.enter.before_free=stop@call=0",
      [&] {
        host.attach(0).enter(2, Deadline::after(kPatience));
        return 7;
      },
      [&] {
        host.begin(0b011);
        Arena newcomer = host.attach(1);
        newcomer.enter(3, Deadline::after(kPatience));
        ASSERT_TRUE(newcomer.claim(1) && newcomer.start(1));
      });
  EXPECT_EQ(code, 7);
  const LaneWord lane = host.attach(kAnyRank).lane_state(1);
  EXPECT_TRUE(lane.state == LaneState::kStarted && lane.rank == 1) << "a living worker's lane was given away";
}

TEST(ArenaStop, APinThatComesTooLateTakesTheNewVersion) {
  Host host(1);
  host.create("");
  host.begin(0b01);
  const int code = stopped_and_continued(
      "arena.pin.before_store=stop@call=0",
      [&] {
        const VersionPin pin = host.arena().pin();
        return static_cast<int>(pin.step()) + (sha256(pin.bytes()) == SerialReference().hash_at(pin.step()) ? 40 : 0);
      },
      [&] {
        Arena arena = host.attach(0);
        testing::work(arena, 0, 1, 3, kPatience);
      });
  EXPECT_EQ(code, 43);
}

// A host of three processes and a server, all killed: there is nothing to find afterwards.
TEST(ArenaDeath, OfEverybodyLeavesNothingBehind) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  const auto shared_objects = [] {
    std::vector<std::string> names;
    // Shared memory is a file there; a folder is somebody's for temporary files.
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      if (entry.is_regular_file() && entry.path().filename().string().find("muster") != std::string::npos)
        names.push_back(entry.path().string());
    return names;
  };
  const pid_t leader = ::fork();
  ASSERT_GE(leader, 0);
  if (leader == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(60);
    Host host(2);
    host.create("");
    host.begin(0b11);
    host.start(0, kMostStep);
    host.start(1, kMostStep);
    const RegionServer server(host.region());
    while (host.arena().committed().step < 5)
      std::this_thread::yield();
    (void)!::write(write_end.get(), server.address().data(), server.address().size());
    ::pause();
  }
  ::setpgid(leader, leader);
  write_end = FileDescriptor();
  std::string address(39, '\0');
  ASSERT_EQ(::read(read_end.get(), address.data(), address.size()), 39);
  EXPECT_THAT(slurp("/proc/net/unix"), HasSubstr(address));
  {
    const SharedRegion region = fetch_region(address, Deadline::after(kPatience));
    EXPECT_GT(region.bytes().size(), 0U);
  }
  EXPECT_TRUE(shared_objects().empty());
  ASSERT_EQ(::kill(-leader, SIGKILL), 0);
  ASSERT_EQ(::waitpid(leader, nullptr, 0), leader);
  // The workers held the other ends: the pipe ends when the last of them is gone, and with it the last mapping.
  char none = 0;
  EXPECT_EQ(::read(read_end.get(), &none, 1), 0);
  // The same goes for the socket, which the kernel may close after the pipe.
  const Deadline deadline = Deadline::after(kPatience);
  while (slurp("/proc/net/unix").find(address) != std::string::npos && !deadline.passed())
    std::this_thread::yield();
  EXPECT_FALSE(deadline.passed()) << "a socket is left";
  EXPECT_TRUE(shared_objects().empty());
  EXPECT_THROW(fetch_region(address, Deadline::after(kPatience)), Error);
}

}  // namespace
}  // namespace muster::comm
