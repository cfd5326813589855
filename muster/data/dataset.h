// Dataset: numbered samples, each a block of floats and a label. The interface by which users bring their own data.
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
#include <vector>

namespace muster::data {

// What every sample of a data set looks like.
struct SampleSpec {
  std::vector<std::int64_t> shape;  // without the batch; images are {channels, height, width}; every entry positive
  std::int64_t classes = 0;         // labels are 0 .. classes-1; 0: labels are not classes and are not checked

  // Floats in one sample; 1 for an empty shape (a scalar). REQUIRES: the product fits 64 bits.
  std::uint64_t elements() const {
    std::uint64_t product = 1;
    for (const std::int64_t extent : shape)
      product *= static_cast<std::uint64_t>(extent);
    return product;
  }
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
  // REQUIRES: id < size(); features.size() == spec().elements().
  virtual std::int64_t read(std::uint64_t id, std::span<float> features) const = 0;
};

}  // namespace muster::data
