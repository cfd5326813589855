// What every Store has to do, whatever is behind it: tests over a `StoreRoom`, a place for one store that several may
// open. Each program that includes this instantiates StoreContract for the stores it knows. Writers that are killed are
// processes of their own (store_process.cpp).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/control/store.h"
#include "support/command.h"
#include "support/errors.h"
#include "support/eventually.h"
#include "support/ranks.h"

namespace muster::control {

class StoreRoom {
 public:
  virtual ~StoreRoom() = default;
  virtual std::unique_ptr<Store> open() const = 0;
  virtual std::string address() const = 0;  // for store_process
};

using RoomMaker = std::function<std::unique_ptr<StoreRoom>()>;

class StoreContract : public ::testing::TestWithParam<RoomMaker> {
 protected:
  void SetUp() override {
    room_ = GetParam()();
    if (!room_) GTEST_SKIP() << "what is behind this store is not installed";
  }
  std::unique_ptr<Store> open() const { return room_->open(); }
  static std::vector<std::string> keys_of(const std::vector<Entry>& entries) {
    std::vector<std::string> keys;
    for (const Entry& entry : entries)
      keys.push_back(entry.key);
    return keys;
  }

  std::unique_ptr<StoreRoom> room_;
};

TEST_P(StoreContract, KeepsWhatWasPutForTheNextToOpenIt) {
  const std::string bytes("\0\xff'\"\n", 5);
  std::uint64_t revision = 0;
  {
    const auto store = open();
    EXPECT_EQ(store->get("a"), std::nullopt);
    store->put("a", "first");
    revision = store->put("a", bytes);
    store->put("empty", "");
  }
  const auto store = open();
  EXPECT_EQ(store->get("a")->value, bytes);
  EXPECT_EQ(store->get("a")->revision, revision);
  EXPECT_EQ(store->get("empty")->value, "");
}

TEST_P(StoreContract, RevisionsOnlyGrowAlsoOverRemovalAndReopening) {
  std::uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    const auto store = open();
    for (int j = 0; j < 3; ++j) {
      const std::uint64_t revision = store->put("key", "value");
      EXPECT_GT(revision, last);
      EXPECT_GE(store->revision(), revision);
      last = revision;
      store->remove("key");
      EXPECT_GT(store->revision(), revision);
      EXPECT_EQ(store->get("key"), std::nullopt);
      store->remove("key");  // no error
    }
  }
}

TEST_P(StoreContract, ListsByPrefixInOrder) {
  const auto store = open();
  for (const char* key : {"b/2", "a", "b/1", "b", "b/10", "bb", "c"})
    store->put(key, key);
  EXPECT_THAT(keys_of(store->list("b/")), ::testing::ElementsAre("b/1", "b/10", "b/2"));
  EXPECT_THAT(keys_of(store->list("")), ::testing::ElementsAre("a", "b", "b/1", "b/10", "b/2", "bb", "c"));
  EXPECT_TRUE(store->list("d").empty());
}

TEST_P(StoreContract, ComparesBeforeItPuts) {
  const auto store = open();
  const auto first = store->compare_and_put("key", 0, "one");
  ASSERT_TRUE(first);
  EXPECT_EQ(store->compare_and_put("key", 0, "two"), std::nullopt);
  EXPECT_EQ(store->compare_and_put("key", *first + 1, "two"), std::nullopt);
  EXPECT_EQ(store->get("key")->value, "one");
  EXPECT_GT(*store->compare_and_put("key", *first, "two"), *first);
  EXPECT_EQ(store->compare_and_put("key", *first, "three"), std::nullopt);
  EXPECT_EQ(store->get("key")->value, "two");
}

TEST_P(StoreContract, TransactionIsAllOrNothing) {
  const auto store = open();
  const std::uint64_t guard = store->put("guard", "");
  store->put("old", "");
  EXPECT_EQ(store->commit({.conditions = {{"guard", guard}, {"absent", 7}}, .writes = {{"new", "x"}, {"old", {}}}}),
            std::nullopt);
  EXPECT_THAT(keys_of(store->list("")), ::testing::ElementsAre("guard", "old"));
  const auto done = store->commit({.conditions = {{"guard", guard}}, .writes = {{"new", "x"}, {"old", {}}}});
  ASSERT_TRUE(done);
  EXPECT_THAT(keys_of(store->list("")), ::testing::ElementsAre("guard", "new"));
  EXPECT_EQ(store->get("new")->revision, *done);
}

TEST_P(StoreContract, RefusesKeysAndValuesItCannotHold) {
  const auto store = open();
  const std::uint64_t before = store->revision();
  for (const std::string& key : {std::string(""), std::string("/a"), std::string("a//b"), std::string("a/"),
                                 std::string("a b"), std::string("\xc3\xa4"), std::string(201, 'a')})
    EXPECT_EQ(testing::error_of([&] { store->put(key, ""); }).kind(), ErrorKind::kInvalidInput) << key;
  EXPECT_EQ(testing::error_of([&] { store->put("a", std::string((1 << 20) + 1, 'x')); }).kind(),
            ErrorKind::kInvalidInput);
  EXPECT_EQ(store->revision(), before);
  store->put("a", std::string(1 << 20, 'x'));
  EXPECT_EQ(store->get("a")->value.size(), std::size_t{1} << 20);
}

TEST_P(StoreContract, ThreadsMayShareOne) {
  const auto store = open();
  const std::uint64_t before = store->revision();
  muster::testing::run_ranks(3, [&](int rank) {
    for (int i = 0; i < 10; ++i)
      store->put("key/" + std::to_string(rank), std::to_string(i));
  });
  EXPECT_EQ(store->list("key/").size(), 3u);
  EXPECT_EQ(store->revision(), before + 30);
}

// store_process writes each count under two keys, and prints it once the commit has returned.
TEST_P(StoreContract, KilledWriterLosesNothingItAcknowledged) {
  const auto store = open();
  for (int round = 0; round < 5; ++round) {
    testing::Command writer({STORE_PROCESS, "count", room_->address()});
    const auto last_printed = [&] {
      const std::string out = writer.out();
      const std::size_t end = out.rfind('\n');
      if (end == std::string::npos || end == 0) return 0;
      const std::size_t begin = out.rfind('\n', end - 1);
      return std::stoi(out.substr(begin == std::string::npos ? 0 : begin + 1));
    };
    ASSERT_TRUE(testing::eventually([&] { return last_printed() > 0; })) << writer.out();
    // sleeps: the kill falls anywhere inside a write
    std::this_thread::sleep_for(std::chrono::microseconds(3'970 * round));
    ::kill(writer.pid(), SIGKILL);
    writer.wait();
    const int found = std::stoi(store->get("count")->value);
    EXPECT_GE(found, last_printed());
    EXPECT_LE(found, last_printed() + 1);  // the one it was writing may have made it
    EXPECT_EQ(store->get("twin")->value, store->get("count")->value);
  }
}

TEST_P(StoreContract, TwoProcessesCountTogetherByCompareAndPut) {
  const auto store = open();
  store->put("count", "0");
  testing::Command first({STORE_PROCESS, "add", room_->address()});
  testing::Command second({STORE_PROCESS, "add", room_->address()});
  EXPECT_EQ(first.wait().exit_code, 0);
  EXPECT_EQ(second.wait().exit_code, 0);
  EXPECT_EQ(store->get("count")->value, std::to_string(2 * 40));
}

}  // namespace muster::control
