// muster certs as a user types it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/program.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_program;
using testing::slurp;
using testing::spill;
using testing::TemporaryFolder;

class CertsTest : public ::testing::Test {
 protected:
  Finished muster(std::vector<std::string> arguments) { return run_program(folder_.path(), std::move(arguments)); }

  TemporaryFolder folder_;
};

TEST_F(CertsTest, CreateSaysWhatGoesWhereAndShowReadsIt) {
  const Finished made = muster({"certs", "create", "certs", "--host", "10.0.0.1", "--host", "h2", "--days", "30"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("for 30 days"), HasSubstr("certs/ca.key"), HasSubstr("certs/agent-h2"),
                              HasSubstr("certs/coordinator"), HasSubstr("certs/reader")));
  struct stat status {};
  ASSERT_EQ(::stat((folder_ / "certs/user/cert.key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  const Finished shown = muster({"certs", "show", "certs/agent-h2"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("agent h2"), HasSubstr("counts       now"), HasSubstr("signed by")));
  EXPECT_THAT(muster({"certs", "show", "certs/ca.crt"}).out, HasSubstr("an authority"));
}

TEST_F(CertsTest, NothingIsOverwritten) {
  ASSERT_EQ(muster({"certs", "create", "certs"}).exit_code, 0);
  const std::string key = slurp(folder_ / "certs/ca.key");
  const Finished again = muster({"certs", "create", "certs"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("overwritten"));
  EXPECT_EQ(slurp(folder_ / "certs/ca.key"), key);
}

TEST_F(CertsTest, OneMoreIsAddedAndTokensAreMade) {
  ASSERT_EQ(muster({"certs", "create", "certs"}).exit_code, 0);
  EXPECT_EQ(muster({"certs", "add", "certs", "user", "alice"}).exit_code, 0);
  EXPECT_THAT(muster({"certs", "show", "certs/user-alice/cert.crt"}).out, HasSubstr("user alice"));
  EXPECT_THAT(muster({"certs", "add", "certs", "root", "alice"}).err, HasSubstr("Roles are"));
  const Finished tokens = muster({"certs", "tokens", "tokens"});
  EXPECT_EQ(tokens.exit_code, 0) << tokens.err;
  EXPECT_THAT(tokens.out, Not(HasSubstr(slurp(folder_ / "tokens/user.token").substr(5, 64)))) << "no secret is shown";
}

TEST_F(CertsTest, MistakesAreNamed) {
  EXPECT_EQ(muster({"certs"}).exit_code, 2);
  EXPECT_EQ(muster({"certs", "create", "certs", "--days", "0"}).exit_code, 2);
  EXPECT_EQ(muster({"certs", "create", "certs", "--host", "a b"}).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "certs"));
  spill(folder_ / "no.crt", "garbage");
  const Finished shown = muster({"certs", "show", "no.crt"});
  EXPECT_EQ(shown.exit_code, 2);
  EXPECT_THAT(shown.err, HasSubstr("holds no certificate"));
  EXPECT_EQ(muster({"certs", "show", "missing.crt"}).exit_code, 2);
}

}  // namespace
}  // namespace muster
