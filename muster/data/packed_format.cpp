// Encoding and decoding of headers and records, side by side so that they can be compared. What comes from a file is
// checked against its length before it is believed.
#include "muster/data/packed_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/data/scale_bytes.h"

namespace muster::data {
namespace {

static_assert(std::endian::native == std::endian::little, "records are copied as they are");

constexpr std::string_view kMagic = "MUSTERPK";
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kAlignment = 4096;
constexpr std::uint64_t kChecksumBytes = 4;
constexpr std::uint64_t kLargestRecord = std::uint64_t{1} << 32;
constexpr std::array kElements{PackedElement::kU8, PackedElement::kU16, PackedElement::kU32, PackedElement::kF32};
constexpr std::array<std::string_view, 3> kTargets{"class", "values", "tokens"};

[[noreturn]] void damaged_shard(const std::string& where, std::string message) {
  throw Error(ErrorKind::kDamaged, std::move(message), where);
}

template <typename T>
void put(std::byte*& at, T value) {
  std::memcpy(at, &value, sizeof(T));
  at += sizeof(T);
}
template <typename T>
T get(const std::byte*& at) {
  T value{};
  std::memcpy(&value, at, sizeof(T));
  at += sizeof(T);
  return value;
}

std::uint64_t round_up(std::uint64_t value) {
  return (value + kAlignment - 1) / kAlignment * kAlignment;
}

std::vector<std::int64_t> extents(const Json& json, const char* key, const std::string& where) {
  auto list = json_get<std::vector<std::int64_t>>(json, key, where);
  std::uint64_t product = 1;
  bool bad = list.size() > 32;
  for (const std::int64_t extent : list)
    bad |= extent <= 0 || __builtin_mul_overflow(product, static_cast<std::uint64_t>(extent), &product);
  if (bad || product > kLargestRecord) damaged_shard(where, fmt::format("its header has a {} that cannot be", key));
  return list;
}

std::vector<float> floats(const Json& json, const char* key, const std::string& where) {
  std::vector<float> values;
  for (const double value : json_get<std::vector<double>>(json, key, where))
    values.push_back(static_cast<float>(value));
  return values;
}

// Both lists are empty, or have an entry for each value; shards from before there was a scale have neither.
std::vector<ValueScale> target_scale(const Json& json, const SampleSpec& spec, const std::string& where) {
  if (!json.contains("target_mean")) return {};
  const auto mean = json_get<std::vector<double>>(json, "target_mean", where);
  const auto stddev = json_get<std::vector<double>>(json, "target_std", where);
  const bool none = mean.empty() && stddev.empty();
  if (!none &&
      (spec.target != TargetKind::kValues || mean.size() != spec.target_elements() || stddev.size() != mean.size()))
    damaged_shard(where, "the scale of the targets does not fit them");
  std::vector<ValueScale> scale;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    if (!std::isfinite(mean[i]) || !std::isfinite(stddev[i]) || stddev[i] <= 0)
      damaged_shard(where, "the scale of the targets is none");
    scale.push_back({mean[i], stddev[i]});
  }
  return scale;
}

PackedLayout layout_of(const Json& json, const std::string& where) {
  const auto refuse = [&] { damaged_shard(where, "its header contradicts itself"); };
  PackedLayout layout;
  SampleSpec& spec = layout.spec;
  spec.shape = extents(json, "shape", where);
  spec.target_shape = extents(json, "target_shape", where);
  spec.classes = json_get<std::int64_t>(json, "classes", where);
  spec.vocabulary = json_get<std::int64_t>(json, "vocabulary", where);
  spec.class_names = json_get<std::vector<std::string>>(json, "class_names", where);
  const auto input = json_get<std::string>(json, "input", where);
  const auto target = json_get<std::string>(json, "target", where);
  const auto element = json_get<std::string>(json, "element", where);
  layout.scale = floats(json, "scale", where);
  layout.shift = floats(json, "shift", where);
  const auto known = std::find(kTargets.begin(), kTargets.end(), target);
  const auto stored = std::find_if(kElements.begin(), kElements.end(),
                                   [&](PackedElement candidate) { return to_string(candidate) == element; });
  if (known == kTargets.end() || stored == kElements.end() || (input != "floats" && input != "tokens")) refuse();
  spec.input = input == "floats" ? InputKind::kFloats : InputKind::kTokens;
  spec.target = static_cast<TargetKind>(known - kTargets.begin());
  layout.element = *stored;
  const bool bytes_of_floats = spec.input == InputKind::kFloats && layout.element != PackedElement::kF32;
  if (spec.classes < 0 || spec.vocabulary < 0) refuse();
  if (spec.input == InputKind::kTokens && layout.element == PackedElement::kF32) refuse();
  if (spec.target == TargetKind::kTokens && layout.element == PackedElement::kF32) refuse();
  if (spec.target == TargetKind::kClass && !spec.target_shape.empty()) refuse();
  if (bytes_of_floats && layout.element != PackedElement::kU8) refuse();
  if (layout.scale.size() != layout.shift.size() || layout.scale.empty() == bytes_of_floats) refuse();
  if (bytes_of_floats && spec.elements() % layout.scale.size() != 0) refuse();
  for (std::size_t c = 0; c < layout.scale.size(); ++c) {
    if (!std::isfinite(layout.scale[c]) || !std::isfinite(layout.shift[c])) refuse();
  }
  spec.target_scale = target_scale(json, spec, where);
  if (json.contains("columns")) spec.columns = json_get<std::vector<std::int64_t>>(json, "columns", where);
  std::uint64_t widths = 0;
  for (const std::int64_t width : spec.columns) {
    if (width < 1 || static_cast<std::uint64_t>(width) > spec.elements()) refuse();
    widths += static_cast<std::uint64_t>(width);
  }
  if (!spec.columns.empty() && widths != spec.elements()) refuse();
  return layout;
}

template <typename Word>
void put_tokens(std::byte*& at, std::span<const std::int64_t> tokens) {
  for (const std::int64_t token : tokens)
    put(at, static_cast<Word>(token));
}
template <typename Word>
void get_tokens(const std::byte*& at, std::span<std::int64_t> tokens) {
  for (std::int64_t& token : tokens)
    token = static_cast<std::int64_t>(get<Word>(at));
}

void put_tokens(PackedElement element, std::byte*& at, std::span<const std::int64_t> tokens) {
  if (element == PackedElement::kU8) return put_tokens<std::uint8_t>(at, tokens);
  if (element == PackedElement::kU16) return put_tokens<std::uint16_t>(at, tokens);
  put_tokens<std::uint32_t>(at, tokens);
}
void get_tokens(PackedElement element, const std::byte*& at, std::span<std::int64_t> tokens) {
  if (element == PackedElement::kU8) return get_tokens<std::uint8_t>(at, tokens);
  if (element == PackedElement::kU16) return get_tokens<std::uint16_t>(at, tokens);
  get_tokens<std::uint32_t>(at, tokens);
}

// Floats as the bytes they came from; false if one did not, or, when they may be rounded, if one lies outside.
bool put_bytes(const PackedLayout& layout, std::span<const float> features, bool round, std::byte* out) {
  const std::size_t plane = features.size() / layout.scale.size();
  bool exact = true;
  for (std::size_t c = 0; c < layout.scale.size(); ++c) {
    const float scale = layout.scale[c];
    const float shift = layout.shift[c];
    for (std::size_t i = c * plane; i < (c + 1) * plane; ++i) {
      const float near = std::nearbyint((features[i] - shift) / scale);
      const bool inside = near >= 0 && near <= 255;
      const auto byte = static_cast<std::uint8_t>(inside ? near : 0.0F);
      exact &= round ? inside : static_cast<float>(byte) * scale + shift == features[i];
      out[i] = std::byte{byte};
    }
  }
  return exact;
}

void get_bytes(const PackedLayout& layout, const std::byte* in, std::span<float> features) {
  const std::size_t plane = features.size() / layout.scale.size();
  for (std::size_t c = 0; c < layout.scale.size(); ++c) {
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(in) + c * plane, plane);
    scale_bytes(bytes, layout.scale[c], layout.shift[c], features.subspan(c * plane, plane));
  }
}

}  // namespace

