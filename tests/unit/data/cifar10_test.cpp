// Records made here, in order; sizes and labels that cannot be are refused by file.
#include "muster/data/cifar10.h"

#include <sys/stat.h>

#include "support.h"

namespace muster::data {
namespace {

constexpr std::size_t kRecord = 3073;

// Records with the given labels; pixel j of record i is (i + j) mod 256.
Bytes records(const std::vector<int>& labels) {
  Bytes bytes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    bytes.push_back(static_cast<std::byte>(labels[i]));
    for (std::size_t j = 0; j + 1 < kRecord; ++j)
      bytes.push_back(static_cast<std::byte>((i + j) & 0xFF));
  }
  return bytes;
}

std::optional<ErrorKind> refusal(const Bytes& file) {
  Images images;
  const auto error = error_of([&] { append_cifar10(images, file, "batch.bin"); });
  if (!error) return std::nullopt;
  EXPECT_EQ(error->where(), "batch.bin");
  EXPECT_EQ(images.count(), 0U);
  return error->kind();
}

TEST(AppendCifar10, ReadsRecordsInOrder) {
  Images images;
  append_cifar10(images, records({3, 9}), "one");
  append_cifar10(images, records({0}), "two");
  EXPECT_EQ(images.labels, (std::vector<std::int64_t>{3, 9, 0}));
  EXPECT_EQ(images.channels, 3);
  EXPECT_EQ(images.height, 32);
  EXPECT_EQ(images.width, 32);
  EXPECT_EQ(images.classes, 10);
  ASSERT_EQ(images.pixels.size(), 3U * 3072U);
  EXPECT_EQ(images.pixels[3072 + 5], 6);
  EXPECT_EQ(images.pixels[2 * 3072 + 3071], 3071 % 256);
}

TEST(AppendCifar10, RefusesSizesThatAreNotWholeRecords) {
  const Bytes two = records({1, 2});
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kRecord - 1, kRecord + 1, 2 * kRecord - 1}) {
    EXPECT_EQ(refusal(Bytes(two.begin(), two.begin() + static_cast<std::ptrdiff_t>(size))), ErrorKind::kDamaged)
        << size;
  }
  EXPECT_FALSE(refusal(two));
}

TEST(AppendCifar10, RefusesEveryLabelAboveNine) {
  for (int label = 0; label < 256; ++label) {
    EXPECT_EQ(refusal(records({5, label})).has_value(), label > 9) << label;
  }
}

class Cifar10Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 1; i <= 5; ++i)
      folder_.write("data_batch_" + std::to_string(i) + ".bin", records({i, i + 1}));
    folder_.write("test_batch.bin", records({7}));
  }
  std::optional<Error> train_error() {
    return error_of([&] { read_cifar10_train(folder_.path()); });
  }

  TemporaryFolder folder_;
};

TEST_F(Cifar10Folder, ReadsFiveTrainingFilesAndOneTestFile) {
  EXPECT_EQ(read_cifar10_train(folder_.path()).labels, (std::vector<std::int64_t>{1, 2, 2, 3, 3, 4, 4, 5, 5, 6}));
  EXPECT_EQ(read_cifar10_test(folder_.path()).labels, (std::vector<std::int64_t>{7}));
}

TEST_F(Cifar10Folder, NamesTheFileThatIsMissingCutOrNoFile) {
  const auto third = folder_.path() / "data_batch_3.bin";
  std::filesystem::resize_file(third, kRecord + 7);
  auto error = train_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
  EXPECT_EQ(error->where(), third.string());

  std::filesystem::remove(third);
  error = train_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kNotFound);
  EXPECT_EQ(error->where(), third.string());

  ASSERT_EQ(::mkfifo(third.c_str(), 0600), 0);
  error = train_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);

  std::filesystem::remove(third);
  std::filesystem::create_directory(third);
  error = train_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
}

}  // namespace
}  // namespace muster::data
