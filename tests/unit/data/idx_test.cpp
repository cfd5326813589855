// Files made here, plain and compressed, then every prefix, flipped bit and impossible size of them.
#include "muster/data/idx.h"

#include <sys/stat.h>

#include "idx_files.h"

namespace muster::data {
namespace {

std::optional<ErrorKind> refusal(const Bytes& file) {
  const auto error = error_of([&] { parse_idx(file, "data.idx"); });
  if (!error) return std::nullopt;
  EXPECT_EQ(error->where(), "data.idx");
  EXPECT_FALSE(error->message().empty());
  return error->kind();
}

TEST(ParseIdx, ReadsPlainAndCompressedAlike) {
  for (const std::vector<std::uint32_t>& extents :
       {std::vector<std::uint32_t>{0}, {1}, {7}, {2, 3}, {2, 3, 4}, {3, 28, 28}, {1, 1, 1, 1, 1, 1, 1, 2}}) {
    std::size_t elements = 1;
    for (const std::uint32_t extent : extents)
      elements *= extent;
    const Bytes plain = idx_bytes(extents, elements);
    for (const Bytes& file : {plain, gzip(plain), zstd(plain)}) {
      const IdxArray array = parse_idx(file, "data.idx");
      EXPECT_EQ(array.extents, std::vector<std::uint64_t>(extents.begin(), extents.end()));
      ASSERT_EQ(array.values.size(), elements);
      for (std::size_t i = 0; i < elements; ++i)
        ASSERT_EQ(array.values[i], i & 0xFF);
    }
  }
}

TEST(ParseIdx, ReadsWhatCompressesAsFarAsDeflateCan) {
  Bytes plain = idx_bytes({10, 1000, 1000}, 0);
  plain.resize(plain.size() + 10000000);
  EXPECT_EQ(parse_idx(zstd(plain), "zeros").values, std::vector<std::uint8_t>(10000000, 0));
  const Bytes packed = gzip(plain);
  ASSERT_LT(packed.size() * 1000, plain.size());
  EXPECT_EQ(parse_idx(packed, "zeros").values, std::vector<std::uint8_t>(10000000, 0));
}

TEST(ParseIdx, RefusesEveryPrefix) {
  const Bytes plain = idx_bytes({2, 3, 4}, 24);
  for (const Bytes& file : {plain, gzip(plain), zstd(plain)}) {
    for (std::size_t size = 0; size < file.size(); ++size) {
      EXPECT_EQ(refusal(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size))), ErrorKind::kDamaged)
          << size << " of " << file.size() << " bytes";
    }
  }
}

TEST(ParseIdx, RefusesEveryFlippedBitOfAPlainHeader) {
  const Bytes file = idx_bytes({2, 3, 4}, 24);
  for (std::size_t bit = 0; bit < 16 * 8; ++bit) {
    Bytes flipped = file;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_TRUE(refusal(flipped)) << "bit " << bit;
  }
}

TEST(ParseIdx, AFlippedBitInAGzipFileIsRefusedOrChangesNothing) {
  const Bytes plain = idx_bytes({4, 9, 9}, 324);
  const Bytes file = gzip(plain);
  const IdxArray original = parse_idx(file, "data.idx");
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
    Bytes flipped = file;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    if (refusal(flipped)) {
      ++refused;
    } else {
      EXPECT_EQ(parse_idx(flipped, "data.idx").values, original.values) << "bit " << bit;
    }
  }
  // Only time stamp, flags and system of the 10-byte gzip header are free to change.
  EXPECT_GE(refused, (file.size() - 10) * 8);
}

