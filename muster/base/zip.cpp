// Reads the directory at the end, then each member by it. Sizes in the archive are claims: they are held against the
// file's length before anything is allocated, and a member that unpacks to more than it promised is refused.
#include "muster/base/zip.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster {
namespace {

constexpr std::uint32_t kEndMagic = 0x06054B50;
constexpr std::uint32_t kEnd64Magic = 0x06064B50;
constexpr std::uint32_t kEnd64LocatorMagic = 0x07064B50;
constexpr std::uint32_t kDirectoryMagic = 0x02014B50;
constexpr std::uint32_t kMemberMagic = 0x04034B50;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64LocatorBytes = 20;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kDirectoryBytes = 46;
constexpr std::size_t kMemberBytes = 30;
constexpr std::uint32_t kInExtra = 0xFFFFFFFF;  // the field stands in the zip64 extra field instead
constexpr std::uint64_t kMostInflation = 1032;

// Little-endian fields at checked offsets.
class Fields {
 public:
  Fields(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  std::span<const std::byte> range(std::uint64_t offset, std::uint64_t length) const {
    if (offset > bytes_.size() || length > bytes_.size() - offset) refuse("a part lies beyond its end");
    return bytes_.subspan(offset, length);
  }
  std::uint64_t number(std::uint64_t offset, std::size_t width) const {
    const auto field = range(offset, width);
    std::uint64_t value = 0;
    for (std::size_t i = width; i-- > 0;)
      value = value << 8 | std::to_integer<std::uint64_t>(field[i]);
    return value;
  }
  std::uint16_t u16(std::uint64_t offset) const { return static_cast<std::uint16_t>(number(offset, 2)); }
  std::uint32_t u32(std::uint64_t offset) const { return static_cast<std::uint32_t>(number(offset, 4)); }
  std::uint64_t u64(std::uint64_t offset) const { return number(offset, 8); }
  std::uint64_t size() const { return bytes_.size(); }
  [[noreturn]] void refuse(std::string_view reason) const {
    throw Error(ErrorKind::kDamaged, fmt::format("is not a zip archive that can be read: {}", reason), where_);
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& where_;
};

std::uint64_t find_end(const Fields& fields) {
  constexpr std::uint64_t kLongestComment = 65535;
  if (fields.size() < kEndBytes) fields.refuse("it is too short");
  const std::uint64_t last = fields.size() - kEndBytes;
  for (std::uint64_t back = 0; back <= std::min(last, kLongestComment); ++back) {
    if (fields.u32(last - back) == kEndMagic && fields.u16(last - back + 20) == back) return last - back;
  }
  fields.refuse("its directory is not there");
}

// Sizes that do not fit 32 bits stand, in this order, in an extra field of their own.
void read_extra(const Fields& fields, std::uint64_t offset, std::uint64_t length, ZipMember& member,
                std::uint64_t& header) {
  constexpr std::uint16_t kZip64 = 1;
  const std::uint64_t end = offset + length;
  while (offset + 4 <= end) {
    const std::uint16_t id = fields.u16(offset);
    const std::uint64_t part_end = offset + 4 + fields.u16(offset + 2);
    if (part_end > end) fields.refuse("an extra field is longer than its room");
    if (id == kZip64) {
      offset += 4;
      for (std::uint64_t* value : {&member.size, &member.compressed, &header}) {
        if (*value != kInExtra) continue;
        if (offset + 8 > part_end) fields.refuse("a large size is missing");
        *value = fields.u64(offset);
        offset += 8;
      }
    }
    offset = part_end;
  }
}

std::string place_of(const ZipMember& member, const std::string& where) {
  return fmt::format("{}: {}", where, excerpt(member.name, 100));
}

void check_sum(std::span<const std::byte> bytes, const ZipMember& member, const std::string& where) {
  if (::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != member.crc) {
    throw Error(ErrorKind::kDamaged, "has another checksum than the archive's directory tells",
                place_of(member, where));
  }
}

[[noreturn]] void throw_not_as_told(const ZipMember& member, const std::string& where) {
  throw Error(ErrorKind::kDamaged, "does not decompress to what the archive's directory tells",
              place_of(member, where));
}

struct Unpacked {
  std::vector<std::byte> bytes;
  bool whole = false;  // nothing of the member is left, and it is as long as the directory tells
};

// The first bytes of a member, at most `most`; fewer where they do not decompress.
Unpacked unpack(std::span<const std::byte> archive, const ZipMember& member, std::uint64_t most,
                const std::string& where) {
  const auto packed = archive.subspan(member.offset, member.compressed);
  const std::uint64_t size = std::min(member.size, most);
  try {
    if (!member.deflated) {
      const auto front = packed.first(size);
      return {{front.begin(), front.end()}, size == packed.size()};
    }
    Unpacked unpacked;
    unpacked.bytes.resize(size);
    z_stream stream{};
    if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
    std::uint64_t in = 0;
    std::uint64_t out = 0;
    int result = Z_OK;
    while (result == Z_OK) {
      constexpr std::uint64_t kMost = std::numeric_limits<uInt>::max();
      // zlib promises not to write through next_in.
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + in));
      stream.avail_in = static_cast<uInt>(std::min<std::uint64_t>(kMost, packed.size() - in));
      stream.next_out = reinterpret_cast<Bytef*>(unpacked.bytes.data() + out);
      stream.avail_out = static_cast<uInt>(std::min<std::uint64_t>(kMost, size - out));
      result = ::inflate(&stream, Z_NO_FLUSH);
      in = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(stream.next_in) - packed.data());
      out = static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(stream.next_out) - unpacked.bytes.data());
    }
    ::inflateEnd(&stream);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    unpacked.whole = result == Z_STREAM_END && out == member.size;
    unpacked.bytes.resize(out);
    return unpacked;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kResource, fmt::format("its {} do not fit into memory", human_bytes(size)),
                place_of(member, where));
  }
}

