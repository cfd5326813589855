// Readers in a row: file or memory, a buffer that can be looked into, and a decompressor where the first bytes ask for
// one. Whatever a file claims, each keeps to its own buffer.
#include "muster/data/byte_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"

namespace muster::data {
namespace {

constexpr std::size_t kBuffer = std::size_t{256} << 10;

[[noreturn]] void damaged(const std::string& where, std::string message) {
  throw Error(ErrorKind::kDamaged, std::move(message), where);
}

[[noreturn]] void no_memory(const std::string& where) {
  throw Error(ErrorKind::kResource, "out of memory for decompression", where);
}

class FileReader final : public ByteReader {
 public:
  explicit FileReader(const std::filesystem::path& path) : path_(path), file_(open_for_reading(path)) {}

  std::uint64_t size() const { return file_.size; }
  std::size_t read(std::span<std::byte> out) override {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), file_.size - at_));
    if (count > 0) read_exactly(file_, at_, out.first(count), path_);
    at_ += count;
    return count;
  }

 private:
  const std::filesystem::path path_;
  const OpenFile file_;
  std::uint64_t at_ = 0;
};

class MemoryReader final : public ByteReader {
 public:
  explicit MemoryReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::size_t read(std::span<std::byte> out) override {
    const std::size_t count = std::min(out.size(), rest_.size());
    std::copy_n(rest_.begin(), count, out.begin());
    rest_ = rest_.subspan(count);
    return count;
  }

 private:
  std::span<const std::byte> rest_;
};

// A reader with a buffer in front: what is in it can be looked at before it is taken.
class Lookahead final : public ByteReader {
 public:
  Lookahead(std::unique_ptr<ByteReader> below, std::size_t size) : below_(std::move(below)), buffer_(size) {}

  std::size_t read(std::span<std::byte> out) override {
    const std::size_t held = std::min(out.size(), available().size());
    std::copy_n(available().begin(), held, out.begin());
    consume(held);
    return held < out.size() ? held + below_->read(out.subspan(held)) : held;
  }
  std::span<const std::byte> available() const { return std::span(buffer_).subspan(begin_, end_ - begin_); }
  void consume(std::size_t count) { begin_ += count; }
  // Makes sure that something is available, unless the file is at its end.
  void refill() {
    if (begin_ < end_) return;
    begin_ = 0;
    end_ = below_->read(buffer_);
  }

 private:
  const std::unique_ptr<ByteReader> below_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

class GzipReader final : public ByteReader {
 public:
  GzipReader(std::unique_ptr<Lookahead> below, std::string where) : below_(std::move(below)), where_(std::move(where)) {
    constexpr int kGzipOnly = 16;
    if (::inflateInit2(&stream_, kGzipOnly + MAX_WBITS) != Z_OK) no_memory(where_);
  }
  ~GzipReader() override { ::inflateEnd(&stream_); }

  std::size_t read(std::span<std::byte> out) override {
    std::size_t filled = 0;
    while (filled < out.size() && !finished_)
      filled += inflate_some(out.subspan(filled));
    return filled;
  }

 private:
  std::size_t inflate_some(std::span<std::byte> out) {
    below_->refill();
    const auto in = below_->available();
    if (in.empty()) {
      if (inside_) damaged(where_, "the compressed data is cut short");
      finished_ = true;
      return 0;
    }
    inside_ = true;
    const std::size_t room = std::min<std::size_t>(out.size(), std::numeric_limits<uInt>::max());
    // zlib promises not to write through next_in.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(room);
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    below_->consume(in.size() - stream_.avail_in);
    if (result == Z_MEM_ERROR) no_memory(where_);
    if (result == Z_STREAM_END) {
      inside_ = false;
      if (::inflateReset(&stream_) != Z_OK) no_memory(where_);
    } else if (result != Z_OK) {
      damaged(where_,
              fmt::format("the compressed data is damaged ({})", stream_.msg != nullptr ? stream_.msg : "no details"));
    }
    return room - stream_.avail_out;
  }

