// Files made by hand, byte by byte, against the reader, and what the writer gives read back; every malformed header
// with the reason for which it is refused.
#include "muster/model/safetensors.h"

#include <cstring>
#include <fstream>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "support/sandbox.h"

namespace muster::model {
namespace {

using ::testing::HasSubstr;

// A file as bytes: the length, the JSON as given, zeros for data.
std::string file_of(const std::string& json, std::size_t data_bytes) {
  std::string text(8, '\0');
  for (int i = 0; i < 8; ++i)
    text[i] = static_cast<char>(static_cast<std::uint64_t>(json.size()) >> (8 * i) & 0xFF);
  return text + json + std::string(data_bytes, '\0');
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), file.size(), "a.safetensors");
}

// The reason for which `file` is refused, or "accepted".
std::string refusal(const std::string& file) {
  try {
    parse(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
    EXPECT_EQ(error.where(), "a.safetensors");
    return error.message();
  }
  return "accepted";
}

std::string bytes_in(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void put(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(SafetensorsHeader, ReadsAHandWrittenFile) {
  const auto header = parse(file_of(R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
                                    R"("__metadata__":{"made by":"hand"},)"
                                    R"("a":{"data_offsets":[0,8],"shape":[],"dtype":"I64"}}   )",
                                    32));
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, Dtype::kI64);
  EXPECT_TRUE(header.tensors[0].shape.empty());
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[1].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(header.tensors[1].begin, 8u);
  EXPECT_EQ(header.find("b"), &header.tensors[1]);
  EXPECT_EQ(header.find("c"), nullptr);
  EXPECT_EQ(header.metadata, (Metadata{{"made by", "hand"}}));
}

TEST(SafetensorsHeader, AcceptsNoTensorsAndEmptyTensors) {
  EXPECT_TRUE(parse(file_of("{}", 0)).tensors.empty());
  const auto header = parse(file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                    R"("e":{"dtype":"F64","shape":[3,0],"data_offsets":[0,0]},)"
                                    R"("z":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}})",
                                    4));
  EXPECT_EQ(header.tensors.size(), 3u);
}

TEST(SafetensorsHeader, KnowsEveryDtypeAndItsSize) {
  const std::pair<std::string, int> types[] = {{"F64", 8},  {"I64", 8}, {"F32", 4}, {"I32", 4}, {"F16", 2},
                                               {"BF16", 2}, {"I16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}};
  for (const auto& type : types) {
    const auto header = parse(file_of(
        fmt::format(R"({{"x":{{"dtype":"{}","shape":[3],"data_offsets":[0,{}]}}}})", type.first, 3 * type.second),
        3 * static_cast<std::size_t>(type.second)));
    EXPECT_EQ(to_string(header.tensors[0].dtype), type.first);
    EXPECT_EQ(bytes_of(header.tensors[0].dtype), static_cast<std::uint64_t>(type.second));
  }
}

struct Malformed {
  std::string name;
  std::string json;
  std::size_t data_bytes;
  std::string reason;
};

// What a tensor "x" of this entry is refused for.
Malformed entry(std::string name, const std::string& members, std::size_t data_bytes, std::string reason) {
  return {std::move(name), R"({"x":{)" + members + "}}", data_bytes, std::move(reason)};
}

class RefusesHeader : public ::testing::TestWithParam<Malformed> {};

TEST_P(RefusesHeader, WithItsReason) {
  EXPECT_THAT(refusal(file_of(GetParam().json, GetParam().data_bytes)), HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    Corpus, RefusesHeader,
    ::testing::Values(
        Malformed{"empty", "", 0, "does not start with {"}, Malformed{"list", "[]", 0, "does not start with {"},
        Malformed{"leading_space", " {}", 0, "does not start with {"},
        Malformed{"byte_order_mark", "\xEF\xBB\xBF{}", 0, "does not start with {"},
        Malformed{"cut", R"({"x":)", 0, "not valid JSON"}, Malformed{"trailing", "{}{}", 0, "not valid JSON"},
        Malformed{"comment", "{}//", 0, "not valid JSON"},
        Malformed{"name_not_utf8", "{\"\xC3\x28\":{}}", 0, "not valid JSON"},
        Malformed{"tensor_is_number", R"({"x":1})", 0, "has a number where"},
        Malformed{"tensor_is_list", R"({"x":[]})", 0, "has an array where"},
        Malformed{"deep", R"({"x":{"shape":)" + std::string(100000, '[') + "}}", 0, "has an array where"},
        Malformed{"deep_objects", R"({"x":{"dtype":{"a":{"a":{}}}}})", 0, "has an object where"},
        Malformed{"data_without_tensor", "{}", 1, "need 0 bytes of data and the file has 1"},
        entry("no_members", "", 0, "has no dtype"),
        entry("no_shape", R"("dtype":"F32","data_offsets":[0,4])", 4, "has no shape"),
        entry("no_offsets", R"("dtype":"F32","shape":[1])", 4, "has no data_offsets"),
        entry("one_offset", R"("dtype":"F32","shape":[1],"data_offsets":[0])", 4, "fewer than two"),
        entry("three_offsets", R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])", 4, "more than two"),
        entry("unknown_dtype", R"("dtype":"F33","shape":[1],"data_offsets":[0,4])", 4, "unknown dtype \"F33\""),
        entry("dtype_number", R"("dtype":4,"shape":[1],"data_offsets":[0,4])", 4, "has a number where"),
        entry("unknown_member", R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"pickle":"x")", 4,
              "unknown member \"pickle\""),
        entry("dtype_twice", R"("dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4])", 4, "dtype twice"),
        entry("shape_twice", R"("dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4])", 4, "shape twice"),
        entry("negative_extent", R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", 4, "negative number"),
        entry("negative_zero", R"("dtype":"F32","shape":[-0],"data_offsets":[0,0])", 0, "negative number"),
        entry("negative_offset", R"("dtype":"F32","shape":[1],"data_offsets":[-4,0])", 4, "negative number"),
        entry("fraction", R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])", 4, "no 64-bit integer"),
        entry("exponent", R"("dtype":"F32","shape":[1e0],"data_offsets":[0,4])", 4, "no 64-bit integer"),
        entry("beyond_64_bits", R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4])", 4,
              "no 64-bit integer"),
        entry("extent_2_63", R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,4])", 4, "too large"),
        entry("overflowing_shape", R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0,
              "does not fit in 64 bits"),
        // 4 x 2^62 is 0 modulo 2^64: the multiplication by the type's size counts too.
        entry("overflowing_bytes", R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])", 0,
              "does not fit in 64 bits"),
        entry("wrong_size", R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4, "has 4 bytes of data; its"),
        entry("backwards", R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", 4, "ends at byte 0 before"),
        entry("beyond_the_file", R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 7, "need 8 bytes"),
        entry("hole_at_start", R"("dtype":"U8","shape":[1],"data_offsets":[1,2])", 2, "a hole"),
        entry("too_many_dimensions",
              R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,)"
              R"(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,)"
              R"(1,1,1,1,1,1],"data_offsets":[0,1])",
              1, "more than 64 dimensions"),
        Malformed{"hole",
                  R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                  R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                  3, "a hole"},
        Malformed{"overlap",
                  R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                  R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                  3, "an overlap"},
        Malformed{"shared_data",
                  R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                  R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                  2, "an overlap"},
        Malformed{"name_twice",
                  R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                  R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                  2, "\"a\" is there twice"},
        Malformed{"name_twice_by_escape",
                  R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                  R"("\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                  2, "\"a\" is there twice"},
        Malformed{"metadata_twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__ is there twice"},
        Malformed{"metadata_key_twice", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "\"a\" is there twice"},
        Malformed{"metadata_number", R"({"__metadata__":{"a":1}})", 0, "holds only texts"},
        Malformed{"metadata_list", R"({"__metadata__":[]})", 0, "holds only texts"},
        Malformed{"metadata_object", R"({"__metadata__":{"a":{}}})", 0, "holds only texts"}),
    [](const auto& info) { return info.param.name; });

