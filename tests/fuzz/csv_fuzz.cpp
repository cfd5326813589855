// Any bytes, compressed or not, in UTF-8 or Latin-1, are a table whose columns have its number of rows, or a
// muster::Error; skipping bad rows changes only whether there is one. A table can be read like itself.
// The first byte says how the others are read: one way an input, so that mutation sees what each is good for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/csv_reader.h"
#include "muster/data/latin1.h"
#include "muster/data/table_dataset.h"

namespace {

// A small buffer, so that records meet its end.
std::unique_ptr<muster::data::ByteReader> open(std::span<const std::byte> bytes, bool latin1) {
  auto reader = muster::data::ByteReader::of_memory(bytes, "fuzz");
  return latin1 ? muster::data::latin1_as_utf8(std::move(reader)) : std::move(reader);
}

void read(std::span<const std::byte> bytes, bool regression, bool skip, std::size_t buffer) {
  using namespace muster::data;
  try {
    BadSamples bad({.on_bad_sample = skip ? OnBadSample::kSkip : OnBadSample::kFail, .limit = 1000});
    TableOptions options;
    options.regression = regression;
    options.latin1 = regression;
    options.decimal = regression ? ',' : '.';
    const char delimiter = regression ? ';' : ',';
    CsvReader reader(open(bytes, options.latin1), "fuzz", delimiter, buffer);
    Table table = read_table(reader, options, bad);
    for (std::uint64_t row = 1; row < table.rows; ++row) {
      if (table.line_of(row) <= table.line_of(row - 1)) std::abort();
    }
    CsvReader again(open(bytes, options.latin1), "fuzz", delimiter, buffer);
    const Table same = read_table(again, options, bad, &table);
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      if (same.rows != table.rows || same.columns[c].unknown != 0) std::abort();
    }
    for (const Column& column : table.columns) {
      if (column.kind != ColumnKind::kIgnored && column.values.size() != table.rows) std::abort();
    }
    const auto scales = measure(table, std::vector<bool>(table.rows, true), options);
    const TableDataset dataset(std::move(table), scales, options);
    std::vector<float> features(dataset.spec().elements());
    std::int64_t label = 0;
    float value = 0;
    for (std::uint64_t id = 0; id < dataset.size(); ++id) {
      dataset.read_sample(id, {.features = features, .labels = std::span(&label, 1), .values = std::span(&value, 1)});
      if (!regression && (label < 0 || label >= dataset.spec().classes)) std::abort();
    }
  } catch (const muster::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 3) {
    case 0:
      read(bytes, false, false, 1);
      break;
    case 1:
      read(bytes, false, true, 4096);
      break;
    default:
      read(bytes, true, true, 37);
  }
  return 0;
}
