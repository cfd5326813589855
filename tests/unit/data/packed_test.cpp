// Packed and read back bit by bit; damaged shards are refused and damaged records named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "muster/base/crc32c.h"
#include "muster/data/image_dataset.h"
#include "muster/data/pack.h"
#include "muster/data/packed_dataset.h"
#include "muster/data/sources.h"
#include "muster/data/synthetic.h"
#include "muster/data/text.h"
#include "support.h"

namespace muster::data {
namespace {

using ::testing::HasSubstr;

TEST(Crc32c, AgreesWithItsStandardAndWithItself) {
  const std::string digits = "123456789";
  const auto bytes = std::as_bytes(std::span(digits));
  EXPECT_EQ(crc32c(bytes), 0xE3069283U);  // the check value of CRC-32C
  EXPECT_EQ(crc32c_portable(bytes), 0xE3069283U);
  EXPECT_EQ(crc32c({}), 0U);
  Bytes many(20000);
  for (std::size_t i = 0; i < many.size(); ++i)
    many[i] = static_cast<std::byte>(i * 7);
  // Below and beyond one and two times the three blocks that are summed at once.
  for (const std::size_t size : {1U, 7U, 8U, 9U, 63U, 1000U, 6143U, 6144U, 6145U, 12288U, 20000U}) {
    const auto part = std::span<const std::byte>(many).first(size);
    EXPECT_EQ(crc32c(part), crc32c_portable(part)) << size;
    EXPECT_EQ(crc32c(part.subspan(size / 3), crc32c(part.first(size / 3))), crc32c(part)) << size;
    EXPECT_EQ(crc32c_portable(part.subspan(size / 3), crc32c_portable(part.first(size / 3))), crc32c(part)) << size;
  }
}

void expect_same(const Dataset& a, const Dataset& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(a.spec().shape, b.spec().shape);
  EXPECT_EQ(a.spec().classes, b.spec().classes);
  EXPECT_EQ(a.spec().class_names, b.spec().class_names);
  std::vector<float> left(a.spec().elements());
  std::vector<float> right(left.size());
  for (std::uint64_t id = 0; id < a.size(); ++id) {
    ASSERT_EQ(a.read(id, left), b.read(id, right)) << id;
    ASSERT_EQ(std::memcmp(left.data(), right.data(), left.size() * sizeof(float)), 0) << id;
  }
}

std::shared_ptr<ImageDataset> pictures(const Normalization& normalization) {
  Images images{.channels = 3, .height = 5, .width = 4, .classes = 7};
  for (int i = 0; i < 101; ++i) {
    images.labels.push_back(i % 7);
    for (int k = 0; k < 60; ++k)
      images.pixels.push_back(static_cast<std::uint8_t>(i * 31 + k * 17));
  }
  return std::make_shared<ImageDataset>(std::move(images), normalization);
}

const Normalization kNormalization{{0.4914F, 0.4822F, 0.4465F}, {0.247F, 0.2435F, 0.2616F}};

class Packed : public ::testing::Test {
 protected:
  static std::string bytes_of(const std::filesystem::path& file) { return testing::slurp(file); }
  void damage(const std::string& name, std::size_t at) const {
    std::string bytes = bytes_of(folder_.path() / name);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    testing::spill(folder_.path() / name, bytes);
  }
  TemporaryFolder folder_;
};

TEST_F(Packed, PicturesOfBytesComeBackBitForBitFromAQuarterOfTheSize) {
  const auto source = pictures(kNormalization);
  const PackResult result = pack(source, kNormalization, folder_.path(), "train", {.shards = 3});
  EXPECT_EQ(result.element, PackedElement::kU8);
  EXPECT_EQ(result.shards, 3U);
  const PackedDataset packed(folder_.path(), "train");
  EXPECT_EQ(packed.layout().record_bytes(), 8U + 60U + 4U);
  expect_same(*source, packed);
}

TEST_F(Packed, AnythingElseIsStoredAsFloats) {
  const auto source =
      std::make_shared<Synthetic>(SyntheticOptions{.shape = {2, 3}, .classes = 4, .samples = 50, .seed = 3});
  EXPECT_EQ(pack(source, {}, folder_.path(), "train", {.shards = 50}).element, PackedElement::kF32);
  expect_same(*source, PackedDataset(folder_.path(), "train"));
}

TEST_F(Packed, LargeRecordsOfFloatsComeBackAndAreChecked) {
  const auto source =
      std::make_shared<Synthetic>(SyntheticOptions{.shape = {3, 64, 64}, .classes = 4, .samples = 5, .seed = 3});
  EXPECT_EQ(pack(source, {}, folder_.path(), "train").element, PackedElement::kF32);
  expect_same(*source, PackedDataset(folder_.path(), "train"));
  const auto whole = PackedDataset(folder_.path(), "train");
  const std::size_t size = bytes_of(folder_.path() / "train-00000-of-00001.pack").size();
  // The last record: its checksum, its floats, its label.
  for (const std::size_t back : {std::size_t{1}, std::size_t{5}, std::size_t{whole.layout().record_bytes()}}) {
    damage("train-00000-of-00001.pack", size - back);
    std::vector<float> features(source->spec().elements());
    const auto error = error_of([&] { PackedDataset(folder_.path(), "train").read(4, features); });
    ASSERT_TRUE(error) << back;
    EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
    EXPECT_THAT(error->where(), HasSubstr("record 4"));
    damage("train-00000-of-00001.pack", size - back);  // and back again
  }
}

TEST_F(Packed, KeepsWhatATableSaysOfItsColumnsAndItsUnit) {
  testing::spill(folder_.path() / "t.csv", "n,colour,price\n1,red,100\n2,blue,300\n3,red,500\n4,green,900\n");
  SourceOptions options;
  options.source = "csv";
  options.path = folder_.path() / "t.csv";
  options.test_path = options.path;
  options.table.regression = true;
  const Data data = open_source(options);
  pack(data.train, {}, folder_.path() / "shards", "train", {});
  const PackedDataset packed(folder_.path() / "shards", "train");
  EXPECT_EQ(packed.spec().columns, (std::vector<std::int64_t>{1, 3}));
  ASSERT_EQ(packed.spec().target_scale.size(), 1U);
  EXPECT_EQ(packed.spec().target_scale[0].mean, 450);
}

TEST_F(Packed, PicturesMayBeRoundedToTheNearestLevel) {
  const auto source = pictures(kNormalization);
  const PackOptions rounded{.element = PackedElement::kU8, .round = true};
  pack(source, kNormalization, folder_.path() / "exact", "train", rounded);
  expect_same(*source, PackedDataset(folder_.path() / "exact", "train"));
  const Normalization finer{{0, 0, 0}, {1, 1, 1}};
  EXPECT_EQ(error_of([&] { pack(source, finer, folder_.path() / "outside", "train", rounded); })->kind(),
            ErrorKind::kMismatch);
  class Between final : public Dataset {
   public:
    std::uint64_t size() const override { return 1; }
    const SampleSpec& spec() const override { return spec_; }
    std::int64_t read(std::uint64_t, std::span<float> features) const override {
      for (std::size_t i = 0; i < features.size(); ++i)
        features[i] = (static_cast<float>(i) + 0.3F) / 255.0F;
      return 1;
    }

   private:
    SampleSpec spec_{.shape = {1, 2, 2}, .classes = 2};
  };
  const auto between = std::make_shared<Between>();
  const Normalization plain{{0}, {1}};
  EXPECT_EQ(pack(between, plain, folder_.path() / "floats", "train").element, PackedElement::kF32);
  EXPECT_EQ(pack(between, plain, folder_.path() / "bytes", "train", rounded).element, PackedElement::kU8);
  std::vector<float> features(4);
  EXPECT_EQ(PackedDataset(folder_.path() / "bytes", "train").read(0, features), 1);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(features[i], static_cast<double>(i) / 255.0, 1e-6);
}

TEST_F(Packed, PicturesUnderAnotherScaleAreNotTakenForBytes) {
  const auto source = pictures(kNormalization);
  const Normalization wrong{{0.5F, 0.5F, 0.5F}, {0.25F, 0.25F, 0.25F}};
  EXPECT_EQ(pack(source, wrong, folder_.path() / "auto", "train").element, PackedElement::kF32);
  const auto error =
      error_of([&] { pack(source, wrong, folder_.path() / "bytes", "train", {.element = PackedElement::kU8}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kMismatch);
}

TEST_F(Packed, TokensAndValuesComeBack) {
  std::vector<char32_t> text;
  for (int i = 0; i < 1000; ++i)
    text.push_back(U'a' + static_cast<char32_t>(i * i % 400));
  const auto tokens = std::make_shared<Tokens>(text, text.size());
  const auto source = std::make_shared<TextDataset>(tokens, 0, 1000, 9);
  EXPECT_EQ(pack(source, {}, folder_.path(), "train").element,
            tokens->vocabulary() <= 256 ? PackedElement::kU8 : PackedElement::kU16);
  const PackedDataset packed(folder_.path(), "train");
  ASSERT_EQ(packed.size(), source->size());
  EXPECT_EQ(packed.spec().vocabulary, source->spec().vocabulary);
  std::vector<std::int64_t> a(9);
  std::vector<std::int64_t> b(9);
  std::vector<std::int64_t> c(9);
  std::vector<std::int64_t> d(9);
  for (std::uint64_t id = 0; id < packed.size(); ++id) {
    source->read_sample(id, {.tokens = a, .labels = b});
    packed.read_sample(id, {.tokens = c, .labels = d});
    EXPECT_EQ(a, c);
    EXPECT_EQ(b, d);
  }
}

TEST_F(Packed, TheNumberOfThreadsDoesNotShowInTheShards) {
  const auto source = pictures(kNormalization);
  pack(source, kNormalization, folder_.path() / "one", "train", {.shards = 2, .threads = 1});
  pack(source, kNormalization, folder_.path() / "three", "train", {.shards = 2, .threads = 3});
  for (const std::string name : {"train-00000-of-00002.pack", "train-00001-of-00002.pack"})
    EXPECT_EQ(bytes_of(folder_.path() / "one" / name), bytes_of(folder_.path() / "three" / name));
}

TEST_F(Packed, AnAlteredRecordIsNamedAndTheOthersStayGood) {
  pack(pictures(kNormalization), kNormalization, folder_.path(), "train", {.shards = 2});
  damage("train-00001-of-00002.pack", 4096 + 2 * 72 + 30);
  const PackedDataset packed(folder_.path(), "train");
  std::vector<float> features(60);
  EXPECT_NO_THROW(packed.read(52, features));
  const auto error = error_of([&] { packed.read(53, features); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
  EXPECT_THAT(error->where(), HasSubstr("train-00001-of-00002.pack: record 2"));
}

TEST_F(Packed, DamagedAndMissingShardsAreRefusedWhenOpened) {
  const auto source = pictures(kNormalization);
  pack(source, kNormalization, folder_.path(), "train", {.shards = 2});
  const auto open = [&] { PackedDataset(folder_.path(), "train"); };
  const auto second = folder_.path() / "train-00001-of-00002.pack";
  const std::string whole = bytes_of(second);
  EXPECT_FALSE(error_of(open));
  for (const std::size_t size : {std::size_t{0}, std::size_t{10}, std::size_t{100}, whole.size() - 1}) {
    testing::spill(second, whole.substr(0, size));
    EXPECT_EQ(error_of(open)->kind(), ErrorKind::kDamaged) << size;
  }
  testing::spill(second, whole + "x");
  EXPECT_EQ(error_of(open)->kind(), ErrorKind::kDamaged);
  for (const std::size_t at : {0U, 8U, 12U, 16U, 40U}) {
    testing::spill(second, whole);
    damage("train-00001-of-00002.pack", at);
    ASSERT_TRUE(error_of(open)) << at;
  }
  // The first shard in the place of the second.
  testing::spill(second, bytes_of(folder_.path() / "train-00000-of-00002.pack"));
  EXPECT_EQ(error_of(open)->kind(), ErrorKind::kMismatch);
  std::filesystem::remove(second);
  EXPECT_EQ(error_of(open)->kind(), ErrorKind::kNotFound);
  std::filesystem::remove(folder_.path() / "train-00000-of-00002.pack");
  EXPECT_THAT(error_of(open)->remedy(), HasSubstr("muster data pack"));
}

TEST_F(Packed, OldShardsAreNotOverwritten) {
  const auto source = pictures(kNormalization);
  pack(source, kNormalization, folder_.path(), "train", {.shards = 2});
  const auto error = error_of([&] { pack(source, kNormalization, folder_.path(), "train", {.shards = 3}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
}

TEST_F(Packed, IsASource) {
  const auto source = pictures(kNormalization);
  pack(source, kNormalization, folder_.path(), "train", {.shards = 2});
  pack(source, kNormalization, folder_.path(), "test");
  const Data data = open_source({.source = "packed", .path = folder_.path()});
  expect_same(*data.train, *source);
  EXPECT_THAT(data.description, HasSubstr("2 shards"));
}

}  // namespace
}  // namespace muster::data
