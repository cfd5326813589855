// One parser over three sources of bytes (plain, gzip, zstd). Extents are claims: memory grows only as bytes really
// arrive, so a header of 30 bytes cannot ask for gigabytes.
#include "muster/data/idx.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/data/byte_reader.h"
#include "muster/data/read_file.h"

namespace muster::data {
namespace {

constexpr std::size_t kMagicSize = 4;
constexpr std::size_t kMaxDimensions = 8;
constexpr std::uint8_t kUnsignedByte = 0x08;

[[noreturn]] void damaged(const std::string& where, std::string message) {
  throw Error(ErrorKind::kDamaged, std::move(message), where);
}

bool is_gzip(std::span<const std::byte> file) {
  return file.size() >= 2 && file[0] == std::byte{0x1F} && file[1] == std::byte{0x8B};
}

bool is_zstd(std::span<const std::byte> file) {
  constexpr std::array kMagic{std::byte{0x28}, std::byte{0xB5}, std::byte{0x2F}, std::byte{0xFD}};
  return file.size() >= kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), file.begin());
}

bool has_idx_zeros(std::span<const std::byte> file) {
  return file.size() >= 2 && file[0] == std::byte{0} && file[1] == std::byte{0};
}

// A source of the file's decoded bytes, in order: read() and finish() as below, and the most it can ever give.

class PlainSource {
 public:
  PlainSource(std::span<const std::byte> file, const std::string& where) : rest_(file), where_(where) {}

  std::uint64_t limit() const { return rest_.size(); }
  void read(std::span<std::byte> out) {
    if (rest_.size() < out.size()) damaged(where_, "is cut short");
    std::copy_n(rest_.begin(), out.size(), out.begin());
    rest_ = rest_.subspan(out.size());
  }
  void finish() {
    if (!rest_.empty()) damaged(where_, fmt::format("has {} bytes behind its last element", rest_.size()));
  }

 private:
  std::span<const std::byte> rest_;
  const std::string& where_;
};

class GzipSource {
 public:
  GzipSource(std::span<const std::byte> file, const std::string& where)
      : rest_(file), compressed_(file.size()), where_(where) {
    constexpr int kGzipOnly = 16;
    if (::inflateInit2(&stream_, kGzipOnly + MAX_WBITS) != Z_OK) {
      throw Error(ErrorKind::kResource, "out of memory for decompression", where_);
    }
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() { ::inflateEnd(&stream_); }

  std::uint64_t limit() const {
    constexpr std::uint64_t kMaxInflation = 1032;
    std::uint64_t limit = 0;
    const bool overflow = __builtin_mul_overflow(compressed_, kMaxInflation, &limit);
    return overflow ? std::numeric_limits<std::uint64_t>::max() : limit;
  }

  // Fills `out` or throws.
  void read(std::span<std::byte> out) {
    while (!out.empty()) {
      const std::size_t count = inflate_some(out);
      if (count == 0) damaged(where_, "the compressed data ends before the array does");
      out = out.subspan(count);
    }
  }

  // Throws unless the member ends here, with the right checksum, and the file with it.
  void finish() {
    std::array<std::byte, 1> excess{};
    if (inflate_some(excess) != 0) damaged(where_, "holds more than its header declares");
    const std::size_t left = rest_.size() + stream_.avail_in;
    if (left != 0) damaged(where_, fmt::format("has {} bytes behind its compressed data", left));
  }

 private:
  // Some of the next bytes; 0 only at the verified end of the member.
  std::size_t inflate_some(std::span<std::byte> out) {
    const std::size_t wanted = std::min<std::size_t>(out.size(), std::numeric_limits<uInt>::max());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(wanted);
    while (!ended_ && stream_.avail_out == wanted) {
      if (stream_.avail_in == 0) {
        const std::size_t piece = std::min<std::size_t>(rest_.size(), std::numeric_limits<uInt>::max());
        // zlib promises not to write through next_in.
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(rest_.data()));
        stream_.avail_in = static_cast<uInt>(piece);
        rest_ = rest_.subspan(piece);
      }
      switch (::inflate(&stream_, Z_NO_FLUSH)) {
        case Z_OK:
          break;
        case Z_STREAM_END:
          ended_ = true;
          break;
        case Z_BUF_ERROR:
          damaged(where_, "the compressed data is cut short");
        case Z_MEM_ERROR:
          throw Error(ErrorKind::kResource, "out of memory for decompression", where_);
        default:
          damaged(where_, fmt::format("the compressed data is damaged ({})",
                                      stream_.msg != nullptr ? stream_.msg : "no details"));
      }
    }
    return wanted - stream_.avail_out;
  }

