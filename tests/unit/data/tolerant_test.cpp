// Damaged samples and what stands for them, up to the limit and beyond.
#include "muster/data/tolerant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "muster/data/loader.h"
#include "support.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<Counting> with_bad(std::uint64_t size, std::set<std::uint64_t> bad) {
  auto dataset = std::make_shared<Counting>(size);
  dataset->on_read = [bad = std::move(bad)](std::uint64_t id) {
    if (bad.contains(id)) throw Error(ErrorKind::kDamaged, "is cut short", "picture " + std::to_string(id));
  };
  return dataset;
}

std::shared_ptr<BadSamples> skipping(std::uint64_t limit = 100) {
  return std::make_shared<BadSamples>(BadSampleOptions{.on_bad_sample = OnBadSample::kSkip, .limit = limit});
}

TEST(Tolerant, ABadSampleIsReplacedByTheNextGoodOne) {
  const auto bad = skipping();
  const Tolerant tolerant(with_bad(6, {1, 4, 5}), bad);
  std::vector<float> features(2);
  const std::vector<std::uint64_t> stands_there{0, 2, 2, 3, 0, 0};
  for (std::uint64_t id = 0; id < 6; ++id) {
    tolerant.read(id, features);
    EXPECT_EQ(features[0], static_cast<float>(stands_there[id])) << id;
  }
  EXPECT_EQ(bad->count(), 3U);  // each once, though 5 was met twice
  EXPECT_THAT(bad->examples(), ElementsAre(HasSubstr("picture 1"), HasSubstr("picture 4"), HasSubstr("picture 5")));
}

TEST(Tolerant, KnowsWhichOfTheIdsThatWereReadAreBad) {
  const Tolerant tolerant(with_bad(6, {1, 4, 5}), skipping());
  const std::vector<std::uint64_t> ids{5, 0, 4, 1};
  EXPECT_TRUE(tolerant.damaged(ids).empty()) << "nothing was read";
  std::vector<float> features(2);
  for (const std::uint64_t id : ids)
    tolerant.read(id, features);
  EXPECT_THAT(tolerant.damaged(ids), ElementsAre(5, 4, 1));
}

TEST(Tolerant, ALoaderKeepsTheIdThatWasAskedFor) {
  Loader loader(std::make_shared<Tolerant>(with_bad(6, {1}), skipping()), {.threads = 2});
  const Batch batch = loader.take(loader.submit({0, 1, 3}), Deadline::after(std::chrono::seconds(60)));
  EXPECT_THAT(batch.ids, ElementsAre(0, 1, 3));
  EXPECT_EQ(batch.features.span()[2], 2.0F);
}

TEST(Tolerant, BeyondTheLimitTheErrorNamesTheLastSample) {
  const Tolerant tolerant(with_bad(6, {1, 3}), skipping(1));
  std::vector<float> features(2);
  EXPECT_NO_THROW(tolerant.read(1, features));
  const auto error = error_of([&] { tolerant.read(3, features); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "picture 3");
}

TEST(Tolerant, OtherErrorsPass) {
  auto dataset = std::make_shared<Counting>(3);
  dataset->on_read = [](std::uint64_t) { throw Error(ErrorKind::kIo, "the disk is gone"); };
  const Tolerant tolerant(dataset, skipping());
  std::vector<float> features(2);
  EXPECT_EQ(error_of([&] { tolerant.read(0, features); })->kind(), ErrorKind::kIo);
}

TEST(Tolerant, ASetOfBadSamplesOnlyIsRefused) {
  const Tolerant tolerant(with_bad(3, {0, 1, 2}), skipping());
  std::vector<float> features(2);
  EXPECT_THAT(error_of([&] { tolerant.read(2, features); })->message(), HasSubstr("none of the 3"));
}

TEST(BadSamples, WhoMayNotSkipIsToldHowToAllowIt) {
  BadSamples bad({});
  const auto error = error_of([&] { bad.report(Error(ErrorKind::kDamaged, "is cut short", "a.csv:3")); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "a.csv:3");
  EXPECT_THAT(error->remedy(), HasSubstr("on_bad_sample = \"skip\""));
  EXPECT_EQ(bad.count(), 0U);
}

}  // namespace
}  // namespace muster::data
