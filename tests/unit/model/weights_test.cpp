// Tensors by name out of .pth files and scripts built here, instruction by instruction; the same from Python's own
// files is in tests/multiprocess.
#include "muster/model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/temporary_folder.h"
#include "pickle_assembler.h"

namespace muster::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Weights weights_of_bytes(const Bytes& bytes) {
  return weights_of(std::make_shared<PthFile>(aligned(bytes), "f.pth"));
}

std::optional<Error> refusal(const Bytes& bytes) {
  try {
    weights_of_bytes(bytes);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

std::vector<float> values(const TensorView& tensor) {
  std::vector<float> out(tensor.data.size() / sizeof(float));
  if (!out.empty()) std::memcpy(out.data(), tensor.data.data(), tensor.data.size());
  return out;
}

const Bytes kSix = floats({0, 1, 2, 3, 4, 5});

TEST(Weights, StridedOffsetAndSharedTensorsAreTheirElements) {
  Asm code;
  code.proto().ordered_dict().mark();
  code.text("plain").tensor("0", 6, 0, {2, 3}, {3, 1});
  code.text("transposed").tensor("0", 6, 0, {3, 2}, {1, 3});
  code.text("row").tensor("0", 6, 3, {3}, {1});
  code.text("column").tensor("0", 6, 1, {2}, {3});
  code.text("scalar").tensor("0", 6, 5, {}, {});
  code.text("empty").tensor("0", 6, 0, {0, 4}, {4, 1});
  code.text("one").tensor("0", 6, 2, {1, 1}, {77, 99});
  code.op('u');
  const Weights weights = weights_of_bytes(pth_of(code.stop(), {{"0", kSix}}));
  ASSERT_THAT(weights.tensors, SizeIs(7));
  EXPECT_THAT(values(weights.tensors[0]), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values(weights.tensors[1]), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(weights.tensors[1].shape, ElementsAre(3, 2));
  EXPECT_THAT(values(weights.tensors[2]), ElementsAre(3, 4, 5));
  EXPECT_THAT(values(weights.tensors[3]), ElementsAre(1, 4));
  EXPECT_THAT(values(weights.tensors[4]), ElementsAre(5));
  EXPECT_THAT(values(weights.tensors[5]), ElementsAre());
  EXPECT_THAT(values(weights.tensors[6]), ElementsAre(2));
  EXPECT_THAT(weights.notes, SizeIs(0));
  EXPECT_EQ(weights.format, WeightsFormat::kPth);
}

TEST(Weights, AStateDictInsideAnotherDictionaryIsTakenAndSaid) {
  for (const char* const key : {"state_dict", "model"}) {
    Asm code;
    code.proto().dict().mark().text("epoch").integer(3).text(key).ordered_dict();
    code.text("module.w").tensor("0", 6, 0, {6}, {1}).set_item().op('u');
    const Weights weights = weights_of_bytes(pth_of(code.stop(), {{"0", kSix}}));
    ASSERT_THAT(weights.tensors, SizeIs(1));
    EXPECT_EQ(weights.tensors[0].name, "w");
    EXPECT_THAT(weights.notes, ElementsAre(HasSubstr(key), HasSubstr("module.")));
  }
}

TEST(Weights, EntriesThatAreNoTensorsAreNamed) {
  Asm code;
  code.proto().dict().mark().text("w").tensor("0", 6, 0, {6}, {1}).text("epoch").integer(1).op('u');
  const Weights weights = weights_of_bytes(pth_of(code.stop(), {{"0", kSix}}));
  EXPECT_THAT(weights.tensors, SizeIs(1));
  EXPECT_THAT(weights.notes, ElementsAre(HasSubstr("epoch")));
}

TEST(Weights, FilesThatAreNoStateDictAreRefused) {
  const auto plain = [](Asm code, const Members& storages = {{"0", kSix}}) { return pth_of(code.stop(), storages); };
  Asm good;
  good.proto().dict().text("w").tensor("0", 6, 0, {6}, {1}).set_item();
  ASSERT_FALSE(refusal(plain(good)));
  EXPECT_EQ(refusal(plain(Asm().proto().none()))->kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(refusal(plain(Asm().proto().dict()))->kind(), ErrorKind::kInvalidInput);
  EXPECT_THAT(refusal(plain(good, {}))->message(), HasSubstr("no storage"));
  EXPECT_THAT(refusal(plain(good, {{"0", floats({1, 2})}}))->message(), HasSubstr("8 bytes"));
  Asm twice;
  twice.proto().dict().text("w").tensor("0", 6, 0, {6}, {1}).set_item().text("w").none().set_item();
  twice.text("w").tensor("0", 6, 0, {6}, {1}).set_item();
  EXPECT_EQ(refusal(plain(twice))->kind(), ErrorKind::kDamaged);
}

TEST(Weights, ArchivesThatAreNotTorchsAreRefused) {
  Asm good;
  good.proto().dict().text("w").tensor("0", 6, 0, {6}, {1}).set_item();
  const Bytes pickle = good.stop();
  EXPECT_TRUE(refusal({}));
  EXPECT_TRUE(refusal(bytes_of_text("PK")));
  EXPECT_TRUE(refusal(archive_of({})));
  EXPECT_TRUE(refusal(archive_of({{"data.pkl", pickle}})));
  EXPECT_THAT(refusal(archive_of({{"a/version", bytes_of_text("3\n")}}))->message(), HasSubstr("data.pkl"));
  EXPECT_THAT(refusal(archive_of({{"a/data.pkl", pickle}, {"a/data.pkl", pickle}}))->message(), HasSubstr("twice"));
  EXPECT_THAT(refusal(archive_of({{"a/data.pkl", pickle}, {"a/byteorder", bytes_of_text("big")}}))->message(),
              HasSubstr("big-endian"));
  Bytes old = Asm().proto().op(0x8A).op(10).number(0x1950A86A20F9469C, 8).number(0, 2).stop();
  EXPECT_THAT(refusal(old)->message(), HasSubstr("before 1.6"));
  // Every cut, and every flipped bit of a tensor's data, is seen.
  const Bytes whole = pth_of(pickle, {{"0", kSix}});
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_TRUE(refusal(Bytes(whole.begin(), whole.begin() + static_cast<long>(size)))) << size;
  Bytes flipped = whole;
  const auto data = std::search(flipped.begin(), flipped.end(), kSix.begin(), kSix.end());
  ASSERT_NE(data, flipped.end());
  *(data + 9) ^= std::byte{1};
  EXPECT_THAT(refusal(flipped)->message(), HasSubstr("checksum"));
}

TEST(Weights, CopiesAreNoLargerThanTheFile) {
  Asm code;
  code.proto().dict().mark();
  for (int i = 0; i < 2000; ++i)
    code.text("w" + std::to_string(i)).tensor("0", 4096, 0, {64, 64}, {1, 64});
  code.op('u');
  EXPECT_THAT(refusal(pth_of(code.stop(), {{"0", floats(std::vector<float>(4096))}}))->message(), HasSubstr("overlap"));
}

TEST(Weights, ScriptsGiveTheTensorsOfTheirModules) {
  Asm code;
  code.proto().global("__torch__.nets", "Net").op(')').op(0x81).dict().mark();
  code.text("training").boolean(true).text("w").tensor("0", 6, 0, {6}, {1}).text("layer");
  code.global("__torch__.nets", "Layer").op(')').op(0x81).dict().text("b").tensor("0", 6, 0, {2}, {1}).set_item();
  code.op('b').op('u').op('b');
  const Bytes pickle = code.stop();
  const Weights weights =
      weights_of_bytes(archive_of({{"n/data.pkl", pickle}, {"n/constants.pkl", {}}, {"n/data/0", kSix}}));
  EXPECT_EQ(weights.format, WeightsFormat::kTorchScript);
  ASSERT_THAT(weights.tensors, SizeIs(2));
  EXPECT_EQ(weights.tensors[0].name, "w");
  EXPECT_EQ(weights.tensors[1].name, "layer.b");
  // A module inside itself.
  Asm cycle;
  cycle.proto().global("__torch__", "N").op(')').op(0x81).op('q').op(0).dict().text("n").op('h').op(0).set_item();
  cycle.op('b');
  EXPECT_THAT(refusal(archive_of({{"n/data.pkl", cycle.stop()}, {"n/constants.pkl", {}}}))->message(),
              HasSubstr("without an end"));
}

TEST(Weights, WhatIsWrittenIsReadBack) {
  const TemporaryFolder folder("muster-weights-test");
  const Bytes six = kSix;
  const std::int64_t count = 7;
  const std::vector<TensorView> tensors{
      {"b.weight", Dtype::kF32, {2, 3}, six},
      {"a.count", Dtype::kI64, {}, std::as_bytes(std::span(&count, 1))},
      {"tied", Dtype::kF32, {3, 2}, six},
      {"nothing", Dtype::kU8, {0}, {}},
  };
  const auto path = folder.path() / "w.pth";
  const FileDigest digest = write_state_dict(path, tensors);
  EXPECT_EQ(digest.bytes, std::filesystem::file_size(path));
  const Weights weights = read_weights(path);
  EXPECT_EQ(weights.format, WeightsFormat::kPth);
  ASSERT_EQ(weights.tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(weights.tensors[i].name, tensors[i].name);
    EXPECT_EQ(weights.tensors[i].dtype, tensors[i].dtype);
    EXPECT_EQ(weights.tensors[i].shape, tensors[i].shape);
    EXPECT_TRUE(std::ranges::equal(weights.tensors[i].data, tensors[i].data)) << tensors[i].name;
  }
  // Tied tensors are stored once, and data starts on a line of the cache.
  EXPECT_EQ(weights.tensors[0].data.data(), weights.tensors[2].data.data());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(weights.tensors[0].data.data()) % 64, 0U);
  write_safetensors(folder.path() / "w.bin", tensors);
  EXPECT_EQ(read_weights(folder.path() / "w.bin").format, WeightsFormat::kSafetensors);
}

TEST(Weights, FormatsHaveNamesAndExtensions) {
  EXPECT_EQ(weights_format_of("a/b.pth"), WeightsFormat::kPth);
  EXPECT_EQ(weights_format_of("b.safetensors"), WeightsFormat::kSafetensors);
  EXPECT_EQ(weights_format_of("b.pt"), WeightsFormat::kTorchScript);
  EXPECT_THROW(weights_format_of("b.onnx"), Error);
  EXPECT_EQ(parse_weights_format("pth"), WeightsFormat::kPth);
  EXPECT_THROW(parse_weights_format("onnx"), Error);
}

}  // namespace
}  // namespace muster::model
