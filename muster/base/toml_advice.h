// What to do about a line that is not TOML, for people who do not know its rules by heart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

// A sentence about line `line` (from 1) of `text`, at which a parser gave up; empty when there is no good guess.
std::string toml_advice(std::string_view text, std::uint64_t line);

}  // namespace muster