  std::span<const std::byte> rest_;  // not yet handed to zlib
  std::uint64_t compressed_;
  const std::string& where_;
  z_stream stream_{};
  bool ended_ = false;
};

class ZstdSource {
 public:
  ZstdSource(std::span<const std::byte> file, const std::string& where)
      : reader_(ByteReader::of_memory(file, where)), compressed_(file.size()), where_(where) {}

  std::uint64_t limit() const {
    constexpr std::uint64_t kMaxExpansion = std::uint64_t{1} << 16;  // a block of 128 KiB has at least 4 bytes
    return compressed_ < std::numeric_limits<std::uint64_t>::max() / kMaxExpansion
               ? compressed_ * kMaxExpansion
               : std::numeric_limits<std::uint64_t>::max();
  }
  void read(std::span<std::byte> out) {
    if (reader_->read(out) < out.size()) damaged(where_, "the compressed data ends before the array does");
  }
  void finish() {
    std::array<std::byte, 1> excess{};
    if (reader_->read(excess) != 0) damaged(where_, "holds more than its header declares");
  }

 private:
  const std::unique_ptr<ByteReader> reader_;
  const std::uint64_t compressed_;
  const std::string& where_;
};

std::uint32_t big_endian(std::span<const std::byte, 4> bytes) {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes)
    value = (value << 8) | std::to_integer<std::uint32_t>(byte);
  return value;
}

template <typename Source>
std::vector<std::uint64_t> read_extents(Source& source, const std::string& where) {
  std::array<std::byte, kMagicSize> magic{};
  source.read(magic);
  if (!has_idx_zeros(magic)) damaged(where, "is not an IDX file: it does not start with two zero bytes");
  const auto type = std::to_integer<std::uint8_t>(magic[2]);
  const auto dimensions = std::to_integer<std::size_t>(magic[3]);
  if (type != kUnsignedByte) {
    constexpr std::array<std::uint8_t, 6> kKnownTypes{0x08, 0x09, 0x0B, 0x0C, 0x0D, 0x0E};
    const bool known = std::find(kKnownTypes.begin(), kKnownTypes.end(), type) != kKnownTypes.end();
    throw Error(known ? ErrorKind::kUnsupported : ErrorKind::kDamaged,
                fmt::format("has element type 0x{:02X}; only 0x08 (unsigned byte) is read", type), where);
  }
  if (dimensions == 0 || dimensions > kMaxDimensions) {
    damaged(where, fmt::format("has {} dimensions; 1 to {} are read", dimensions, kMaxDimensions));
  }
  std::vector<std::uint64_t> extents;
  for (std::size_t i = 0; i < dimensions; ++i) {
    std::array<std::byte, 4> extent{};
    source.read(extent);
    extents.push_back(big_endian(extent));
  }
  return extents;
}

