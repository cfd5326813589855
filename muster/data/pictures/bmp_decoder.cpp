// BMP without run-length compression, from OS/2's headers to Windows' fifth: rows are read straight from the bytes.
//
//   0   "BM", size of the file, reserved, offset of the rows
//   14  size of this header; 12: width and height in 16 bits, colours of 3 bytes; 40 and more: in 32 bits, a negative
//       height for rows from top to bottom, compression (0 none, 3 and 6 masks), number of colours
//   then masks (compression 3 and 6 behind a header of 40; larger ones hold them at the same place), colours, rows
//
// Every offset is checked before it is used; a row is padded to 4 bytes.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/data/pictures/decoder_formats.h"

namespace muster::data {
namespace {

using Colour = std::array<std::uint8_t, 3>;  // red, green, blue

constexpr std::size_t kFileHeader = 14;
constexpr std::size_t kCoreHeader = 12;
constexpr std::size_t kInfoHeader = 40;
constexpr std::size_t kMasksAt = kFileHeader + kInfoHeader;

// The bits of one colour in a pixel.
struct Mask {
  std::uint32_t bits = 0;

  std::uint8_t value(std::uint32_t pixel) const {
    if (bits == 0) return 0;
    const int shift = std::countr_zero(bits);
    const std::uint64_t most = bits >> shift;
    return static_cast<std::uint8_t>((std::uint64_t{(pixel & bits) >> shift} * 255 + most / 2) / most);
  }
  bool contiguous() const {
    if (bits == 0) return true;
    const std::uint32_t value = bits >> std::countr_zero(bits);
    return (value & (value + 1)) == 0;
  }
};

class BmpDecoder final : public PictureDecoder {
 public:
  BmpDecoder(std::span<const std::byte> bytes, const DecoderOptions& options) : bytes_(bytes), options_(options) {
    const std::uint32_t offset = u32(10);
    const std::uint32_t header = u32(kFileHeader);
    if (header == kCoreHeader) {
      extent_ = {u16(18), u16(20)};
      bits_ = u16(24);
    } else if (header >= kInfoHeader && header <= 124) {
      read_info_header();
    } else {
      fail(fmt::format("its header has {} bytes, which no BMP has", header));
    }
    check_extent(extent_.width, extent_.height, options_);
    constexpr std::array<unsigned, 6> kBits{1, 4, 8, 16, 24, 32};
    if (std::find(kBits.begin(), kBits.end(), bits_) == kBits.end()) fail(fmt::format("it has {} bits a pixel", bits_));
    if (bits_ <= 8) read_colours(header);
    stride_ = (std::uint64_t{extent_.width} * bits_ + 31) / 32 * 4;
    const std::uint64_t rows = stride_ * extent_.height;
    if (offset > bytes_.size() || rows > bytes_.size() - offset) fail("the file ends too early");
    rows_ = bytes_.subspan(offset, rows);
  }

  Extent extent() const override { return extent_; }

  DecodedRegion start(const Window& window, const Extent&) override {
    window_ = window;
    return {.scaled = extent_, .wanted = window, .rows = window};
  }

  void read_row(std::span<std::uint8_t> row) override {
    const auto channels = static_cast<std::size_t>(options_.channels);
    MUSTER_CHECK(row.size() == window_.width * channels, "a row of another width than the region's");
    const std::uint32_t y = window_.y + next_row_++;
    const auto line = rows_.subspan(stride_ * (top_down_ ? y : extent_.height - 1 - y), stride_);
    for (std::uint32_t x = 0; x < window_.width; ++x) {
      const Colour colour = pixel(line, window_.x + x);
      if (channels == 1) {
        row[x] = to_grey(colour[0], colour[1], colour[2]);
      } else {
        std::copy(colour.begin(), colour.end(), row.begin() + static_cast<std::ptrdiff_t>(3 * x));
      }
    }
  }

  void finish() override {}  // all rows are there: the constructor has looked

