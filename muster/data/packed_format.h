// The packed format: a data set as shards of records of one size, for reading any sample with one request to the disk.
// docs/packed-format.md is its page.
//
// A shard: the magic "MUSTERPK", version, length and CRC-32C of a JSON header, the header, zeros up to a multiple of
// 4,096 bytes, then the records. A record: the target, the input, a CRC-32C of both. Everything is little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/dataset.h"

namespace muster::data {

// How an element of the input (and of token targets) is stored.
enum class PackedElement { kU8, kU16, kU32, kF32 };
std::string_view to_string(PackedElement element);
std::uint64_t bytes_of(PackedElement element);

// What the shards of a set have in common.
struct PackedLayout {
  SampleSpec spec = {};
  PackedElement element = PackedElement::kF32;
  // Of floats stored as bytes: byte x of channel c is the float x * scale[c] + shift[c]. Empty for all others.
  std::vector<float> scale = {};
  std::vector<float> shift = {};

  std::uint64_t target_bytes() const;
  std::uint64_t record_bytes() const;
};

struct PackedHeader {
  PackedLayout layout = {};
  std::uint64_t shard = 0;    // this one, of
  std::uint64_t shards = 1;   // so many
  std::uint64_t first = 0;    // sample of the set that is its first record
  std::uint64_t count = 0;    // records
  std::uint64_t samples = 0;  // of the whole set
  std::uint64_t data_offset = 0;
};

// The longest header that is read. The names of more than 100,000 classes are not stored.
inline constexpr std::uint64_t kMostPackedHeader = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kPackedPreamble = 24;

// Everything before the records. Sets `data_offset`.
std::string packed_front(PackedHeader& header);

// The length of the JSON header of a shard whose first 24 bytes these are. Throws kDamaged with `where`.
std::uint64_t packed_json_bytes(std::span<const std::byte> preamble, const std::string& where);

// Parses the front of a shard of `file_bytes` bytes: the preamble and as many bytes of JSON as packed_json_bytes says.
// Throws kDamaged: checksum, a header that contradicts itself, another file size than the records need. Throws
// kUnsupported for a version that is not read.
PackedHeader parse_packed_front(std::span<const std::byte> front, std::uint64_t file_bytes, const std::string& where);

// "train-00003-of-00016.pack".
std::string shard_name(std::string_view set, std::uint64_t shard, std::uint64_t shards);

// One sample as a record, without its checksum behind it, or back. encode returns false if a byte cannot stand for a
// float of the sample exactly (if it may be rounded: not within half a level); `record` is then unspecified.
// REQUIRES: record.size() == record_bytes(); room as the spec says.
bool encode_record(const PackedLayout& layout, const SampleRoom& sample, std::span<std::byte> record,
                   bool round = false);
// Throws kDamaged with `where` if the checksum is another one.
void decode_record(const PackedLayout& layout, std::span<const std::byte> record, const SampleRoom& sample,
                   const std::string& where);
// Of a record of floats with a class or values, in its three parts: the floats are in `sample` already. Throws as
// decode_record.
void check_float_record(std::span<const std::byte> target, const SampleRoom& sample,
                        std::span<const std::byte, 4> checksum);

}  // namespace muster::data
