// Every altered and every missing byte of a saved table is noticed; what is loaded goes on with the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/strategies/parameter_server/sparse_table.h"

namespace muster::strategies {
namespace {

using Bytes = std::vector<std::byte>;

// Offsets in the header: sparse_table_save.cpp.
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kRowsAt = 40;
constexpr std::size_t kCandidatesAt = 48;
constexpr std::size_t kHeaderBytes = 80;

TableOptions table_options(SparseOptimizer optimizer = SparseOptimizer::kAdam) {
  TableOptions options;
  options.name = "words";
  options.width = 3;
  options.optimizer = optimizer;
  options.admit_after = 2;
  options.evict_after = 100;
  return options;
}

void push_steps(SparseTable& table, std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t step = first; step < first + count; ++step) {
    RandomStream random({.seed = 5, .step = step});
    std::vector<std::int64_t> keys(8);
    for (std::int64_t& key : keys)
      key = static_cast<std::int64_t>(random.below(40)) - 20;
    std::vector<float> gradients(keys.size() * table.options().width);
    for (float& value : gradients)
      value = static_cast<float>(random.normal());
    table.push(keys, gradients, {0.1, step});
  }
}

SparseTable trained_table(SparseOptimizer optimizer = SparseOptimizer::kAdam) {
  SparseTable table(table_options(optimizer));
  push_steps(table, 1, 5);
  return table;
}

void seal(Bytes& bytes) {
  const std::uint32_t crc = crc32c(std::span(bytes).first(bytes.size() - 8));
  std::memcpy(bytes.data() + bytes.size() - 8, &crc, sizeof crc);
}

// What load() says about the bytes; nothing when it takes them.
std::optional<ErrorKind> refusal(const Bytes& bytes, const TableOptions& options = table_options()) {
  try {
    SparseTable::load(options, bytes);
  } catch (const Error& error) {
    return error.kind();
  }
  return std::nullopt;
}

template <typename T>
Bytes altered(Bytes bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  seal(bytes);
  return bytes;
}

TEST(SparseTableSave, ALoadedTableGoesOnWithTheSameBits) {
  for (const auto optimizer : {SparseOptimizer::kSgd, SparseOptimizer::kAdaGrad, SparseOptimizer::kAdam}) {
    SparseTable table = trained_table(optimizer);
    const Bytes bytes = table.save();
    ASSERT_GT(table.counts().rows, 0u);
    ASSERT_GT(table.counts().candidates, 0u);
    SparseTable loaded = SparseTable::load(table.options(), bytes);
    EXPECT_EQ(loaded.save(), bytes);
    EXPECT_EQ(loaded.counts().refused, table.counts().refused);
    push_steps(table, 6, 150);
    push_steps(loaded, 6, 150);
    table.evict(160);
    loaded.evict(160);
    EXPECT_EQ(loaded.save(), table.save());
  }
}

TEST(SparseTableSave, TheBytesDoNotDependOnTheOrderOfKeys) {
  TableOptions options = table_options();
  options.admit_after = 1;
  std::vector<std::int64_t> keys(500);
  for (std::size_t i = 0; i < keys.size(); ++i)
    keys[i] = static_cast<std::int64_t>(i * i) - 1000;
  const std::vector<float> gradients(keys.size() * options.width, 1.0f);
  SparseTable forward(options);
  forward.push(keys, gradients, {0.1, 1});
  std::reverse(keys.begin(), keys.end());
  SparseTable backward(options);
  for (const std::int64_t key : keys)  // one by one: the index grows at other times
    backward.push(std::span(&key, 1), std::span(gradients).first(options.width), {0.1, 1});
  EXPECT_EQ(forward.save(), backward.save());
}

TEST(SparseTableSave, AnEmptyTableIsSavedToo) {
  const SparseTable table(table_options());
  EXPECT_EQ(SparseTable::load(table_options(), table.save()).counts().rows, 0u);
}

TEST(SparseTableSave, EveryAlteredByteIsNoticed) {
  const Bytes bytes = trained_table().save();
  RandomStream random({.seed = 1});
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    Bytes damaged = bytes;
    damaged[at] ^= static_cast<std::byte>(1 + random.below(255));
    ASSERT_EQ(refusal(damaged), ErrorKind::kDamaged) << "byte " << at;
  }
}