template <typename Source>
IdxArray parse(Source& source, std::uint64_t file_size, const std::string& where) {
  IdxArray array;
  array.extents = read_extents(source, where);
  std::uint64_t declared = 1;
  bool overflow = false;
  for (const std::uint64_t extent : array.extents)
    overflow |= __builtin_mul_overflow(declared, extent, &declared);
  // With an extent of 0 a product that overflowed on the way is still 0, and still nothing anyone wrote.
  if (overflow || declared > source.limit()) {
    damaged(where, fmt::format("declares {} elements; a file of {} bytes cannot hold them",
                               fmt::join(array.extents, " x "), file_size));
  }
  // Room for what common files hold at once, then doubled only after as much was really decoded.
  const std::uint64_t first = file_size * 4 + 4096;
  while (array.values.size() < declared) {
    const std::uint64_t have = array.values.size();
    const std::uint64_t target = std::min(declared, have == 0 ? first : have * 2);
    try {
      array.values.reserve(target);
      array.values.resize(target);
    } catch (const std::bad_alloc&) {
      throw Error(ErrorKind::kResource, fmt::format("its {} elements do not fit into memory", declared), where);
    }
    source.read(std::as_writable_bytes(std::span(array.values).subspan(have)));
  }
  source.finish();
  return array;
}

void require_magic(std::span<const std::byte> file, const std::string& where) {
  if (file.empty()) damaged(where, "is empty");
  if (!is_gzip(file) && !is_zstd(file) && !has_idx_zeros(file)) {
    damaged(where, "is neither an IDX file (two zero bytes first) nor a gzip or zstd file");
  }
}

}  // namespace

IdxArray parse_idx(std::span<const std::byte> file, const std::string& where) {
  require_magic(file, where);
  if (is_gzip(file)) {
    GzipSource source(file, where);
    return parse(source, file.size(), where);
  }
  if (is_zstd(file)) {
    ZstdSource source(file, where);
    return parse(source, file.size(), where);
  }
  PlainSource source(file, where);
  return parse(source, file.size(), where);
}

IdxArray read_idx(const std::filesystem::path& path) {
  const OpenFile file = open_for_reading(path);
  // A look at the first bytes, so that a wrong file of many gigabytes is refused before it is read.
  std::array<std::byte, 4> start{};
  const auto known = std::span(start).first(std::min<std::uint64_t>(start.size(), file.size));
  read_exactly(file, 0, known, path);
  require_magic(known, path.string());
  return parse_idx(read_file(file, path), path.string());
}

Images read_idx_images(const std::filesystem::path& images_path, const std::filesystem::path& labels_path,
                       std::optional<std::int64_t> classes) {
  // Labels first: they are small, and a mistake in them shows before the images are read.
  const IdxArray labels = read_idx(labels_path);
  if (labels.extents.size() != 1) {
    damaged(labels_path.string(), fmt::format("has {} dimensions; labels have 1", labels.extents.size()));
  }
  IdxArray pixels = read_idx(images_path);
  if (pixels.extents.size() != 3) {
    damaged(images_path.string(), fmt::format("has {} dimensions; images have 3", pixels.extents.size()));
  }
  if (pixels.values.empty()) damaged(images_path.string(), "holds no pixels");
  if (pixels.extents[0] != labels.extents[0]) {
    throw Error(ErrorKind::kMismatch,
                fmt::format("holds {} images, but {} holds {} labels", pixels.extents[0], labels_path.string(),
                            labels.extents[0]),
                images_path.string());
  }
  const std::int64_t largest = *std::max_element(labels.values.begin(), labels.values.end());
  if (classes && largest >= *classes) {
    throw Error(ErrorKind::kMismatch,
                fmt::format("has the label {}; the training set has only {} classes", largest, *classes),
                labels_path.string());
  }
  Images images;
  images.channels = 1;
  images.height = static_cast<std::int64_t>(pixels.extents[1]);
  images.width = static_cast<std::int64_t>(pixels.extents[2]);
  images.classes = classes.value_or(std::max<std::int64_t>(2, largest + 1));
  images.pixels = std::move(pixels.values);
  images.labels.assign(labels.values.begin(), labels.values.end());
  return images;
}

}  // namespace muster::data
