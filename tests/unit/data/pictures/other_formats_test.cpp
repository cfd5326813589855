// WebP and BMP, against files whose pixels are known.
#include "other_formats.h"

#include <gmock/gmock.h>

#include "muster/data/pictures/decoder.h"

namespace muster::data {
namespace {

using ::muster::testing::make_pixels;
using ::muster::testing::Pixels;
using ::testing::HasSubstr;

std::vector<std::uint8_t> decode(const Bytes& bytes, const Window& window, int channels = 3,
                                 const PictureLimits& limits = {}) {
  const auto decoder = open_picture(bytes, {.channels = channels, .where = "dog", .limits = limits});
  const DecodedRegion region = decoder->start(window, {1, 1});
  EXPECT_EQ(region.rows, window);
  const std::size_t stride = std::size_t{window.width} * static_cast<unsigned>(channels);
  std::vector<std::uint8_t> values(stride * window.height);
  for (std::uint32_t y = 0; y < window.height; ++y)
    decoder->read_row(std::span(values).subspan(y * stride, stride));
  decoder->finish();
  return values;
}

std::vector<std::uint8_t> part_of(const Pixels& pixels, const Window& window) {
  std::vector<std::uint8_t> values;
  for (std::uint32_t y = window.y; y < window.y + window.height; ++y) {
    for (std::uint32_t x = window.x; x < window.x + window.width; ++x) {
      for (int c = 0; c < 3; ++c)
        values.push_back(pixels.at(x, y, c));
    }
  }
  return values;
}

TEST(WebpDecoder, LosslessPicturesHaveTheirPixels) {
  const Pixels pixels = make_pixels(31, 17, 3, 1);
  const Bytes bytes = to_webp(pixels, true);
  for (const Window& window : {Window{0, 0, 31, 17}, Window{3, 5, 7, 9}, Window{30, 16, 1, 1}})
    EXPECT_EQ(decode(bytes, window), part_of(pixels, window));
  const std::vector<std::uint8_t> grey = decode(bytes, {2, 3, 1, 1}, 1);
  EXPECT_NEAR(grey[0], 0.299 * pixels.at(2, 3, 0) + 0.587 * pixels.at(2, 3, 1) + 0.114 * pixels.at(2, 3, 2), 0.51);
}

TEST(WebpDecoder, LossyPicturesAreNearTheirPixelsWhateverTheWindow) {
  const Pixels pixels = make_pixels(64, 48, 3, 2);
  const Bytes bytes = to_webp(pixels, false);
  const std::vector<std::uint8_t> whole = decode(bytes, {0, 0, 64, 48});
  double difference = 0;
  for (std::size_t i = 0; i < whole.size(); ++i)
    difference += std::abs(whole[i] - pixels.values[i]);
  EXPECT_LT(difference / static_cast<double>(whole.size()), 8);
  const Pixels decoded{64, 48, 3, whole};
  EXPECT_EQ(decode(bytes, {5, 7, 20, 11}), part_of(decoded, {5, 7, 20, 11}));
}

TEST(WebpDecoder, CutAndLargePicturesAreRefused) {
  const Bytes bytes = to_webp(make_pixels(40, 40, 3, 3), false);
  for (std::size_t size = 4; size < bytes.size(); size += 7) {
    const auto error = error_of([&] {
      decode(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)), {0, 0, 40, 40});
    });
    ASSERT_TRUE(error) << size;
    EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
  }
  EXPECT_TRUE(error_of([&] { decode(bytes, {0, 0, 40, 40}, 3, {.pixels = 1599}); }));
  EXPECT_TRUE(error_of([&] { decode(bytes, {0, 0, 40, 40}, 3, {.working_bytes = 4799}); }));
  EXPECT_FALSE(error_of([&] { decode(bytes, {0, 0, 40, 40}, 3, {.working_bytes = 4800}); }));
}

