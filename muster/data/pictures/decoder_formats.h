// The decoders behind open_picture, one per format, and what they share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/data/pictures/decoder.h"

namespace muster::data {

std::unique_ptr<PictureDecoder> open_jpeg(std::span<const std::byte> bytes, const DecoderOptions& options);
std::unique_ptr<PictureDecoder> open_png(std::span<const std::byte> bytes, const DecoderOptions& options);
std::unique_ptr<PictureDecoder> open_webp(std::span<const std::byte> bytes, const DecoderOptions& options);
std::unique_ptr<PictureDecoder> open_bmp(std::span<const std::byte> bytes, const DecoderOptions& options);

// The light of a colour, as JPEG and PNG have it.
constexpr std::uint8_t to_grey(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  return static_cast<std::uint8_t>((299 * red + 587 * green + 114 * blue + 500) / 1000);
}

// Throws Error{kDamaged} for an extent without pixels or above the limits.
void check_extent(std::uint64_t width, std::uint64_t height, const DecoderOptions& options);

[[noreturn]] void throw_undecodable(std::string_view reason, const DecoderOptions& options);

// `window` of a picture of extent `full` in the pixels of one of extent `scaled`, rounded outwards.
Window scale_window(const Window& window, const Extent& full, const Extent& scaled);

}  // namespace muster::data
