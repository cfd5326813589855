// Pictures written by the libraries and read by windows and scales; cut or altered ones are damage, never a crash.
#include "muster/data/pictures/decoder.h"

#include <algorithm>
#include <cmath>

#include "support.h"
#include "support/picture_files.h"

namespace muster::data {
namespace {

using ::muster::testing::JpegOptions;
using ::muster::testing::make_pixels;
using ::muster::testing::Pixels;
using ::muster::testing::PngOptions;
using ::muster::testing::to_jpeg;
using ::muster::testing::to_png;

struct Decoded {
  DecodedRegion region;
  Pixels pixels;  // of region.rows
};

Decoded decode(const Bytes& bytes, const Window& window, const Extent& at_least = {100000, 100000}, int channels = 3,
               const PictureLimits& limits = {}) {
  const auto decoder = open_picture(bytes, {.channels = channels, .where = "dog.jpg", .limits = limits});
  Decoded decoded;
  decoded.region = decoder->start(window, at_least);
  const Window& rows = decoded.region.rows;
  decoded.pixels = {rows.width, rows.height, channels, {}};
  const std::size_t stride = std::size_t{rows.width} * static_cast<unsigned>(channels);
  decoded.pixels.values.resize(stride * rows.height);
  for (std::size_t y = 0; y < rows.height; ++y)
    decoder->read_row(std::span(decoded.pixels.values).subspan(y * stride, stride));
  decoder->finish();
  return decoded;
}

Decoded decode_all(const Bytes& bytes, int channels = 3) {
  const Extent extent = open_picture(bytes, {.channels = channels})->extent();
  return decode(bytes, {0, 0, extent.width, extent.height}, {100000, 100000}, channels);
}

double mean_difference(const Pixels& a, const Pixels& b) {
  EXPECT_EQ(a.values.size(), b.values.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i)
    sum += std::abs(a.values[i] - b.values[i]);
  return sum / static_cast<double>(a.values.size());
}

TEST(JpegDecoder, GivesThePictureThatWasWritten) {
  const Pixels pixels = make_pixels(61, 47, 3, 1);
  for (const JpegOptions& options : {JpegOptions{.quality = 98, .chroma = 1}, JpegOptions{.quality = 98},
                                     JpegOptions{.quality = 98, .progressive = true}}) {
    const Decoded decoded = decode_all(to_jpeg(pixels, options));
    EXPECT_EQ(decoded.region.scaled, (Extent{61, 47}));
    EXPECT_LT(mean_difference(decoded.pixels, pixels), options.chroma == 1 ? 2.0 : 6.0);
  }
}

TEST(JpegDecoder, AWindowHasTheBytesOfTheWholePicture) {
  const Pixels pixels = make_pixels(131, 97, 3, 2);
  std::mt19937 generator(3);
  for (const JpegOptions& options : {JpegOptions{}, JpegOptions{.chroma = 1}, JpegOptions{.progressive = true}}) {
    const Bytes bytes = to_jpeg(pixels, options);
    const Pixels whole = decode_all(bytes).pixels;
    for (int i = 0; i < 60; ++i) {
      Window window;
      window.width = 1 + generator() % 131;
      window.height = 1 + generator() % 97;
      window.x = generator() % (132 - window.width);
      window.y = generator() % (98 - window.height);
      const Decoded part = decode(bytes, window);
      ASSERT_EQ(part.region.wanted, window);
      int different = 0;
      for (std::uint32_t y = 0; y < window.height; ++y) {
        for (std::uint32_t x = 0; x < window.width; ++x) {
          for (int c = 0; c < 3; ++c) {
            different +=
                part.pixels.at(window.x - part.region.rows.x + x, y, c) != whole.at(window.x + x, window.y + y, c);
          }
        }
      }
      ASSERT_EQ(different, 0) << window.x << " " << window.y << " " << window.width << " " << window.height;
    }
  }
}

TEST(JpegDecoder, DecodesAtTheSmallestSizeThatIsLargeEnough) {
  const Bytes bytes = to_jpeg(make_pixels(256, 200, 3, 4));
  EXPECT_EQ(decode(bytes, {0, 0, 256, 200}, {129, 10}).region.scaled, (Extent{256, 200}));
  EXPECT_EQ(decode(bytes, {0, 0, 256, 200}, {128, 100}).region.scaled, (Extent{128, 100}));
  EXPECT_EQ(decode(bytes, {0, 0, 256, 200}, {33, 50}).region.scaled, (Extent{64, 50})) << "a quarter has both";
  EXPECT_EQ(decode(bytes, {0, 0, 256, 200}, {1, 1}).region.scaled, (Extent{32, 25}));
  // Half of a window of 64 is enough for 32, whatever the picture.
  const Decoded part = decode(bytes, {100, 60, 64, 64}, {32, 32});
  EXPECT_EQ(part.region.scaled, (Extent{128, 100}));
  EXPECT_EQ(part.region.wanted, (Window{50, 30, 32, 32}));
}

TEST(JpegDecoder, GreyAndInksBecomeColoursAndColoursBecomeGrey) {
  const Pixels grey = make_pixels(40, 30, 1, 5);
  const Decoded spread = decode_all(to_jpeg(grey, {.quality = 100}));
  for (std::uint32_t x = 0; x < 40; ++x) {
    EXPECT_EQ(spread.pixels.at(x, 7, 0), spread.pixels.at(x, 7, 2));
    EXPECT_NEAR(spread.pixels.at(x, 7, 0), grey.at(x, 7, 0), 3);
  }
  // A plain colour: red 200, green 100, blue 50, as light (255 - ink) with all of the black at none.
  Pixels inks{16, 16, 4, {}};
  for (int i = 0; i < 256; ++i)
    inks.values.insert(inks.values.end(), {200, 100, 50, 255});
  const Decoded mixed = decode_all(to_jpeg(inks, {.quality = 100, .inks = true}));
  EXPECT_NEAR(mixed.pixels.at(3, 3, 0), 200, 1);
  EXPECT_NEAR(mixed.pixels.at(3, 3, 1), 100, 1);
  EXPECT_NEAR(mixed.pixels.at(3, 3, 2), 50, 1);
  const Decoded dark = decode_all(to_jpeg(inks, {.quality = 100, .inks = true}), 1);
  EXPECT_NEAR(dark.pixels.at(3, 3, 0), 0.299 * 200 + 0.587 * 100 + 0.114 * 50, 2);
}

TEST(PngDecoder, GivesTheBytesThatWereWritten) {
  const Pixels pixels = make_pixels(33, 21, 3, 6);
  for (const bool interlaced : {false, true}) {
    const Bytes bytes = to_png(33, 21, pixels.values, {.interlaced = interlaced});
    EXPECT_EQ(decode_all(bytes).pixels.values, pixels.values);
    const Decoded part = decode(bytes, {5, 7, 11, 4});
    ASSERT_EQ(part.region.rows, (Window{5, 7, 11, 4}));
    for (std::uint32_t y = 0; y < 4; ++y) {
      for (std::uint32_t x = 0; x < 11; ++x)
        EXPECT_EQ(part.pixels.at(x, y, 1), pixels.at(5 + x, 7 + y, 1));
    }
  }
}

TEST(PngDecoder, EveryKindOfPixelBecomesEightBitsOfColour) {
  // 16 bits: the high byte decides, up to rounding.
  const Bytes deep = to_png(1, 1, {200, 0, 100, 0, 50, 0}, {.bits = 16});
  EXPECT_EQ(decode_all(deep).pixels.values, (std::vector<std::uint8_t>{199, 100, 50}));
  const Bytes alpha = to_png(1, 1, {10, 20, 30, 7}, {.color_type = PNG_COLOR_TYPE_RGB_ALPHA});
  EXPECT_EQ(decode_all(alpha).pixels.values, (std::vector<std::uint8_t>{10, 20, 30})) << "alpha is left out";
  const Bytes one_bit = to_png(8, 1, {0b10100001}, {.color_type = PNG_COLOR_TYPE_GRAY, .bits = 1});
  EXPECT_EQ(decode_all(one_bit, 1).pixels.values, (std::vector<std::uint8_t>{255, 0, 255, 0, 0, 0, 0, 255}));
  EXPECT_EQ(decode_all(one_bit, 3).pixels.at(2, 0, 1), 255);
  const Bytes palette =
      to_png(2, 1, {1, 0}, {.color_type = PNG_COLOR_TYPE_PALETTE, .palette = {{1, 2, 3}, {40, 50, 60}}});
  EXPECT_EQ(decode_all(palette).pixels.values, (std::vector<std::uint8_t>{40, 50, 60, 1, 2, 3}));
  const Bytes colour = to_png(1, 1, {200, 100, 50});
  EXPECT_NEAR(decode_all(colour, 1).pixels.values[0], 0.299 * 200 + 0.587 * 100 + 0.114 * 50, 1);
}

TEST(OpenPicture, ACutFileIsDamagedWhereverItIsCutAndWhateverIsRead) {
  const Pixels pixels = make_pixels(64, 64, 3, 7);
  for (const Bytes& bytes : {to_jpeg(pixels), to_jpeg(pixels, {.progressive = true}), to_png(64, 64, pixels.values),
                             to_png(64, 64, pixels.values, {.interlaced = true})}) {
    for (std::size_t size = 0; size < bytes.size() - 2; size += 1 + size / 16) {
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      // The first rows alone would often be there.
      const auto error = error_of([&] { decode(cut, {0, 0, 64, 1}); });
      ASSERT_TRUE(error) << size << " of " << bytes.size();
      EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
      EXPECT_EQ(error->where(), "dog.jpg");
    }
  }
}

TEST(OpenPicture, AlteredBytesAreAPictureOrDamage) {
  const Pixels pixels = make_pixels(24, 20, 3, 11);
  std::mt19937 generator(12);
  int refused = 0;
  for (const Bytes& bytes : {to_jpeg(pixels), to_jpeg(pixels, {.progressive = true}), to_png(24, 20, pixels.values),
                             to_png(24, 20, pixels.values, {.interlaced = true})}) {
    for (int i = 0; i < 300; ++i) {
      Bytes altered = bytes;
      for (std::size_t changes = 1 + generator() % 4; changes-- > 0;)
        altered[generator() % altered.size()] = static_cast<std::byte>(generator());
      const auto error = error_of([&] {
        // An extent that was altered is read as it is now.
        const auto decoder = open_picture(altered, {.limits = {.pixels = 1 << 16}});
        const Extent extent = decoder->extent();
        const DecodedRegion region = decoder->start({0, 0, extent.width, extent.height}, {8, 8});
        std::vector<std::uint8_t> row(std::size_t{region.rows.width} * 3);
        for (std::uint32_t y = 0; y < region.rows.height; ++y)
          decoder->read_row(row);
        decoder->finish();
      });
      if (!error) continue;
      ++refused;
      ASSERT_EQ(error->kind(), ErrorKind::kDamaged) << error->what();
    }
  }
  EXPECT_GT(refused, 400);
}

TEST(OpenPicture, ZerosAfterThePictureAreNoDamage) {
  Bytes bytes = to_jpeg(make_pixels(20, 20, 3, 8));
  bytes.resize(bytes.size() + 100);
  EXPECT_FALSE(error_of([&] { decode(bytes, {0, 0, 20, 20}); }));
}

TEST(OpenPicture, APictureAboveTheLimitIsRefusedByItsHeader) {
  // 30,000 x 30,000 pixels of one colour would be small files and gigabytes of memory.
  Bytes jpeg = to_jpeg(make_pixels(16, 16, 3, 9));
  const Bytes marker = to_bytes({0xFF, 0xC0});
  const auto frame = std::search(jpeg.begin(), jpeg.end(), marker.begin(), marker.end());
  ASSERT_NE(frame, jpeg.end());
  for (const int at : {5, 7}) {
    frame[at] = std::byte{30000 >> 8};
    frame[at + 1] = std::byte{30000 & 255};
  }
  const auto refused = error_of([&] { open_picture(jpeg, {.where = "bomb.jpg"}); });
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind(), ErrorKind::kDamaged);
  EXPECT_NE(refused->message().find("30000 x 30000"), std::string::npos);

