// What is drawn depends on seed, epoch and sample alone, in any thread and order; ranges are reached and kept.
#include "muster/data/augment/augmentation.h"

#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "muster/data/loader.h"
#include "muster/data/subset.h"
#include "muster/data/synthetic.h"
#include "support.h"

namespace muster::data {
namespace {

Augmentation parse(const std::vector<std::string>& words) {
  return parse_augmentation(words);
}

std::string complaint(const std::vector<std::string>& words) {
  const auto error = error_of([&] { parse(words); });
  if (error) {
    EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
  }
  return error ? error->what() : "";
}

TEST(ParseAugmentation, TakesTheStepsInTheirOrder) {
  using Kind = AugmentStep::Kind;
  const Augmentation all =
      parse({"random-resized-crop", "rotate:15", "flip", "crop:4", "jitter:0.4", "cutout:8", "mixup:0.2"});
  EXPECT_EQ(all.steps,
            (std::vector<AugmentStep>{
                {Kind::kRotate, 15}, {Kind::kFlip, 0.5}, {Kind::kCrop, 4}, {Kind::kJitter, 0.4}, {Kind::kCutout, 8}}));
  EXPECT_EQ(all.resized_crop_area, 0.08);
  EXPECT_EQ(all.mixup_alpha, 0.2);
  EXPECT_EQ(parse({"random-resized-crop:0.5", "flip:1"}).resized_crop_area, 0.5);
  EXPECT_EQ(parse({}), Augmentation{});
}

TEST(ParseAugmentation, SaysWhatItDoesNotUnderstand) {
  EXPECT_EQ(complaint({"flpi"}).substr(0, 51), "unknown augmentation \"flpi\" (did you mean \"flip\"?).");
  for (const char* word :
       {"", "crop", "crop:", "crop:1.5", "crop:x", "crop:4x", "crop:0", "crop:-1", "flip:2", "flip:nan", "rotate:181",
        "jitter", "mixup:0", "cutout:1e9", "random-resized-crop:0", "flip:"}) {
    EXPECT_NE(complaint({word}), "") << word;
  }
  EXPECT_NE(complaint({"flip", "flip:0.1"}).find("twice"), std::string::npos);
}

// Samples of {3, 10, 12} and how an augmented set reads them.
class AugmentedTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Dataset> plain =
      std::make_shared<Synthetic>(SyntheticOptions{.shape = {3, 10, 12}, .samples = 40, .seed = 5});
  const Normalization normalization{.mean = {0.5F, 0.5F, 0.5F}, .stddev = {0.1F, 0.1F, 0.1F}};

  Augmented augmented(const std::vector<std::string>& words, std::uint64_t seed = 1) const {
    return {plain, parse(words), normalization, seed};
  }
  static std::vector<float> read(const Dataset& dataset, std::uint64_t id, std::uint64_t epoch) {
    std::vector<float> features(dataset.spec().elements());
    dataset.read_in_epoch(id, epoch, features);
    return features;
  }
  const std::vector<std::string> all{"rotate:20", "flip", "crop:3", "jitter:0.4", "cutout:4"};
};

TEST_F(AugmentedTest, TheBitsAreThoseOfTheSampleInAnyThreadAndOrder) {
  const Augmented dataset = augmented(all);
  std::vector<std::vector<float>> forwards;
  for (std::uint64_t id = 0; id < 40; ++id)
    forwards.push_back(read(dataset, id, 2));
  for (const std::size_t count : {1U, 2U, 5U}) {
    std::vector<std::vector<float>> seen(40);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < count; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t id = 40; id-- > 0;) {
          if (id % count == t) seen[id] = read(dataset, id, 2);
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    EXPECT_EQ(seen, forwards) << count << " threads";
  }
}

TEST_F(AugmentedTest, LoadersOfAnyNumberOfThreadsGiveTheSamplesOfTheEpoch) {
  const auto dataset = std::make_shared<Augmented>(augmented(all));
  const auto part = split(dataset, 0.25, 8).train;
  std::vector<std::uint64_t> ids(part->size());
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = ids.size() - 1 - i;
  for (const int threads : {0, 1, 3}) {
    Loader loader(part, {.threads = threads});
    const auto seen = loader.take(loader.submit(ids, 6), Deadline::after(std::chrono::minutes(1)));
    const auto plain_batch = loader.take(loader.submit(ids), Deadline::after(std::chrono::minutes(1)));
    const std::size_t elements = dataset->spec().elements();
    std::vector<float> original(elements);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::uint64_t id = part->original(ids[i]);
      const std::span<const float> sample = seen.features.span().subspan(i * elements, elements);
      EXPECT_EQ(std::vector<float>(sample.begin(), sample.end()), read(*dataset, id, 6));
      plain->read(id, original);
      const std::span<const float> untouched = plain_batch.features.span().subspan(i * elements, elements);
      EXPECT_EQ(std::vector<float>(untouched.begin(), untouched.end()), original) << "without an epoch";
    }
  }
}

