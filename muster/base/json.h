// JSON from outside, with limits: what a damaged or hostile file can cost is bounded before it is paid.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace muster {

using Json = nlohmann::ordered_json;

// Parses one JSON value, in time linear in the text. Throws kDamaged with `where`: not JSON (with line and column), not
// UTF-8, nested deeper than 32, a member that stands twice in its object, more than 500,000 values.
Json parse_json(std::string_view text, const std::string& where);

// The member `key` of `object` as T. Throws kDamaged if it is missing or of another type.
template <typename T>
T json_get(const Json& object, const std::string& key, const std::string& where);

}  // namespace muster
