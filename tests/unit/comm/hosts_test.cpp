// Ranks on real hosts, as far as one machine can have them: every host is a network namespace, joined to the other by a
// pair of virtual interfaces. The namespaces have no names and live as long as the processes in them, so that nothing
// is left however the test ends.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <deque>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/files.h"
#include "muster/comm/connect.h"
#include "muster/comm/gloo_transport.h"
#include "support/collective_checks.h"
#include "support/command.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::ContainsRegex;

// A child process that ends with the test, whatever ends the test. Killed at the end of its scope.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
    }
    std::fflush(nullptr);
    ::_exit(code);
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  // waitpid's status.
  int wait() {
    int status = -1;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  pid_t pid_;
};

bool enter_network_of(pid_t pid) {
  const FileDescriptor network(::open(fmt::format("/proc/{}/ns/net", pid).c_str(), O_RDONLY | O_CLOEXEC));
  return network.valid() && ::setns(network.get(), CLONE_NEWNET) == 0;
}

// A network namespace that a sleeping process keeps alive.
class Host {
 public:
  Host() : pipe_(make_pipe()), holder_([&] { return hold(pipe_.second.get()); }) {
    pipe_.second = FileDescriptor();
    char ready = 0;
    usable_ = ::read(pipe_.first.get(), &ready, 1) == 1 && ready == 'y';
  }

  bool usable() const { return usable_; }
  pid_t pid() const { return holder_.pid(); }
  // Runs `ip ...` inside; false when it fails.
  bool ip(const std::string& arguments) const {
    Child child([&]() -> int {
      if (!enter_network_of(pid())) return 98;
      const std::string command = "ip " + arguments;
      ::execlp("sh", "sh", "-c", command.c_str(), nullptr);
      return 97;
    });
    return child.wait() == 0;
  }

 private:
  static std::pair<FileDescriptor, FileDescriptor> make_pipe() {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  }
  static int hold(int ready) {
    const char answer = ::unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
    if (::write(ready, &answer, 1) != 1 || answer == 'n') return 1;
    for (;;)
      ::pause();
  }

  std::pair<FileDescriptor, FileDescriptor> pipe_;
  Child holder_;
  bool usable_ = false;
};

// Two hosts that reach each other through "eth0".
class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gloo_available()) GTEST_SKIP() << "a build without Gloo";
    if (::geteuid() != 0) GTEST_SKIP() << "network namespaces are for root alone";
    hosts_.emplace_back();
    hosts_.emplace_back();
    if (!hosts_[0].usable() || !hosts_[1].usable()) GTEST_SKIP() << "this machine does not let us make namespaces";
    if (testing::run_command({"ip", "-V"}).exit_code != 0) GTEST_SKIP() << "iproute2 is not installed";
    ASSERT_TRUE(hosts_[0].ip(fmt::format("link add eth0 type veth peer name eth0 netns {}", hosts_[1].pid())));
    for (int host = 0; host < 2; ++host) {
      ASSERT_TRUE(
          hosts_[static_cast<std::size_t>(host)].ip(fmt::format("address add 10.93.71.{}/24 dev eth0", host + 1)));
      ASSERT_TRUE(hosts_[static_cast<std::size_t>(host)].ip("link set eth0 up"));
      ASSERT_TRUE(hosts_[static_cast<std::size_t>(host)].ip("link set lo up"));
    }
  }

  // Starts rank `rank` on a host; `body` returns its exit code.
  Child start(const std::string& name, int rank, int size, int host, std::function<int(Group)> body) {
    return Child([this, name, rank, size, host, body = std::move(body)] {
      if (!enter_network_of(hosts_[static_cast<std::size_t>(host)].pid())) return 96;
      GroupOptions options;
      options.rank = rank;
      options.size = size;
      options.name = name;
      options.store = make_file_store(store_ / "store");
      options.timeout = 20s;
      options.interface = "eth0";
      return body(make_group(options));
    });
  }

  std::deque<Host> hosts_;
  testing::TemporaryFolder store_;
};

TEST_F(TwoHosts, CollectivesUseSharedMemoryInsideAndGlooBetween) {
  std::vector<Child> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.push_back(start("group", rank, 4, rank / 2, [](const Group& group) {
      EXPECT_EQ(group.backend(), "hierarchical");
      testing::CollectiveChecks<float> checks(group);
      for (const std::size_t count : {0UL, 1UL, 7UL, 1025UL, 300001UL})
        checks.check(count);
      return ::testing::Test::HasFailure() ? 1 : 0;
    }));
  for (Child& rank : ranks)
    EXPECT_EQ(rank.wait(), 0);
}

