// WebP by libwebp, lossy and lossless. The library decodes whole pictures: so does this, within the limit of memory for
// those that need it. Pictures that move are refused: which of theirs is the sample, nobody has said.
#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <webp/decode.h>

#include "muster/base/check.h"
#include "muster/base/text.h"
#include "muster/data/pictures/decoder_formats.h"

namespace muster::data {
namespace {

const std::uint8_t* data_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

class WebpDecoder final : public PictureDecoder {
 public:
  WebpDecoder(std::span<const std::byte> bytes, const DecoderOptions& options) : bytes_(bytes), options_(options) {
    WebPBitstreamFeatures features;
    if (WebPGetFeatures(data_of(bytes), bytes.size(), &features) != VP8_STATUS_OK) fail("its header cannot be read");
    if (features.has_animation != 0) fail("it is animated");
    if (features.width < 0 || features.height < 0) fail("it has no pixels");
    extent_ = {static_cast<std::uint32_t>(features.width), static_cast<std::uint32_t>(features.height)};
    check_extent(extent_.width, extent_.height, options_);
    constexpr int kLossless = 2;
    const std::uint64_t pixels = std::uint64_t{extent_.width} * extent_.height;
    // Lossless pictures are decoded in memory of the library's own, 4 bytes a pixel, before they come here.
    const std::uint64_t needed = pixels * (features.format == kLossless ? 7 : 3);
    if (needed > options_.limits.working_bytes) {
      fail(fmt::format("it takes {} in memory where {} are allowed", human_bytes(needed),
                       human_bytes(options_.limits.working_bytes)));
    }
  }

  Extent extent() const override { return extent_; }

  DecodedRegion start(const Window& window, const Extent&) override {
    pixels_.resize(stride() * extent_.height);
    const std::uint8_t* const decoded =
        WebPDecodeRGBInto(data_of(bytes_), bytes_.size(), pixels_.data(), pixels_.size(), static_cast<int>(stride()));
    if (decoded == nullptr) fail("its data is cut or altered");
    window_ = window;
    return {.scaled = extent_, .wanted = window, .rows = window};
  }

  void read_row(std::span<std::uint8_t> row) override {
    const auto channels = static_cast<std::size_t>(options_.channels);
    MUSTER_CHECK(row.size() == window_.width * channels, "a row of another width than the region's");
    const std::size_t begin = (window_.y + next_row_++) * stride() + std::size_t{3} * window_.x;
    const std::uint8_t* const line = pixels_.data() + begin;
    if (channels == 3) {
      std::copy_n(line, row.size(), row.begin());
      return;
    }
    for (std::size_t x = 0; x < row.size(); ++x)
      row[x] = to_grey(line[3 * x], line[3 * x + 1], line[3 * x + 2]);
  }

  void finish() override {}  // start() has read to the end

 private:
  std::size_t stride() const { return std::size_t{3} * extent_.width; }
  [[noreturn]] void fail(std::string_view reason) const { throw_undecodable(reason, options_); }

  const std::span<const std::byte> bytes_;
  const DecoderOptions options_;
  Extent extent_;
  std::vector<std::uint8_t> pixels_;  // red, green, blue
  Window window_;
  std::size_t next_row_ = 0;
};

}  // namespace

std::unique_ptr<PictureDecoder> open_webp(std::span<const std::byte> bytes, const DecoderOptions& options) {
  return std::make_unique<WebpDecoder>(bytes, options);
}

}  // namespace muster::data