std::string_view to_string(PackedElement element) {
  switch (element) {
    case PackedElement::kU8:
      return "u8";
    case PackedElement::kU16:
      return "u16";
    case PackedElement::kU32:
      return "u32";
    case PackedElement::kF32:
      return "f32";
  }
  return "";
}

std::uint64_t bytes_of(PackedElement element) {
  if (element == PackedElement::kU8) return 1;
  return element == PackedElement::kU16 ? 2 : 4;
}

std::uint64_t PackedLayout::target_bytes() const {
  switch (spec.target) {
    case TargetKind::kClass:
      return sizeof(std::int64_t);
    case TargetKind::kValues:
      return spec.target_elements() * sizeof(float);
    case TargetKind::kTokens:
      return spec.target_elements() * bytes_of(element);
  }
  return 0;
}

std::uint64_t PackedLayout::record_bytes() const {
  return target_bytes() + spec.elements() * bytes_of(element) + kChecksumBytes;
}

std::string packed_front(PackedHeader& header) {
  constexpr std::size_t kMostNames = 100000;  // far below what parse_json takes
  const PackedLayout& layout = header.layout;
  const bool named = layout.spec.class_names.size() <= kMostNames;
  std::vector<double> mean;
  std::vector<double> stddev;
  for (const ValueScale& scale : layout.spec.target_scale) {
    mean.push_back(scale.mean);
    stddev.push_back(scale.stddev);
  }
  const Json json{{"shape", layout.spec.shape},
                  {"input", layout.spec.input == InputKind::kFloats ? "floats" : "tokens"},
                  {"vocabulary", layout.spec.vocabulary},
                  {"element", to_string(layout.element)},
                  {"scale", layout.scale},
                  {"shift", layout.shift},
                  {"target", kTargets[static_cast<std::size_t>(layout.spec.target)]},
                  {"target_shape", layout.spec.target_shape},
                  {"target_mean", mean},
                  {"target_std", stddev},
                  {"classes", layout.spec.classes},
                  {"columns", layout.spec.columns},
                  {"class_names", named ? layout.spec.class_names : std::vector<std::string>()},
                  {"record_bytes", layout.record_bytes()},
                  {"shard", header.shard},
                  {"shards", header.shards},
                  {"first", header.first},
                  {"count", header.count},
                  {"samples", header.samples}};
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  header.data_offset = round_up(kPackedPreamble + text.size());
  std::string front(header.data_offset, '\0');
  auto* at = reinterpret_cast<std::byte*>(front.data());
  std::copy(kMagic.begin(), kMagic.end(), front.begin());
  at += kMagic.size();
  put(at, kVersion);
  put(at, static_cast<std::uint32_t>(text.size()));
  put(at, crc32c(std::as_bytes(std::span(text))));
  std::copy(text.begin(), text.end(), front.begin() + kPackedPreamble);
  return front;
}

