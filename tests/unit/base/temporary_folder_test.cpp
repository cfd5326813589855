#include "muster/base/temporary_folder.h"

#include <gtest/gtest.h>

#include <fstream>

namespace muster {
namespace {

TEST(TemporaryFolder, IsEmptyAndPrivateAndGoesAwayWithAllInIt) {
  std::filesystem::path path;
  {
    const TemporaryFolder folder("muster-test-");
    path = folder.path();
    EXPECT_TRUE(path.filename().string().starts_with("muster-test-"));
    EXPECT_TRUE(std::filesystem::is_empty(path));
    EXPECT_EQ(std::filesystem::status(path).permissions() & std::filesystem::perms::all,
              std::filesystem::perms::owner_all);
    std::filesystem::create_directory(path / "inside");
    std::ofstream(path / "inside" / "file") << "text";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryFolder, TwoAreNotTheSame) {
  const TemporaryFolder first("muster-test-");
  const TemporaryFolder second("muster-test-");
  EXPECT_NE(first.path(), second.path());
}

}  // namespace
}  // namespace muster
