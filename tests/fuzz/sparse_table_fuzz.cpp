// Any bytes as a saved embedding table give a table or a muster::Error, and a table that was taken is saved as the same
// bytes. The checksum is made right, which mutation alone would never find, and the first byte chooses the optimizer.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/strategies/parameter_server/sparse_table.h"

namespace {

using muster::strategies::SparseOptimizer;
using muster::strategies::SparseTable;
using muster::strategies::TableOptions;

constexpr std::size_t kHeaderBytes = 80;
constexpr std::size_t kCheckBytes = 8;

// The header, up to the counts, of a table that the options make.
std::vector<std::byte> header_of(const TableOptions& options) {
  SparseTable table(options);
  const std::vector<std::int64_t> keys{1, 2};
  const std::vector<float> gradients{1, 2, 3, 4};
  table.push(keys, gradients, {0.1, 1});
  table.push(std::span(keys).first(1), std::span(gradients).first(2), {0.1, 2});
  std::vector<std::byte> bytes = table.save();
  bytes.resize(40);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  TableOptions options;
  options.width = 2;
  options.admit_after = 2;
  options.optimizer = static_cast<SparseOptimizer>(data[0] % 3);
  const std::span<const std::byte> input = std::as_bytes(std::span(data + 1, size - 1));
  std::vector<std::byte> bytes(input.begin(), input.end());
  if (data[0] & 0x40) {  // counts and contents are the input's, behind a right header
    static std::map<SparseOptimizer, std::vector<std::byte>> headers;  // a table takes pages to make
    if (!headers.contains(options.optimizer)) headers[options.optimizer] = header_of(options);
    bytes = headers[options.optimizer];
    bytes.insert(bytes.end(), input.begin(), input.end());
  }
  if ((data[0] & 0x80) && bytes.size() >= kHeaderBytes + kCheckBytes) {
    const std::uint32_t crc = muster::crc32c(std::span(bytes).first(bytes.size() - kCheckBytes));
    std::memcpy(bytes.data() + bytes.size() - kCheckBytes, &crc, sizeof crc);
  }
  try {
    SparseTable table = SparseTable::load(options, bytes);
    if (table.save() != bytes) std::abort();
    table.evict(1);
    const std::vector<std::int64_t> keys{1, 2, 3};
    table.push(keys, std::vector<float>(6, 1.0f), {0.1, 3});
  } catch (const muster::Error&) {
  }
  return 0;
}