TEST(SparseTableSave, EveryCutIsNoticed) {
  const Bytes bytes = trained_table().save();
  for (std::size_t size = 0; size < bytes.size(); ++size)
    ASSERT_EQ(refusal(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size))), ErrorKind::kDamaged);
  Bytes longer = bytes;
  longer.resize(bytes.size() + 8);
  EXPECT_EQ(refusal(longer), ErrorKind::kDamaged);
}

TEST(SparseTableSave, AlteredBytesWithARightChecksumAreRefusedOrAnotherTable) {
  const Bytes bytes = trained_table().save();
  RandomStream random({.seed = 2});
  int taken = 0;
  for (int turn = 0; turn < 3000; ++turn) {
    Bytes mutant = bytes;
    const std::size_t reach = turn % 2 == 0 ? kHeaderBytes : bytes.size() - 8;
    for (std::uint64_t changes = 1 + random.below(3); changes > 0; --changes)
      mutant[random.below(reach)] = static_cast<std::byte>(random.below(256));
    seal(mutant);
    if (refusal(mutant)) continue;
    ++taken;
    ASSERT_EQ(SparseTable::load(table_options(), mutant).save(), mutant);
  }
  EXPECT_GT(taken, 100);
}

TEST(SparseTableSave, ImpossibleContentsAreRefused) {
  const SparseTable table = trained_table();
  const Bytes bytes = table.save();
  const std::size_t row_bytes = 24 + 9 * sizeof(float);
  const std::size_t candidates_at = kHeaderBytes + table.counts().rows * row_bytes;
  std::int64_t first_key = 0;
  std::memcpy(&first_key, bytes.data() + kHeaderBytes, sizeof first_key);
  for (const std::uint64_t rows : {std::uint64_t{0}, table.counts().rows + 1, std::uint64_t{1} << 31,
                                   std::uint64_t{1} << 32, std::uint64_t{1} << 61, ~std::uint64_t{0}}) {
    EXPECT_EQ(refusal(altered(bytes, kRowsAt, rows)), ErrorKind::kDamaged) << rows;
    EXPECT_EQ(refusal(altered(bytes, kCandidatesAt, rows == 0 ? 1000 : rows)), ErrorKind::kDamaged) << rows;
  }
  EXPECT_EQ(refusal(altered(bytes, kHeaderBytes + row_bytes, first_key)), ErrorKind::kDamaged);  // a key twice
  EXPECT_EQ(refusal(altered(bytes, candidates_at, first_key)), ErrorKind::kDamaged);  // a candidate that has a row
  EXPECT_EQ(refusal(altered(bytes, candidates_at + 8, std::uint32_t{1})), ErrorKind::kDamaged);  // never pushed
  EXPECT_EQ(refusal(altered(bytes, candidates_at + 12, std::uint32_t{1})), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(altered(bytes, kVersionAt, std::uint32_t{2})), ErrorKind::kUnsupported);
  EXPECT_EQ(refusal(bytes), std::nullopt);
}

TEST(SparseTableSave, TablesOfOtherOptionsAreRefused) {
  const Bytes bytes = trained_table().save();
  const auto with = [&](const std::function<void(TableOptions&)>& change) {
    TableOptions options = table_options();
    change(options);
    return refusal(bytes, options);
  };
  EXPECT_EQ(with([](TableOptions& o) { o.width = 4; }), ErrorKind::kMismatch);
  EXPECT_EQ(with([](TableOptions& o) { o.optimizer = SparseOptimizer::kSgd; }), ErrorKind::kMismatch);
  EXPECT_EQ(with([](TableOptions& o) { o.seed = 1; }), ErrorKind::kMismatch);
  EXPECT_EQ(with([](TableOptions& o) { o.name = "others"; }), ErrorKind::kMismatch);
  EXPECT_EQ(with([](TableOptions& o) { o.init_scale = 1; }), ErrorKind::kMismatch);
  EXPECT_EQ(with([](TableOptions& o) { o.admit_after = 1; }), std::nullopt);  // may change from run to run
}

}  // namespace
}  // namespace muster::strategies
