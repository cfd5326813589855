// What the encoder writes, libpng reads; samples are where they should be.
#include "muster/data/pictures/picture_sheet.h"

#include <gmock/gmock.h>

#include "support.h"
#include "support/picture_files.h"

namespace muster::data {
namespace {

// Sample i is a {1, 2, 3} picture of the value i / 10 (+ 0.05 (epoch + 1) in training), but for its first pixel, 0.
class Flat final : public Dataset {
 public:
  std::uint64_t size() const override { return 5; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override {
    std::fill(features.begin(), features.end(), static_cast<float>(id) / 10);
    features[0] = 0;
    return 0;
  }
  std::int64_t read_in_epoch(std::uint64_t id, std::uint64_t epoch, std::span<float> features) const override {
    read(id, features);
    for (float& value : features.subspan(1))
      value += 0.05F * static_cast<float>(epoch + 1);
    return 0;
  }

 private:
  SampleSpec spec_{.shape = {1, 2, 3}, .classes = 2};
};

const Normalization kUnit{.mean = {0}, .stddev = {1}};

std::vector<std::uint8_t> decode(const std::string& png, Extent* extent, int channels) {
  const auto decoder = open_picture(std::as_bytes(std::span(png)), {.channels = channels});
  *extent = decoder->extent();
  decoder->start({0, 0, extent->width, extent->height}, *extent);
  const std::size_t stride = std::size_t{extent->width} * static_cast<unsigned>(channels);
  std::vector<std::uint8_t> pixels(stride * extent->height);
  for (std::size_t y = 0; y < extent->height; ++y)
    decoder->read_row(std::span(pixels).subspan(y * stride, stride));
  decoder->finish();
  return pixels;
}

TEST(EncodePng, LibpngReadsWhatWasWritten) {
  for (const int channels : {1, 3}) {
    for (const Extent& extent : {Extent{1, 1}, Extent{7, 5}, Extent{300, 2}}) {
      const auto pixels = ::muster::testing::make_pixels(extent.width, extent.height, channels, 1).values;
      Extent read;
      EXPECT_EQ(decode(encode_png(extent, channels, pixels), &read, channels), pixels);
      EXPECT_EQ(read, extent);
    }
  }
}

TEST(PictureSheet, HoldsTheSamplesInRows) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "sheet.png";
  write_picture_sheet(Flat(), path, {.samples = 5, .columns = 2, .normalization = kUnit});
  Extent extent;
  const auto pixels = decode(::muster::testing::slurp(path), &extent, 1);
  ASSERT_EQ(extent, (Extent{2 * 5 + 2, 3 * 4 + 2}));
  const auto at = [&](std::uint32_t x, std::uint32_t y) { return static_cast<int>(pixels[y * extent.width + x]); };
  EXPECT_EQ(at(0, 0), 128) << "the gap";
  EXPECT_EQ(at(2, 2), 0);
  EXPECT_EQ(at(7, 2), 0) << "the first pixel of the second sample";
  EXPECT_EQ(at(8, 2), 26) << "0.1";
  EXPECT_EQ(at(3, 11), 102) << "the last sample: 0.4";
}

TEST(PictureSheet, ShowsWhatTrainingSeesBesideIt) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "sheet.png";
  write_picture_sheet(Flat(), path, {.samples = 2, .epochs = 3, .normalization = kUnit});
  Extent extent;
  const auto pixels = decode(::muster::testing::slurp(path), &extent, 1);
  ASSERT_EQ(extent, (Extent{4 * 5 + 2, 2 * 4 + 2}));
  std::vector<int> row;
  for (std::uint32_t column = 0; column < 4; ++column)
    row.push_back(pixels[6 * extent.width + 2 + 5 * column + 1]);
  EXPECT_THAT(row, ::testing::ElementsAre(51, 64, 77, 89)) << "sample 2: 0.2, then 0.05 more an epoch";
}

TEST(PictureSheet, WithoutStatisticsValuesAreStretched) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "sheet.png";
  write_picture_sheet(Flat(), path, {.samples = 5, .columns = 5});
  Extent extent;
  const auto pixels = decode(::muster::testing::slurp(path), &extent, 1);
  EXPECT_EQ(pixels[2 * extent.width + 8], 255) << "the largest of its sample";
}

TEST(PictureSheet, WhatCannotBeDrawnIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "sheet.png";
  class Wide final : public Dataset {
   public:
    std::uint64_t size() const override { return 10; }
    const SampleSpec& spec() const override { return spec_; }
    std::int64_t read(std::uint64_t, std::span<float>) const override { return 0; }

   private:
    SampleSpec spec_{.shape = {3, 1 << 20, 1 << 20}, .classes = 2};
  };
  const Wide wide;
  EXPECT_EQ(error_of([&] { write_picture_sheet(wide, path, {}); })->kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(error_of([&] { write_picture_sheet(Flat(), path, {.samples = 0}); })->kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(error_of([&] { write_picture_sheet(Counting(3), path, {}); })->kind(), ErrorKind::kUnsupported);
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace muster::data
