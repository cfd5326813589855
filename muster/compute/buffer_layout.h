// Where a model's buffers (BatchNorm's running statistics, ...) sit in one array of bytes, and how the results of
// several lanes become one. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/model/safetensors.h"

namespace muster::compute {

struct BufferSlot {
  std::string name;
  model::Dtype dtype = model::Dtype::kF32;
  std::vector<std::int64_t> shape;
  std::size_t offset = 0;  // bytes, a multiple of 64
  std::size_t bytes = 0;
};

struct BufferLayout {
  std::vector<BufferSlot> slots;
  std::size_t bytes = 0;  // of the whole array, a multiple of 64

  // Appends a buffer at the next aligned place.
  void add(std::string name, model::Dtype dtype, std::vector<std::int64_t> shape, std::size_t bytes);
};

// The buffers after a step, from each lane's: floating-point ones are the mean weighted by `weights`, summed by the
// tree over lane numbers; where all lanes agree that value is kept as it is, so that constant tables never drift.
// Others come from lane 0. Pure. REQUIRES: as many weights as lanes, at least one, adding up to 1.
void merge_buffers(const BufferLayout& layout, std::span<const std::span<const std::byte>> lanes,
                   std::span<const double> weights, std::span<std::byte> out);

}  // namespace muster::compute
