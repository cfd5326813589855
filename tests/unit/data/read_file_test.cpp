// Files that shrink or claim too much while they are read.
#include "muster/data/read_file.h"

#include <limits>

#include "support.h"

namespace muster::data {
namespace {

TEST(ReadFile, GivesEveryByte) {
  const TemporaryFolder folder;
  for (const std::size_t size : {0, 1, 4095, 4096, 4097}) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i)
      bytes[i] = static_cast<std::byte>(i % 251);
    const auto path = folder.write("file", bytes);
    EXPECT_EQ(read_file(open_for_reading(path), path), bytes);
  }
}

TEST(ReadFile, AFileThatShrankMeanwhileIsDamaged) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", Bytes(100));
  const OpenFile file = open_for_reading(path);
  std::filesystem::resize_file(path, 50);
  const auto error = error_of([&] { read_file(file, path); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
}

TEST(ReadFile, AFileLargerThanMemoryIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", Bytes(1));
  OpenFile file = open_for_reading(path);
  file.size = std::numeric_limits<std::uint64_t>::max();  // as a sparse file of a large file system may say
  const auto error = error_of([&] { read_file(file, path); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kResource);
  EXPECT_EQ(error->where(), path.string());
}

}  // namespace
}  // namespace muster::data
