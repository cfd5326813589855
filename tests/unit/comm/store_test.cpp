// What ranks rely on to find each other: set once, seen by all, waits that end.
#include "muster/comm/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "support/sandbox.h"

namespace muster::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::TemporaryFolder;

Deadline soon() {
  return Deadline::after(seconds(20));
}
Deadline passed() {
  return Deadline::after(milliseconds(0));
}

template <typename Action>
ErrorKind kind_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::kInterrupted;
}

enum class Kind { kMemory, kFile, kPrefixed };

class StoreTest : public ::testing::TestWithParam<Kind> {
 protected:
  std::shared_ptr<Store> make() const {
    if (GetParam() == Kind::kMemory) return make_memory_store();
    if (GetParam() == Kind::kFile) return make_file_store(folder_ / "store");
    return with_prefix(make_file_store(folder_ / "store"), "job/7");
  }
  TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Stores, StoreTest, ::testing::Values(Kind::kMemory, Kind::kFile, Kind::kPrefixed));

TEST_P(StoreTest, GivesBackWhatWasSet) {
  const auto store = make();
  const std::string bytes("\0\n\xff+/", 5);
  store->set("a", "1");
  store->set("a/b", bytes);
  store->set("a/b/c", "");
  store->set("..", "dots");
  store->set("a-b_C.9", std::string(64 * 1024, 'x'));
  EXPECT_EQ(store->get("a", passed()), "1");
  EXPECT_EQ(store->get("a/b", passed()), bytes);
  EXPECT_EQ(store->get("a/b/c", passed()), "");
  EXPECT_EQ(store->get("..", passed()), "dots");
  EXPECT_EQ(store->get("a-b_C.9", passed()).size(), 64U * 1024);
}

TEST_P(StoreTest, TakesAValueOnce) {
  const auto store = make();
  store->set("key", "one");
  store->set("key", "one");
  EXPECT_EQ(kind_of([&] { store->set("key", "two"); }), ErrorKind::kMismatch);
  EXPECT_EQ(kind_of([&] { store->set("key", ""); }), ErrorKind::kMismatch);
  EXPECT_EQ(store->get("key", passed()), "one");
}

TEST_P(StoreTest, NamesTheKeyItWaitedFor) {
  const auto store = make();
  try {
    store->get("rank/3", Deadline::after(milliseconds(5)));
    FAIL() << "a value out of nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_NE(std::string(error.what()).find("rank/3"), std::string::npos) << error.what();
  }
}

TEST_P(StoreTest, RefusesKeysThatAreNone) {
  const auto store = make();
  for (const std::string key : {"", "/", "/a", "a/", "a//b", "a b", "a+b", "a\n", "\xc3\xa9", "a\\b"})
    EXPECT_EQ(kind_of([&] { store->set(key, "x"); }), ErrorKind::kInvalidInput) << key;
  const std::string long_key(201, 'k');
  EXPECT_EQ(kind_of([&] { store->set(long_key, "x"); }), ErrorKind::kInvalidInput);
  EXPECT_EQ(kind_of([&] { store->get("a//b", passed()); }), ErrorKind::kInvalidInput);
  EXPECT_EQ(kind_of([&] { store->set("k", std::string(64 * 1024 + 1, 'x')); }), ErrorKind::kInvalidInput);
}

TEST_P(StoreTest, WakesWhoeverWaits) {
  const auto store = make();
  std::vector<std::thread> readers;
  std::atomic<int> right{0};
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] { right += store->get("late", soon()) == "here" ? 1 : 0; });
  store->set("late", "here");
  for (std::thread& reader : readers)
    reader.join();
  EXPECT_EQ(right, 3);
}