  const std::unique_ptr<Lookahead> below_;
  const std::string where_;
  z_stream stream_{};
  bool inside_ = false;  // a member has begun and not ended
  bool finished_ = false;
};

class ZstdReader final : public ByteReader {
 public:
  ZstdReader(std::unique_ptr<Lookahead> below, std::string where)
      : below_(std::move(below)), where_(std::move(where)), stream_(::ZSTD_createDStream()) {
    if (!stream_) no_memory(where_);
  }

  std::size_t read(std::span<std::byte> out) override {
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    while (output.pos < output.size && !finished_) {
      below_->refill();
      const auto in = below_->available();
      if (in.empty() && !inside_) {
        finished_ = true;
        break;
      }
      const std::size_t before = output.pos;
      ZSTD_inBuffer input{in.data(), in.size(), 0};
      const std::size_t result = ::ZSTD_decompressStream(stream_.get(), &output, &input);
      if (::ZSTD_isError(result) != 0)
        damaged(where_, fmt::format("the compressed data is damaged ({})", ::ZSTD_getErrorName(result)));
      below_->consume(input.pos);
      inside_ = result != 0;
      if (in.empty() && inside_ && output.pos == before) damaged(where_, "the compressed data is cut short");
    }
    return output.pos;
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ::ZSTD_freeDStream(stream); }
  };
  const std::unique_ptr<Lookahead> below_;
  const std::string where_;
  const std::unique_ptr<ZSTD_DStream, Free> stream_;
  bool inside_ = false;  // a frame has begun and not ended
  bool finished_ = false;
};

// `size` is that of the raw bytes: small ones need no large buffer.
std::unique_ptr<ByteReader> decompressed(std::unique_ptr<ByteReader> raw, std::uint64_t size, std::string where) {
  constexpr std::array kGzip{std::byte{0x1F}, std::byte{0x8B}};
  constexpr std::array kZstd{std::byte{0x28}, std::byte{0xB5}, std::byte{0x2F}, std::byte{0xFD}};
  auto front = std::make_unique<Lookahead>(std::move(raw),
                                           static_cast<std::size_t>(std::clamp<std::uint64_t>(size, 16, kBuffer)));
  front->refill();
  const auto starts_with = [&](std::span<const std::byte> magic) {
    const auto bytes = front->available();
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  if (starts_with(kGzip)) return std::make_unique<GzipReader>(std::move(front), std::move(where));
  if (starts_with(kZstd)) return std::make_unique<ZstdReader>(std::move(front), std::move(where));
  return front;
}

}  // namespace

std::unique_ptr<ByteReader> ByteReader::open(const std::filesystem::path& path) {
  auto file = std::make_unique<FileReader>(path);
  const std::uint64_t size = file->size();
  return decompressed(std::move(file), size, path.string());
}

std::unique_ptr<ByteReader> ByteReader::of_memory(std::span<const std::byte> bytes, std::string where) {
  return decompressed(std::make_unique<MemoryReader>(bytes), bytes.size(), std::move(where));
}

std::vector<std::byte> read_all(ByteReader& reader, std::uint64_t limit_bytes, const std::string& where) {
  std::vector<std::byte> bytes;
  std::size_t size = 0;
  try {
    while (true) {
      bytes.resize(std::max(kBuffer, 2 * size));
      const std::size_t count = reader.read(std::span(bytes).subspan(size));
      size += count;
      if (size > limit_bytes)
        throw Error(ErrorKind::kResource, fmt::format("holds more than {}", human_bytes(limit_bytes)), where);
      if (size < bytes.size()) break;
    }
    bytes.resize(size);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kResource, fmt::format("its {} and more do not fit into memory", human_bytes(size)), where);
  }
  return bytes;
}

}  // namespace muster::data