// Red, green; blue, white, in each of the ways to write them.
TEST(BmpDecoder, AllKindsOfPixels) {
  const std::vector<std::uint8_t> expected{255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255};
  const std::vector<std::array<std::uint8_t, 3>> four{{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {255, 255, 255}};
  const std::vector<std::pair<const char*, Bytes>>
      files{{"24 bits", to_bmp(2, 2, {{0, 0, 255, 0, 255, 0}, {255, 0, 0, 255, 255, 255}})},
            {"24 bits, OS/2", to_bmp(2, 2, {{0, 0, 255, 0, 255, 0}, {255, 0, 0, 255, 255, 255}}, {.header = 12})},
            {"top down", to_bmp(2, 2, {{0, 0, 255, 0, 255, 0}, {255, 0, 0, 255, 255, 255}}, {.top_down = true})},
            {"32 bits", to_bmp(2, 2, {{0, 0, 255, 9, 0, 255, 0, 9}, {255, 0, 0, 9, 255, 255, 255, 9}}, {.bits = 32})},
            {"32 bits, masks in the header",
             to_bmp(2, 2, {{255, 0, 0, 9, 0, 255, 0, 9}, {0, 0, 255, 9, 255, 255, 255, 9}},
                    {.header = 124, .bits = 32, .compression = 3, .masks = {0xFF, 0xFF00, 0xFF0000, 0}})},
            {"16 bits", to_bmp(2, 2, {{0x00, 0x7C, 0xE0, 0x03}, {0x1F, 0x00, 0xFF, 0x7F}}, {.bits = 16})},
            {"8 bits", to_bmp(2, 2, {{0, 1}, {2, 3}}, {.bits = 8, .palette = four})},
            {"8 bits, OS/2", to_bmp(2, 2, {{0, 1}, {2, 3}},
                                    {.header = 12,
                                     .bits = 8,
                                     .palette =
                                         [&] {
                                           auto all = four;
                                           all.resize(256);
                                           return all;
                                         }()})},
            {"4 bits", to_bmp(2, 2, {{0x01}, {0x23}}, {.bits = 4, .palette = four})}};
  for (const auto& [name, bytes] : files)
    EXPECT_EQ(decode(bytes, {0, 0, 2, 2}), expected) << name;
  const Bytes two = to_bmp(9, 1, {{0b01010101, 0b10000000}}, {.bits = 1, .palette = {{0, 0, 0}, {7, 8, 9}}});
  EXPECT_EQ(decode(two, {7, 0, 2, 1}), (std::vector<std::uint8_t>{7, 8, 9, 7, 8, 9}));
  EXPECT_EQ(decode(two, {6, 0, 1, 1}, 1), (std::vector<std::uint8_t>{0}));
}

// 16 bits with 6 for green, whose masks stand behind the header and not in it.
TEST(BmpDecoder, MasksBehindTheHeader) {
  Bytes bytes = to_bmp(1, 1, {{0xE0, 0x07}}, {.bits = 16, .compression = 3});
  const Bytes masks = to_bytes({0x00, 0xF8, 0, 0, 0xE0, 0x07, 0, 0, 0x1F, 0x00, 0, 0});
  bytes.insert(bytes.begin() + 54, masks.begin(), masks.end());
  bytes[10] = std::byte{66};
  EXPECT_EQ(decode(bytes, {0, 0, 1, 1}), (std::vector<std::uint8_t>{0, 255, 0}));
  bytes[54 + 4] = std::byte{0xA0};
  EXPECT_THAT(error_of([&] { decode(bytes, {0, 0, 1, 1}); })->message(), HasSubstr("gaps"));
}

TEST(BmpDecoder, WhatIsCutOrClaimsTooMuchIsRefused) {
  const Bytes bytes = to_bmp(2, 2, {{0, 1}, {2, 3}}, {.bits = 8, .palette = {{1, 2, 3}, {4, 5, 6}}});
  for (std::size_t size = 2; size < bytes.size(); ++size) {
    const auto error = error_of([&] { open_picture(std::span(bytes).first(size), {}); });
    ASSERT_TRUE(error) << size;
    EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
  }
  const auto altered = [&](std::size_t at, std::initializer_list<int> values) {
    Bytes copy = bytes;
    for (const int value : values)
      copy[at++] = static_cast<std::byte>(value);
    return error_of([&] { open_picture(copy, {}); });
  };
  EXPECT_TRUE(altered(18, {0, 0, 0, 0x80})) << "a negative width";
  EXPECT_TRUE(altered(22, {0, 0, 0, 0x80})) << "a height without a magnitude";
  EXPECT_TRUE(altered(18, {0xFF, 0xFF, 0, 0})) << "rows that the file does not have";
  EXPECT_TRUE(altered(10, {0xFF, 0xFF, 0xFF, 0xFF})) << "rows behind the end";
  EXPECT_THAT(altered(30, {1})->message(), HasSubstr("run-length"));
  EXPECT_TRUE(altered(28, {7})) << "bits";
  EXPECT_TRUE(altered(14, {41, 1})) << "a header of 297 bytes";
}

// A little of what the fuzz target does for longer.
TEST(OtherFormats, AlteredBytesAreAPictureOrAnError) {
  std::mt19937 generator(5);
  const std::vector<Bytes> files{to_webp(make_pixels(16, 12, 3, 1), true), to_webp(make_pixels(16, 12, 3, 1), false),
                                 to_bmp(2, 2, {{0, 1}, {2, 3}}, {.bits = 8, .palette = {{1, 2, 3}, {4, 5, 6}}}),
                                 to_bmp(2, 2, {{0x00, 0x7C, 0xE0, 0x03}, {0x1F, 0x00, 0xFF, 0x7F}}, {.bits = 16})};
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    Bytes bytes = files[generator() % files.size()];
    for (unsigned k = 0; k <= generator() % 4; ++k)
      bytes[generator() % bytes.size()] = static_cast<std::byte>(generator());
    const auto error = error_of([&] {
      const auto decoder = open_picture(bytes, {.limits = {.pixels = 1 << 16, .working_bytes = 1 << 20}});
      const Extent extent = decoder->extent();
      decode(bytes, {0, 0, extent.width, extent.height}, 3, {.pixels = 1 << 16, .working_bytes = 1 << 20});
    });
    if (!error) continue;
    ++refused;
    ASSERT_EQ(error->kind(), ErrorKind::kDamaged) << error->what();
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace muster::data