TEST(ParseIdx, RefusesSizesThatCannotBe) {
  constexpr std::uint32_t kHalf = std::uint32_t{1} << 31;
  constexpr std::uint32_t kMost = 0xFFFFFFFF;
  for (const std::vector<std::uint32_t>& extents : {std::vector<std::uint32_t>{kHalf},
                                                    {kMost},
                                                    {kHalf, kHalf, 4},
                                                    {kMost, kMost, kMost},
                                                    {1, 28, kHalf},
                                                    {kMost, kMost, kMost, 0},
                                                    {kHalf, kHalf, kHalf, kHalf, kHalf, kHalf, kHalf, kHalf}}) {
    for (const std::size_t payload : {0, 1, 100}) {
      const Bytes plain = idx_bytes(extents, payload);
      EXPECT_EQ(refusal(plain), ErrorKind::kDamaged);
      EXPECT_EQ(refusal(gzip(plain)), ErrorKind::kDamaged);
      EXPECT_EQ(refusal(zstd(plain)), ErrorKind::kDamaged);
    }
  }
}

// A small file must not be able to ask for much memory, whatever its header says.
TEST(ParseIdx, RefusesABombByItsHeader) {
  const Bytes bomb = gzip(idx_bytes({60000, 28, 28}, 1000));
  const auto error = error_of([&] { parse_idx(bomb, "bomb.gz"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
  EXPECT_NE(error->message().find("cannot hold"), std::string::npos) << error->what();
}

TEST(ParseIdx, RefusesADeclarationTheFileCouldHoldAndDoesNot) {
  EXPECT_EQ(refusal(gzip(idx_bytes({1000, 10}, 1000))), ErrorKind::kDamaged);
}

TEST(ParseIdx, RefusesBytesBehindTheEnd) {
  Bytes plain = idx_bytes({2, 3}, 6);
  Bytes packed = gzip(plain);
  plain.push_back(std::byte{0});
  EXPECT_EQ(refusal(plain), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(gzip(plain)), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(zstd(plain)), ErrorKind::kDamaged);
  const Bytes member = packed;
  packed.push_back(std::byte{0});
  EXPECT_EQ(refusal(packed), ErrorKind::kDamaged);
  Bytes twice = member;
  twice.insert(twice.end(), member.begin(), member.end());
  EXPECT_EQ(refusal(twice), ErrorKind::kDamaged);
}

TEST(ParseIdx, RefusesOtherTypesMagicsAndDimensions) {
  for (const int type : {0x09, 0x0B, 0x0C, 0x0D, 0x0E}) {
    EXPECT_EQ(refusal(idx_bytes({2}, 8, type)), ErrorKind::kUnsupported);
  }
  for (const int type : {0x00, 0x07, 0x0A, 0x0F, 0xFF})
    EXPECT_EQ(refusal(idx_bytes({2}, 2, type)), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(idx_bytes({}, 1)), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(idx_bytes(std::vector<std::uint32_t>(9, 1), 1)), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(idx_bytes(std::vector<std::uint32_t>(255, 1), 1)), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(to_bytes({0x89, 'P', 'N', 'G'})), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(gzip(to_bytes({1, 0, 8, 1, 0, 0, 0, 0}))), ErrorKind::kDamaged);
  EXPECT_EQ(refusal({}), ErrorKind::kDamaged);
}

TEST(ReadIdx, NamesThePathOfWhatIsNotAReadableFile) {
  const TemporaryFolder folder;
  const auto fifo = folder.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto empty = folder.write("empty", {});
  const auto sparse = folder.write("sparse", to_bytes({1, 2, 3}));
  std::filesystem::resize_file(sparse, std::uintmax_t{1} << 42);  // refused by its first bytes, not read
  const std::vector<std::pair<std::filesystem::path, ErrorKind>> expected = {
      {folder.path(), ErrorKind::kInvalidInput},
      {fifo, ErrorKind::kInvalidInput},
      {folder.path() / "none", ErrorKind::kNotFound},
      {empty, ErrorKind::kDamaged},
      {sparse, ErrorKind::kDamaged}};
  for (const auto& [path, kind] : expected) {
    const std::filesystem::path file = path;
    const auto error = error_of([&] { read_idx(file); });
    ASSERT_TRUE(error) << file;
    EXPECT_EQ(error->kind(), kind) << error->what();
    EXPECT_EQ(error->where(), file.string());
  }
}

TEST(ReadIdx, DetectsGzipByContentNotByName) {
  const TemporaryFolder folder;
  const Bytes plain = idx_bytes({5}, 5);
  EXPECT_EQ(read_idx(folder.write("a.gz", plain)).values.size(), 5U);
  EXPECT_EQ(read_idx(folder.write("b", gzip(plain))).values.size(), 5U);
}

class ReadIdxImages : public ::testing::Test {
 protected:
  std::optional<ErrorKind> refusal(const Bytes& images, const Bytes& labels,
                                   std::optional<std::int64_t> classes = std::nullopt) {
    const auto image_path = folder_.write("images", images);
    const auto label_path = folder_.write("labels", labels);
    const auto error = error_of([&] { read_idx_images(image_path, label_path, classes); });
    return error ? std::optional(error->kind()) : std::nullopt;
  }

  TemporaryFolder folder_;
};

TEST_F(ReadIdxImages, PutsPixelsAndLabelsTogether) {
  const auto images = read_idx_images(folder_.write("images", idx_bytes({3, 2, 4}, 24)),
                                      folder_.write("labels", idx_labels({0, 6, 2})));
  EXPECT_EQ(images.channels, 1);
  EXPECT_EQ(images.height, 2);
  EXPECT_EQ(images.width, 4);
  EXPECT_EQ(images.classes, 7);
  EXPECT_EQ(images.labels, (std::vector<std::int64_t>{0, 6, 2}));
  EXPECT_EQ(images.pixels.size(), 24U);
  EXPECT_EQ(images.pixels[23], 23);
}

TEST_F(ReadIdxImages, ThereAreAtLeastTwoClasses) {
  const auto images =
      read_idx_images(folder_.write("images", idx_bytes({1, 1, 1}, 1)), folder_.write("labels", idx_labels({0})));
  EXPECT_EQ(images.classes, 2);
}

TEST_F(ReadIdxImages, FilesMustFitTogether) {
  const Bytes images = idx_bytes({3, 2, 2}, 12);
  EXPECT_FALSE(refusal(images, idx_labels({0, 1, 2})));
  EXPECT_EQ(refusal(images, idx_labels({0, 1})), ErrorKind::kMismatch);
  EXPECT_EQ(refusal(images, idx_labels({})), ErrorKind::kMismatch);
  EXPECT_EQ(refusal(images, images), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(idx_labels({0}), idx_labels({0})), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(idx_bytes({0, 2, 2}, 0), idx_labels({})), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(idx_bytes({1, 0, 2}, 0), idx_labels({0})), ErrorKind::kDamaged);
}

TEST_F(ReadIdxImages, LabelsMustBeClassesOfTheTrainingSet) {
  const Bytes images = idx_bytes({2, 1, 1}, 2);
  EXPECT_FALSE(refusal(images, idx_labels({0, 4}), 5));
  EXPECT_EQ(refusal(images, idx_labels({0, 5}), 5), ErrorKind::kMismatch);
}

TEST(FashionMnist, IsReadAsPublished) {
  const std::filesystem::path folder = "/usr/share/datasets/fashion-mnist";
  const Images train = read_idx_images(folder / "train-images-idx3-ubyte.gz", folder / "train-labels-idx1-ubyte.gz");
  const Images test =
      read_idx_images(folder / "t10k-images-idx3-ubyte.gz", folder / "t10k-labels-idx1-ubyte.gz", train.classes);
  EXPECT_EQ(train.count(), 60000U);
  EXPECT_EQ(test.count(), 10000U);
  for (const Images* images : {&train, &test}) {
    EXPECT_EQ(images->height, 28);
    EXPECT_EQ(images->width, 28);
    EXPECT_EQ(images->classes, 10);
    std::vector<std::uint64_t> counts(10, 0);
    for (const std::int64_t label : images->labels)
      ++counts.at(static_cast<std::size_t>(label));
    EXPECT_EQ(counts, std::vector<std::uint64_t>(10, images->count() / 10));
  }
  const Normalization normalization = measure(train);
  EXPECT_NEAR(normalization.mean[0], 0.2860, 0.0001);
  EXPECT_NEAR(normalization.stddev[0], 0.3530, 0.0001);
}

}  // namespace
}  // namespace muster::data
