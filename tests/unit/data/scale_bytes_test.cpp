// The vector loop against the formula, for every byte at every place of a block.
#include "muster/data/scale_bytes.h"

#include <gtest/gtest.h>

#include <vector>

namespace muster::data {
namespace {

TEST(ScaleBytes, IsTheFormulaForEveryByteAtEveryPlace) {
  for (std::size_t count = 0; count < 70; ++count) {
    std::vector<std::uint8_t> bytes(count + 1);  // read from an odd place
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(37 * i + 11 * count);
    std::vector<float> floats(count + 1, -1);
    scale_bytes(std::span(bytes).subspan(1), 0.0123F, -0.456F, std::span(floats).first(count));
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(floats[i], static_cast<float>(bytes[i + 1]) * 0.0123F + -0.456F) << i << " of " << count;
    EXPECT_EQ(floats[count], -1) << "not beyond its end";
  }
}

}  // namespace
}  // namespace muster::data
