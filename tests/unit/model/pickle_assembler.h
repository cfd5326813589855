// Writes pickles and .pth archives by hand for tests, independently of the code under test: one method an instruction.
#pragma once

#include <zlib.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/model/safetensors.h"

namespace muster::model {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of_text(std::string_view text) {
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

inline Bytes floats(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class Asm {
 public:
  Asm& op(int code) {
    bytes_.push_back(static_cast<std::byte>(code));
    return *this;
  }
  Asm& number(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i)
      op(static_cast<int>(value >> (8 * i) & 0xFF));
    return *this;
  }
  Asm& raw(std::string_view text) {
    for (const char c : text)
      op(static_cast<unsigned char>(c));
    return *this;
  }
  Asm& proto(int version = 2) { return op(0x80).op(version); }
  Asm& mark() { return op('('); }
  Asm& none() { return op('N'); }
  Asm& boolean(bool value) { return op(value ? 0x88 : 0x89); }
  Asm& integer(std::int64_t value) { return op('J').number(static_cast<std::uint64_t>(value), 4); }
  Asm& text(std::string_view value) { return op('X').number(value.size(), 4).raw(value); }
  Asm& global(std::string_view module, std::string_view name) {
    return op('c').raw(module).raw("\n").raw(name).raw("\n");
  }
  Asm& dict() { return op('}'); }
  Asm& ordered_dict() { return global("collections", "OrderedDict").op(')').op('R'); }
  Asm& set_item() { return op('s'); }
  Asm& tuple(const std::vector<std::int64_t>& values) {
    mark();
    for (const std::int64_t value : values)
      integer(value);
    return op('t');
  }
  Asm& storage(std::string_view type, std::string_view key, std::int64_t elements) {
    mark().text("storage").global("torch", type).text(key).text("cpu").integer(elements).op('t');
    return op('Q');
  }
  // A float tensor over storage `key`.
  Asm& tensor(std::string_view key, std::int64_t elements, std::int64_t offset, const std::vector<std::int64_t>& shape,
              const std::vector<std::int64_t>& strides, std::string_view type = "FloatStorage") {
    global("torch._utils", "_rebuild_tensor_v2").mark().storage(type, key, elements).integer(offset);
    return tuple(shape).tuple(strides).boolean(false).ordered_dict().op('t').op('R');
  }
  Bytes stop() {
    op('.');
    return bytes_;
  }

 private:
  Bytes bytes_;
};

using Members = std::vector<std::pair<std::string, Bytes>>;

inline Bytes deflated(const Bytes& contents) {
  Bytes packed(::compressBound(contents.size()) + 16);
  z_stream stream{};
  ::deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(contents.data()));
  stream.avail_in = static_cast<uInt>(contents.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

// A zip archive: members are stored, but for those whose names end in `compressed`.
inline Bytes archive_of(const Members& members, const std::string& compressed = "no such ending") {
  Bytes archive;
  Bytes directory;
  const auto put = [](Bytes& out, std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i)
      out.push_back(static_cast<std::byte>(value >> (8 * i)));
  };
  const auto append = [](Bytes& out, const Bytes& bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); };
  for (const auto& member : members) {
    const Bytes& contents = member.second;
    const auto crc =
        static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(contents.data()), contents.size()));
    const std::size_t offset = archive.size();
    const bool packs = member.first.ends_with(compressed);
    const Bytes packed = packs ? deflated(contents) : contents;
    const auto common = [&](Bytes& out) {
      for (const int field : {20, 0, packs ? 8 : 0})
        put(out, static_cast<std::uint64_t>(field), 2);
      put(out, 0, 4);
      put(out, crc, 4);
      put(out, packed.size(), 4);
      put(out, contents.size(), 4);
      put(out, member.first.size(), 2);
      put(out, 0, 2);
    };
    put(archive, 0x04034B50, 4);
    common(archive);
    append(archive, bytes_of_text(member.first));
    append(archive, packed);
    put(directory, 0x02014B50, 4);
    put(directory, 20, 2);
    common(directory);
    put(directory, 0, 6);
    put(directory, 0, 4);
    put(directory, offset, 4);
    append(directory, bytes_of_text(member.first));
  }
  const std::size_t start = archive.size();
  append(archive, directory);
  put(archive, 0x06054B50, 4);
  put(archive, 0, 4);
  put(archive, members.size(), 2);
  put(archive, members.size(), 2);
  put(archive, directory.size(), 4);
  put(archive, start, 4);
  put(archive, 0, 2);
  return archive;
}

inline AlignedBytes aligned(const Bytes& bytes) {
  AlignedBytes copy(bytes.size(), "test");
  if (!bytes.empty()) std::memcpy(copy.span().data(), bytes.data(), bytes.size());
  return copy;
}

// An archive as torch.save writes it: the pickle and its storages by key.
inline Bytes pth_of(const Bytes& pickle, const Members& storages) {
  Members members{{"model/data.pkl", pickle}};
  for (const auto& storage : storages)
    members.emplace_back("model/data/" + storage.first, storage.second);
  members.emplace_back("model/version", bytes_of_text("3\n"));
  return archive_of(members);
}

}  // namespace muster::model
