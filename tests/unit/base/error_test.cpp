// The words of errors, and which kinds can be tried again.
#include "muster/base/error.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace muster {
namespace {

const std::vector<ErrorKind> kEveryKind{ErrorKind::kInvalidInput, ErrorKind::kNotFound,    ErrorKind::kDamaged,
                                        ErrorKind::kMismatch,     ErrorKind::kUnsupported, ErrorKind::kResource,
                                        ErrorKind::kTimeout,      ErrorKind::kPeerLost,    ErrorKind::kIo,
                                        ErrorKind::kCompute,      ErrorKind::kInterrupted};

TEST(Error, JoinsPlaceMessageAndRemedyIntoOneLine) {
  const Error error(ErrorKind::kInvalidInput, "data.batch: found 0", "job.toml:7", "Expected integer, 1 or more.");
  EXPECT_STREQ(error.what(), "job.toml:7: data.batch: found 0. Expected integer, 1 or more.");
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(error.message(), "data.batch: found 0");
  EXPECT_EQ(error.where(), "job.toml:7");
  EXPECT_EQ(error.remedy(), "Expected integer, 1 or more.");
}

TEST(Error, LeavesOutWhatIsEmpty) {
  EXPECT_STREQ(Error(ErrorKind::kIo, "it broke").what(), "it broke");
  EXPECT_STREQ(Error(ErrorKind::kIo, "it broke", "x.bin").what(), "x.bin: it broke");
  EXPECT_STREQ(Error(ErrorKind::kIo, "it broke", "", "Mend it.").what(), "it broke. Mend it.");
}

TEST(Error, AddsAFullStopOnlyWhereNoneStands) {
  EXPECT_STREQ(Error(ErrorKind::kIo, "Is it on?", "", "Look.").what(), "Is it on? Look.");
  EXPECT_STREQ(Error(ErrorKind::kIo, "It is off.", "", "Look.").what(), "It is off. Look.");
  EXPECT_STREQ(Error(ErrorKind::kIo, "Off!", "", "Look.").what(), "Off! Look.");
}

TEST(Error, EveryKindHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const ErrorKind kind : kEveryKind) {
    EXPECT_FALSE(to_string(kind).empty());
    names.insert(to_string(kind));
  }
  EXPECT_EQ(names.size(), kEveryKind.size());
  EXPECT_EQ(to_string(ErrorKind::kPeerLost), "peer_lost");
}

TEST(Error, OnlyTimeoutAndLostPeerAreRetryable) {
  for (const ErrorKind kind : kEveryKind) {
    EXPECT_EQ(Error(kind, "x").retryable(), kind == ErrorKind::kTimeout || kind == ErrorKind::kPeerLost)
        << to_string(kind);
  }
}

TEST(Error, ExitCodeTellsAUsersMistakeFromAFailure) {
  const std::set<ErrorKind> mistakes{ErrorKind::kInvalidInput, ErrorKind::kNotFound, ErrorKind::kDamaged,
                                     ErrorKind::kMismatch, ErrorKind::kUnsupported};
  for (const ErrorKind kind : kEveryKind)
    EXPECT_EQ(Error(kind, "x").exit_code(), mistakes.contains(kind) ? 2 : 1) << to_string(kind);
}

}  // namespace
}  // namespace muster
