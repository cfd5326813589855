// The last note counts, and readers beside a writer never see half of one.
#include "muster/comm/shared_note.h"

#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace muster::comm {
namespace {

class ANote : public ::testing::Test {
 protected:
  const std::unique_ptr<SharedNote::Pages> pages_ = std::make_unique<SharedNote::Pages>();
  const SharedNote note_{*pages_};
};

TEST_F(ANote, TheLastOneCounts) {
  EXPECT_EQ(note_.read(), "");
  for (const std::size_t length : {1UL, 7UL, 8UL, 9UL, 0UL, 4000UL, 3UL, SharedNote::kMost}) {
    const std::string text(length, static_cast<char>('a' + length % 26));
    note_.write(text);
    EXPECT_EQ(note_.read(), text);
    EXPECT_EQ(SharedNote(*pages_).read(), text) << "another one's view";
  }
}

TEST_F(ANote, OneThatIsTooLongIsRefusedAndTheOneBeforeStays) {
  note_.write("short");
  muster::testing::expect_error(ErrorKind::kInvalidInput, "a note of 4073 bytes; 4072 are possible",
                                [&] { note_.write(std::string(SharedNote::kMost + 1, 'x')); });
  EXPECT_EQ(note_.read(), "short");
}

TEST_F(ANote, IsReadWholeWhileOthersAreWritten) {
  constexpr std::size_t kNotes = 100'000;
  // Of one letter each, and of a length that belongs to the letter.
  const auto note_of = [](std::size_t index) {
    return std::string(100 + index % 26, static_cast<char>('a' + index % 26));
  };
  note_.write(note_of(0));
  std::atomic<bool> done = false;
  std::thread writes([&] {
    for (std::size_t index = 1; index < kNotes; ++index)
      note_.write(note_of(index));
    done = true;
  });
  while (!done) {
    const std::string text = note_.read();
    EXPECT_EQ(text, note_of(text.size() - 100));
  }
  writes.join();
  EXPECT_EQ(note_.read(), note_of(kNotes - 1));
}

}  // namespace
}  // namespace muster::comm
