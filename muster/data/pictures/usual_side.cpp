// How large pictures are, for `muster init`: the median over a sample of them, since a few odd ones are in every
// folder. Those that cannot be read do not count here; whoever reads all of them says which they are.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/data/picture_parts.h"
#include "muster/data/pictures/decoder.h"
#include "muster/data/read_file.h"

namespace muster::data {

std::int64_t usual_side(std::span<const std::filesystem::path> pictures) {
  constexpr std::size_t kLookedAt = 64;
  constexpr std::int64_t kLeast = 32;
  constexpr std::int64_t kMost = 224;
  std::vector<std::int64_t> sides;
  const std::size_t step = std::max<std::size_t>(1, pictures.size() / kLookedAt);
  for (std::size_t i = 0; i < pictures.size(); i += step) {
    try {
      const std::vector<std::byte> bytes = read_file(open_for_reading(pictures[i]), pictures[i]);
      const Extent extent = open_picture(bytes, {.where = pictures[i].string()})->extent();
      sides.push_back(std::min(extent.width, extent.height));
    } catch (const Error&) {
      continue;  // whoever reads all of them says which are bad
    }
  }
  if (sides.empty()) return kMost;
  std::nth_element(sides.begin(), sides.begin() + static_cast<std::ptrdiff_t>(sides.size() / 2), sides.end());
  return std::clamp((sides[sides.size() / 2] + 15) / 16 * 16, kLeast, kMost);
}

}  // namespace muster::data
