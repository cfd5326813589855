// Windows in pixels of the file, before it is decoded: the decoder then leaves out what is not in them. Pure functions;
// the random one takes its numbers from the sample's own stream.
#include "muster/data/pictures/crop.h"

#include <algorithm>
#include <cmath>

namespace muster::data {
namespace {

std::uint32_t pixels(double length, std::uint32_t most) {
  return static_cast<std::uint32_t>(std::clamp(std::round(length), 1.0, static_cast<double>(most)));
}

}  // namespace

Window centre_window(const Extent& picture, const Extent& wanted, double part) {
  const double unit =
      std::min(static_cast<double>(picture.width) / wanted.width, static_cast<double>(picture.height) / wanted.height) *
      part;
  Window window;
  window.width = pixels(wanted.width * unit, picture.width);
  window.height = pixels(wanted.height * unit, picture.height);
  window.x = (picture.width - window.width) / 2;
  window.y = (picture.height - window.height) / 2;
  return window;
}

Window random_window(const Extent& picture, const Extent& wanted, const RandomWindow& options, RandomStream& draws) {
  constexpr int kTries = 10;
  const double area = static_cast<double>(picture.width) * picture.height;
  const double proportion = static_cast<double>(wanted.width) / wanted.height;
  const double stretch = std::log(options.most_stretch);
  for (int i = 0; i < kTries; ++i) {
    const double part = options.least_area + (1 - options.least_area) * draws.uniform();
    const double ratio = proportion * std::exp(stretch * (2 * draws.uniform() - 1));
    const double width = std::round(std::sqrt(area * part * ratio));
    const double height = std::round(std::sqrt(area * part / ratio));
    if (width < 1 || height < 1 || width > picture.width || height > picture.height) continue;
    Window window{.width = static_cast<std::uint32_t>(width), .height = static_cast<std::uint32_t>(height)};
    window.x = static_cast<std::uint32_t>(draws.below(picture.width - window.width + 1));
    window.y = static_cast<std::uint32_t>(draws.below(picture.height - window.height + 1));
    return window;
  }
  return centre_window(picture, wanted, 1);
}

}  // namespace muster::data
