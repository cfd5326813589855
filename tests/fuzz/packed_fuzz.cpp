// Any bytes are the front of a packed shard, or a muster::Error; a record of a shard that is accepted can be decoded or
// is damaged. The header's checksum is put right first, or nothing behind it would ever be reached.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/data/packed_format.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::data;
  const auto input = std::as_bytes(std::span(data, size));
  std::vector<std::byte> file(input.begin(), input.end());
  try {
    const std::uint64_t length = packed_json_bytes(file, "fuzz");
    if (length <= file.size() - kPackedPreamble) {
      const std::uint32_t checksum = muster::crc32c(std::span(file).subspan(kPackedPreamble, length));
      std::memcpy(file.data() + 16, &checksum, sizeof checksum);
    }
    const PackedHeader header = parse_packed_front(file, file.size(), "fuzz");
    const PackedLayout& layout = header.layout;
    const SampleSpec& spec = layout.spec;
    const std::uint64_t record = layout.record_bytes();
    if (header.count == 0 || record > file.size()) return 0;
    std::vector<float> features(spec.input == InputKind::kFloats ? spec.elements() : 0);
    std::vector<std::int64_t> tokens(spec.input == InputKind::kTokens ? spec.elements() : 0);
    std::vector<std::int64_t> labels(spec.target != TargetKind::kValues ? spec.target_elements() : 0);
    std::vector<float> values(spec.target == TargetKind::kValues ? spec.target_elements() : 0);
    const auto bytes = std::span(file).subspan(header.data_offset, record);
    const std::uint32_t checksum = muster::crc32c(bytes.first(record - 4));
    std::memcpy(bytes.data() + record - 4, &checksum, sizeof checksum);
    decode_record(layout, bytes, {.features = features, .tokens = tokens, .labels = labels, .values = values}, "fuzz");
  } catch (const muster::Error&) {
  }
  return 0;
}
