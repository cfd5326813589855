// Numbers of things, as people write them: "1 row", "2 rows". For nouns whose plural is an s more.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

inline std::string counted(std::uint64_t number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

}  // namespace muster
