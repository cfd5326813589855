// Patterns of names, as job files use them: "layer1.*", "*.bias", "fc?".
//
// A star stands for any characters, dots too, or none; a question mark for one. A pattern fits whole names. A list may
// give each pattern a number: "layer1.*=0.1". Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

bool fits(std::string_view pattern, std::string_view name);
bool fits_any(std::span<const std::string> patterns, std::string_view name);

struct NumberedPattern {
  std::string pattern;
  double number = 0;
};
// Of "PATTERN=NUMBER". Throws kInvalidInput for another form or a number that is not finite.
NumberedPattern parse_numbered_pattern(const std::string& text);

// Throws kInvalidInput naming `what` (a job's key) and a pattern that fits none of `names`, with the nearest name.
void require_all_fit(std::span<const std::string> patterns, std::span<const std::string> names, std::string_view what);

}  // namespace muster
