// Processes that die or stop inside a collective over Gloo: the others must name them, at the latest at the deadline,
// and a program that lost peers must be able to go on with others, again and again, without leaving anything behind.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/comm/checked_transport.h"
#include "muster/comm/gloo_transport.h"
#include "muster/comm/group.h"
#include "muster/comm/network_backend.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace {

// Bytes that operator new has given and nobody has given back, in all threads and libraries: what malloc itself tells
// is of one of its arenas, and of what it keeps for later.
std::atomic<std::int64_t> live_bytes{0};

}  // namespace

// The address sanitizer has its own, which know of more, and looks for leaks itself.
#ifndef __SANITIZE_ADDRESS__
// Not inlined: the compiler would take free() for a mistake where it sees both.
__attribute__((noinline)) void* operator new(std::size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  live_bytes += static_cast<std::int64_t>(::malloc_usable_size(memory));
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept {
  live_bytes -= static_cast<std::int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}
#endif

namespace muster::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::TemporaryFolder;

constexpr int kRanks = 3;

// Sends this process a signal when it starts its n-th message: a death at a known place inside a call.
class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, int messages, int signal)
      : inner_(std::move(inner)), messages_(messages), signal_(signal) {}

  std::string_view name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<Transfer> send(int peer, std::uint64_t slot, std::span<const std::byte> bytes) override {
    count();
    return inner_->send(peer, slot, bytes);
  }
  std::unique_ptr<Transfer> receive(int peer, std::uint64_t slot, std::span<std::byte> bytes) override {
    count();
    return inner_->receive(peer, slot, bytes);
  }
  std::unique_ptr<Transport> split(const std::vector<int>& members, const std::string& name,
                                   const Deadline& deadline) override {
    return inner_->split(members, name, deadline);
  }
  void abort(int rank, const std::string& reason) override { inner_->abort(rank, reason); }

 private:
  void count() {
    if (--messages_ == 0) ::raise(signal_);
  }

  std::unique_ptr<Transport> inner_;
  int messages_;
  int signal_;
};

std::unique_ptr<Transport> connect(const std::filesystem::path& folder, int rank, int size,
                                   const std::string& name = "gloo") {
  GlooOptions options;
  options.rank = rank;
  options.size = size;
  options.store = make_file_store(folder);
  options.name = name;
  return make_gloo_transport(options);
}

struct Operation {
  const char* name;
  std::function<void(Group&)> call;
};

std::vector<Operation> operations() {
  constexpr std::size_t kLong = 3 * 1000 * 1000;
  const auto floats = [](std::size_t count) { return std::vector<float>(count, 1.0F); };
  return {
      {"all_reduce_short",
       [=](Group& group) {
         auto data = floats(100);
         group.all_reduce(std::span(data));
       }},
      {"all_reduce_long",
       [=](Group& group) {
         auto data = floats(kLong);
         group.all_reduce(std::span(data));
       }},
      {"reduce_scatter",
       [=](Group& group) {
         const auto input = floats(kRanks * 100000);
         auto output = floats(100000);
         group.reduce_scatter(std::span(input), std::span(output));
       }},
      {"all_gather",
       [=](Group& group) {
         const auto input = floats(kLong);
         auto output = floats(kRanks * kLong);
         group.all_gather(std::span(input), std::span(output));
       }},
      {"broadcast",
       [=](Group& group) {
         auto data = floats(kLong);
         group.broadcast(std::span(data), 1);
       }},
      {"all_to_all",
       [=](Group& group) {
         const auto input = floats(kRanks * 1000);
         auto output = floats(kRanks * 1000);
         group.all_to_all(std::span(input), std::span(output));
       }},
      {"gather",
       [=](Group& group) {
         const auto input = floats(1000);
         auto output = floats(kRanks * 1000);
         group.gather(std::span(input), std::span(output), 0);
       }},
      {"scatter",
       [=](Group& group) {
         const auto input = floats(kRanks * 1000);
         auto output = floats(1000);
         group.scatter(std::span(input), std::span(output), 1);
       }},
      {"barrier", [](Group& group) { group.barrier(); }},
      {"split", [](Group& group) { group.split(0); }},
      {"messages",
       [=](Group& group) {
         const auto data = floats(kLong);
         auto room = floats(kLong);
         const int next = (group.rank() + 1) % kRanks;
         const int before = (group.rank() + 2) % kRanks;
         Pending receive = group.start_receive(std::span(room), before, 1);
         group.send(std::span(data), next, 1);
         receive.wait();
       }},
  };
}

