// Json by name alone, for headers that only mention it: the whole of it (json.h) takes a second to compile, in every
// program that includes such a header.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace muster {

using Json = nlohmann::ordered_json;  // as in json.h

}  // namespace muster
