// One loop, compiled for several processors (base/kernel.h). The build forbids fused multiply-add, so the floats have
// the same bits on all of them.
#include "muster/data/scale_bytes.h"

#include <cstddef>

#include "muster/base/kernel.h"

namespace muster::data {

namespace {

MUSTER_KERNEL void scale_all(const std::uint8_t* __restrict in, std::size_t count, float scale, float shift,
                             float* __restrict out) {
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<float>(in[i]) * scale + shift;
}

}  // namespace

void scale_bytes(std::span<const std::uint8_t> in, float scale, float shift, std::span<float> out) {
  scale_all(in.data(), out.size(), scale, shift, out.data());
}

}  // namespace muster::data
