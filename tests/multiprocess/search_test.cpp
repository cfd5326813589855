// muster bench blocks and muster search as users run them: a table, a net by one worker and by two, again after a kill,
// and the net that was found as a job that trains.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::rows;
using testing::run_program;
using testing::slurp;
using testing::spill;
using ::testing::StartsWith;

class SearchTest : public ::testing::Test {
 protected:
  SearchTest() {
    spill(folder_ / "job.toml",
          testing::small_job("small", {"model.name=\"fbnet-4-8s2-8-16\"", "model.hidden=", "data.samples=300"}));
  }
  Finished muster(const std::vector<std::string>& arguments) { return run_program(folder_.path(), arguments); }
  void measure() {
    const Finished bench = muster({"bench", "blocks", "job.toml", "--rounds", "2", "--out", "times.json", "--json"});
    ASSERT_EQ(bench.exit_code, 0) << bench.err;
    ASSERT_EQ(rows(bench.out).back().at("net"), "fbnet-4-8s2-8-16");
  }
  Json found(const std::vector<std::string>& before, const std::string& out) {
    std::vector<std::string> arguments = before;
    arguments.insert(arguments.end(),
                     {"search", "job.toml", "--latency", "times.json", "--rate", "0.2", "--json", "--out", out});
    const Finished search = muster(arguments);
    EXPECT_EQ(search.exit_code, 0) << search.err;
    const std::vector<Json> all = rows(search.out);
    if (all.empty()) {
      ADD_FAILURE() << search.out << search.err;
      return {};
    }
    return all.back();
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(SearchTest, OneWorkerAndTwoFindTheSameNetWhichTrains) {
  measure();
  const Json one = found({}, "one");
  ASSERT_EQ(one.at("event"), "found");
  EXPECT_THAT(one.at("net").get<std::string>(), StartsWith("fbnet-4-8k"));
  const Json two = found({"run", "-n", "2", MUSTER_PROGRAM}, "two");
  EXPECT_EQ(two.at("probabilities"), one.at("probabilities"));
  // What was found goes on to the same, and another table is refused in its folder.
  EXPECT_EQ(found({}, "one").at("probabilities"), one.at("probabilities"));
  const Finished other = muster({"search", "job.toml", "--latency", "times.json", "--out", "one", "--pressure", "2"});
  EXPECT_EQ(other.exit_code, 2) << other.err;
  EXPECT_THAT(other.err, HasSubstr("another"));
  const Finished trained = muster({"train", "one/job.toml", "--json"});
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(rows(trained.out).back().at("event"), "finished");
}

TEST_F(SearchTest, AnOpenNetIsNotTrainedAndAClosedOneNotSearched) {
  measure();
  const Finished train = muster({"train", "job.toml"});
  EXPECT_EQ(train.exit_code, 2);
  EXPECT_THAT(train.err, HasSubstr("muster search"));
  const Finished closed = muster(
      {"search", "job.toml", "--latency", "times.json", "--set", "model.name=\"fbnet-4-8k3e1s2-16\"", "--out", "no"});
  EXPECT_EQ(closed.exit_code, 2);
  EXPECT_THAT(closed.err, HasSubstr("nothing to search"));
  const Finished other = muster(
      {"search", "job.toml", "--latency", "times.json", "--set", "model.name=\"fbnet-4-8s2-16-16\"", "--out", "no"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("muster bench blocks"));
  // What was refused leaves no folder that refuses the search that was meant.
  EXPECT_FALSE(std::filesystem::exists(folder_ / "no"));
}

TEST_F(SearchTest, TheExampleHasPlacesToFill) {
  const Finished bench = muster({"bench", "blocks", MUSTER_EXAMPLES "/search.toml", "--rounds", "1", "--json", "--set",
                                 "data.source=\"synthetic\""});
  ASSERT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_EQ(rows(bench.out).back().at("places").size(), 5U);
}

}  // namespace
}  // namespace muster
