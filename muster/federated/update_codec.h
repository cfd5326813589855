// How a client sends an update in fewer bytes, and how the server reads it.
//
//   none   floats, little-endian
//   int8   for each 256 numbers a float s, of all blocks first; then a byte q a number: it stands for q s
//   topk   of the ceil(PART n) numbers of the largest magnitude: their places as 32-bit numbers, rising; then their
//   values
// The length follows from the kind and the number of floats alone. What is not sent may be kept by the client and added
// to its next update (error feedback: Seide et al. 2014; Stich et al. 2018). Pure functions. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace muster::federated {

struct Compression {
  enum class Kind { kNone, kInt8, kTopK };
  Kind kind = Kind::kNone;
  double part = 1;  // of kTopK
};

// Of "none", "int8", "topk:0.01". Throws Error{kInvalidInput}.
Compression parse_compression(std::string_view word);

std::uint64_t encoded_bytes(const Compression& how, std::uint64_t floats);

// With a residual, what is sent is the update and the residual, and what of them was not sent becomes the residual; an
// update that is not finite leaves it as it is. REQUIRES: the residual is as long as the update, or empty.
std::vector<std::byte> encode_update(const Compression& how, std::span<const float> update, std::span<float> residual);

// Throws Error{kDamaged} for bytes that encode_update() does not make. REQUIRES: bytes of encoded_bytes(update.size()).
void decode_update(const Compression& how, std::span<const std::byte> bytes, std::span<float> update);

}  // namespace muster::federated
