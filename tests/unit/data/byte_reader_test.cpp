// The same bytes plain, gzipped and by zstd, whole, cut and altered.
#include "muster/data/byte_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "idx_files.h"

namespace muster::data {
namespace {

// Not compressible to nothing, and longer than any buffer of the reader.
Bytes some_bytes(std::size_t size) {
  Bytes bytes(size);
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 28);
  }
  return bytes;
}

Bytes joined(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes read_memory(const Bytes& bytes) {
  const auto reader = ByteReader::of_memory(bytes, "memory");
  return read_all(*reader, std::uint64_t{1} << 30, "memory");
}

TEST(ByteReader, GivesPlainGzipAndZstdFilesAsTheSameBytes) {
  const TemporaryFolder folder;
  const Bytes plain = some_bytes(3'000'001);
  for (const Bytes& file : {plain, gzip(plain), zstd(plain)}) {
    const auto reader = ByteReader::open(folder.write("file", file));
    EXPECT_EQ(read_all(*reader, std::uint64_t{1} << 30, "file"), plain);
  }
}

TEST(ByteReader, ReadsOnThroughMembersOneAfterTheOther) {
  const Bytes first = some_bytes(1000);
  const Bytes second = some_bytes(70'000);
  EXPECT_EQ(read_memory(joined(gzip(first), gzip(second))), joined(first, second));
  EXPECT_EQ(read_memory(joined(zstd(first), zstd(second))), joined(first, second));
}

TEST(ByteReader, FillsWhatIsAskedForUntilTheEnd) {
  const Bytes plain = some_bytes(1000);
  for (const Bytes& file : {plain, gzip(plain), zstd(plain)}) {
    const auto reader = ByteReader::of_memory(file, "memory");
    Bytes out(300);
    Bytes all;
    for (const std::size_t expected : {300U, 300U, 300U, 100U, 0U, 0U}) {
      const std::size_t count = reader->read(out);
      EXPECT_EQ(count, expected);
      all.insert(all.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
    }
    EXPECT_EQ(all, plain);
  }
}

TEST(ByteReader, AnEmptyFileIsEmpty) {
  EXPECT_TRUE(read_memory({}).empty());
  EXPECT_TRUE(read_memory(gzip({})).empty());
  EXPECT_TRUE(read_memory(zstd({})).empty());
}

TEST(ByteReader, ACutOrAlteredFileIsDamagedAndNamed) {
  const Bytes plain = some_bytes(100'000);
  for (const Bytes& whole : {gzip(plain), zstd(plain)}) {
    for (const std::size_t cut : {std::size_t{5}, whole.size() / 2, whole.size() - 1}) {
      const auto error = error_of([&] { read_memory(Bytes(whole.begin(), whole.begin() + static_cast<long>(cut))); });
      ASSERT_TRUE(error) << cut;
      EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
      EXPECT_EQ(error->where(), "memory");
    }
  }
  // gzip always has a checksum.
  Bytes altered = gzip(plain);
  altered[altered.size() - 6] ^= std::byte{0x10};
  EXPECT_EQ(error_of([&] { read_memory(altered); })->kind(), ErrorKind::kDamaged);
  EXPECT_EQ(error_of([&] { read_memory(joined(gzip(plain), to_bytes({1, 2, 3}))); })->kind(), ErrorKind::kDamaged);
}

TEST(ReadAll, StopsAtTheLimit) {
  const Bytes bomb = gzip(Bytes(10'000'000));
  const auto reader = ByteReader::of_memory(bomb, "bomb");
  const auto error = error_of([&] { read_all(*reader, 1'000'000, "bomb"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kResource);
}

}  // namespace
}  // namespace muster::data
