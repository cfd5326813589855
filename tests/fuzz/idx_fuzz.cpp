// Any bytes are an IDX array whose size is its extents' product, or a muster::Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "muster/base/error.h"
#include "muster/data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto array = muster::data::parse_idx(std::as_bytes(std::span(data, size)), "fuzz");
    std::uint64_t elements = 1;
    for (const std::uint64_t extent : array.extents)
      elements *= extent;
    if (array.values.size() != elements) std::abort();
  } catch (const muster::Error&) {
  }
  return 0;
}