TEST_F(AugmentedTest, EpochSampleAndSeedEachDrawAnew) {
  const Augmented dataset = augmented(all);
  EXPECT_NE(read(dataset, 3, 0), read(dataset, 3, 1));
  EXPECT_NE(read(dataset, 3, 0), read(augmented(all, 2), 3, 0));
  EXPECT_EQ(read(dataset, 3, 0), read(augmented(all), 3, 0));
}

TEST_F(AugmentedTest, EvaluationSeesTheSampleAsItIs) {
  const Augmented dataset = augmented(all);
  std::vector<float> features(dataset.spec().elements());
  std::vector<float> original(features.size());
  EXPECT_EQ(dataset.read(7, features), plain->read(7, original));
  EXPECT_EQ(features, original);
  EXPECT_EQ(read(augmented({}), 7, 3), original) << "and nothing to do is nothing done";
}

TEST_F(AugmentedTest, FlipHappensToItsPartOfTheSamples) {
  const PictureShape shape{3, 10, 12};
  for (const auto& [word, low, high] :
       std::vector<std::tuple<std::string, int, int>>{{"flip", 150, 250}, {"flip:0", 0, 0}, {"flip:1", 400, 400}}) {
    const Augmented dataset = augmented({word});
    int flipped = 0;
    for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
      for (std::uint64_t id = 0; id < 40; ++id) {
        std::vector<float> original = read(*plain, id, 0);
        const std::vector<float> seen = read(dataset, id, epoch);
        if (seen == original) continue;
        flip(original, shape);
        ASSERT_EQ(seen, original);
        ++flipped;
      }
    }
    EXPECT_GE(flipped, low);
    EXPECT_LE(flipped, high);
  }
}

TEST_F(AugmentedTest, CropReachesEveryPlaceAndNoOther) {
  const PictureShape shape{3, 10, 12};
  const Augmented dataset = augmented({"crop:1"});
  std::set<std::pair<int, int>> met;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    for (std::uint64_t id = 0; id < 40; ++id) {
      const std::vector<float> seen = read(dataset, id, epoch);
      bool found = false;
      for (int right = -1; right <= 1; ++right) {
        for (int down = -1; down <= 1; ++down) {
          std::vector<float> moved = read(*plain, id, 0);
          shift(moved, shape, right, down);
          if (moved == seen) {
            met.insert({right, down});
            found = true;
          }
        }
      }
      ASSERT_TRUE(found);
    }
  }
  EXPECT_EQ(met.size(), 9U);
}

TEST_F(AugmentedTest, JitterStaysInItsRange) {
  // One grey level everywhere: contrast and saturation change nothing, brightness shows alone.
  class Grey final : public Dataset {
   public:
    std::uint64_t size() const override { return 400; }
    const SampleSpec& spec() const override { return spec_; }
    std::int64_t read(std::uint64_t, std::span<float> features) const override {
      std::fill(features.begin(), features.end(), 0.0F);  // intensity 0.5
      return 0;
    }
    SampleSpec spec_{.shape = {3, 2, 2}, .classes = 2};
  };
  const Augmented dataset(std::make_shared<Grey>(), parse({"jitter:0.4"}), normalization, 1);
  double low = 1;
  double high = 0;
  for (std::uint64_t id = 0; id < 400; ++id) {
    const double intensity = read(dataset, id, 0)[0] * 0.1 + 0.5;
    low = std::min(low, intensity);
    high = std::max(high, intensity);
  }
  EXPECT_GE(low, 0.3 - 1e-6);
  EXPECT_LT(low, 0.31);
  EXPECT_LE(high, 0.7 + 1e-6);
  EXPECT_GT(high, 0.69);
}

TEST_F(AugmentedTest, SamplesThatAreNoPicturesAreRefused) {
  EXPECT_TRUE(error_of([] { Augmented(std::make_shared<Counting>(3), parse({"flip"}), {}, 1); }));
  EXPECT_FALSE(error_of([] { Augmented(std::make_shared<Counting>(3), parse({"mixup:1"}), {}, 1); }));
  EXPECT_TRUE(error_of([&] { Augmented(plain, parse({"jitter:0.1"}), {}, 1); })) << "nobody knows the normalization";
  EXPECT_FALSE(error_of([&] { Augmented(plain, parse({"flip"}), {}, 1); }));
}

}  // namespace
}  // namespace muster::data
