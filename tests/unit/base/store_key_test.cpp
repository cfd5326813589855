// Keys that are allowed, and each way not to be one.
#include "muster/base/store_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "muster/base/error.h"

namespace muster {
namespace {

TEST(StoreKey, IsWordsJoinedBySlashes) {
  for (const std::string key : {"a", "job/7/members", "A-b_c.d", ".hidden"})
    EXPECT_NO_THROW(require_store_key(key)) << key;
  EXPECT_NO_THROW(require_store_key(std::string(200, 'k')));
}

TEST(StoreKey, EverythingElseIsRefused) {
  for (const std::string key : {"", "/", "/a", "a/", "a//b", "a b", "a\n", "\xc3\xa4", "a\\b"})
    EXPECT_THROW(require_store_key(key), Error) << key;
  EXPECT_THROW(require_store_key(std::string("a\0b", 3)), Error);
  EXPECT_THROW(require_store_key(std::string(201, 'k')), Error);
}

TEST(StoreValue, TooLongAOneIsRefusedByItsKey) {
  EXPECT_NO_THROW(require_store_value("job", std::string(10, 'v'), 10));
  try {
    require_store_value("job", std::string(11, 'v'), 10);
    FAIL() << "eleven bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the value of \"job\" has 11 bytes; a store takes at most 10"));
  }
}

}  // namespace
}  // namespace muster
