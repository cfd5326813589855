// Any bytes are UTF-8 whose code points are tokens below the vocabulary, or a muster::Error. And a number, or none.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "muster/base/error.h"
#include "muster/data/number.h"
#include "muster/data/text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::data;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  parse_float(text);
  try {
    const auto points = decode_utf8(text, "fuzz");
    // A far character makes a table of megabytes: a few of those inputs are enough.
    const bool far = std::any_of(points.begin(), points.end(), [](char32_t point) { return point > 0x2FFF; });
    if (far && size % 16 != 0) return 0;
    const auto tokens = std::make_shared<Tokens>(points, points.size() / 2);
    for (std::uint64_t i = 0; i < tokens->size(); ++i) {
      if ((*tokens)[i] < 0 || (*tokens)[i] >= tokens->vocabulary()) std::abort();
    }
  } catch (const muster::Error&) {
  }
  return 0;
}
