// The flat layout: where each parameter of a model sits in one flat array of floats, and how that array is
// cut into blocks.
//
// Parameters, gradients and every slot of optimizer state share this one layout. Tensors stand in reverse
// order of registration, which is roughly the order in which backward finishes them, each on a 64-byte
// boundary. Blocks never cross a tensor; every reduction over parameters runs block by block and combines in
// block order, and a worker's share of the update is a range of whole blocks, so that results do not depend
// on how many workers there are. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::model {

constexpr std::uint64_t kAlignmentFloats = 16;  // 64 bytes
// Part of a job's result (reductions are combined per block): never changed without a new checkpoint format version.
constexpr std::uint64_t kBlockFloats = std::uint64_t{16} * 1024;

struct TensorInfo {
  std::string name;
  std::vector<std::int64_t> shape;
  bool trainable = true;  // at first; it may be frozen or train later
};

struct TensorSlot {
  std::string name;
  std::vector<std::int64_t> shape;
  bool trainable = true;     // as of TensorInfo
  std::uint64_t offset = 0;  // first float, a multiple of kAlignmentFloats
  std::uint64_t count = 0;   // floats of the tensor, without padding
};

struct Block {
  std::uint32_t tensor = 0;  // index into tensors()
  std::uint64_t begin = 0;   // flat positions; begin is aligned
  std::uint64_t end = 0;
  std::uint64_t size() const { return end - begin; }
};

// Immutable after construction.
class FlatLayout {
 public:
  FlatLayout() = default;
  // `registered` in the model's own order of registration.
  explicit FlatLayout(const std::vector<TensorInfo>& registered);

  const std::vector<TensorSlot>& tensors() const { return tensors_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  // Floats of the whole array with padding, a multiple of kAlignmentFloats.
  std::uint64_t size() const { return size_; }
  // Floats without padding.
  std::uint64_t parameter_count() const { return parameter_count_; }

 private:
  std::vector<TensorSlot> tensors_;
  std::vector<Block> blocks_;
  std::uint64_t size_ = 0;
  std::uint64_t parameter_count_ = 0;
};

}  // namespace muster::model