std::uint64_t packed_json_bytes(std::span<const std::byte> preamble, const std::string& where) {
  if (preamble.size() < kPackedPreamble ||
      std::string_view(reinterpret_cast<const char*>(preamble.data()), kMagic.size()) != kMagic) {
    damaged_shard(where, "is not a packed shard");
  }
  const std::byte* at = preamble.data() + kMagic.size();
  const auto version = get<std::uint32_t>(at);
  if (version != kVersion) {
    throw Error(ErrorKind::kUnsupported, fmt::format("has version {}; only {} is read", version, kVersion), where,
                "Pack the data again with this version of Muster.");
  }
  const auto length = get<std::uint32_t>(at);
  if (length > kMostPackedHeader) damaged_shard(where, fmt::format("declares a header of {} bytes", length));
  return length;
}

PackedHeader parse_packed_front(std::span<const std::byte> front, std::uint64_t file_bytes, const std::string& where) {
  const std::uint64_t length = packed_json_bytes(front, where);
  if (front.size() - kPackedPreamble < length) damaged_shard(where, "is cut short");
  const std::byte* at = front.data() + kMagic.size() + 2 * sizeof(std::uint32_t);
  const auto text = front.subspan(kPackedPreamble, length);
  if (get<std::uint32_t>(at) != crc32c(text)) damaged_shard(where, "its header has another checksum than it says");
  const Json json = parse_json({reinterpret_cast<const char*>(text.data()), text.size()}, where);
  PackedHeader header;
  header.layout = layout_of(json, where);
  header.shard = json_get<std::uint64_t>(json, "shard", where);
  header.shards = json_get<std::uint64_t>(json, "shards", where);
  header.first = json_get<std::uint64_t>(json, "first", where);
  header.count = json_get<std::uint64_t>(json, "count", where);
  header.samples = json_get<std::uint64_t>(json, "samples", where);
  header.data_offset = round_up(kPackedPreamble + length);
  const std::uint64_t record = header.layout.record_bytes();
  std::uint64_t bytes = 0;
  std::uint64_t end = 0;
  const bool overflow = __builtin_mul_overflow(header.count, record, &bytes) ||
                        __builtin_add_overflow(bytes, header.data_offset, &bytes) ||
                        __builtin_add_overflow(header.first, header.count, &end);
  if (json_get<std::uint64_t>(json, "record_bytes", where) != record || overflow || end > header.samples ||
      header.shard >= header.shards) {
    damaged_shard(where, "its header contradicts itself");
  }
  if (bytes != file_bytes) {
    damaged_shard(where, fmt::format("has {} bytes; its {} records need {}", file_bytes, header.count, bytes));
  }
  return header;
}