TEST_P(StoreTest, LetsOneOfManyThreadsWin) {
  const auto store = make();
  for (int round = 0; round < 20; ++round) {
    const std::string key = "leader/" + std::to_string(round);
    std::atomic<int> winners{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        try {
          store->set(key, std::to_string(i));
          ++winners;
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    EXPECT_EQ(winners, 1);
  }
}

TEST(FileStore, IsOneStoreForSeveralProcesses) {
  const TemporaryFolder folder;
  const auto store = make_file_store(folder / "deep/store");
  std::vector<pid_t> children;
  for (int rank = 0; rank < 3; ++rank) {
    children.push_back(::fork());
    ASSERT_GE(children.back(), 0);
    if (children.back() == 0) {
      int winner = 0;
      try {
        const auto mine = make_file_store(folder / "deep/store");
        mine->set("rank/" + std::to_string(rank), std::string(5000, static_cast<char>('a' + rank)));
        for (int other = 0; other < 3; ++other) {
          const std::string value = mine->get("rank/" + std::to_string(other), soon());
          if (value != std::string(5000, static_cast<char>('a' + other))) ::_exit(90);
        }
        mine->set("leader", std::to_string(rank));
        winner = 1;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kMismatch) ::_exit(91);
      }
      ::_exit(winner);
    }
  }
  int winners = 0;
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_LE(WEXITSTATUS(status), 1);
    winners += WEXITSTATUS(status);
  }
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(store->get("leader", passed()).size(), 1U);
}

TEST_P(StoreTest, AnInterruptibleOneIsTheSameStore) {
  const auto store = make();
  const auto same = with_interruption(store, [] {});
  same->set("key", "value");
  EXPECT_EQ(store->get("key", passed()), "value");
  EXPECT_EQ(same->get("key", passed()), "value");
  EXPECT_EQ(kind_of([&] { same->get("nothing", Deadline::after(milliseconds(12))); }), ErrorKind::kTimeout);
  EXPECT_EQ(kind_of([&] { same->set("key", "other"); }), ErrorKind::kMismatch);
}

TEST_P(StoreTest, AWaitEndsWithWhatItsInterruptionThrows) {
  int calls = 0;
  const auto store = with_interruption(make(), [&] {
    if (++calls == 3) throw Error(ErrorKind::kPeerLost, "somebody was lost");
  });
  EXPECT_EQ(kind_of([&] { store->get("never", soon()); }), ErrorKind::kPeerLost);
  EXPECT_EQ(calls, 3);
}

TEST_P(StoreTest, AValueThatComesWhileAnInterruptibleGetWaitsIsFound) {
  const auto store = make();
  std::thread writer;
  // The wait has begun when the check is called for the first time.
  const auto waiting = with_interruption(store, [&] {
    if (!writer.joinable()) writer = std::thread([&] { store->set("late", "here"); });
  });
  EXPECT_EQ(waiting->get("late", soon()), "here");
  writer.join();
}

// One whose values are with somebody who is away for a while.
class StoreAway final : public Store {
 public:
  explicit StoreAway(int tries) : tries_(tries) {}
  void set(std::string_view key, std::string_view value) override {
    if (tries_-- > 0) throw Error(ErrorKind::kTimeout, "nobody is there");
    store_->set(key, value);
  }
  std::string get(std::string_view key, const Deadline& deadline) override { return store_->get(key, deadline); }

 private:
  const std::shared_ptr<Store> store_ = make_memory_store();
  int tries_;
};

TEST(InterruptibleStore, SetsAgainWhileNobodyIsThere) {
  int calls = 0;
  const auto store = with_interruption(std::make_shared<StoreAway>(3), [&] { ++calls; });
  store->set("key", "value");
  EXPECT_EQ(calls, 3) << "once after each try";
  EXPECT_EQ(store->get("key", passed()), "value");
  EXPECT_EQ(kind_of([&] { store->set("key", "other"); }), ErrorKind::kMismatch) << "said at once";
}

