// The saved form of a table. All numbers are little-endian.
//
//   header, 80 bytes    magic "MUSTROWS", u32 version (1), u32 width, u32 optimizer, u32 zero, u64 what initial rows
//                       depend on, f64 init_scale, u64 rows, u64 candidates, u64 evicted, u64 refused, u64 zero
//   rows                rows x (i64 key, u64 last step, f32 accumulator, u32 updates, f32 x width x (1, or 3 for Adam:
//                       parameters, first moments, second moments)), ascending by key
//   candidates          candidates x (i64 key, u32 pushes x 2 + 1 if there was one since the last eviction, u32 zero),
//                       ascending by key, none of which has a row
//   zeros               up to a multiple of 8 bytes
//   check, 8 bytes      u32 CRC-32C of everything before, u32 zero
//
// A table has one form: what load() takes is what save() gives of it.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/strategies/parameter_server/sparse_table.h"

namespace muster::strategies {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie in memory");

constexpr std::uint64_t kMagic = 0x53574F525453554D;  // "MUSTROWS"
constexpr std::uint32_t kVersion = 1;

struct Head {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t width = 0;
  SparseOptimizer optimizer = SparseOptimizer::kSgd;
  std::uint32_t zero = 0;
  std::uint64_t initial_key = 0;
  double init_scale = 0;
  std::uint64_t rows = 0;
  std::uint64_t candidates = 0;
  std::uint64_t evicted = 0;
  std::uint64_t refused = 0;
  std::uint64_t zero_too = 0;
};
static_assert(sizeof(Head) == 80);

struct Candidate {
  std::int64_t key = 0;
  std::uint32_t pushes = 0;
  std::uint32_t zero = 0;
};
static_assert(sizeof(Candidate) == 16);

struct Check {
  std::uint32_t crc = 0;
  std::uint32_t zero = 0;
};

// Where the parts begin.
struct Places {
  std::size_t rows, candidates, zeros, check, end;
};

Places places_of(std::uint64_t rows, std::size_t row_bytes, std::uint64_t candidates) {
  Places places{};
  places.rows = sizeof(Head);
  places.candidates = places.rows + rows * row_bytes;
  places.zeros = places.candidates + candidates * sizeof(Candidate);
  places.check = (places.zeros + 7) / 8 * 8;
  places.end = places.check + sizeof(Check);
  return places;
}

template <typename T>
T read(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <typename T>
void write(std::vector<std::byte>& bytes, std::size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

[[noreturn]] void fail(ErrorKind kind, const TableOptions& options, std::string message, std::string remedy) {
  throw Error(kind, std::move(message), fmt::format("saved embedding table '{}'", options.name), std::move(remedy));
}

[[noreturn]] void damaged(const TableOptions& options, std::string message) {
  fail(ErrorKind::kDamaged, options, std::move(message), "Use another checkpoint.");
}

void check_match(bool condition, const TableOptions& options, const char* what) {
  if (!condition)
    fail(ErrorKind::kMismatch, options, fmt::format("it was saved with another {}", what),
         "Resume with the options that the table was made with.");
}

// Everything but the contents of the parts.
Head read_head(const TableOptions& options, std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Head) + sizeof(Check) || bytes.size() % 8 != 0)
    damaged(options, fmt::format("{} bytes are no table", bytes.size()));
  const auto head = read<Head>(bytes, 0);
  if (head.magic != kMagic) damaged(options, "it does not begin as a table does");
  const auto check = read<Check>(bytes, bytes.size() - sizeof(Check));
  if (check.crc != crc32c(bytes.first(bytes.size() - sizeof(Check))) || check.zero != 0)
    damaged(options, "the checksum is wrong");
  if (head.version != kVersion)
    fail(ErrorKind::kUnsupported, options, fmt::format("version {} of the form", head.version),
         "Read it with the release that wrote it.");
  if (head.zero != 0 || head.zero_too != 0) damaged(options, "reserved fields are not zero");
  check_match(head.width == options.width, options, "width");
  check_match(head.optimizer == options.optimizer, options, "optimizer");
  check_match(std::bit_cast<std::uint64_t>(head.init_scale) == std::bit_cast<std::uint64_t>(options.init_scale),
              options, "init_scale");
  return head;
}

// Sizes that would not fit are found before they are multiplied.
Places check_places(const TableOptions& options, const Head& head, std::size_t row_bytes, std::size_t size) {
  const bool possible =
      head.rows <= size / row_bytes && head.rows < KeyIndex::kNone && head.candidates <= size / sizeof(Candidate);
  const Places places = possible ? places_of(head.rows, row_bytes, head.candidates) : Places{};
  if (places.end != size)
    damaged(options, fmt::format("{} bytes do not hold {} rows and {} candidates", size, head.rows, head.candidates));
  return places;
}

}  // namespace

