// A header of 512 bytes before each file (ustar), the file filled up to 512, two blocks of zeros at the end; all of it
// through one zstd stream.
#include "muster/launch/tar_archive.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"

namespace muster::launch {
namespace {

constexpr std::size_t kTarBlock = 512;
constexpr std::size_t kMostNameBytes = 100;
constexpr int kZstdLevel = 9;

struct ZstdDeleter {
  void operator()(ZSTD_CStream* stream) const { ZSTD_freeCStream(stream); }
};

std::array<char, kTarBlock> tar_header(const std::string& name, std::uint64_t size, bool executable) {
  std::array<char, kTarBlock> header{};
  const auto put = [&](std::size_t at, const std::string& text) { std::copy(text.begin(), text.end(), &header[at]); };
  put(0, name);
  put(100, executable ? "0000755" : "0000644");
  put(108, "0000000");  // user
  put(116, "0000000");  // group
  put(124, fmt::format("{:011o}", size));
  put(136, "00000000000");  // time
  put(148, "        ");     // the sum, as it counts in itself
  header[156] = '0';        // a regular file
  put(257, std::string("ustar\0"
                       "00",
                       8));
  unsigned sum = 0;
  for (const char byte : header)
    sum += static_cast<unsigned char>(byte);
  put(148, fmt::format("{:06o}", sum));
  header[154] = '\0';
  header[155] = ' ';
  return header;
}

}  // namespace

struct TarArchive::State {
  explicit State(const std::filesystem::path& path) : file(path), stream(ZSTD_createCStream()) {
    if (!stream) throw Error(ErrorKind::kResource, "no memory for zstd");
    ZSTD_CCtx_setParameter(stream.get(), ZSTD_c_compressionLevel, kZstdLevel);
    ZSTD_CCtx_setParameter(stream.get(), ZSTD_c_checksumFlag, 1);
    out.resize(ZSTD_CStreamOutSize());
  }

  void put(const void* bytes, std::size_t size, ZSTD_EndDirective end = ZSTD_e_continue) {
    ZSTD_inBuffer in{bytes, size, 0};
    for (;;) {
      ZSTD_outBuffer to{out.data(), out.size(), 0};
      const std::size_t left = ZSTD_compressStream2(stream.get(), &to, &in, end);
      if (ZSTD_isError(left) != 0) throw Error(ErrorKind::kResource, fmt::format("zstd: {}", ZSTD_getErrorName(left)));
      file.write(std::span(out.data(), to.pos));
      if (end == ZSTD_e_end ? left == 0 : in.pos == in.size) return;
    }
  }

  AtomicFile file;
  std::unique_ptr<ZSTD_CStream, ZstdDeleter> stream;
  std::vector<std::byte> out;
};

TarArchive::TarArchive(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {
}

TarArchive::~TarArchive() = default;

void TarArchive::add(const std::filesystem::path& file, const std::string& name, bool executable) {
  if (name.size() > kMostNameBytes)
    throw Error(ErrorKind::kInvalidInput, fmt::format("a name in an archive has {} bytes at most", kMostNameBytes),
                name);
  const OpenFile from = open_for_reading(file);
  const auto header = tar_header(name, from.size, executable);
  state_->put(header.data(), header.size());
  std::vector<std::byte> piece(1 << 20);
  for (std::uint64_t at = 0; at < from.size; at += piece.size()) {
    const std::size_t size = std::min<std::uint64_t>(piece.size(), from.size - at);
    read_exactly(from, at, std::span(piece.data(), size), file);
    state_->put(piece.data(), size);
  }
  const std::array<char, kTarBlock> zeros{};
  state_->put(zeros.data(), (kTarBlock - from.size % kTarBlock) % kTarBlock);
}

void TarArchive::finish() {
  const std::array<char, 2 * kTarBlock> zeros{};
  state_->put(zeros.data(), zeros.size(), ZSTD_e_end);
  state_->file.commit();
}

}  // namespace muster::launch