ZipMember read_entry(const Fields& fields, std::uint64_t at, const std::string& where, std::uint64_t& next) {
  if (fields.u32(at) != kDirectoryMagic) fields.refuse("an entry of its directory is damaged");
  const std::uint16_t flags = fields.u16(at + 8);
  const std::uint16_t method = fields.u16(at + 10);
  const std::uint64_t name_length = fields.u16(at + 28);
  const std::uint64_t extra_length = fields.u16(at + 30);
  const std::uint64_t comment_length = fields.u16(at + 32);
  ZipMember member;
  member.crc = fields.u32(at + 16);
  member.compressed = fields.u32(at + 20);
  member.size = fields.u32(at + 24);
  std::uint64_t header = fields.u32(at + 42);
  const auto name = fields.range(at + kDirectoryBytes, name_length);
  member.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  fields.range(at + kDirectoryBytes + name_length, extra_length + comment_length);
  read_extra(fields, at + kDirectoryBytes + name_length, extra_length, member, header);
  next = at + kDirectoryBytes + name_length + extra_length + comment_length;
  constexpr std::uint16_t kEncrypted = 1;
  constexpr std::uint16_t kStored = 0;
  constexpr std::uint16_t kDeflated = 8;
  if ((flags & kEncrypted) != 0 || (method != kStored && method != kDeflated)) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("member \"{}\" is {}", excerpt(member.name, 100),
                            (flags & kEncrypted) != 0 ? "encrypted" : fmt::format("compressed by method {}", method)),
                where, "Write it again, stored or deflated and without a password.");
  }
  member.deflated = method == kDeflated;
  if (header > fields.size() || fields.u32(header) != kMemberMagic) fields.refuse("a member's header is damaged");
  member.offset = header + kMemberBytes + fields.u16(header + 26) + fields.u16(header + 28);
  fields.range(member.offset, member.compressed);
  // A directory that promises more than its bytes can become is a bomb, or damaged.
  if (member.deflated ? member.size / kMostInflation > member.compressed : member.size != member.compressed)
    fields.refuse("a member declares a size that its bytes cannot become");
  return member;
}

}  // namespace

std::vector<ZipMember> zip_members(std::span<const std::byte> archive, const std::string& where) {
  const Fields fields(archive, where);
  const std::uint64_t end = find_end(fields);
  std::uint64_t count = fields.u16(end + 10);
  std::uint64_t at = fields.u32(end + 16);
  if (end >= kEnd64LocatorBytes && fields.u32(end - kEnd64LocatorBytes) == kEnd64LocatorMagic) {
    const std::uint64_t end64 = fields.u64(end - kEnd64LocatorBytes + 8);
    fields.range(end64, kEnd64Bytes);
    if (fields.u32(end64) != kEnd64Magic) fields.refuse("its directory is damaged");
    count = fields.u64(end64 + 32);
    at = fields.u64(end64 + 48);
  }
  if (count > fields.size() / kDirectoryBytes) fields.refuse("it declares more members than it has room for");
  std::vector<ZipMember> members;
  for (std::uint64_t i = 0; i < count; ++i)
    members.push_back(read_entry(fields, at, where, at));
  return members;
}

std::vector<std::byte> read_member(std::span<const std::byte> archive, const ZipMember& member,
                                   const std::string& where) {
  Unpacked unpacked = unpack(archive, member, member.size, where);
  if (!unpacked.whole) throw_not_as_told(member, where);
  check_sum(unpacked.bytes, member, where);
  return std::move(unpacked.bytes);
}

std::vector<std::byte> read_front(std::span<const std::byte> archive, const ZipMember& member, std::size_t most,
                                  const std::string& where) {
  std::vector<std::byte> bytes = unpack(archive, member, most, where).bytes;
  if (bytes.size() < std::min<std::uint64_t>(most, member.size)) throw_not_as_told(member, where);
  return bytes;
}

std::span<const std::byte> stored_member(std::span<const std::byte> archive, const ZipMember& member,
                                         const std::string& where) {
  if (member.deflated)
    throw Error(ErrorKind::kUnsupported, "is compressed, and files of this kind are not", place_of(member, where));
  const auto bytes = archive.subspan(member.offset, member.compressed);
  check_sum(bytes, member, where);
  return bytes;
}

}  // namespace muster
