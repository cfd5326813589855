// PNG by libpng. As in jpeg_decoder.cpp, every call of the library stands in a method that sets the mark of longjmp
// itself and holds no object with a destructor.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include <fmt/format.h>
#include <png.h>

#include "muster/base/check.h"
#include "muster/base/text.h"
#include "muster/data/pictures/decoder_formats.h"

namespace muster::data {
namespace {

// Of all that is not pixels (profiles, texts); libpng's own limit is far above what a picture needs.
constexpr png_alloc_size_t kMostChunkBytes = png_alloc_size_t{4} << 20;
constexpr png_uint_32 kMostChunks = 100;

// The library's state, given back also when the constructor of its owner throws.
struct PngState {
  png_structp png = nullptr;
  png_infop info = nullptr;

  PngState() = default;
  PngState(const PngState&) = delete;
  PngState& operator=(const PngState&) = delete;
  ~PngState() { png_destroy_read_struct(&png, &info, nullptr); }
};

class PngDecoder final : public PictureDecoder {
 public:
  PngDecoder(std::span<const std::byte> bytes, const DecoderOptions& options) : bytes_(bytes), options_(options) {
    state_.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    if (state_.png != nullptr) state_.info = png_create_info_struct(state_.png);
    if (state_.info == nullptr) throw std::bad_alloc();
    read_header();
    check_extent(extent().width, extent().height, options_);
  }

  Extent extent() const override {
    return {png_get_image_width(state_.png, state_.info), png_get_image_height(state_.png, state_.info)};
  }

  DecodedRegion start(const Window& window, const Extent&) override {
    begin_rows();
    MUSTER_CHECK(png_get_rowbytes(state_.png, state_.info) == row_bytes(), "rows of another width than the picture's");
    if (passes_ > 1) {
      read_whole();
    } else {
      line_.resize(row_bytes());
    }
    for (; next_row_ < window.y; ++next_row_)
      next_line();
    window_ = window;
    return {.scaled = extent(), .wanted = window, .rows = window};
  }

  void read_row(std::span<std::uint8_t> row) override {
    const auto channels = static_cast<std::size_t>(options_.channels);
    MUSTER_CHECK(row.size() == window_.width * channels, "a row of another width than the region's");
    const std::uint8_t* line = next_line();
    ++next_row_;
    std::memcpy(row.data(), line + window_.x * channels, row.size());
  }

  void finish() override {
    if (ends_well() && passes_ == 1) return;
    for (; next_row_ < extent().height; ++next_row_)
      next_line();
    end_rows();
  }

 private:
  std::size_t row_bytes() const { return std::size_t{extent().width} * static_cast<unsigned>(options_.channels); }

  const std::uint8_t* next_line() {
    if (passes_ > 1) return whole_.data() + next_row_ * row_bytes();
    read_into(line_.data());
    return line_.data();
  }

  // The passes of an interlaced picture spread over all of it.
  void read_whole() {
    const std::uint64_t bytes = std::uint64_t{row_bytes()} * extent().height;
    if (bytes > options_.limits.working_bytes) {
      throw_undecodable(fmt::format("it is interlaced, and takes {} in memory where {} are allowed", human_bytes(bytes),
                                    human_bytes(options_.limits.working_bytes)),
                        options_);
    }
    whole_.resize(bytes);
    std::vector<png_bytep> lines(extent().height);
    for (std::size_t y = 0; y < lines.size(); ++y)
      lines[y] = whole_.data() + y * row_bytes();
    read_lines(lines.data());
    if (failed_) fail();
  }

  // The methods below are the only ones that call the library's reading functions; their own values are plain.
  void read_header() {
    if (setjmp(png_jmpbuf(state_.png)) != 0) fail();
    png_set_read_fn(state_.png, this, on_read);
    png_set_user_limits(state_.png, 0x7FFFFFFF, 0x7FFFFFFF);  // check_extent has the real limit
    png_set_chunk_malloc_max(state_.png, kMostChunkBytes);
    png_set_chunk_cache_max(state_.png, kMostChunks);
    png_read_info(state_.png, state_.info);
  }
  // Whatever the file holds becomes 8 bits of grey or of red, green and blue.
  void begin_rows() {
    if (setjmp(png_jmpbuf(state_.png)) != 0) fail();
    const int color = png_get_color_type(state_.png, state_.info);
    png_set_expand(state_.png);
    png_set_scale_16(state_.png);
    png_set_strip_alpha(state_.png);
    const bool grey = (color & PNG_COLOR_MASK_COLOR) == 0;
    if (grey && options_.channels == 3) png_set_gray_to_rgb(state_.png);
    if (!grey && options_.channels == 1) png_set_rgb_to_gray(state_.png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
    passes_ = png_set_interlace_handling(state_.png);
    png_read_update_info(state_.png, state_.info);
  }
  void read_into(std::uint8_t* line) {
    if (setjmp(png_jmpbuf(state_.png)) != 0) fail();
    png_read_row(state_.png, line, nullptr);
  }
  // Its caller holds memory, so this one reports instead of throwing past it: both would do, one is easier to see.
  void read_lines(png_bytepp lines) {
    if (setjmp(png_jmpbuf(state_.png)) != 0) {
      failed_ = true;
      return;
    }
    png_read_image(state_.png, lines);
  }
  void end_rows() {
    if (setjmp(png_jmpbuf(state_.png)) != 0) fail();
    png_read_end(state_.png, nullptr);
  }
  [[noreturn]] void fail() { throw_undecodable(message_, options_); }

  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::snprintf(self->message_, sizeof self->message_, "%s", message);
    png_longjmp(png, 1);
  }
  static void on_read(png_structp png, png_bytep out, std::size_t size) {
    auto* self = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (size > self->bytes_.size() - self->position_) png_error(png, "the file ends too early");
    std::memcpy(out, self->bytes_.data() + self->position_, size);
    self->position_ += size;
  }

  bool ends_well() const {
    constexpr std::size_t kEndChunk = 12;  // length, "IEND", checksum
    return bytes_.size() >= kEndChunk && std::memcmp(bytes_.data() + bytes_.size() - kEndChunk + 4, "IEND", 4) == 0;
  }

  const std::span<const std::byte> bytes_;
  const DecoderOptions options_;
  PngState state_;
  std::size_t position_ = 0;  // of bytes_
  char message_[160] = "";
  bool failed_ = false;
  int passes_ = 1;
  Window window_;
  std::uint32_t next_row_ = 0;
  std::vector<std::uint8_t> line_;
  std::vector<std::uint8_t> whole_;
};

}  // namespace

std::unique_ptr<PictureDecoder> open_png(std::span<const std::byte> bytes, const DecoderOptions& options) {
  return std::make_unique<PngDecoder>(bytes, options);
}

}  // namespace muster::data
