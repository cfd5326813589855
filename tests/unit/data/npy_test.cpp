// Headers and elements as NumPy writes them, and all that it does not.
#include "muster/data/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "npy_files.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;

NpyHeader parse(const Bytes& file) {
  return parse_npy_header(std::span(file).first(std::min(file.size(), kMostNpyHeader)), file.size(), "a.npy");
}

template <typename T>
std::vector<float> floats(const std::string& descr, const std::vector<T>& values) {
  const Bytes file = npy(descr, "(" + std::to_string(values.size()) + ",)", values);
  const NpyHeader header = parse(file);
  std::vector<float> out(header.elements);
  npy_floats(header, std::span(file).subspan(header.data_offset), out);
  return out;
}

TEST(Npy, ReadsTheCommonTypes) {
  EXPECT_THAT(floats<std::uint8_t>("|u1", {0, 255}), ElementsAre(0, 255));
  EXPECT_THAT(floats<std::int8_t>("|i1", {-128, 127}), ElementsAre(-128, 127));
  EXPECT_THAT(floats<std::uint8_t>("|b1", {0, 1}), ElementsAre(0, 1));
  EXPECT_THAT(floats<std::int16_t>("<i2", {-300, 5}), ElementsAre(-300, 5));
  EXPECT_THAT(floats<std::uint16_t>("<u2", {65535}), ElementsAre(65535));
  EXPECT_THAT(floats<std::int32_t>("<i4", {-70000}), ElementsAre(-70000));
  EXPECT_THAT(floats<std::uint32_t>("<u4", {70000}), ElementsAre(70000));
  EXPECT_THAT(floats<std::int64_t>("<i8", {-7, 1 << 20}), ElementsAre(-7, 1 << 20));
  EXPECT_THAT(floats<std::uint64_t>("<u8", {9}), ElementsAre(9));
  EXPECT_THAT(floats<float>("<f4", {1.5F, -2.0F}), ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(floats<double>("<f8", {1.5, 1e10}), ElementsAre(1.5F, 1e10F));
  // Halves: 1.5, -2, the smallest subnormal, the largest number.
  EXPECT_THAT(floats<std::uint16_t>("<f2", {0x3E00, 0xC000, 0x0001, 0x7BFF}),
              ElementsAre(1.5F, -2.0F, 5.9604645e-08F, 65504.0F));
}

TEST(Npy, ReadsBigEndianElements) {
  EXPECT_THAT(floats<std::uint16_t>(">u2", {0x0102}), ElementsAre(0x0201));
  const Bytes file = npy_bytes(npy_dictionary(">i4", "(1,)"), to_bytes({0xFF, 0xFF, 0xFF, 0xFE}));
  const NpyHeader header = parse(file);
  EXPECT_EQ(npy_integer(header, std::span(file).subspan(header.data_offset)), -2);
}

TEST(Npy, ReadsShapesOfAllRanks) {
  EXPECT_TRUE(parse(npy<float>("<f4", "()", {1})).shape.empty());
  EXPECT_EQ(parse(npy<float>("<f4", "(2, 3)", std::vector<float>(6))).shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(parse(npy<float>("<f4", "(0, 3)", {})).elements, 0U);
  EXPECT_EQ(parse(npy_bytes(npy_dictionary("<f4", "(1,)"), raw<float>({1}), 2)).elements, 1U);
}

TEST(Npy, FortranOrderIsRefusedWithARemedyUnlessItIsBothOrders) {
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }";
  const auto error = error_of([&] { parse(npy_bytes(dictionary, Bytes(16))); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kUnsupported);
  EXPECT_NE(error->remedy().find("ascontiguousarray"), std::string::npos);
  EXPECT_NO_THROW(parse(npy_bytes("{'descr': '<f4', 'fortran_order': True, 'shape': (4,), }", Bytes(16))));
}

TEST(Npy, OtherTypesAreRefused) {
  for (const char* descr : {"<c8", "|O", "<U5", "<M8[ns]", "|S3", "<f16", "<f1", "|b2", "<i3", "f4", "", "<"}) {
    const auto error = error_of([&] { parse(npy_bytes(npy_dictionary(descr, "(1,)"), Bytes(4))); });
    ASSERT_TRUE(error) << descr;
    EXPECT_EQ(error->kind(), ErrorKind::kUnsupported) << descr;
  }
}

TEST(Npy, HeadersThatNumPyDoesNotWriteAreDamaged) {
  for (const char* dictionary :
       {"", "{}", "{'descr': '<f4', 'shape': (1,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + 1",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}"}) {
    const auto error = error_of([&] { parse(npy_bytes(dictionary, Bytes(4))); });
    ASSERT_TRUE(error) << dictionary;
    EXPECT_EQ(error->kind(), ErrorKind::kDamaged) << dictionary;
  }
}

TEST(Npy, CutFilesAreDamaged) {
  const Bytes whole = npy<float>("<f4", "(3,)", {1, 2, 3});
  for (std::size_t size = 0; size < whole.size(); size += 5) {
    const auto error = error_of([&] { parse(Bytes(whole.begin(), whole.begin() + static_cast<long>(size))); });
    ASSERT_TRUE(error) << size;
    EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
  }
}

}  // namespace
}  // namespace muster::data
