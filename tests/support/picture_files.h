// Pictures for tests and benchmarks: smooth ones computed from a seed, and files of them written by libjpeg and libpng
// themselves. Errors of the libraries end the process: nothing here reads foreign bytes.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <jpeglib.h>
#include <png.h>

namespace muster::testing {

// Interleaved 8-bit pixels.
struct Pixels {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  int channels = 3;
  std::vector<std::uint8_t> values = {};

  std::uint8_t at(std::uint32_t x, std::uint32_t y, int channel) const {
    return values[(std::size_t{y} * width + x) * static_cast<std::size_t>(channels) +
                  static_cast<std::size_t>(channel)];
  }
};

// A few waves and some noise: compresses about as photographs do.
inline Pixels make_pixels(std::uint32_t width, std::uint32_t height, int channels, unsigned seed) {
  std::mt19937 generator(seed);
  const auto unit = [&] { return generator() / 4294967296.0; };
  Pixels pixels{width, height, channels, {}};
  pixels.values.resize(std::size_t{width} * height * static_cast<std::size_t>(channels));
  constexpr int kWaves = 4;
  double waves[kWaves][4];
  for (auto& wave : waves) {
    wave[0] = (unit() - 0.5) * 0.3;
    wave[1] = (unit() - 0.5) * 0.3;
    wave[2] = unit() * 6.28;
    wave[3] = 10 + 35 * unit();
  }
  std::size_t i = 0;
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      double light = 128;
      for (const auto& wave : waves)
        light += wave[3] * std::sin(wave[0] * x + wave[1] * y + wave[2]);
      for (int c = 0; c < channels; ++c) {
        const double value = light + 30 * std::sin(0.05 * x * (c + 1)) + 16 * (unit() - 0.5);
        pixels.values[i++] = static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
      }
    }
  }
  return pixels;
}

struct JpegOptions {
  int quality = 90;
  bool progressive = false;
  int chroma = 2;     // 2: half the chroma each way (4:2:0), 1: all of it (4:4:4)
  bool inks = false;  // 4 channels, written as Adobe does: inverted, with its marker
};

inline std::vector<std::byte> to_jpeg(const Pixels& pixels, const JpegOptions& options = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &out, &size);
  info.image_width = pixels.width;
  info.image_height = pixels.height;
  info.input_components = pixels.channels;
  info.in_color_space = options.inks ? JCS_CMYK : pixels.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (options.progressive) jpeg_simple_progression(&info);
  if (pixels.channels == 3) {
    info.comp_info[0].h_samp_factor = options.chroma;
    info.comp_info[0].v_samp_factor = options.chroma;
  }
  jpeg_start_compress(&info, TRUE);
  const std::size_t stride = std::size_t{pixels.width} * static_cast<std::size_t>(pixels.channels);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(pixels.values.data() + info.next_scanline * stride);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto* begin = reinterpret_cast<const std::byte*>(out);
  std::vector<std::byte> bytes(begin, begin + size);
  std::free(out);
  return bytes;
}

struct PngOptions {
  int color_type = PNG_COLOR_TYPE_RGB;
  int bits = 8;  // of a sample; 16: high byte first
  bool interlaced = false;
  std::vector<png_color> palette = {};
};

// `rows` holds rows as PNG stores them: packed, 16-bit samples big-endian.
inline std::vector<std::byte> to_png(std::uint32_t width, std::uint32_t height, const std::vector<std::uint8_t>& rows,
                                     const PngOptions& options = {}) {
  std::vector<std::byte> bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png)) != 0) std::abort();
  png_set_write_fn(
      png, &bytes,
      [](png_structp writer, png_bytep data, std::size_t size) {
        auto* out = static_cast<std::vector<std::byte>*>(png_get_io_ptr(writer));
        const auto* begin = reinterpret_cast<const std::byte*>(data);
        out->insert(out->end(), begin, begin + size);
      },
      [](png_structp) {});
  png_set_IHDR(png, info, width, height, options.bits, options.color_type,
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (!options.palette.empty())
    png_set_PLTE(png, info, options.palette.data(), static_cast<int>(options.palette.size()));
  png_write_info(png, info);
  const std::size_t stride = png_get_rowbytes(png, info);
  std::vector<png_bytep> lines;
  for (std::uint32_t y = 0; y < height; ++y)
    lines.push_back(const_cast<png_bytep>(rows.data() + y * stride));
  png_write_image(png, lines.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

}  // namespace muster::testing
