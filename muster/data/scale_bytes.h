// Bytes to floats, x * scale + shift: what every picture goes through on its way to a model.
#pragma once

#include <cstdint>
#include <span>

namespace muster::data {

// The same bits on every processor. REQUIRES: out.size() == in.size().
void scale_bytes(std::span<const std::uint8_t> in, float scale, float shift, std::span<float> out);

}  // namespace muster::data
