// Matching without recursion: on a mismatch it goes back to the last star only, so that no pattern of a user takes
// longer than its length times that of the name.
#include "muster/base/pattern.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster {

// Goes back to the last star only, which is enough and takes at most pattern x name steps.
bool fits(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*')
    ++p;
  return p == pattern.size();
}

bool fits_any(std::span<const std::string> patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) { return fits(pattern, name); });
}

NumberedPattern parse_numbered_pattern(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  NumberedPattern result;
  const char* const end = text.data() + text.size();
  if (equals != std::string::npos && equals > 0) {
    result.pattern = text.substr(0, equals);
    const auto read = std::from_chars(text.data() + equals + 1, end, result.number);
    if (read.ec == std::errc() && read.ptr == end && std::isfinite(result.number)) return result;
  }
  throw Error(ErrorKind::kInvalidInput, fmt::format("found \"{}\"", excerpt(text, 80)), {},
              "It is a pattern, an equals sign and a number: \"layer1.*=0.1\".");
}

void require_all_fit(std::span<const std::string> patterns, std::span<const std::string> names, std::string_view what) {
  for (const std::string& pattern : patterns) {
    if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return fits(pattern, name); })) continue;
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("\"{}\" fits no tensor of the model{}", excerpt(pattern, 80), did_you_mean(pattern, names)),
                std::string(what),
                names.empty() ? std::string() : fmt::format("Tensors are called {}, for example.", names.front()));
  }
}

}  // namespace muster