std::vector<std::byte> SparseTable::save() const {
  const std::size_t row_bytes = sizeof(RowHead) + row_floats_ * sizeof(float);
  const Places places = places_of(rows_, row_bytes, candidates_.size());
  std::vector<std::byte> bytes(places.end);
  Head head;
  head.width = options_.width;
  head.optimizer = options_.optimizer;
  head.initial_key = initial_key_;
  head.init_scale = options_.init_scale;
  head.rows = rows_;
  head.candidates = candidates_.size();
  head.evicted = evicted_;
  head.refused = refused_;
  write(bytes, 0, head);

  std::vector<std::uint32_t> order(rows_);
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return row_at(a)->key < row_at(b)->key; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    RowHead* const row = row_at(order[i]);
    const std::size_t at = places.rows + i * row_bytes;
    write(bytes, at, *row);
    std::memcpy(bytes.data() + at + sizeof(RowHead), floats_of(row), row_floats_ * sizeof(float));
  }

  std::vector<Candidate> candidates;
  candidates.reserve(candidates_.size());
  candidates_.for_each([&](std::int64_t key, std::uint32_t pushes) { candidates.push_back({key, pushes, 0}); });
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) { return a.key < b.key; });
  for (std::size_t i = 0; i < candidates.size(); ++i)
    write(bytes, places.candidates + i * sizeof(Candidate), candidates[i]);

  write(bytes, places.check, Check{crc32c(std::span(bytes).first(places.check)), 0});
  return bytes;
}

SparseTable SparseTable::load(const TableOptions& options, std::span<const std::byte> bytes) {
  SparseTable table(options);
  const std::size_t row_bytes = sizeof(RowHead) + table.row_floats_ * sizeof(float);
  const Head head = read_head(options, bytes);
  check_match(head.initial_key == table.initial_key_, options, "seed or name");
  const Places places = check_places(options, head, row_bytes, bytes.size());
  for (std::size_t i = places.zeros; i < places.check; ++i) {
    if (bytes[i] != std::byte{0}) damaged(options, "bytes between its parts are not zero");
  }

  table.index_ = KeyIndex(head.rows);
  for (std::size_t i = 0; i < head.rows; ++i) {
    const std::size_t at = places.rows + i * row_bytes;
    const auto row_head = read<RowHead>(bytes, at);
    if (i > 0 && row_head.key <= read<RowHead>(bytes, at - row_bytes).key)
      damaged(options, fmt::format("keys are not in order at row {}", i));
    RowHead* const row = table.row_at(table.add_row(row_head.key));
    *row = row_head;
    std::memcpy(floats_of(row), bytes.data() + at + sizeof(RowHead), row_bytes - sizeof(RowHead));
  }

  table.candidates_ = KeyIndex(head.candidates);
  for (std::size_t i = 0; i < head.candidates; ++i) {
    const auto candidate = read<Candidate>(bytes, places.candidates + i * sizeof(Candidate));
    const bool ordered =
        i == 0 || candidate.key > read<Candidate>(bytes, places.candidates + (i - 1) * sizeof(Candidate)).key;
    const std::uint32_t pushes = candidate.pushes / 2;
    if (!ordered || candidate.zero != 0 || pushes == 0 || pushes > kMostAdmitAfter ||
        table.index_.find(candidate.key) != KeyIndex::kNone)
      damaged(options, fmt::format("candidate {} cannot be one", i));
    table.candidates_.insert(candidate.key, candidate.pushes);
  }
  table.evicted_ = head.evicted;
  table.refused_ = head.refused;
  return table;
}

}  // namespace muster::strategies