 private:
  void read_info_header() {
    const auto height = static_cast<std::int32_t>(u32(22));
    const auto width = static_cast<std::int32_t>(u32(18));
    top_down_ = height < 0;
    // The magnitude of the least number is none of its type.
    extent_ = {width < 0 ? 0 : static_cast<std::uint32_t>(width),
               top_down_ ? 0U - static_cast<std::uint32_t>(height) : static_cast<std::uint32_t>(height)};
    bits_ = u16(28);
    const std::uint32_t compression = u32(30);
    constexpr std::uint32_t kMasks = 3;
    constexpr std::uint32_t kMasksAndAlpha = 6;
    has_masks_ = compression == kMasks || compression == kMasksAndAlpha;
    if (compression != 0 && !has_masks_)
      fail(compression < kMasks ? "it has run-length compression, which is not read" : "its compression is not read");
    if (has_masks_ && bits_ != 16 && bits_ != 32) fail("it has masks for pixels that have none");
    colours_ = u32(46);
    if (bits_ == 16) masks_ = {Mask{0x7C00}, Mask{0x03E0}, Mask{0x001F}};
    if (!has_masks_) return;
    for (std::size_t i = 0; i < masks_.size(); ++i) {
      masks_[i].bits = u32(kMasksAt + 4 * i);
      if (!masks_[i].contiguous()) fail("its masks have gaps");
    }
  }

  void read_colours(std::uint32_t header) {
    const std::size_t entry = header == kCoreHeader ? 3 : 4;
    std::size_t count = std::size_t{1} << bits_;
    if (colours_ > 0) count = std::min<std::size_t>(count, colours_);
    const std::size_t begin = kFileHeader + header;
    if (begin > bytes_.size() || count * entry > bytes_.size() - begin) fail("the file ends in its colours");
    for (std::size_t i = 0; i < count; ++i)
      palette_[i] = {u8(begin + entry * i + 2), u8(begin + entry * i + 1), u8(begin + entry * i)};
  }

  Colour pixel(std::span<const std::byte> line, std::uint32_t x) const {
    const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(line[at]); };
    if (bits_ <= 8) {
      const std::size_t bit = std::size_t{x} * bits_;
      const unsigned shift = 8 - bits_ - static_cast<unsigned>(bit % 8);
      return palette_[(byte(bit / 8) >> shift) & ((1U << bits_) - 1)];  // colours that are not there are black
    }
    const std::size_t at = std::size_t{x} * (bits_ / 8);
    if (bits_ == 24 || (bits_ == 32 && !has_masks_)) return {byte(at + 2), byte(at + 1), byte(at)};
    std::uint32_t value = byte(at) | std::uint32_t{byte(at + 1)} << 8;
    if (bits_ == 32) value |= std::uint32_t{byte(at + 2)} << 16 | std::uint32_t{byte(at + 3)} << 24;
    return {masks_[0].value(value), masks_[1].value(value), masks_[2].value(value)};
  }

  std::uint8_t u8(std::size_t at) const {
    if (at >= bytes_.size()) fail("the file ends in its header");
    return static_cast<std::uint8_t>(bytes_[at]);
  }
  std::uint16_t u16(std::size_t at) const { return static_cast<std::uint16_t>(u8(at) | u8(at + 1) << 8); }
  std::uint32_t u32(std::size_t at) const { return u16(at) | std::uint32_t{u16(at + 2)} << 16; }
  [[noreturn]] void fail(const std::string& reason) const { throw_undecodable(reason, options_); }

  const std::span<const std::byte> bytes_;
  const DecoderOptions options_;
  Extent extent_;
  unsigned bits_ = 0;  // of a pixel
  std::uint32_t colours_ = 0;
  bool top_down_ = false;
  bool has_masks_ = false;
  std::array<Mask, 3> masks_{};
  std::array<Colour, 256> palette_{};
  std::uint64_t stride_ = 0;
  std::span<const std::byte> rows_;
  Window window_;
  std::uint32_t next_row_ = 0;
};

}  // namespace

std::unique_ptr<PictureDecoder> open_bmp(std::span<const std::byte> bytes, const DecoderOptions& options) {
  return std::make_unique<BmpDecoder>(bytes, options);
}

}  // namespace muster::data
