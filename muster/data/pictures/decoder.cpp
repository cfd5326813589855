// Which decoder reads a file, told by its first bytes, and the checks that all of them share: sizes that are claimed
// are refused before memory is taken for them.
#include "muster/data/pictures/decoder.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/pictures/decoder_formats.h"

namespace muster::data {
namespace {

template <std::size_t n>
bool starts_with(std::span<const std::byte> bytes, const std::array<unsigned char, n>& magic) {
  return bytes.size() >= n && std::equal(magic.begin(), magic.end(), bytes.begin(),
                                         [](unsigned char a, std::byte b) { return std::byte{a} == b; });
}

// begin .. end of one axis, from `full` pixels to `scaled` ones.
std::pair<std::uint32_t, std::uint32_t> scale_range(std::uint32_t begin, std::uint32_t size, std::uint32_t full,
                                                    std::uint32_t scaled) {
  const std::uint64_t first = std::uint64_t{begin} * scaled / full;
  const std::uint64_t last = (std::uint64_t{begin + size} * scaled + full - 1) / full;
  return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(std::min<std::uint64_t>(last, scaled))};
}

}  // namespace

void throw_undecodable(std::string_view reason, const DecoderOptions& options) {
  throw Error(
      ErrorKind::kDamaged, fmt::format("this picture cannot be decoded: {}", reason), options.where,
      "Replace or remove the file, or set data.on_bad_sample = \"skip\"; muster data check lists all such files.");
}

void check_extent(std::uint64_t width, std::uint64_t height, const DecoderOptions& options) {
  if (width == 0 || height == 0) throw_undecodable("it has no pixels", options);
  if (width > options.limits.side || height > options.limits.side) {
    throw_undecodable(fmt::format("{} x {} pixels are more than {} one way", width, height, options.limits.side),
                      options);
  }
  if (width > options.limits.pixels / height) {
    throw_undecodable(
        fmt::format("{} x {} pixels are more than the {} that are allowed", width, height, options.limits.pixels),
        options);
  }
}

Window scale_window(const Window& window, const Extent& full, const Extent& scaled) {
  const auto [left, right] = scale_range(window.x, window.width, full.width, scaled.width);
  const auto [top, bottom] = scale_range(window.y, window.height, full.height, scaled.height);
  return {.x = left, .y = top, .width = right - left, .height = bottom - top};
}

std::unique_ptr<PictureDecoder> open_picture(std::span<const std::byte> bytes, const DecoderOptions& options) {
  constexpr std::array<unsigned char, 3> kJpeg{0xFF, 0xD8, 0xFF};
  constexpr std::array<unsigned char, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  constexpr std::array<unsigned char, 4> kRiff{'R', 'I', 'F', 'F'};
  constexpr std::array<unsigned char, 4> kWebp{'W', 'E', 'B', 'P'};
  constexpr std::array<unsigned char, 2> kBmp{'B', 'M'};
  constexpr std::size_t kKindInRiff = 8;
  if (starts_with(bytes, kJpeg)) return open_jpeg(bytes, options);
  if (starts_with(bytes, kPng)) return open_png(bytes, options);
  if (starts_with(bytes, kRiff) && bytes.size() > kKindInRiff && starts_with(bytes.subspan(kKindInRiff), kWebp))
    return open_webp(bytes, options);
  if (starts_with(bytes, kBmp)) return open_bmp(bytes, options);
  throw_undecodable(bytes.empty() ? "it is empty" : "it is none of JPEG, PNG, WebP and BMP", options);
}

}  // namespace muster::data