std::string shard_name(std::string_view set, std::uint64_t shard, std::uint64_t shards) {
  return fmt::format("{}-{:05}-of-{:05}.pack", set, shard, shards);
}

bool encode_record(const PackedLayout& layout, const SampleRoom& sample, std::span<std::byte> record, bool round) {
  MUSTER_CHECK(record.size() == layout.record_bytes(), "a record of another size");
  std::byte* at = record.data();
  bool exact = true;
  switch (layout.spec.target) {
    case TargetKind::kClass:
      put(at, sample.labels[0]);
      break;
    case TargetKind::kValues:
      std::memcpy(at, sample.values.data(), sample.values.size_bytes());
      at += sample.values.size_bytes();
      break;
    case TargetKind::kTokens:
      put_tokens(layout.element, at, sample.labels);
      break;
  }
  if (layout.spec.input == InputKind::kTokens) {
    put_tokens(layout.element, at, sample.tokens);
  } else if (layout.element == PackedElement::kF32) {
    std::memcpy(at, sample.features.data(), sample.features.size_bytes());
    at += sample.features.size_bytes();
  } else {
    exact = put_bytes(layout, sample.features, round, at);
    at += sample.features.size();
  }
  put(at, crc32c(record.first(record.size() - kChecksumBytes)));
  return exact;
}

void decode_record(const PackedLayout& layout, std::span<const std::byte> record, const SampleRoom& sample,
                   const std::string& where) {
  MUSTER_CHECK(record.size() == layout.record_bytes(), "a record of another size");
  const std::byte* checksum = record.data() + record.size() - kChecksumBytes;
  if (get<std::uint32_t>(checksum) != crc32c(record.first(record.size() - kChecksumBytes)))
    damaged_shard(where, "has another checksum than its bytes");
  const std::byte* at = record.data();
  switch (layout.spec.target) {
    case TargetKind::kClass:
      sample.labels[0] = get<std::int64_t>(at);
      break;
    case TargetKind::kValues:
      std::memcpy(sample.values.data(), at, sample.values.size_bytes());
      at += sample.values.size_bytes();
      break;
    case TargetKind::kTokens:
      get_tokens(layout.element, at, sample.labels);
      break;
  }
  if (layout.spec.input == InputKind::kTokens) {
    get_tokens(layout.element, at, sample.tokens);
  } else if (layout.element == PackedElement::kF32) {
    std::memcpy(sample.features.data(), at, sample.features.size_bytes());
  } else {
    get_bytes(layout, at, sample.features);
  }
}

void check_float_record(std::span<const std::byte> target, const SampleRoom& sample,
                        std::span<const std::byte, 4> checksum) {
  const std::byte* at = checksum.data();
  if (get<std::uint32_t>(at) != crc32c(std::as_bytes(sample.features), crc32c(target)))
    damaged_shard({}, "has another checksum than its bytes");
  const auto out =
      sample.values.empty() ? std::as_writable_bytes(sample.labels) : std::as_writable_bytes(sample.values);
  MUSTER_CHECK(out.size() == target.size(), "a target of another size");
  std::memcpy(out.data(), target.data(), target.size());
}

}  // namespace muster::data
