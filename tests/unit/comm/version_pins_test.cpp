// Pins of the living hold, pins of the dead do not, and neither loses a race against commits.
#include "muster/comm/version_pins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "support/sandbox.h"
#include "unit/comm/arena_job.h"

namespace muster::comm {
namespace {

using muster::testing::status_of_child;
using ::testing::HasSubstr;
using testing::job_options;
using testing::kJobNonce;

Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}

// One rank, alone in its arena.
class VersionPinsTest : public ::testing::Test {
 protected:
  VersionPinsTest() {
    Arena::create(region_, job_options(1)).begin_generation(1, 1);
    arena_.emplace(Arena::attach(region_, kJobNonce, 0));
    arena_->enter(1, soon());
  }
  void flip() { arena_->commit(Outcome::kFlip, soon()); }
  bool can_write() {
    try {
      arena_->next_version(Deadline::after(std::chrono::milliseconds(2)));
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
      message_ = error.what();
      return false;
    }
  }

  std::shared_ptr<const SharedRegion> region_ =
      std::make_shared<const SharedRegion>(SharedRegion::create(Arena::bytes(job_options(1))));
  std::optional<Arena> arena_;
  std::string message_;
};

TEST_F(VersionPinsTest, KeepTheirVersionFromBeingOverwritten) {
  {
    const VersionPin pin = arena_->pin();
    EXPECT_EQ(pin.step(), 0U);
    EXPECT_EQ(pin.bytes().data(), arena_->version(0).data());
    EXPECT_TRUE(can_write()) << "the next version goes elsewhere";
    flip();
    EXPECT_FALSE(can_write());
    EXPECT_THAT(message_, HasSubstr("process " + std::to_string(::getpid()) +
                                    " let go of version 0, which the update of step 1 would overwrite"));
  }
  EXPECT_TRUE(can_write());
}

TEST_F(VersionPinsTest, OfTheVersionThatIsReadBlockNothing) {
  flip();
  const VersionPin pin = arena_->pin();
  EXPECT_EQ(pin.step(), 1U);
  EXPECT_TRUE(can_write());
  arena_->commit(Outcome::kKeep, soon());
  EXPECT_TRUE(can_write()) << "after a skipped step the version is still the one to be read";
  flip();
  EXPECT_FALSE(can_write());
}

TEST_F(VersionPinsTest, WakeTheUpdateThatWaitsForThem) {
  std::optional<VersionPin> pin(arena_->pin());
  flip();
  std::thread reader([&] {
    // sleeps: most likely the update waits by then; right in any case
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    pin.reset();
  });
  EXPECT_EQ(arena_->next_version(soon()).data(), arena_->version(0).data());
  reader.join();
}

TEST_F(VersionPinsTest, AreGoneOnceAndForAllWhenMoved) {
  std::vector<VersionPin> pins;
  for (int i = 0; i < 10; ++i)
    pins.push_back(arena_->pin());  // moved as the vector grows
  flip();
  EXPECT_FALSE(can_write());
  pins.clear();
  EXPECT_TRUE(can_write());
}

TEST_F(VersionPinsTest, OfADeadProcessCountForNothing) {
  const int status = status_of_child([&] {
    const VersionPin pin = arena_->pin();
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  flip();
  EXPECT_EQ(arena_->next_version(soon()).data(), arena_->version(0).data());
}

TEST_F(VersionPinsTest, AreAtMostSixteenOfTheLiving) {
  EXPECT_EQ(status_of_child([&] {
              std::vector<VersionPin> pins;
              for (int i = 0; i < 16; ++i)
                pins.push_back(arena_->pin());
              ::_exit(0);  // without letting go
              return 1;
            }),
            0);
  std::vector<VersionPin> pins;
  for (int i = 0; i < 16; ++i)
    pins.push_back(arena_->pin());
  try {
    arena_->pin();
    ADD_FAILURE() << "a seventeenth pin";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
    EXPECT_THAT(error.what(), HasSubstr("16 versions are being read already"));
  }
  pins.pop_back();
  arena_->pin();
}

// A reader as fast as it can against commits as fast as they go: what is pinned never changes while it is.
TEST_F(VersionPinsTest, HoldAgainstCommitsAtAnyMoment) {
  constexpr std::uint64_t kSteps = 30000;
  constexpr std::uint64_t kReads = 100;
  std::atomic<std::uint64_t> reads = 0;
  std::thread trainer([&] {
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      while (reads < kReads * step / kSteps)  // the reader may get a processor later
        std::this_thread::yield();
      const testing::Words next = testing::as_words(arena_->next_version(soon()));
      std::fill(next.begin(), next.end(), step + 1);
      flip();
    }
  });
  const Arena reader = Arena::attach(region_, kJobNonce, kAnyRank);
  std::uint64_t wrong = 0;
  for (std::uint64_t step = 0; step < kSteps; ++reads) {
    const VersionPin pin = reader.pin();
    step = pin.step();
    const std::span<const std::uint64_t> words(reinterpret_cast<const std::uint64_t*>(pin.bytes().data()),
                                               testing::kJobWords);
    for (const std::uint64_t word : words)
      wrong += word == step ? 0 : 1;
  }
  trainer.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_GE(reads, kReads - 1);
}

}  // namespace
}  // namespace muster::comm
