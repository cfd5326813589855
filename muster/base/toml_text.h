// What must hold of a text before the TOML parser sees it.
//
// The parser (toml11) recurses once per bracket and once per part of a dotted key, needs some hundred bytes for every
// value, reads a number that is too large as the largest there is, and accepts bytes that are no text. A hostile file
// could so exhaust stack, memory or time, and a mistyped one be read as something else. This is a single pass over the
// text, in constant memory, that refuses all of that; what it lets through is bounded, but not yet valid TOML.
#pragma once

#include <string>
#include <string_view>

namespace muster {

// Throws Error{kDamaged} over 1 MiB. Throws Error{kInvalidInput} with "name:line" for: broken UTF-8 and control
// characters; nesting deeper than 16; keys of more than 16 parts; more than 1,000 keys and tables or 10,000 elements;
// texts and brackets that are not closed; numbers beyond 64 bits.
void check_toml_text(std::string_view text, const std::string& name);

}  // namespace muster
