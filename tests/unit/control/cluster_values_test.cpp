// What coordinator and agents know without a wire: addresses that may be used, and the values of the job's store.
#include <gtest/gtest.h>

#include "muster/control/cluster_server.h"
#include "muster/control/cluster_values.h"
#include "support/errors.h"

namespace muster::control {
namespace {

using namespace std::chrono_literals;
using testing::expect_error;

TEST(ClusterAddress, OnlyLoopbackNeedsNoProtection) {
  for (const char* address : {"127.0.0.1:1", "127.5.0.9:65535", "localhost:7400", "[::1]:7400"}) {
    EXPECT_TRUE(is_loopback(address)) << address;
    require_may_listen(address, false, false);
  }
  for (const char* address : {"10.0.0.1:1", "0.0.0.0:7400", "[::]:7400", "node1:7400", "128.0.0.1:1"}) {
    EXPECT_FALSE(is_loopback(address)) << address;
    for (const char* way : {"--insecure", "--certs", "muster certs create"}) {
      expect_error(ErrorKind::kInvalidInput, way, [&] { require_may_listen(address, false, false); });
      expect_error(ErrorKind::kInvalidInput, way, [&] { require_may_join(address, false, false); });
    }
    require_may_listen(address, true, false);
    require_may_listen(address, false, true);
  }
  for (const char* address : {"", "7400", "127.0.0.1", "127.0.0.1:", ":7400", "127.0.0.1:99999", "127.0.0.1:74x"})
    expect_error(ErrorKind::kInvalidInput, "no address", [&] { is_loopback(address); });
}

TEST(ClusterValues, ForgetsWhatBelongsToGenerationsLongAgo) {
  EXPECT_EQ(generation_of_key("job-generation-12/rank/3"), 12U);
  EXPECT_EQ(generation_of_key("broken/7"), 7U);
  for (const char* key : {"job-generation-/x", "job-generation-1x/y", "broken/", "broken", "other/7", "agreement"})
    EXPECT_EQ(generation_of_key(key), std::nullopt) << key;
  ClusterValues values;
  values.set("job-generation-1/rank/0", "x");
  values.set("job-generation-10/rank/0", "x");
  values.set("other", "x");
  values.forget_before(17);
  EXPECT_FALSE(values.get("job-generation-1/rank/0", 0ms));
  EXPECT_TRUE(values.get("job-generation-10/rank/0", 0ms));
  EXPECT_TRUE(values.get("other", 0ms));
  values.close();
  EXPECT_FALSE(values.get("never", 60min)) << "nobody waits any more";
}

}  // namespace
}  // namespace muster::control
