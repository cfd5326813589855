// Augmentation: what a job's data.augment asks for, and the draws that decide what happens to one sample.
//
// Every number is drawn from the stream (seed, epoch, sample), in the order of the steps: who loads a sample, in which
// thread and after which other one cannot show. Steps, each at most once, done in the order given:
//
//   flip          left and right change places in half of the samples; flip:P in the part P of them
//   crop:N        moved by up to N pixels each way; what comes in is the mean colour
//   rotate:D      turned by up to D degrees each way
//   jitter:S      brightness, contrast and saturation, each times a factor from 1-S to 1+S (never below 0)
//   cutout:N      a square of N pixels around any pixel becomes the mean colour
//   random-resized-crop[:A]  a window of A (0.08) to all of the area, resized; while decoding, so for pictures only
//   mixup:A       blends pairs of a lane's samples and their labels (mixup.h), by a weight from Beta(A, A)
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/augment/transforms.h"
#include "muster/data/dataset.h"

namespace muster::data {

struct AugmentStep {
  enum class Kind { kFlip, kCrop, kRotate, kJitter, kCutout };
  Kind kind = Kind::kFlip;
  double amount = 0;

  bool operator==(const AugmentStep&) const = default;
};

struct Augmentation {
  std::vector<AugmentStep> steps = {};           // of the samples themselves
  std::optional<double> resized_crop_area = {};  // for the source to do
  std::optional<double> mixup_alpha = {};        // for whoever makes a lane's batch to do

  bool operator==(const Augmentation&) const = default;
};

// Throws Error{kInvalidInput}, naming the word: an unknown step, an amount that is missing or cannot be, a step twice.
Augmentation parse_augmentation(std::span<const std::string> words);

// Does the steps to one picture. REQUIRES: picture.size() == shape.elements(); for jitter, 1 or 3 channels and their
// normalization.
void augment(std::span<float> picture, const PictureShape& shape, const Augmentation& augmentation,
             const Normalization& normalization, RandomStream& draws);

// A data set whose training reads are augmented. Immutable; shares ownership of the one below. Thread safety: as
// Dataset.
class Augmented final : public Dataset {
 public:
  // Throws Error{kInvalidInput} if the samples are not {channels, height, width}, or jitter is asked of samples whose
  // normalization nobody knows (empty) or that have other channels than 1 or 3.
  Augmented(std::shared_ptr<const Dataset> dataset, const Augmentation& augmentation,
            const Normalization& normalization, std::uint64_t seed);

  std::uint64_t size() const override { return dataset_->size(); }
  const SampleSpec& spec() const override { return dataset_->spec(); }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override { return dataset_->read(id, features); }
  std::int64_t read_in_epoch(std::uint64_t id, std::uint64_t epoch, std::span<float> features) const override;
  void read_sample(std::uint64_t id, const SampleRoom& room) const override { dataset_->read_sample(id, room); }
  void will_read(std::span<const std::uint64_t> ids) const override { dataset_->will_read(ids); }
  void expect(std::span<const std::uint64_t> ids) const override { dataset_->expect(ids); }
  std::string name(std::uint64_t id) const override { return dataset_->name(id); }
  std::int64_t label(std::uint64_t id) const override { return dataset_->label(id); }
  bool knows_labels() const override { return dataset_->knows_labels(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
  Augmentation augmentation_;
  Normalization normalization_;
  std::uint64_t seed_;
  PictureShape shape_;
};

}  // namespace muster::data
