// Bytes are copied as they lie in memory: this program runs on little-endian machines only. Both directions are the
// same on every machine, so that a server has the bits of a simulation.
#include "muster/federated/update_codec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::federated {
namespace {

using Kind = Compression::Kind;

constexpr std::uint64_t kBlock = 256;
constexpr float kMostStep = 127;

std::uint64_t blocks_of(std::uint64_t floats) {
  return (floats + kBlock - 1) / kBlock;
}

std::uint64_t kept_of(const Compression& how, std::uint64_t floats) {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(how.part * static_cast<double>(floats)));
  return std::clamp<std::uint64_t>(wanted, std::min<std::uint64_t>(floats, 1), floats);
}

float largest_of(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

std::vector<std::byte> encode_int8(std::span<const float> values) {
  const std::uint64_t blocks = blocks_of(values.size());
  std::vector<std::byte> bytes(blocks * sizeof(float) + values.size());
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const auto of_block =
        values.subspan(block * kBlock, std::min<std::uint64_t>(kBlock, values.size() - block * kBlock));
    const float scale = largest_of(of_block) / kMostStep;
    std::memcpy(bytes.data() + block * sizeof(float), &scale, sizeof scale);
    for (std::size_t i = 0; i < of_block.size(); ++i) {
      const float steps = scale > 0 ? std::clamp(std::nearbyint(of_block[i] / scale), -kMostStep, kMostStep) : 0.0F;
      bytes[blocks * sizeof(float) + block * kBlock + i] = static_cast<std::byte>(static_cast<std::int8_t>(steps));
    }
  }
  return bytes;
}

void decode_int8(std::span<const std::byte> bytes, std::span<float> values) {
  const std::uint64_t blocks = blocks_of(values.size());
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    float scale = 0;
    std::memcpy(&scale, bytes.data() + i / kBlock * sizeof(float), sizeof scale);
    values[i] = scale * static_cast<float>(static_cast<std::int8_t>(bytes[blocks * sizeof(float) + i]));
  }
}

std::vector<std::byte> encode_top(const Compression& how, std::span<const float> values) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  const auto size_of = [&](std::uint32_t i) {
    const float size = std::abs(values[i]);
    return std::isnan(size) ? std::numeric_limits<float>::infinity() : size;
  };
  const std::uint64_t kept = kept_of(how, values.size());
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(kept);
  const auto larger = [&](std::uint32_t a, std::uint32_t b) {
    return size_of(a) > size_of(b) || (size_of(a) == size_of(b) && a < b);
  };
  if (end != order.end()) std::nth_element(order.begin(), end, order.end(), larger);
  std::sort(order.begin(), end);
  std::vector<std::byte> bytes(kept * (sizeof(std::uint32_t) + sizeof(float)));
  for (std::uint64_t k = 0; k < kept; ++k) {
    std::memcpy(bytes.data() + k * sizeof(std::uint32_t), &order[k], sizeof(std::uint32_t));
    std::memcpy(bytes.data() + kept * sizeof(std::uint32_t) + k * sizeof(float), &values[order[k]], sizeof(float));
  }
  return bytes;
}

void decode_top(const Compression& how, std::span<const std::byte> bytes, std::span<float> values) {
  const std::uint64_t kept = kept_of(how, values.size());
  std::ranges::fill(values, 0.0F);
  for (std::uint64_t k = 0, next = 0; k < kept; ++k) {
    std::uint32_t place = 0;
    std::memcpy(&place, bytes.data() + k * sizeof place, sizeof place);
    if (place < next || place >= values.size())
      throw Error(ErrorKind::kDamaged, fmt::format("names place {} of {} after {}", place, values.size(), next));
    std::memcpy(&values[place], bytes.data() + kept * sizeof place + k * sizeof(float), sizeof(float));
    next = std::uint64_t{place} + 1;
  }
}

}  // namespace

Compression parse_compression(std::string_view word) {
  if (word == "none") return {};
  if (word == "int8") return {.kind = Kind::kInt8};
  constexpr std::string_view kTop = "topk:";
  if (word.starts_with(kTop)) {
    const std::string_view number = word.substr(kTop.size());
    double part = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), part);
    if (error == std::errc() && end == number.data() + number.size() && part > 0 && part <= 1)
      return {.kind = Kind::kTopK, .part = part};
  }
  throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no way to send updates", word), {},
              "Use none, int8 or topk:PART with a part of up to 1, as topk:0.01.");
}

std::uint64_t encoded_bytes(const Compression& how, std::uint64_t floats) {
  switch (how.kind) {
    case Kind::kInt8:
      return blocks_of(floats) * sizeof(float) + floats;
    case Kind::kTopK:
      return kept_of(how, floats) * (sizeof(std::uint32_t) + sizeof(float));
    case Kind::kNone:
      break;
  }
  return floats * sizeof(float);
}

std::vector<std::byte> encode_update(const Compression& how, std::span<const float> update, std::span<float> residual) {
  std::vector<float> sent(update.begin(), update.end());
  for (std::size_t i = 0; i < residual.size(); ++i)
    sent[i] += residual[i];
  std::vector<std::byte> bytes;
  if (how.kind == Kind::kInt8) {
    bytes = encode_int8(sent);
  } else if (how.kind == Kind::kTopK) {
    bytes = encode_top(how, sent);
  } else {
    bytes.resize(sent.size() * sizeof(float));
    std::memcpy(bytes.data(), sent.data(), bytes.size());
  }
  if (residual.empty() || !std::ranges::all_of(sent, [](float value) { return std::isfinite(value); })) return bytes;
  std::vector<float> arrives(sent.size());
  decode_update(how, bytes, arrives);
  for (std::size_t i = 0; i < residual.size(); ++i)
    residual[i] = sent[i] - arrives[i];
  return bytes;
}

void decode_update(const Compression& how, std::span<const std::byte> bytes, std::span<float> update) {
  if (bytes.size() != encoded_bytes(how, update.size()))
    throw Error(ErrorKind::kDamaged,
                fmt::format("has {} bytes instead of {}", bytes.size(), encoded_bytes(how, update.size())));
  if (how.kind == Kind::kInt8)
    decode_int8(bytes, update);
  else if (how.kind == Kind::kTopK)
    decode_top(how, bytes, update);
  else
    std::memcpy(update.data(), bytes.data(), bytes.size());
}

}  // namespace muster::federated
