// The version of Muster, as the build says it.
#pragma once

#include <string>

namespace muster {

std::string version();

}  // namespace muster
