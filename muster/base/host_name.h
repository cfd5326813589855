// What this machine calls itself: for people, never to tell machines apart.
#pragma once

#include <string>

namespace muster {

std::string host_name();

}  // namespace muster
