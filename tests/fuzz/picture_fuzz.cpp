// Any bytes are a picture whose window can be read, every value of it finite, or a muster::Error.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/data/pictures/crop.h"
#include "muster/data/pictures/decoder.h"
#include "muster/data/pictures/resize.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::data;
  // Small, so that time goes into the parser and not into large pictures.
  const PictureLimits limits{.pixels = 1 << 18, .working_bytes = 8 << 20};
  const std::size_t channels = size % 2 == 0 ? 3 : 1;
  const PictureFormat format{
      .extent = {9, 7}, .scale = std::vector<float>(channels, 1), .shift = std::vector<float>(channels, 0)};
  std::vector<float> out(channels * 63, -1);
  try {
    const auto decoder = open_picture(std::as_bytes(std::span(data, size)),
                                      {.channels = static_cast<int>(channels), .where = "fuzz", .limits = limits});
    muster::RandomStream draws({.seed = size});
    const Window window = random_window(decoder->extent(), format.extent, {.least_area = 0.001}, draws);
    read_resized(*decoder, window, format, out);
    for (const float value : out) {
      if (!(value >= -0.01F && value <= 255.01F)) std::abort();
    }
  } catch (const muster::Error&) {
  }
  return 0;
}
