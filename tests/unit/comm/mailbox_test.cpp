// Order by sender and tag, and messages that do not fit their receive.
#include "muster/comm/mailbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Message message(std::initializer_list<int> values, ElementType type = ElementType::kUint8) {
  Message result;
  result.type = type;
  for (const int value : values)
    result.bytes.push_back(static_cast<std::byte>(value));
  return result;
}

TEST(Mailbox, GivesMessagesOfASenderAndTagInOrder) {
  Mailbox box;
  EXPECT_FALSE(box.take(0, 0));
  box.put(0, 5, message({1}));
  box.put(0, 5, message({2}));
  box.put(0, 6, message({3}));  // another tag
  box.put(1, 5, message({4}));  // another sender
  EXPECT_EQ(box.take(1, 5)->bytes, message({4}).bytes);
  EXPECT_EQ(box.take(0, 5)->bytes, message({1}).bytes);
  EXPECT_EQ(box.take(0, 6)->bytes, message({3}).bytes);
  EXPECT_EQ(box.take(0, 5)->bytes, message({2}).bytes);
  EXPECT_FALSE(box.take(0, 5)) << "each message once";
  EXPECT_FALSE(box.take(2, 5));
}

TEST(Mailbox, KnowsWhatItHolds) {
  Mailbox box;
  EXPECT_EQ(box.held_bytes(), 0U);
  box.put(0, 0, message({1, 2, 3}));
  box.put(3, 1, message({}));
  box.put(3, 1, message({4}));
  EXPECT_EQ(box.held_bytes(), 4U);
  EXPECT_TRUE(box.take(3, 1)->bytes.empty()) << "an empty message is a message";
  EXPECT_EQ(box.held_bytes(), 4U);
  box.take(0, 0);
  box.take(0, 0);  // not there: changes nothing
  EXPECT_EQ(box.held_bytes(), 1U);
  box.take(3, 1);
  EXPECT_EQ(box.held_bytes(), 0U);
}

TEST(Deliver, CopiesAMessageThatFits) {
  std::vector<std::int32_t> values(2, 9);
  deliver(message({1, 0, 0, 0, 2, 1, 0, 0}, ElementType::kInt32), 0, 0, std::span(values));
  EXPECT_EQ(values, (std::vector<std::int32_t>{1, 258}));
  deliver(message({}, ElementType::kInt32), 0, 0, std::span<std::int32_t>());
}

TEST(Deliver, NamesSenderTagAndBothSizesOfAMisfit) {
  std::vector<std::int32_t> values(2, 9);
  const auto refusal = [&](const Message& wrong) -> std::string {
    try {
      deliver(wrong, 3, 17, std::span(values));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
      return error.what();
    }
    return "delivered";
  };
  EXPECT_THAT(refusal(message({1, 2, 3, 4}, ElementType::kInt32)),
              AllOf(HasSubstr("rank 3 sent 1 int32 with tag 17"), HasSubstr("2 int32 are expected")));
  EXPECT_THAT(refusal(message({1, 2, 3, 4, 5, 6, 7, 8}, ElementType::kFloat)),
              AllOf(HasSubstr("2 float"), HasSubstr("2 int32 are expected")));
  EXPECT_THAT(refusal(message({})), HasSubstr("0 uint8"));
  EXPECT_EQ(values, (std::vector<std::int32_t>{9, 9})) << "nothing is written";
}

}  // namespace
}  // namespace muster::comm
