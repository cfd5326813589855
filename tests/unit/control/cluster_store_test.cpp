// The addresses by which workers open the store of all hosts.
#include "muster/control/cluster_store.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "support/sandbox.h"

namespace muster::control {
namespace {

TEST(ClusterStore, AFolderThatAllHostsSee) {
  const testing::TemporaryFolder folder;
  const std::string address = "file:" + (folder / "all").string();
  open_cluster_store(address)->set("key", "value");
  EXPECT_EQ(open_cluster_store(address)->get("key", Deadline::after(std::chrono::seconds(5))), "value");
}

TEST(ClusterStore, RefusesWhatIsNoAddress) {
  for (const std::string address : {"", "folder", "/tmp/all", "tcp:1.2.3.4:5"}) {
    try {
      open_cluster_store(address);
      FAIL() << address;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    }
  }
}

}  // namespace
}  // namespace muster::control