TEST(SafetensorsHeader, RefusesImpossibleLengths) {
  EXPECT_THAT(refusal(""), HasSubstr("too few"));
  EXPECT_THAT(refusal(std::string(7, '\0')), HasSubstr("too few"));
  EXPECT_THAT(refusal(std::string(8, '\0')), HasSubstr("does not start with {"));
  EXPECT_THAT(refusal(std::string(8, '\xFF')), HasSubstr("announces a header of 18446744073709551615 bytes"));
  EXPECT_THAT(refusal(std::string(7, '\0') + "\x80"), HasSubstr("announces a header of 9223372036854775808 bytes"));
  std::string one_short = file_of("{}", 0);
  one_short[0] = 3;
  EXPECT_THAT(refusal(one_short), HasSubstr("announces a header of 3 bytes; at most 2"));
}

TEST(SafetensorsHeader, RefusesAHeaderBeyondTheLimitWhateverTheFileSize) {
  std::string prefix(8, '\0');
  const std::uint64_t bytes = kMostHeaderBytes + 1;
  for (int i = 0; i < 8; ++i)
    prefix[i] = static_cast<char>(bytes >> (8 * i) & 0xFF);
  EXPECT_THROW(parse_safetensors_header(std::as_bytes(std::span(prefix)), UINT64_MAX, "x"), Error);
  EXPECT_THROW(safetensors_header_bytes(std::as_bytes(std::span(prefix)).first<8>(), UINT64_MAX, "x"), Error);
}

