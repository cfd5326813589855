// PictureDecoder: one picture (JPEG, PNG, WebP or BMP) in memory, read row by row and only where it is needed.
//
// Training crops and shrinks most pictures, so a decoder is told which window is wanted and how large it has to be:
// JPEG then decodes at 1/2, 1/4 or 1/8 of the size, leaves out the columns and rows around the window, and stops below
// it. Pixels are those of the file: an orientation in EXIF data is ignored, and so are an alpha channel and colour
// profiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace muster::data {

struct Extent {
  std::uint32_t width = 0;
  std::uint32_t height = 0;

  bool operator==(const Extent&) const = default;
};

struct Window {
  std::uint32_t x = 0;
  std::uint32_t y = 0;
  std::uint32_t width = 0;
  std::uint32_t height = 0;

  bool operator==(const Window&) const = default;
};

// What a decoder gives after start().
struct DecodedRegion {
  Extent scaled;  // of the whole picture, after decoding at a fraction of its size
  Window wanted;  // the window asked for, in scaled pixels, rounded outwards
  Window rows;    // what read_row gives, in scaled pixels; holds `wanted`
};

// Checked against the header, before anything of the picture's size is allocated.
struct PictureLimits {
  std::uint64_t pixels = std::uint64_t{1} << 26;  // 8192 x 8192
  std::uint32_t side = 65535;                     // either way: what a decoder holds of a row is bounded too
  // Most memory of a decoder that has to hold a whole picture (progressive JPEG, interlaced PNG, WebP).
  std::uint64_t working_bytes = std::uint64_t{64} << 20;
};

struct DecoderOptions {
  int channels = 3;        // of the rows: 3 (red, green, blue, interleaved) or 1 (grey)
  std::string where = {};  // the file, for messages
  PictureLimits limits = {};
};

// Every method throws Error{kDamaged} for bytes that are no whole picture or one above the limits; after that only the
// destructor may be called. Thread safety: one thread at a time.
class PictureDecoder {
 public:
  virtual ~PictureDecoder() = default;

  virtual Extent extent() const = 0;

  // Chooses the smallest size at which `window` has at least `at_least` pixels each way (else the full one), and goes
  // to the window's first row. Once. REQUIRES: a window with pixels, inside extent().
  virtual DecodedRegion start(const Window& window, const Extent& at_least) = 0;

  // The next row of `rows`. REQUIRES: row.size() == rows.width * channels; at most rows.height calls.
  virtual void read_row(std::span<std::uint8_t> row) = 0;

  // No more rows are wanted. A file that does not end as its format says is read to the end, so that one that was cut
  // is refused whatever window was read; damage below the window of a file that ends well is not looked for.
  virtual void finish() = 0;
};

// By the first bytes, not by the name. Reads the header. `bytes` must outlive the decoder.
// Throws Error{kDamaged}: none of the four, a header that cannot be read, no pixels or more than the limits allow.
std::unique_ptr<PictureDecoder> open_picture(std::span<const std::byte> bytes, const DecoderOptions& options);

}  // namespace muster::data
