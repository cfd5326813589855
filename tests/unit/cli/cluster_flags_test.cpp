// Flags of jobs of several hosts.
#include "muster/cli/cluster_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;

TEST(ClusterFlags, ABuildWithGlooSpansHosts) {
  EXPECT_NO_THROW(require_network(std::nullopt));
}

TEST(ClusterFlags, ABuildWithoutGlooSaysWhyAndWhatToDo) {
  const Error error = testing::error_of([] {
    require_network(comm::MissingGloo{"its LibTorch has one", "Use another."});
  });
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_THAT(error.what(), HasSubstr("cannot train on several hosts: its LibTorch has one"));
  EXPECT_THAT(error.what(), HasSubstr("Use another."));
}

TEST(ClusterFlags, ListeningAndJoiningNeedWhatHostsTalkThrough) {
  ClusterFlags flags;
  flags.listen = flags.join = "127.0.0.1:7400";
  if (comm::gloo_available()) {
    EXPECT_EQ(listen_by(flags).address, "127.0.0.1:7400");
    EXPECT_EQ(join_by(flags).address, "127.0.0.1:7400");
  } else {
    EXPECT_THROW(listen_by(flags), Error);
    EXPECT_THROW(join_by(flags), Error);
  }
}

}  // namespace
}  // namespace muster::cli