TEST(SafetensorsHeader, RefusesAHeadThatEndsInsideTheHeader) {
  const std::string file = file_of(R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0);
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_THROW(parse_safetensors_header(std::as_bytes(std::span(file)).first(length), file.size(), "x"), Error);
    EXPECT_NE(refusal(file.substr(0, length)), "accepted");
  }
}

TEST(SafetensorsHeader, BoundsTheNumberOfTensors) {
  const auto with = [](std::size_t count) {
    std::string json = "{";
    for (std::size_t i = 0; i < count; ++i) {
      json +=
          fmt::format(R"({}"{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})", i == 0 ? "" : ",", i, i, i + 1);
    }
    return file_of(json + "}", count);
  };
  EXPECT_EQ(parse(with(kMostTensors)).tensors.size(), kMostTensors);
  EXPECT_THAT(refusal(with(kMostTensors + 1)), HasSubstr("more than 65536 tensors"));
}

TEST(SafetensorsHeader, KeepsMessagesShortAndPrintable) {
  const std::string name = std::string(1, 'n') + "\\n" + std::string(100000, 'm');
  const std::string reason = refusal(file_of(R"({")" + name + R"(":1})", 0));
  EXPECT_LT(reason.size(), 200u);
  EXPECT_EQ(reason.find('\n'), std::string::npos);
  // Characters of two bytes are not cut in half: 40 fit into the 80 bytes shown, behind one letter only 39.
  std::string umlauts = "a";
  for (int i = 0; i < 100; ++i)
    umlauts += "\u00fc";
  EXPECT_THAT(refusal(file_of(R"({")" + umlauts + R"(":1})", 0)),
              HasSubstr("\"" + umlauts.substr(0, 1 + 2 * 39) + "...\""));
}

class Written : public ::testing::Test {
 protected:
  TensorView view(const std::string& name, const std::vector<float>& values, std::vector<std::int64_t> shape) {
    return {name, Dtype::kF32, std::move(shape), std::as_bytes(std::span(values))};
  }
  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "a.safetensors";
};

TEST_F(Written, ReadsBackBitForBit) {
  const std::vector<float> weights{1.5f, -0.0f, std::numeric_limits<float>::quiet_NaN(), 1e-45f, 5, 6};
  const std::vector<std::uint8_t> odd{1, 2, 3};
  const std::vector<std::int64_t> count{42};
  const std::vector<TensorView> tensors{
      {"odd \"name\"/\u00e4", Dtype::kU8, {3}, std::as_bytes(std::span(odd))},
      view("weight", weights, {2, 3}),
      {"empty", Dtype::kBf16, {0, 7}, {}},
      {"count", Dtype::kI64, {}, std::as_bytes(std::span(count))},
  };
  const FileDigest digest = write_safetensors(path_, tensors, {{"format", "pt"}});

  const std::string bytes = bytes_in(path_);
  EXPECT_EQ(digest.bytes, bytes.size());
  EXPECT_EQ(digest.sha256, sha256(std::as_bytes(std::span(bytes))));

  const SafetensorsFile file(path_);
  EXPECT_EQ(file.header().data_begin % kDataAlignment, 0u);
  EXPECT_EQ(file.header().metadata, (Metadata{{"format", "pt"}}));
  ASSERT_EQ(file.header().tensors.size(), tensors.size());
  for (const TensorView& tensor : tensors) {
    const TensorEntry* const entry = file.header().find(tensor.name);
    ASSERT_NE(entry, nullptr) << tensor.name;
    EXPECT_EQ(entry->dtype, tensor.dtype);
    EXPECT_EQ(entry->shape, tensor.shape);
    EXPECT_EQ(entry->begin % bytes_of(entry->dtype), 0u) << tensor.name << " is not aligned to its type";
    std::vector<std::byte> out(tensor.data.size());
    file.read(tensor.name, out);
    EXPECT_TRUE(std::equal(out.begin(), out.end(), tensor.data.begin())) << tensor.name;
  }
}

TEST_F(Written, HeaderIsTheOneOfTheFormat) {
  const std::vector<float> values{1, 2};
  write_safetensors(path_, std::vector{view("w", values, {2})});
  const std::string bytes = bytes_in(path_);
  const std::string json = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ASSERT_EQ(bytes.size(), 64u + 8u);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x38\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(8, 56), json + std::string(56 - json.size(), ' '));
  EXPECT_EQ(std::memcmp(bytes.data() + 64, values.data(), 8), 0);
}