// Exit codes of the children.
enum Verdict { kNamedIt = 0, kFinished = 10, kOtherKind = 11, kOtherRank = 12 };

// Calls again and again until it fails, and judges the failure.
int call_until_lost(Group& group, const Operation& operation, ErrorKind kind, int victim) {
  const Deadline enough = Deadline::after(seconds(30));
  try {
    while (!enough.passed())
      operation.call(group);
    return kFinished;
  } catch (const Error& error) {
    const bool named = error.message().find(fmt::format("rank {}", victim)) == 0;
    if (error.kind() != kind || !named) std::fprintf(stderr, "%s: %s\n", operation.name, error.what());
    return error.kind() != kind ? kOtherKind : named ? kNamedIt : kOtherRank;
  }
}

pid_t start_rank(const std::filesystem::path& folder, const Operation& operation, int rank, int victim, int messages,
                 int signal, ErrorKind kind, std::chrono::nanoseconds timeout) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  int code = 99;
  try {
    auto transport = connect(folder, rank, kRanks);
    make_file_store(folder)->set(fmt::format("connected/{}", rank), "");
    if (rank == victim) transport = std::make_unique<FaultyTransport>(std::move(transport), messages, signal);
    Group group(std::make_shared<NetworkBackend>(with_checksums(std::move(transport))), timeout);
    code = call_until_lost(group, operation, kind, victim);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s, rank %d: %s\n", operation.name, rank, error.what());
  }
  ::_exit(code);
}

// One job: three processes of which the victim gets `signal` when it starts a certain message of its second call.
struct Job {
  TemporaryFolder folder;
  std::vector<pid_t> ranks;
};

void expect_verdicts(const std::string& name, Job& job, int victim, bool stopped) {
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == victim) continue;
    int status = -1;
    ASSERT_EQ(::waitpid(job.ranks[static_cast<std::size_t>(rank)], &status, 0),
              job.ranks[static_cast<std::size_t>(rank)]);
    ASSERT_TRUE(WIFEXITED(status)) << name << ": rank " << rank << " ended with signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), kNamedIt) << name << ", rank " << rank;
  }
  const pid_t child = job.ranks[static_cast<std::size_t>(victim)];
  if (stopped) ::kill(child, SIGKILL);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << name << ": the victim lived";
}

class NetworkFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gloo_available()) GTEST_SKIP() << "this build has no Gloo";
  }

  // All operations at once: they mostly wait.
  static void run(int victim, int messages, int signal, ErrorKind kind, std::chrono::nanoseconds timeout) {
    const std::vector<Operation> all = operations();
    std::vector<std::unique_ptr<Job>> jobs;
    for (const Operation& operation : all) {
      jobs.push_back(std::make_unique<Job>());
      for (int rank = 0; rank < kRanks; ++rank)
        jobs.back()->ranks.push_back(
            start_rank(jobs.back()->folder / "store", operation, rank, victim, messages, signal, kind, timeout));
    }
    for (std::size_t i = 0; i < all.size(); ++i)
      expect_verdicts(all[i].name, *jobs[i], victim, signal == SIGSTOP);
  }
};

// A call starts 4 messages to agree (3 ranks), then its data.
TEST_F(NetworkFaults, ADeathDuringTheAgreementIsNamedInEveryOperation) {
  run(2, 7, SIGKILL, ErrorKind::kPeerLost, seconds(20));
}

TEST_F(NetworkFaults, ADeathBetweenDataMessagesIsNamedInEveryOperation) {
  run(1, 14, SIGKILL, ErrorKind::kPeerLost, seconds(20));
}

TEST_F(NetworkFaults, AStoppedRankIsNamedAtTheDeadlineInEveryOperation) {
  // Longer than the calls before take, many at once and on a busy machine.
  run(1, 14, SIGSTOP, ErrorKind::kTimeout, seconds(5));
}

TEST_F(NetworkFaults, ADeathAtAnyMomentIsNamed) {
  // Killed from outside while long messages are half-way.
  const std::vector<Operation> all = operations();
  for (int round = 0; round < 6; ++round) {
    Job job;
    for (int rank = 0; rank < kRanks; ++rank)
      job.ranks.push_back(start_rank(job.folder / "store", all[round % 2 == 0 ? 1 : 3], rank, 0, -1, 0,
                                     ErrorKind::kPeerLost, seconds(20)));
    for (int rank = 0; rank < kRanks; ++rank)
      make_file_store(job.folder / "store")->get(fmt::format("connected/{}", rank), Deadline::after(seconds(20)));
    // sleeps: the kill falls anywhere inside a message
    system_clock().sleep_for(milliseconds(30 + 17 * round));
    ::kill(job.ranks[0], SIGKILL);
    expect_verdicts("killed from outside", job, 0, false);
  }
}

