// What trains, validates and tests: no sample in two of them, every sample once an epoch.
#include "muster/trainer/datasets.h"

#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/sandbox.h"

namespace muster::trainer {
namespace {

// 50 samples in steps of 16: the fourth step of an epoch is short.
constexpr const char* kJob = R"([job]
lanes = 4
[data]
source = "synthetic"
shape = [1, 2, 2]
samples = 50
test_samples = 7
batch = 16
)";

ResolvedJob job(const std::vector<std::string>& assignments = {}) {
  return parse_job(kJob, "job.toml", assignments);
}

TEST(Datasets, TheTestSetValidatesWhereNothingIsHeldOut) {
  const Datasets sets = open_data(job().job);
  EXPECT_EQ(sets.train->size(), 50U);
  EXPECT_EQ(sets.test->size(), 7U);
  EXPECT_EQ(sets.validation, sets.test);
  EXPECT_FALSE(sets.held_out);
}

TEST(Datasets, AHeldOutPartIsTakenFromTheTrainingSamples) {
  const Datasets sets = open_data(job({"data.validation=0.2"}).job);
  EXPECT_EQ(sets.train->size(), 40U);
  EXPECT_EQ(sets.validation->size(), 10U);
  EXPECT_EQ(sets.test->size(), 7U);
  EXPECT_TRUE(sets.held_out);
}

TEST(Datasets, WhatStandsForABadSampleIsOfTheSameSet) {
  const testing::TemporaryFolder folder;
  testing::spill(folder.path() / "t.csv", "n,y\n1,a\n2,b\n3,a\n4,b\n5,a\n6,b\n7,a\n8,b\n");
  const Datasets sets = open_data(parse_job(fmt::format("[data]\nsource = \"csv\"\npath = \"{}\"\nbatch = 2\n"
                                                        "validation = 0.5\non_bad_sample = \"skip\"\n",
                                                        (folder.path() / "t.csv").string()),
                                            "job.toml")
                                      .job);
  ASSERT_TRUE(sets.tolerant) << "around the training part, not around all samples";
  EXPECT_EQ(sets.tolerant->size(), sets.train->size());
  EXPECT_FALSE(open_data(job().job).tolerant) << "where a bad sample ends the job";
}

TEST(Datasets, APartIsNeverEmpty) {
  EXPECT_EQ(open_data(job({"data.validation=0.001"}).job).validation->size(), 1U);
}

TEST(Datasets, TheLanesOfAnEpochHaveEverySampleOnce) {
  const ResolvedJob resolved = job();
  std::multiset<std::uint64_t> used;
  for (std::uint64_t step = 0; step < 4; ++step) {
    const std::size_t lanes = step < 3 ? 4 : 1;  // 2 samples are left, and no lane has a single one
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::vector<std::uint64_t> samples = samples_of(resolved, step, lane);
      EXPECT_EQ(samples.size(), step < 3 ? 4U : 2U);
      used.insert(samples.begin(), samples.end());
    }
  }
  ASSERT_EQ(used.size(), 50U);
  for (std::uint64_t id = 0; id < 50; ++id)
    EXPECT_EQ(used.count(id), 1U) << id;
  EXPECT_NE(samples_of(resolved, 0, 0), samples_of(resolved, 4, 0)) << "the next epoch has another order";
}

}  // namespace
}  // namespace muster::trainer
