// The members of a zip archive, as far as .npz and .pth files need it: stored and deflated, with zip64 sizes, one disk,
// no encryption. Every size is checked against the file before anything is allocated. The writer is zip_writer.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace muster {

struct ZipMember {
  std::string name = {};
  std::uint64_t offset = 0;      // of its bytes in the archive
  std::uint64_t compressed = 0;  // bytes there
  std::uint64_t size = 0;        // bytes they become
  std::uint32_t crc = 0;         // CRC-32 of what they become
  bool deflated = false;
};

// The members of an archive, in the order of its directory. Throws kDamaged (not a zip file, sizes that do not fit
// into it) and kUnsupported (encryption, another compression), each with `where`.
std::vector<ZipMember> zip_members(std::span<const std::byte> archive, const std::string& where);

// A member's contents. Throws kDamaged (does not decompress to the size and checksum that the directory tells),
// kResource. REQUIRES: a member of this archive.
std::vector<std::byte> read_member(std::span<const std::byte> archive, const ZipMember& member,
                                   const std::string& where);

// The first bytes of a member's contents, at most `most`: for looking at what it is before all of it is taken into
// memory. Its checksum is not looked at. Throws kDamaged (does not decompress), kResource. REQUIRES: a member of this
// archive.
std::vector<std::byte> read_front(std::span<const std::byte> archive, const ZipMember& member, std::size_t most,
                                  const std::string& where);

// A stored member's contents, in place. Throws kUnsupported (compressed) and kDamaged (another checksum than the
// directory tells). REQUIRES: a member of this archive.
std::span<const std::byte> stored_member(std::span<const std::byte> archive, const ZipMember& member,
                                         const std::string& where);

}  // namespace muster
