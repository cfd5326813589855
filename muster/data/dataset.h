// Dataset: numbered samples, each an input and a target. The interface by which users bring their own data.
//
// Everything above it (splits, permutation, loading, lanes) speaks only of sample ids, so a data set says how
// many samples it has, what they look like, and how to read one. A complete one:
//
//   // The points of a line, labelled by their sign.
//   class Line final : public muster::data::Dataset {
//    public:
//     std::uint64_t size() const override { return 1000; }
//     const muster::data::SampleSpec& spec() const override { return spec_; }
//     std::int64_t read(std::uint64_t id, std::span<float> features) const override {
//       features[0] = static_cast<float>(id) - 499.5F;
//       return features[0] < 0 ? 0 : 1;
//     }
//    private:
//     muster::data::SampleSpec spec_{.shape = {1}, .classes = 2};
//   };
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace muster::data {

// What a model is given.
enum class InputKind {
  kFloats,  // pixels, columns of a table
  kTokens,  // numbers of characters or words, 0 .. vocabulary-1
};

// What a model has to answer.
enum class TargetKind {
  kClass,   // one label, 0 .. classes-1
  kValues,  // numbers (regression), target_elements() of them
  kTokens,  // a label for each of target_elements() places, 0 .. classes-1 (the next token)
};

// A number y of the data is given as (y - mean) / stddev.
struct ValueScale {
  double mean = 0;
  double stddev = 1;
};

// What every sample of a data set looks like. The defaults are those of labelled pictures.
struct SampleSpec {
  std::vector<std::int64_t> shape = {};  // without the batch; images are {channels, height, width}; entries positive
  std::int64_t classes = 0;              // labels are 0 .. classes-1; 0: labels are not classes and are not checked
  InputKind input = InputKind::kFloats;
  TargetKind target = TargetKind::kClass;
  std::vector<std::int64_t> target_shape = {};  // of kValues and kTokens, without the batch; empty: a scalar
  std::vector<ValueScale> target_scale = {};    // of kValues, one for each; empty: values are given as they are
  std::int64_t vocabulary = 0;                  // of input tokens
  std::vector<std::string> class_names = {};    // one for each class, or none where nobody knows them
  // Of a table: how many features each column has, in their order: 1 for numbers, one for each category of a column of
  // categories (one-hot; all zero for a category that training never saw). Empty: not a table.
  std::vector<std::int64_t> columns = {};

  // Elements of one input; 1 for an empty shape (a scalar). REQUIRES: the product fits 64 bits.
  std::uint64_t elements() const { return product(shape); }
  // Elements of one target. REQUIRES: the product fits 64 bits.
  std::uint64_t target_elements() const { return product(target_shape); }

 private:
  static std::uint64_t product(const std::vector<std::int64_t>& extents) {
    std::uint64_t product = 1;
    for (const std::int64_t extent : extents)
      product *= static_cast<std::uint64_t>(extent);
    return product;
  }
};

// Where one sample goes. Of the first two and of the last two the spec uses one each; the other is empty.
struct SampleRoom {
  std::span<float> features = {};       // InputKind::kFloats
  std::span<std::int64_t> tokens = {};  // InputKind::kTokens
  std::span<std::int64_t> labels = {};  // TargetKind::kClass (one) and kTokens
  std::span<float> values = {};         // TargetKind::kValues
};

// Size and spec never change during the life of a data set, and read gives the same bits for the same id
// every time, in every process: a lane that is computed again after a failure must see the samples it saw
// before. Thread safety: every method may be called from any number of threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::uint64_t size() const = 0;
  virtual const SampleSpec& spec() const = 0;

  // As read, for training in the given epoch: a data set that augments draws for (its seed, epoch, id) and nothing
  // else, so that neither the thread nor the order of reading shows. One that does not need not override it.
  virtual std::int64_t read_in_epoch(std::uint64_t id, std::uint64_t epoch, std::span<float> features) const {
    static_cast<void>(epoch);
    return read(id, features);
  }

  // Fills `features` with the sample, row-major in the order of spec().shape, and returns its label.
  // May block on a disk or a network. What it throws reaches the caller of Loader::take: a muster::Error as
  // it is, any other exception wrapped in one that names the sample. After a throw `features` is unspecified.
  // Error{kDamaged} says that this one sample cannot be read, ever; a job may let such samples be skipped
  // (tolerant.h). REQUIRES: id < size(); features.size() == spec().elements(); the spec is of floats and a class.
  virtual std::int64_t read(std::uint64_t id, std::span<float> features) const = 0;

  // The same for any spec: fills what the spec uses of `room`. Data sets of floats and a class need not override it.
  virtual void read_sample(std::uint64_t id, const SampleRoom& room) const { room.labels[0] = read(id, room.features); }

  // What people call the sample: its file, its file and line. Empty: it has no name but its number. REQUIRES: id <
  // size().
  virtual std::string name(std::uint64_t id) const {
    static_cast<void>(id);
    return {};
  }

  // The label alone, for sets that know it without reading the sample; others read it. Throws as read. REQUIRES: id <
  // size(); targets are classes.
  virtual std::int64_t label(std::uint64_t id) const {
    const bool floats = spec().input == InputKind::kFloats;
    std::vector<float> features(floats ? spec().elements() : 0);
    std::vector<std::int64_t> tokens(floats ? 0 : spec().elements());
    std::int64_t label = 0;
    read_sample(id, {.features = features, .tokens = tokens, .labels = std::span(&label, 1)});
    return label;
  }

  // Whether label() costs nothing worth speaking of.
  virtual bool knows_labels() const { return false; }

  // These samples are about to be read: a data set on a disk may start to fetch them. Never blocks for long, never
  // throws for a sample that cannot be read. REQUIRES: every id below size().
  virtual void will_read(std::span<const std::uint64_t> ids) const { static_cast<void>(ids); }
  // The same, of samples that are to be read some time later, after others: a data set on another host may begin to
  // fetch them. Returns at once.
  virtual void expect(std::span<const std::uint64_t> ids) const { static_cast<void>(ids); }
};

}  // namespace muster::data
