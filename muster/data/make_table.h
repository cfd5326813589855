// A CSV table made from a seed, which a model can learn: for examples, tests and benchmarks without files of anybody's.
#pragma once

#include <cstdint>
#include <filesystem>

namespace muster::data {

struct MadeTable {
  std::uint64_t rows = 10000;
  std::uint64_t numeric = 12;     // columns x0, x1, ...
  std::uint64_t categorical = 3;  // columns c0, c1, ... of the colours red, green, blue and grey
  std::uint64_t classes = 3;      // of the last column, "class"; 0: a number to predict, "value"
  double missing = 0.01;          // part of the fields, the target's aside, that are empty
  std::uint64_t seed = 1;
};

// Writes the table, whole or not at all. Every row is a function of the seed and its number. Throws kInvalidInput (no
// columns, one class), kNotFound, kResource, kIo.
void make_table(const std::filesystem::path& path, const MadeTable& options);

}  // namespace muster::data
