// The table of steps (name, limits, default) and the draws. All steps of a sample draw from one stream in their order,
// so adding a step to a job changes what those behind it draw.
#include "muster/data/augment/augmentation.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::data {
namespace {

using Kind = AugmentStep::Kind;

struct StepRule {
  std::string_view name;
  std::optional<double> amount;  // when none is given; empty: it must be
  double least;
  double most;
  bool whole;
};

constexpr std::array kRules{
    StepRule{"flip", 0.5, 0, 1, false},      StepRule{"crop", {}, 1, 65535, true},
    StepRule{"rotate", {}, 0, 180, false},   StepRule{"jitter", {}, 0, 10, false},
    StepRule{"cutout", {}, 1, 65535, true},  StepRule{"random-resized-crop", 0.08, 1e-6, 1, false},
    StepRule{"mixup", {}, 1e-3, 100, false},
};
constexpr std::size_t kResizedCrop = 5;
constexpr std::size_t kMixup = 6;

std::size_t rule_of(std::string_view name, const std::string& word) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    if (kRules[i].name == name) return i;
    names.emplace_back(kRules[i].name);
  }
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("unknown augmentation \"{}\"{}", excerpt(word, 60), did_you_mean(name, names)), {},
              fmt::format("Augmentations are {}.", join_words(names)));
}

double amount_of(const StepRule& rule, std::optional<std::string_view> text, const std::string& word) {
  if (!text && rule.amount) return *rule.amount;
  double amount = 0;
  bool good = text.has_value();
  if (text) {
    const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), amount);
    good = failure == std::errc() && end == text->data() + text->size();
  }
  // Written so that not-a-number is refused too.
  good = good && amount >= rule.least && amount <= rule.most;
  if (good && rule.whole) good = amount == static_cast<double>(static_cast<std::int64_t>(amount));
  if (good) return amount;
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("the augmentation \"{}\" has no amount it could use", excerpt(word, 60)), {},
              fmt::format("Write {}:AMOUNT with a{}number from {} to {}.", rule.name, rule.whole ? " whole " : " ",
                          rule.least, rule.most));
}

std::int64_t draw_between(std::int64_t low, std::int64_t high, RandomStream& draws) {
  return low + static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>(high - low + 1)));
}

void do_step(std::span<float> picture, const PictureShape& shape, const AugmentStep& step,
             const Normalization& normalization, RandomStream& draws) {
  const auto whole = static_cast<std::int64_t>(step.amount);
  switch (step.kind) {
    case Kind::kFlip:
      if (draws.uniform() < step.amount) flip(picture, shape);
      return;
    case Kind::kCrop: {
      const std::int64_t right = draw_between(-whole, whole, draws);
      const std::int64_t down = draw_between(-whole, whole, draws);
      return shift(picture, shape, right, down);
    }
    case Kind::kRotate:
      return rotate(picture, shape, step.amount * (2 * draws.uniform() - 1));
    case Kind::kJitter: {
      const auto factor = [&] { return std::max(0.0, 1 + step.amount * (2 * draws.uniform() - 1)); };
      ColourFactors factors;
      factors.brightness = factor();
      factors.contrast = factor();
      factors.saturation = factor();
      return jitter(picture, shape, normalization, factors);
    }
    case Kind::kCutout: {
      const auto x = static_cast<std::int64_t>(draws.below(shape.width));
      const auto y = static_cast<std::int64_t>(draws.below(shape.height));
      return cut_out(picture, shape, x, y, whole);
    }
  }
}

}  // namespace

Augmentation parse_augmentation(std::span<const std::string> words) {
  Augmentation augmentation;
  std::array<bool, kRules.size()> seen{};
  for (const std::string& word : words) {
    const std::size_t colon = word.find(':');
    const std::size_t index = rule_of(std::string_view(word).substr(0, colon), word);
    std::optional<std::string_view> text;
    if (colon != std::string::npos) text = std::string_view(word).substr(colon + 1);
    const double amount = amount_of(kRules[index], text, word);
    if (std::exchange(seen[index], true)) {
      throw Error(ErrorKind::kInvalidInput, fmt::format("the augmentation \"{}\" is there twice", kRules[index].name));
    }
    if (index == kResizedCrop) {
      augmentation.resized_crop_area = amount;
    } else if (index == kMixup) {
      augmentation.mixup_alpha = amount;
    } else {
      augmentation.steps.push_back({static_cast<Kind>(index), amount});
    }
  }
  return augmentation;
}

void augment(std::span<float> picture, const PictureShape& shape, const Augmentation& augmentation,
             const Normalization& normalization, RandomStream& draws) {
  for (const AugmentStep& step : augmentation.steps)
    do_step(picture, shape, step, normalization, draws);
}

Augmented::Augmented(std::shared_ptr<const Dataset> dataset, const Augmentation& augmentation,
                     const Normalization& normalization, std::uint64_t seed)
    : dataset_(std::move(dataset)), augmentation_(augmentation), normalization_(normalization), seed_(seed) {
  if (augmentation_.steps.empty()) return;
  const std::vector<std::int64_t>& shape = dataset_->spec().shape;
  if (shape.size() != 3) {
    throw Error(ErrorKind::kInvalidInput, "only pictures can be augmented; these samples are none", "data.augment",
                "Remove data.augment.");
  }
  shape_ = {static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1]), static_cast<std::size_t>(shape[2])};
  const bool jitters = std::any_of(augmentation_.steps.begin(), augmentation_.steps.end(),
                                   [](const AugmentStep& step) { return step.kind == Kind::kJitter; });
  if (jitters && ((shape[0] != 1 && shape[0] != 3) || normalization_.mean.empty())) {
    throw Error(ErrorKind::kInvalidInput, "jitter is for grey or colour pictures; these samples are other numbers",
                "data.augment", "Remove jitter from data.augment.");
  }
  if (jitters) validate(normalization_, shape[0]);
}

std::int64_t Augmented::read_in_epoch(std::uint64_t id, std::uint64_t epoch, std::span<float> features) const {
  const std::int64_t label = dataset_->read_in_epoch(id, epoch, features);
  if (augmentation_.steps.empty()) return label;
  // Lane 1 keeps these draws apart from those of the window that a source may have cropped to.
  RandomStream draws({.seed = seed_, .purpose = Purpose::kAugmentation, .epoch = epoch, .lane = 1, .sample = id});
  augment(features, shape_, augmentation_, normalization_, draws);
  return label;
}

}  // namespace muster::data
