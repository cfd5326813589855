// Weights by name, by number and balanced, on labels that are counted by hand.
#include "muster/trainer/class_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::trainer {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

// Labels 0, 1, 1, 1, of the classes "a=b" and "c", or of numbers.
class Labels final : public data::Dataset {
 public:
  explicit Labels(std::vector<std::string> names) {
    spec_.shape = {1};
    spec_.classes = 2;
    spec_.class_names = std::move(names);
  }
  std::uint64_t size() const override { return 4; }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t id, std::span<float>) const override { return id == 0 ? 0 : 1; }

 private:
  data::SampleSpec spec_;
};

std::vector<double> weights(const std::vector<std::string>& words, std::vector<std::string> names = {"a=b", "c"}) {
  return class_weights(parse_class_weights(words), Labels(std::move(names)));
}

TEST(ClassWeights, ByNameByNumberAndBalanced) {
  EXPECT_THAT(weights({}), IsEmpty());
  EXPECT_THAT(weights({"a=b=2.5"}), ElementsAre(2.5, 1));
  EXPECT_THAT(weights({"1=0"}, {}), ElementsAre(1, 0));
  EXPECT_THAT(weights({"balanced"}), ElementsAre(DoubleEq(2), DoubleEq(4.0 / 6))) << "the mean over samples is 1";
}

TEST(ClassWeights, WhatCannotBeIsNamed) {
  EXPECT_THAT([] { weights({"c"}); }, ThrowsMessage<Error>(HasSubstr("\"c\" is no weight")));
  EXPECT_THAT([] { weights({"c=-1"}); }, ThrowsMessage<Error>(HasSubstr("c=-1")));
  EXPECT_THAT([] { weights({"balanced", "c=1"}); }, ThrowsMessage<Error>(HasSubstr("all classes")));
  EXPECT_THAT([] { weights({"d=1"}); }, ThrowsMessage<Error>(HasSubstr("no class \"d\"")));
  EXPECT_THAT([] { weights({"a=b=0", "c=0"}); }, ThrowsMessage<Error>(HasSubstr("nothing to learn")));
}

}  // namespace
}  // namespace muster::trainer