TEST_F(TwoHosts, OneRankAHostUsesGlooAlone) {
  std::vector<Child> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(start("group", rank, 2, rank, [](const Group& group) {
      EXPECT_EQ(group.backend(), "gloo");
      testing::CollectiveChecks<float>(group).check(1025);
      return ::testing::Test::HasFailure() ? 1 : 0;
    }));
  for (Child& rank : ranks)
    EXPECT_EQ(rank.wait(), 0);
}

// The exit code of a rank that does all-reduces until they fail: 0 if that came within the deadline and the error names
// one of the ranks in `lost`, a set of digits.
int expect_loss_of(Group group, const std::string& lost, std::chrono::nanoseconds timeout) {
  std::vector<float> data(100000);
  auto last = system_clock().now();
  try {
    for (;;) {
      last = system_clock().now();
      group.all_reduce(std::span(data), Reduction::kSum, Deadline::after(timeout));
    }
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::kPeerLost || error.kind() == ErrorKind::kTimeout) << error.what();
    EXPECT_THAT(error.message(), ContainsRegex(fmt::format("rank [{}]", lost))) << "on rank " << group.rank();
    // The deadline, not the default of a call, which is minutes; a busy machine may be seconds late.
    EXPECT_LT(system_clock().now() - last, timeout + 10s) << error.what();
  }
  return ::testing::Test::HasFailure() ? 1 : 0;
}

// A leader and another one.
TEST_F(TwoHosts, AKilledRankIsNamedOnBothHosts) {
  for (const int lost : {2, 3}) {
    std::vector<Child> ranks;
    const std::string name = fmt::format("without-{}", lost);
    for (int rank = 0; rank < 4; ++rank)
      ranks.push_back(start(name, rank, 4, rank / 2, [lost](Group group) {
        group.barrier();
        std::vector<float> data(100000);
        if (group.rank() != lost) return expect_loss_of(group, fmt::format("{}", lost), 20s);
        for (int call = 0; call < 5; ++call)
          group.all_reduce(std::span(data));
        ::raise(SIGKILL);
        return 0;
      }));
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == lost) continue;
      EXPECT_EQ(ranks[static_cast<std::size_t>(rank)].wait(), 0) << rank;
    }
  }
}

TEST_F(TwoHosts, AStoppedRankIsNamedOnBothHosts) {
  std::vector<Child> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.push_back(start("group", rank, 4, rank / 2, [](Group group) {
      group.barrier();
      if (group.rank() != 3) return expect_loss_of(group, "3", 2s);
      ::raise(SIGSTOP);
      return 0;
    }));
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(ranks[static_cast<std::size_t>(rank)].wait(), 0) << rank;
}

// Rank 3 waits for the other host and rank 2 for rank 3; rank 2 came first, so its deadline is the first to pass.
TEST_F(TwoHosts, ARankThatWaitsForTheOtherHostIsNotBlamedByItsOwn) {
  std::vector<Child> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.push_back(start("group", rank, 4, rank / 2, [](Group group) {
      group.barrier();
      if (group.rank() == 3) system_clock().sleep_for(700ms);  // sleeps: it comes second
      if (group.rank() == 1) arm_failpoints("shm.round.after_wait=stop");
      return expect_loss_of(group, group.rank() < 2 ? "1" : "01", 2s);
    }));
  for (const std::size_t rank : {0U, 2U, 3U})
    EXPECT_EQ(ranks[rank].wait(), 0) << rank;
}

TEST_F(TwoHosts, ACutLinkIsATimeOut) {
  std::vector<Child> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.push_back(start("group", rank, 4, rank / 2, [this](Group group) {
      group.barrier();
      if (group.rank() == 0) testing::spill(store_ / "ready", "1");
      return expect_loss_of(group, group.rank() < 2 ? "23" : "01", 2s);
    }));
  EXPECT_TRUE(testing::eventually([&] { return std::filesystem::exists(store_ / "ready"); }));
  EXPECT_TRUE(hosts_[1].ip("link set eth0 down"));
  for (Child& rank : ranks)
    EXPECT_EQ(rank.wait(), 0);
}

}  // namespace
}  // namespace muster::comm