TEST_F(Written, SpansMoreThanOnePiece) {
  std::vector<float> values(512 * 1024 + 1);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i);
  std::size_t largest = 0;
  std::string streamed;
  const auto digest = encode_safetensors(std::vector{view("w", values, {524289})}, {}, [&](auto piece) {
    largest = std::max(largest, piece.size());
    streamed.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  EXPECT_EQ(largest, 1024u * 1024u);
  EXPECT_EQ(digest.bytes, streamed.size());
  EXPECT_EQ(digest.sha256, sha256(std::as_bytes(std::span(streamed))));
  EXPECT_EQ(std::memcmp(streamed.data() + parse(streamed).data_begin, values.data(), 4 * values.size()), 0);
}

TEST_F(Written, WithoutTensorsIsAFile) {
  write_safetensors(path_, {});
  EXPECT_TRUE(SafetensorsFile(path_).header().tensors.empty());
}

TEST_F(Written, RefusesWhatCouldNotBeReadBackAndLeavesTheOldFile) {
  const std::vector<float> values{1, 2};
  write_safetensors(path_, std::vector{view("w", values, {2})});
  const std::string before = bytes_in(path_);
  const std::vector<std::vector<TensorView>> refused{
      {view("w", values, {2}), view("w", values, {2})},
      {view("__metadata__", values, {2})},
      {view("w", values, {3})},
      {view("w", values, {-2})},
      {view("w", values, {INT64_MAX, INT64_MAX})},
      {view("w\xFF", values, {2})},
      {view("w", values, std::vector<std::int64_t>(65, 1))},
  };
  for (const auto& tensors : refused) {
    try {
      write_safetensors(path_, tensors);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    }
    EXPECT_EQ(bytes_in(path_), before);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1) << "a temporary file was left";
}

TEST_F(Written, ReadingNamesWhatIsMissingOrOfAnotherSize) {
  const std::vector<float> values{1, 2};
  write_safetensors(path_, std::vector{view("fc.weight", values, {2})});
  const SafetensorsFile file(path_);
  std::vector<std::byte> out(8);
  try {
    file.read("fc.wieght", out);
    ADD_FAILURE() << "found";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("fc.weight"));
  }
  for (const std::size_t size : {0, 7, 9}) {
    out.resize(size);
    try {
      file.read("fc.weight", out);
      ADD_FAILURE() << "read";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    }
  }
}

TEST_F(Written, CutAfterOpeningIsDamaged) {
  const std::vector<float> values{1, 2};
  write_safetensors(path_, std::vector{view("w", values, {2})});
  const SafetensorsFile file(path_);
  std::filesystem::resize_file(path_, 68);
  std::vector<std::byte> out(8);
  try {
    file.read("w", out);
    ADD_FAILURE() << "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
  }
  EXPECT_THROW(SafetensorsFile{path_}, Error);
}

TEST_F(Written, OpeningRefusesFoldersMissingAndShortFiles) {
  const auto kind_of = [](const std::filesystem::path& path) {
    try {
      SafetensorsFile file(path);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
      return error.kind();
    }
    return ErrorKind::kInterrupted;
  };
  EXPECT_EQ(kind_of(path_), ErrorKind::kNotFound);
  EXPECT_EQ(kind_of(folder_.path()), ErrorKind::kInvalidInput);
  for (const std::string& bytes :
       {std::string(), std::string("\x02\0\0", 3), std::string(8, '\xFF'), file_of("{", 0)}) {
    put(path_, bytes);
    EXPECT_EQ(kind_of(path_), ErrorKind::kDamaged);
  }
}

TEST(TensorSet, GivesAlignedTensorsByName) {
  const std::vector<float> a{1, 2, 3};
  const std::vector<double> b{4};
  std::string file;
  encode_safetensors(std::vector<TensorView>{{"a", Dtype::kF32, {3}, std::as_bytes(std::span(a))},
                                             {"b", Dtype::kF64, {1}, std::as_bytes(std::span(b))}},
                     {}, [&](auto piece) { file.append(reinterpret_cast<const char*>(piece.data()), piece.size()); });
  AlignedBytes bytes(file.size(), "x");
  std::memcpy(bytes.span().data(), file.data(), file.size());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.span().data()) % kDataAlignment, 0u);
  TensorSet set(std::move(bytes), "x");
  const TensorSet moved = std::move(set);
  EXPECT_EQ(std::memcmp(moved.tensor("a").data.data(), a.data(), 12), 0);
  EXPECT_EQ(std::memcmp(moved.tensor("b").data.data(), b.data(), 8), 0);
  EXPECT_EQ(moved.tensor("b").dtype, Dtype::kF64);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(moved.tensor("b").data.data()) % 8, 0u);
  EXPECT_THROW(moved.tensor("c"), Error);
}

TEST(AlignedBytes, SaysThatMemoryIsShort) {
  try {
    AlignedBytes bytes(UINT64_MAX, "big.safetensors");
    ADD_FAILURE() << "allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
    EXPECT_EQ(error.where(), "big.safetensors");
  }
  EXPECT_TRUE(AlignedBytes(0, "x").span().empty());
}

}  // namespace
}  // namespace muster::model