TEST(InterruptibleStore, GivesUpSettingWhenItIsInterrupted) {
  int calls = 0;
  const auto store = with_interruption(std::make_shared<StoreAway>(1000), [&] {
    if (++calls == 3) throw Error(ErrorKind::kPeerLost, "somebody was lost");
  });
  EXPECT_EQ(kind_of([&] { store->set("key", "value"); }), ErrorKind::kPeerLost);
}

TEST(FileStore, LeavesOnlyValuesAndOnlyForItsOwner) {
  const TemporaryFolder folder;
  const auto store = make_file_store(folder / "store");
  store->set("a/b", "1");
  store->set("c", "2");
  EXPECT_EQ(kind_of([&] { store->set("c", "3"); }), ErrorKind::kMismatch);
  struct stat status {};
  ASSERT_EQ(::stat((folder / "store").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  ASSERT_EQ(::stat((folder / "store" / "value+a+b").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder / "store"))
    ++files;
  EXPECT_EQ(files, 2U);
}

TEST(FileStore, SaysWhatIsWrongWithItsFolder) {
  const TemporaryFolder folder;
  testing::spill(folder / "file", "x");
  EXPECT_EQ(kind_of([&] { make_file_store(folder / "file"); }), ErrorKind::kNotFound);
  EXPECT_EQ(kind_of([&] { make_file_store(folder / "file/below"); }), ErrorKind::kNotFound);
  const auto store = make_file_store(folder / "store");
  testing::spill(folder / "store/value+big", std::string(64 * 1024 + 1, 'x'));
  EXPECT_EQ(kind_of([&] { store->get("big", soon()); }), ErrorKind::kDamaged);
  const int status = testing::status_of_child([&] {
    testing::limit_file_size(1000);
    return kind_of([&] { store->set("full", std::string(5000, 'x')); }) == ErrorKind::kResource ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(kind_of([&] { store->get("full", passed()); }), ErrorKind::kTimeout);
}

TEST(PrefixStore, KeepsGroupsApart) {
  const auto store = make_memory_store();
  const auto left = with_prefix(store, "left");
  const auto right = with_prefix(store, "right");
  left->set("rank", "1");
  right->set("rank", "2");
  EXPECT_EQ(left->get("rank", passed()), "1");
  EXPECT_EQ(right->get("rank", passed()), "2");
  EXPECT_EQ(store->get("left/rank", passed()), "1");
  EXPECT_EQ(kind_of([&] { with_prefix(store, "a b"); }), ErrorKind::kInvalidInput);
}

// For one who comes later and does not know the keys.
TEST(ValuesInFileStore, AreThoseBelowThePrefix) {
  const TemporaryFolder folder;
  const auto store = make_file_store(folder / "store");
  store->set("server/12", "a");
  store->set("server/7", std::string("\0\n+", 3));
  store->set("server/7/spare", "");
  store->set("server", "not below it");
  store->set("servers/1", "another prefix");
  using Values = std::map<std::string, std::string>;
  EXPECT_EQ(values_in_file_store(folder / "store", "server"),
            (Values{{"server/12", "a"}, {"server/7", std::string("\0\n+", 3)}, {"server/7/spare", ""}}));
  EXPECT_EQ(values_in_file_store(folder / "store", "server/7"), (Values{{"server/7/spare", ""}}));
  EXPECT_EQ(values_in_file_store(folder / "store", "nobody"), Values());
  EXPECT_EQ(values_in_file_store(folder / "elsewhere", "server"), Values());
}

// A writer that was killed leaves its unfinished file: it is no value.
TEST(ValuesInFileStore, FilesThatAreNoValuesDoNotCount) {
  const TemporaryFolder folder;
  const auto store = make_file_store(folder / "store");
  store->set("server/1", "a");
  testing::spill(folder / "store" / "unfinished+server+2", "half");
  testing::spill(folder / "store" / "server+3", "foreign");
  EXPECT_EQ(values_in_file_store(folder / "store", "server").size(), 1U);
}

}  // namespace
}  // namespace muster::comm
