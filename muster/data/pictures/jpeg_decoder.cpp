// JPEG by libjpeg-turbo. The library reports errors by longjmp: every call of it stands in a method that sets the mark
// itself and has no object with a destructor between the mark and the call, so a jump skips nothing.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <vector>

#include <jpeglib.h>
// After jpeglib.h, which it needs.
#include <jerror.h>

#include "muster/base/check.h"
#include "muster/data/pictures/decoder_formats.h"

namespace muster::data {
namespace {

// A progressive file of a few kilobytes can ask for thousands of passes over a large picture.
constexpr int kMostScans = 200;
// Chroma is interpolated across the window's edge as in the whole picture when these columns are decoded too.
constexpr std::uint32_t kMargin = 2;

struct ErrorState {
  jpeg_error_mgr manager;  // first: the library gives its address back
  std::jmp_buf mark;
  char message[JMSG_LENGTH_MAX];
};

ErrorState& state_of(j_common_ptr info) {
  return *reinterpret_cast<ErrorState*>(info->err);
}

[[noreturn]] void on_error(j_common_ptr info) {
  ErrorState& state = state_of(info);
  state.manager.format_message(info, state.message);
  std::longjmp(state.mark, 1);
}

// Warnings are damage, but for bytes between segments, which many writers leave there.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR) return;
  on_error(info);
}

void on_progress(j_common_ptr info) {
  if (!info->is_decompressor) return;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  ErrorState& state = state_of(info);
  std::snprintf(state.message, sizeof state.message, "it has more than %d scans", kMostScans);
  std::longjmp(state.mark, 1);
}

std::uint8_t divide_255(unsigned value) {
  return static_cast<std::uint8_t>((value + 127) / 255);
}

// The library's state, given back also when the constructor of its owner throws.
struct JpegState : jpeg_decompress_struct {
  JpegState() : jpeg_decompress_struct{} {}
  JpegState(const JpegState&) = delete;
  JpegState& operator=(const JpegState&) = delete;
  ~JpegState() { jpeg_destroy_decompress(this); }
};

class JpegDecoder final : public PictureDecoder {
 public:
  JpegDecoder(std::span<const std::byte> bytes, const DecoderOptions& options) : bytes_(bytes), options_(options) {
    info_.err = jpeg_std_error(&error_.manager);
    error_.manager.error_exit = on_error;
    error_.manager.emit_message = on_message;
    error_.message[0] = '\0';
    progress_.progress_monitor = on_progress;
    create();
    read_header();
    check_extent(info_.image_width, info_.image_height, options_);
  }

  Extent extent() const override { return {info_.image_width, info_.image_height}; }

  DecodedRegion start(const Window& window, const Extent& at_least) override {
    info_.scale_num = 1;
    info_.scale_denom = 1;
    while (info_.scale_denom < 8 && window.width / (2 * info_.scale_denom) >= at_least.width &&
           window.height / (2 * info_.scale_denom) >= at_least.height) {
      info_.scale_denom *= 2;
    }
    four_ = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = four_ ? JCS_CMYK : options_.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    begin_rows();
    DecodedRegion region;
    region.scaled = {info_.output_width, info_.output_height};
    region.wanted = scale_window(window, extent(), region.scaled);
    JDIMENSION left = region.wanted.x - std::min(region.wanted.x, kMargin);
    JDIMENSION width = std::min(region.wanted.x + region.wanted.width + kMargin, region.scaled.width) - left;
    crop(&left, &width);
    skip(region.wanted.y);
    region.rows = {.x = left, .y = region.wanted.y, .width = width, .height = region.wanted.height};
    if (four_) inks_.resize(std::size_t{width} * 4);
    return region;
  }

  void read_row(std::span<std::uint8_t> row) override {
    MUSTER_CHECK(row.size() == std::size_t{info_.output_width} * static_cast<unsigned>(options_.channels),
                 "a row of another width than the region's");
    if (!four_) return read_into(row.data());
    read_into(inks_.data());
    mix_inks(row);
  }

  void finish() override {
    if (ends_well()) return;
    std::vector<std::uint8_t> row(std::size_t{info_.output_width} * 4);
    while (info_.output_scanline < info_.output_height)
      read_into(row.data());
    end_rows();
  }

 private:
  // The methods below are the only ones that call the library, and have only plain values of their own.
  void create() {
    if (setjmp(error_.mark) != 0) fail();
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    info_.mem->max_memory_to_use = static_cast<long>(options_.limits.working_bytes);
  }
  void read_header() {
    if (setjmp(error_.mark) != 0) fail();
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&info_, TRUE);
  }
  void begin_rows() {
    if (setjmp(error_.mark) != 0) fail();
    jpeg_start_decompress(&info_);
  }
  void crop(JDIMENSION* left, JDIMENSION* width) {
    if (setjmp(error_.mark) != 0) fail();
    if (*width < info_.output_width) jpeg_crop_scanline(&info_, left, width);
  }
  void skip(JDIMENSION rows) {
    if (setjmp(error_.mark) != 0) fail();
    if (rows > 0) jpeg_skip_scanlines(&info_, rows);
  }
  void read_into(std::uint8_t* row) {
    if (setjmp(error_.mark) != 0) fail();
    jpeg_read_scanlines(&info_, &row, 1);
  }
  void end_rows() {
    if (setjmp(error_.mark) != 0) fail();
    jpeg_finish_decompress(&info_);
  }
  [[noreturn]] void fail() { throw_undecodable(error_.message, options_); }

  // The end-of-image marker stands at the end, but for zeros that some writers pad with.
  bool ends_well() const {
    std::size_t end = bytes_.size();
    while (end > 0 && bytes_[end - 1] == std::byte{0})
      --end;
    return end >= 2 && bytes_[end - 2] == std::byte{0xFF} && bytes_[end - 1] == std::byte{0xD9};
  }

  // Cyan, magenta, yellow, black. Adobe's programs write light instead of ink: 255 is none.
  void mix_inks(std::span<std::uint8_t> row) const {
    const std::uint8_t flip = info_.saw_Adobe_marker ? 0 : 255;
    const std::uint8_t* in = inks_.data();
    for (std::size_t i = 0; i < row.size(); in += 4) {
      const unsigned key = in[3] ^ flip;
      const std::uint8_t red = divide_255((in[0] ^ flip) * key);
      const std::uint8_t green = divide_255((in[1] ^ flip) * key);
      const std::uint8_t blue = divide_255((in[2] ^ flip) * key);
      if (options_.channels == 1) {
        row[i++] = static_cast<std::uint8_t>((299U * red + 587U * green + 114U * blue + 500U) / 1000U);
      } else {
        row[i++] = red;
        row[i++] = green;
        row[i++] = blue;
      }
    }
  }

  const std::span<const std::byte> bytes_;
  const DecoderOptions options_;
  ErrorState error_{};
  jpeg_progress_mgr progress_{};
  JpegState info_;
  bool four_ = false;               // inks instead of light
  std::vector<std::uint8_t> inks_;  // one row
};

}  // namespace

std::unique_ptr<PictureDecoder> open_jpeg(std::span<const std::byte> bytes, const DecoderOptions& options) {
  return std::make_unique<JpegDecoder>(bytes, options);
}

}  // namespace muster::data
