// `muster bundle` where none of the original libraries are: a root with the bundle, the C library of this machine and
// nothing else, in which the program trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "muster/base/json.h"
#include "support/command.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::CommandResult;
using testing::Finished;
using ::testing::HasSubstr;
using testing::rows;
using testing::run_command;
using testing::run_program;
using testing::TemporaryFolder;

class BundleTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    made_ = run_program(folder_->path(), {"bundle", "bundle"});
  }
  static void TearDownTestSuite() { folder_.reset(); }
  // An empty root: the C library and its loader where the system has them, /tmp, and the bundle somewhere.
  static void make_root(const std::filesystem::path& root) {
    const std::filesystem::path libraries = "/lib/x86_64-linux-gnu";
    for (const char* name : {"lib64", "lib/x86_64-linux-gnu", "tmp", "proc", "dev", "opt"})
      std::filesystem::create_directories(root / name);
    std::filesystem::copy_file("/lib64/ld-linux-x86-64.so.2", root / "lib64/ld-linux-x86-64.so.2");
    for (const char* name : {"libc.so.6", "libm.so.6", "libmvec.so.1", "libdl.so.2", "libpthread.so.0", "librt.so.1",
                             "libresolv.so.2", "libutil.so.1"})
      if (std::filesystem::exists(libraries / name))
        std::filesystem::copy_file(libraries / name, root / "lib/x86_64-linux-gnu" / name);
    std::filesystem::rename(folder_->path() / "bundle", root / "opt/elsewhere");
  }
  // In a mount namespace of its own, which goes with it.
  static CommandResult inside(const std::filesystem::path& root, const std::string& command) {
    return run_command({"unshare", "--mount", "sh", "-c",
                        fmt::format("mount -t proc proc {0}/proc && mount --rbind /dev {0}/dev && exec chroot {0} {1}",
                                    root.string(), command)});
  }

  static std::unique_ptr<TemporaryFolder> folder_;
  static Finished made_;
};
std::unique_ptr<TemporaryFolder> BundleTest::folder_;
Finished BundleTest::made_;

TEST_F(BundleTest, HasSumsThatAgree) {
  ASSERT_EQ(made_.exit_code, 0) << made_.err;
  EXPECT_THAT(made_.out, HasSubstr("libraries"));
  const CommandResult sums =
      run_command({"sh", "-c", "cd " + (*folder_ / "bundle").string() + " && sha256sum --check --quiet SHA256SUMS"});
  EXPECT_EQ(sums.exit_code, 0) << sums.out;
  const CommandResult listed = run_command(
      {"sh", "-c",
       "cd " + (*folder_ / "bundle").string() + " && find . -type f ! -name SHA256SUMS | wc -l; wc -l SHA256SUMS"});
  const std::size_t end = listed.out.find('\n');
  EXPECT_THAT(listed.out.substr(end + 1), HasSubstr(listed.out.substr(0, end) + " ")) << "every file has one";
  const Finished again = run_program(folder_->path(), {"bundle", "bundle"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("is there already"));
  testing::spill(folder_->path() / "old.tar.zst", "somebody's");
  EXPECT_EQ(run_program(folder_->path(), {"bundle", "old.tar.zst"}).exit_code, 2);
  EXPECT_EQ(testing::slurp(folder_->path() / "old.tar.zst"), "somebody's");
  EXPECT_EQ(run_program(folder_->path(), {"bundle", "x.tar.gz"}).exit_code, 2);
}

TEST_F(BundleTest, TrainsWithTheSameBitsWhereNothingElseIs) {
  if (::geteuid() != 0) GTEST_SKIP() << "chroot needs root";
  ASSERT_EQ(made_.exit_code, 0) << made_.err;
  const std::filesystem::path root = folder_->path() / "root";
  make_root(root);
  testing::spill(folder_->path() / "job.toml", testing::small_job("small"));
  std::filesystem::copy_file(folder_->path() / "job.toml", root / "tmp/job.toml");
  const Finished here = run_program(folder_->path(), testing::train_arguments(2));
  ASSERT_EQ(here.exit_code, 0) << here.err;
  const CommandResult there = inside(
      root, "/opt/elsewhere/bin/muster train /tmp/job.toml --json --set parallel.workers=2 --set job.runs=/tmp/runs");
  ASSERT_EQ(there.exit_code, 0) << there.out;
  const std::size_t last = there.out.rfind("\n{", there.out.size() - 2);
  ASSERT_NE(last, std::string::npos) << there.out;
  EXPECT_EQ(Json::parse(there.out.substr(last)).at("weights"), rows(here.out).back().at("weights"));
  // Without the bundle's libraries it could not have started.
  std::filesystem::rename(root / "opt/elsewhere/lib", root / "opt/elsewhere/gone");
  const CommandResult without = inside(root, "/opt/elsewhere/bin/muster --version");
  EXPECT_NE(without.exit_code, 0);
  EXPECT_THAT(without.out, HasSubstr("error while loading shared libraries"));
}

}  // namespace
}  // namespace muster
