// A failure stands in metrics, log and card, or in those that there are.
#include "muster/trainer/run_failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/trainer/model_card.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

using ::testing::HasSubstr;

TEST(RunFailure, IsInTheMetricsTheLogAndTheCard) {
  const testing::TemporaryFolder run;
  testing::spill(run / "metrics.jsonl", "{\"event\":\"step\",\"step\":7}\n");
  testing::spill(run / "log.txt", "begun\n");
  ModelCard card;
  card.name = "iris";
  card.write(run.path());
  EXPECT_EQ(read_failure(run.path()), "");
  write_failure(run.path(), 7, "a | b\nis gone");
  const std::string metrics = testing::slurp(run / "metrics.jsonl");
  EXPECT_EQ(Json::parse(metrics.substr(metrics.find('\n') + 1)),
            (Json{{"event", "failed"}, {"step", 7}, {"reason", "a | b\nis gone"}}));
  EXPECT_THAT(testing::slurp(run / "log.txt"),
              ::testing::AllOf(HasSubstr("begun\n"), HasSubstr("error: the run failed after step 7: a | b")));
  EXPECT_EQ(read_failure(run.path()), "failed after step 7: a | b\nis gone");
  EXPECT_EQ(ModelCard::read(run.path()).name, "iris");
  EXPECT_THAT(testing::slurp(run / "card.md"), HasSubstr("| training | failed after step 7: a / b is gone |\n"));
}

TEST(RunFailure, OfARunThatHasNothingYetIsInTheMetrics) {
  const testing::TemporaryFolder run;
  write_failure(run.path(), 0, "no memory");
  EXPECT_THAT(testing::slurp(run / "metrics.jsonl"), HasSubstr("\"failed\""));
  EXPECT_FALSE(std::filesystem::exists(run / "card.json"));
  EXPECT_EQ(read_failure(run.path()), "");
  write_failure(run / "nowhere", 0, "no memory");
}

}  // namespace
}  // namespace muster::trainer