// Rank 1 learns that rank 2 is dead while its own long message to rank 0 is half-way, and rank 0 is stopped: no word of
// rank 1 can follow that message. Rank 0 then finds both connections ended.
TEST_F(NetworkFaults, OneThatCouldNotSayWhyItLeftIsNotBlamed) {
  const TemporaryFolder folder;
  const auto rank_that = [&](int rank, const std::function<void(Transport&)>& act) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    int code = 99;
    try {
      const std::unique_ptr<Transport> transport = connect(folder / "store", rank, kRanks);
      act(*transport);
      code = kFinished;
    } catch (const Error& error) {
      code = error.message().find("rank 2 is lost") == 0 ? kNamedIt : kOtherRank;
      if (code == kOtherRank) std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    }
    ::_exit(code);
  };
  const std::vector<std::byte> data(64 << 20, std::byte{1});
  std::vector<std::byte> room(data.size());
  const Deadline deadline = Deadline::after(seconds(30));
  const pid_t stopped = rank_that(0, [&](Transport& transport) {
    const std::unique_ptr<Transfer> transfer = transport.receive(1, 1, room);
    while (static_cast<volatile std::byte&>(room[1 << 20]) == std::byte{0} && !deadline.passed()) {
    }
    ::raise(SIGSTOP);
    transfer->wait(deadline);
  });
  const pid_t sender = rank_that(1, [&](Transport& transport) { transport.send(0, 1, data)->wait(deadline); });
  const pid_t victim = rank_that(2, [&](Transport& transport) { transport.receive(1, 1, room)->wait(deadline); });
  int status = -1;
  ASSERT_EQ(::waitpid(stopped, &status, WUNTRACED), stopped);
  ASSERT_TRUE(WIFSTOPPED(status));
  ::kill(victim, SIGKILL);
  ASSERT_EQ(::waitpid(sender, &status, 0), sender);
  EXPECT_EQ(WEXITSTATUS(status), kNamedIt);
  ::kill(stopped, SIGCONT);
  ASSERT_EQ(::waitpid(stopped, &status, 0), stopped);
  EXPECT_EQ(WEXITSTATUS(status), kNamedIt);
  ASSERT_EQ(::waitpid(victim, &status, 0), victim);
}

std::size_t entries(const char* folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder))
    ++count;
  return count;
}

TEST_F(NetworkFaults, AGroupIsRebuiltFiftyTimesWithoutALeak) {
  const TemporaryFolder folder;
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::int64_t memory = 0;
  for (int generation = 0; generation < 50; ++generation) {
    // Every time other members: one or two children, which die inside a collective.
    const int size = 2 + generation % 2;
    const std::string name = fmt::format("generation-{}", generation);
    std::vector<pid_t> children;
    for (int rank = 1; rank < size; ++rank) {
      children.push_back(::fork());
      if (children.back() == 0) {
        try {
          auto transport = std::make_unique<FaultyTransport>(connect(folder / "store", rank, size, name),
                                                             rank == 1 ? 11 : -1, SIGKILL);
          Group group(std::make_shared<NetworkBackend>(std::move(transport)));
          std::vector<float> data(50000);
          while (true)
            group.all_reduce(std::span(data));
        } catch (const Error&) {
        }
        ::_exit(0);
      }
    }
    {
      Group group(std::make_shared<NetworkBackend>(connect(folder / "store", 0, size, name)));
      std::vector<float> data(50000, 1.0F);
      try {
        while (true)
          group.all_reduce(std::span(data));
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.what();
        EXPECT_EQ(error.message().find("rank 1 is lost"), 0U) << error.what();
      }
    }
    for (const pid_t child : children) {
      int status = -1;
      EXPECT_EQ(::waitpid(child, &status, 0), child);
    }
    if (generation == 9) {
      descriptors = entries("/proc/self/fd");
      threads = entries("/proc/self/task");
      memory = live_bytes;
    }
  }
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  // One that has been joined may stand there for a moment more.
  ASSERT_TRUE(muster::testing::eventually([&] { return entries("/proc/self/task") <= threads; }))
      << entries("/proc/self/task") << " threads, and there were " << threads;
  // Less than the smallest thing that a group could leave behind each time.
  EXPECT_LT(live_bytes, memory + 40 * 64);
}

}  // namespace
}  // namespace muster::comm
