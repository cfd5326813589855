// Which window of a picture is read: the middle for evaluation, a keyed random one for training.
#pragma once

#include "muster/base/random.h"
#include "muster/data/pictures/decoder.h"

namespace muster::data {

// The largest window in the middle with the proportions of `wanted`, times `part` each way (at least one pixel).
// REQUIRES: extents with pixels, 0 < part <= 1.
Window centre_window(const Extent& picture, const Extent& wanted, double part);

struct RandomWindow {
  double least_area = 0.08;       // of the picture's
  double most_stretch = 4.0 / 3;  // change of proportions, either way
};

// Random-resized crop: an area uniform in [least_area, 1] of the picture's and proportions log-uniform within
// most_stretch of those wanted, anywhere inside; drawn again (up to ten times) where it does not fit, and then the
// middle.
Window random_window(const Extent& picture, const Extent& wanted, const RandomWindow& options, RandomStream& draws);

}  // namespace muster::data
