// Two records describe each member, one before its content and one in the directory; describe() writes what they have
// in common, so that they cannot disagree.
#include "muster/base/zip_writer.h"

#include <zlib.h>

#include "muster/base/check.h"

namespace muster {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kFieldLimit = 0xFFFFFFFF;  // in a field: the number stands in the zip64 extra field
constexpr std::uint16_t kZip64 = 1;
constexpr std::uint16_t kPadding = 0x4246;  // the extra field that PyTorch pads with
constexpr std::uint16_t kVersion = 45;      // of the format: the first with zip64
constexpr std::uint16_t kFirstDay = 0x21;   // 1980-01-01

// Little-endian fields in a row.
class Record {
 public:
  Record& u16(std::uint64_t value) { return number(value, 2); }
  Record& u32(std::uint64_t value) { return number(value, 4); }
  Record& u64(std::uint64_t value) { return number(value, 8); }
  Record& text(const std::string& value) {
    const auto bytes = std::as_bytes(std::span(value));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Record& append(const Record& other) {
    bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
    return *this;
  }
  Record& zeros(std::uint64_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  std::size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  Record& number(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i)
      bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    return *this;
  }
  std::vector<std::byte> bytes_;
};

std::uint64_t field(std::uint64_t value) {
  return value >= kFieldLimit ? kFieldLimit : value;
}

// From the flags to the lengths of name and extra field, as member and directory have them.
void describe(Record& record, std::uint32_t crc, std::uint64_t size, std::size_t name, std::size_t extra) {
  constexpr std::uint16_t kUtf8 = 1 << 11;
  constexpr std::uint16_t kStored = 0;
  record.u16(kUtf8).u16(kStored).u16(0).u16(kFirstDay).u32(crc);
  record.u32(field(size)).u32(field(size)).u16(name).u16(extra);
}

}  // namespace

void ZipWriter::emit(std::span<const std::byte> bytes) {
  sink_(bytes);
  position_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> contents) {
  MUSTER_CHECK(name.size() <= 0xFFFF, "a member's name is too long");
  Entry entry;
  entry.name = name;
  entry.header = position_;
  entry.size = contents.size();
  entry.crc =
      static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(contents.data()), contents.size()));
  Record extra;
  if (entry.size >= kFieldLimit) extra.u16(kZip64).u16(16).u64(entry.size).u64(entry.size);
  constexpr std::uint64_t kFixedBytes = 30;
  const std::uint64_t begin = position_ + kFixedBytes + name.size() + extra.size() + 4;
  const std::uint64_t padding = (kAlignment - begin % kAlignment) % kAlignment;
  extra.u16(kPadding).u16(padding).zeros(padding);
  Record header;
  header.u32(0x04034B50).u16(kVersion);
  describe(header, entry.crc, entry.size, name.size(), extra.size());
  header.text(name).append(extra);
  emit(header.bytes());
  emit(contents);
  entries_.push_back(std::move(entry));
}

void ZipWriter::finish() {
  const std::uint64_t directory = position_;
  for (const Entry& entry : entries_) {
    Record numbers;  // those that need 64 bits, in the format's order
    if (entry.size >= kFieldLimit) numbers.u64(entry.size).u64(entry.size);
    if (entry.header >= kFieldLimit) numbers.u64(entry.header);
    Record extra;
    if (numbers.size() > 0) extra.u16(kZip64).u16(numbers.size()).append(numbers);
    Record record;
    record.u32(0x02014B50).u16(kVersion).u16(kVersion);
    describe(record, entry.crc, entry.size, entry.name.size(), extra.size());
    record.u16(0).u16(0).u16(0).u32(0).u32(field(entry.header)).text(entry.name).append(extra);
    emit(record.bytes());
  }
  const std::uint64_t directory_bytes = position_ - directory;
  const std::uint64_t count = entries_.size();
  Record end;
  if (count >= 0xFFFF || directory + directory_bytes >= kFieldLimit) {
    end.u32(0x06064B50).u64(44).u16(kVersion).u16(kVersion).u32(0).u32(0);
    end.u64(count).u64(count).u64(directory_bytes).u64(directory);
    end.u32(0x07064B50).u32(0).u64(position_).u32(1);
  }
  const std::uint64_t shown = count >= 0xFFFF ? 0xFFFF : count;
  end.u32(0x06054B50).u16(0).u16(0).u16(shown).u16(shown).u32(field(directory_bytes)).u32(field(directory)).u16(0);
  emit(end.bytes());
}

}  // namespace muster
