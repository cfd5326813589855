// Whatever of a data set is covered is changed once, and must show.
#include "muster/data/fingerprint.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/synthetic.h"

namespace muster::data {
namespace {

// Sample i is (i, i + 1) with the label i % 3, but for what a test changes.
class Numbers final : public Dataset {
 public:
  explicit Numbers(std::uint64_t size, SampleSpec spec = {.shape = {2}, .classes = 3})
      : size_(size), spec_(std::move(spec)) {}

  std::uint64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override {
    if (damaged == static_cast<std::int64_t>(id)) throw Error(ErrorKind::kDamaged, "cut");
    if (unreadable == static_cast<std::int64_t>(id)) throw Error(ErrorKind::kIo, "no disk");
    features[0] = static_cast<float>(id);
    features[1] = static_cast<float>(id) + (changed == static_cast<std::int64_t>(id) ? 2.0F : 1.0F);
    return label(id);
  }
  std::int64_t label(std::uint64_t id) const override {
    return static_cast<std::int64_t>((id + (relabelled == static_cast<std::int64_t>(id) ? 1 : 0)) % 3);
  }
  bool knows_labels() const override { return knows; }

  std::int64_t damaged = -1;
  std::int64_t unreadable = -1;
  std::int64_t changed = -1;
  std::int64_t relabelled = -1;
  bool knows = true;

 private:
  std::uint64_t size_;
  SampleSpec spec_;
};

TEST(Fingerprint, TheSameDataHasTheSameOne) {
  for (const std::uint64_t size : {0, 1, 2, 31, 32, 33, 1000})
    EXPECT_EQ(fingerprint(Numbers(size)), fingerprint(Numbers(size))) << size;
  EXPECT_EQ(fingerprint(Numbers(5)).size(), 16U);
}

TEST(Fingerprint, WhatIsCoveredShows) {
  const std::string first = fingerprint(Numbers(1000));
  const std::vector<std::pair<const char*, std::function<Numbers()>>> others{
      {"size", [] { return Numbers(1001); }},
      {"classes", [] { return Numbers(1000, {.shape = {2}, .classes = 4}); }},
      {"shape",
       [] {
         return Numbers(1000, {.shape = {2, 1}, .classes = 3});
       }},
      {"names",
       [] {
         return Numbers(1000, {.shape = {2}, .classes = 3, .class_names = {"a", "b", "c"}});
       }},
      {"the first sample",
       [] {
         Numbers set(1000);
         set.changed = 0;
         return set;
       }},
      {"the last sample",
       [] {
         Numbers set(1000);
         set.changed = 999;
         return set;
       }},
      {"a damaged sample",
       [] {
         Numbers set(1000);
         set.damaged = 0;
         return set;
       }},
      {"any label",
       [] {
         Numbers set(1000);
         set.relabelled = 500;
         return set;
       }},
  };
  for (const auto& [what, make] : others)
    EXPECT_NE(fingerprint(make()), first) << what;
}

TEST(Fingerprint, WhatLiesBetweenTheSamplesIsNotNoticedWhereLabelsAreNotKnown) {
  Numbers set(1000);
  Numbers other(1000);
  set.knows = other.knows = false;
  other.relabelled = other.changed = 1;
  EXPECT_EQ(fingerprint(set), fingerprint(other)) << "docs/data-hosts.md says so";
}

TEST(Fingerprint, ADiskThatFailsIsNoFingerprint) {
  Numbers set(3);
  set.unreadable = 1;
  EXPECT_THROW(fingerprint(set), Error);
}

TEST(Fingerprint, SeedsShow) {
  SyntheticOptions options{.shape = {1, 4, 4}, .classes = 3, .samples = 100, .seed = 1};
  const std::string first = fingerprint(Synthetic(options));
  options.seed = 2;
  EXPECT_NE(fingerprint(Synthetic(options)), first);
}

}  // namespace
}  // namespace muster::data
