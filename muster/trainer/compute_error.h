// LibTorch reports its failures as exceptions of its own; here they become ours, with the lane.
#pragma once

#include <c10/util/Exception.h>

#include "muster/base/error.h"

namespace muster::trainer {

class Lane;

Error compute_error(const c10::Error& error, const Lane& lane);

}  // namespace muster::trainer
