// A sample is one pread at a computed place. Buffers belong to the reading thread, because allocating one for every
// record would cost more than reading it.
#include "muster/data/packed_dataset.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::data {
namespace {

// The number of shards that the set's files in the folder speak of, 0 if there are none. A folder may hold one set of a
// name only.
std::uint64_t count_shards(const std::filesystem::path& folder, const std::string& set) {
  std::uint64_t shards = 0;
  const std::string prefix = set + "-";
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    const std::string name = entry.path().filename().string();
    const std::size_t of = name.rfind("-of-");
    if (!name.starts_with(prefix) || !name.ends_with(".pack") || of == std::string::npos) continue;
    std::uint64_t count = 0;
    const char* const digits = name.data() + of + 4;
    if (std::from_chars(digits, name.data() + name.size(), count).ec != std::errc() || count == 0) continue;
    if (shards != 0 && shards != count) {
      throw Error(ErrorKind::kMismatch, fmt::format("holds shards of two sets: of {} and of {}", shards, count),
                  folder.string(), "Pack into an empty folder.");
    }
    shards = count;
  }
  return shards;
}

bool same_layout(const PackedLayout& a, const PackedLayout& b) {
  return a.spec.shape == b.spec.shape && a.spec.classes == b.spec.classes && a.spec.input == b.spec.input &&
         a.spec.target == b.spec.target && a.spec.target_shape == b.spec.target_shape &&
         a.spec.vocabulary == b.spec.vocabulary && a.spec.class_names == b.spec.class_names && a.element == b.element &&
         a.scale == b.scale && a.shift == b.shift;
}

}  // namespace

std::vector<std::byte> read_packed_front(const OpenFile& file, const std::filesystem::path& path) {
  std::vector<std::byte> front(kPackedPreamble);
  read_exactly(file, 0, front, path);
  front.resize(kPackedPreamble + packed_json_bytes(front, path.string()));
  read_exactly(file, 0, front, path);
  return front;
}

void PackedChain::add(const PackedHeader& header, std::uint64_t shards, const std::string& where) {
  const bool first = firsts_.empty();
  if (first) {
    layout_ = header.layout;
    samples_ = header.samples;
  }
  const bool last_ends = firsts_.size() + 1 < shards || header.first + header.count == header.samples;
  if (!same_layout(layout_, header.layout) || header.shard != firsts_.size() || header.shards != shards ||
      header.samples != samples_ || header.first != next_ || !last_ends) {
    throw Error(ErrorKind::kMismatch, "is of another packing than the shards before it", where,
                "Pack the data again into an empty folder.");
  }
  firsts_.push_back(header.first);
  next_ = header.first + header.count;
}

std::size_t PackedChain::shard_of(std::uint64_t id) const {
  MUSTER_CHECK(id < samples_, "sample id beyond the data set");
  // The last shard that begins at or before the sample; empty shards are never it.
  return static_cast<std::size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), id) - firsts_.begin()) - 1;
}

PackedDataset::PackedDataset(const std::filesystem::path& folder, const std::string& set) {
  const std::uint64_t shards = count_shards(folder, set);
  if (shards == 0) {
    throw Error(ErrorKind::kNotFound, fmt::format("holds no shard of the set \"{}\"", set), folder.string(),
                "Write it with: muster data pack SOURCE FOLDER.");
  }
  for (std::uint64_t i = 0; i < shards; ++i) {
    Shard shard;
    shard.path = folder / shard_name(set, i, shards);
    shard.file = open_for_reading(shard.path);
    const PackedHeader header =
        parse_packed_front(read_packed_front(shard.file, shard.path), shard.file.size, shard.path.string());
    chain_.add(header, shards, shard.path.string());
    record_bytes_ = layout().record_bytes();
    shard.first = header.first;
    shard.data_offset = header.data_offset;
    // Neighbours of a record are not read next: the kernel need not fetch them. A hint; it may fail.
    ::posix_fadvise(shard.file.descriptor.get(), 0, 0, POSIX_FADV_RANDOM);
    shards_.push_back(std::move(shard));
  }
}

bool PackedDataset::exists(const std::filesystem::path& folder, const std::string& set) {
  return count_shards(folder, set) > 0;
}

const PackedDataset::Shard& PackedDataset::shard_of(std::uint64_t id) const {
  return shards_[chain_.shard_of(id)];
}

std::uint64_t PackedDataset::offset_of(const Shard& shard, std::uint64_t id) const {
  return shard.data_offset + (id - shard.first) * record_bytes_;
}

std::int64_t PackedDataset::read(std::uint64_t id, std::span<float> features) const {
  std::int64_t label = 0;
  MUSTER_CHECK(spec().input == InputKind::kFloats && spec().target == TargetKind::kClass, "not floats with a class");
  read_sample(id, {.features = features, .labels = std::span(&label, 1)});
  return label;
}

void PackedDataset::read_record(const Shard& shard, std::uint64_t id, const SampleRoom& room) const {
  // A record is as large as a picture: to allocate it for every sample would cost more than to read it.
  thread_local std::vector<std::byte> record;
  const std::uint64_t offset = offset_of(shard, id);
  // Many floats go where they belong at once: to copy them costs as much as to read them.
  constexpr std::size_t kManyBytes = 32768;
  if (layout().element == PackedElement::kF32 && layout().spec.target != TargetKind::kTokens &&
      room.features.size_bytes() >= kManyBytes) {
    record.resize(layout().target_bytes());
    std::array<std::byte, 4> checksum{};
    read_exactly(shard.file, offset, record, shard.path);
    read_exactly(shard.file, offset + record.size(), std::as_writable_bytes(room.features), shard.path);
    read_exactly(shard.file, offset + record.size() + room.features.size_bytes(), checksum, shard.path);
    return check_float_record(record, room, checksum);
  }
  record.resize(record_bytes_);
  read_exactly(shard.file, offset, record, shard.path);
  decode_record(layout(), record, room, {});
}

void PackedDataset::read_sample(std::uint64_t id, const SampleRoom& room) const {
  const Shard& shard = shard_of(id);
  try {
    read_record(shard, id, room);
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), name(id));
  }
}

std::string PackedDataset::name(std::uint64_t id) const {
  const Shard& shard = shard_of(id);
  return fmt::format("{}: record {}", shard.path.string(), id - shard.first);
}

void PackedDataset::will_read(std::span<const std::uint64_t> ids) const {
  for (const std::uint64_t id : ids) {
    const Shard& shard = shard_of(id);
    ::posix_fadvise(shard.file.descriptor.get(), static_cast<off_t>(offset_of(shard, id)),
                    static_cast<off_t>(record_bytes_), POSIX_FADV_WILLNEED);
  }
}

}  // namespace muster::data