  const Bytes png = to_png(9, 9, make_pixels(9, 9, 3, 9).values, {.interlaced = true});
  EXPECT_TRUE(error_of([&] { open_picture(png, {.limits = {.pixels = 80}}); }));
  EXPECT_TRUE(error_of([&] { open_picture(png, {.limits = {.side = 8}}); }));
  EXPECT_FALSE(error_of([&] { open_picture(png, {.limits = {.pixels = 81}}); }));
  const auto large = error_of([&] { decode(png, {0, 0, 9, 9}, {9, 9}, 3, {.working_bytes = 242}); });
  ASSERT_TRUE(large) << "243 bytes of an interlaced picture";
  const Bytes scans = to_jpeg(make_pixels(400, 400, 3, 9), {.progressive = true});
  EXPECT_TRUE(error_of([&] { decode(scans, {0, 0, 400, 400}, {400, 400}, 3, {.working_bytes = 200000}); }));
  EXPECT_FALSE(error_of([&] { decode(scans, {0, 0, 400, 400}, {400, 400}, 3, {.working_bytes = 4000000}); }));
}

TEST(OpenPicture, WhatIsNoPictureIsRefused) {
  for (const Bytes& bytes :
       {Bytes{}, to_bytes({0xFF, 0xD8}), to_bytes({'G', 'I', 'F', '8', '9', 'a', 0, 0}),
        to_bytes({0xFF, 0xD8, 0xFF, 0xD9}), to_bytes({0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'})}) {
    const auto error = error_of([&] { open_picture(bytes, {.where = "x.jpg"}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
  }
}

}  // namespace
}  // namespace muster::data
