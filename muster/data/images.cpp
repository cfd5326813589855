// Statistics in integers, exact whatever the order of the images: they are part of every sample's bits and of the model
// card.
#include "muster/data/images.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::data {
namespace {

__extension__ using Wide = unsigned __int128;

struct Sums {
  std::uint64_t values = 0;
  std::uint64_t squares = 0;
};

void add(Sums& sums, std::span<const std::uint8_t> pixels) {
  // 2^15 squares of a byte fit 32 bits, which lets the compiler use four times as many vector lanes as 64 would.
  constexpr std::size_t kBlock = std::size_t{1} << 15;
  while (!pixels.empty()) {
    const auto block = pixels.first(std::min(kBlock, pixels.size()));
    std::uint32_t values = 0;
    std::uint32_t squares = 0;
    for (const std::uint8_t pixel : block) {
      const std::uint32_t value = pixel;
      values += value;
      squares += value * value;
    }
    sums.values += values;
    sums.squares += squares;
    pixels = pixels.subspan(block.size());
  }
}

}  // namespace

Normalization measure(const Images& images) {
  MUSTER_CHECK(images.count() > 0, "no images to measure");
  const auto channels = static_cast<std::size_t>(images.channels);
  const auto plane = static_cast<std::size_t>(images.height * images.width);
  std::vector<Sums> sums(channels);
  for (std::size_t offset = 0, channel = 0; offset < images.pixels.size(); offset += plane) {
    add(sums[channel], std::span(images.pixels).subspan(offset, plane));
    channel = channel + 1 == channels ? 0 : channel + 1;
  }
  Normalization result;
  const std::uint64_t count = images.count() * plane;
  for (const Sums& sum : sums) {
    const double mean = static_cast<double>(sum.values) / static_cast<double>(count);
    // count^2 times the variance, without the cancellation that floating point would suffer.
    const Wide spread = Wide{count} * sum.squares - Wide{sum.values} * sum.values;
    const double stddev = std::sqrt(static_cast<double>(spread)) / static_cast<double>(count);
    result.mean.push_back(static_cast<float>(mean / 255.0));
    result.stddev.push_back(spread == 0 ? 1.0F : static_cast<float>(stddev / 255.0));
  }
  return result;
}

void validate(const Images& images) {
  if (images.channels <= 0 || images.height <= 0 || images.width <= 0) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("images of {} x {} x {} have no pixels", images.channels, images.height, images.width));
  }
  std::uint64_t pixels = images.count();
  bool overflow = false;
  for (const std::int64_t extent : {images.channels, images.height, images.width}) {
    overflow |= __builtin_mul_overflow(pixels, static_cast<std::uint64_t>(extent), &pixels);
  }
  if (overflow || pixels != images.pixels.size()) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} images of {} x {} x {} do not have {} pixels", images.count(), images.channels,
                            images.height, images.width, images.pixels.size()));
  }
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    if (images.labels[i] < 0 || images.labels[i] >= images.classes) {
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("image {} has label {}; there are {} classes", i, images.labels[i], images.classes));
    }
  }
}

void validate(const Normalization& normalization, std::int64_t channels) {
  const auto expected = static_cast<std::size_t>(channels);
  if (normalization.mean.size() != expected || normalization.stddev.size() != expected) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("normalization has {} means and {} standard deviations; the images have {} {}",
                            normalization.mean.size(), normalization.stddev.size(), channels,
                            channels == 1 ? "channel" : "channels"));
  }
  for (std::size_t c = 0; c < expected; ++c) {
    const float mean = normalization.mean[c];
    const float stddev = normalization.stddev[c];
    if (!std::isfinite(mean) || !std::isfinite(stddev) || stddev <= 0) {
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("normalization of channel {} is mean {}, standard deviation {}; both must be finite and "
                              "the deviation above 0",
                              c, mean, stddev));
    }
  }
}

}  // namespace muster::data
