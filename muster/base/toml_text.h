// What must hold of a text before the TOML parser sees it.
//
// The parser (toml11) recurses once per bracket and once per part of a dotted key, walks for each value along its line
// and through all comments above it, reads a number that is too large as the largest there is, and accepts bytes that
// are no text. A hostile file could so exhaust stack or time, and a mistyped one be read as something else. This is a
// single pass over the text that refuses all of that; what it lets through is bounded (under a second, a few MiB), but
// not yet valid TOML.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

constexpr std::size_t kLargestToml = 64 << 10;

// `text` without its comments; lines keep their numbers. Throws Error{kDamaged} over 64 KiB. Throws
// Error{kInvalidInput} with "name:line" for: broken UTF-8 and control characters; nesting deeper than 16; keys of more
// than 16 parts; more than 1,000 keys and tables or 4,000 elements; very many values on a very long line; texts and
// brackets that are not closed; escapes that are no character; numbers beyond 64 bits.
std::string checked_toml(std::string_view text, const std::string& name);

}  // namespace muster
