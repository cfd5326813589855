// Programs for the pickle machine, written here instruction by instruction: good ones, cut ones, and all that it must
// refuse by name.
#include "muster/model/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "muster/base/error.h"
#include "pickle_assembler.h"

namespace muster::model {
namespace {

using ::testing::HasSubstr;

template <typename Call>
std::optional<Error> error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

std::optional<Error> refusal(const Bytes& bytes, PickleDialect dialect = PickleDialect::kStateDict) {
  return error_of([&] { parse_pickle(bytes, "f.pth", dialect); });
}

TEST(Pickle, PlainValuesAreWhatWasWritten) {
  Asm code;
  code.proto().mark().none().boolean(true).boolean(false).integer(-7);
  code.op('K').op(200).op('M').number(60000, 2).op(0x8A).op(1).op(0xFF).op(0x8A).op(0);
  code.op(0x8A).op(8).number(0x7FFFFFFFFFFFFFFF, 8).op('G');
  for (const int byte : {0x3F, 0xF8, 0, 0, 0, 0, 0, 0})  // 1.5, big-endian
    code.op(byte);
  code.text("näme").op('t');
  const Pickle pickle = parse_pickle(code.stop(), "f");
  const Pickle::Sequence* const items = pickle.sequence(pickle.root());
  ASSERT_NE(items, nullptr);
  EXPECT_TRUE(items->is_tuple);
  ASSERT_EQ(items->items.size(), 11U);
  const auto& at = items->items;
  EXPECT_TRUE(std::holds_alternative<Pickle::None>(pickle.at(at[0])));
  EXPECT_TRUE(std::get<bool>(pickle.at(at[1])));
  EXPECT_FALSE(std::get<bool>(pickle.at(at[2])));
  const std::int64_t integers[] = {-7, 200, 60000, -1, 0, INT64_MAX};
  for (std::size_t i = 0; i < std::size(integers); ++i)
    EXPECT_EQ(*pickle.integer(at[3 + i]), integers[i]);
  EXPECT_EQ(std::get<double>(pickle.at(at[9])), 1.5);
  EXPECT_EQ(*pickle.text(at[10]), "näme");
}

TEST(Pickle, ListsDictionariesAndTheMemoWork) {
  // {"a": [1, 2], "b": the same list, 3: ()}
  const Bytes bytes = Asm()
                          .proto()
                          .dict()
                          .mark()
                          .text("a")
                          .op(']')
                          .op('q')
                          .op(5)
                          .mark()
                          .integer(1)
                          .integer(2)
                          .op('e')
                          .text("b")
                          .op('h')
                          .op(5)
                          .integer(3)
                          .op(')')
                          .op('u')
                          .stop();
  const Pickle pickle = parse_pickle(bytes, "f");
  const Pickle::Dictionary& root = *pickle.dictionary(pickle.root());
  ASSERT_EQ(root.items.size(), 3U);
  EXPECT_EQ(*pickle.member(root, "a"), *pickle.member(root, "b"));
  EXPECT_EQ(pickle.sequence(*pickle.member(root, "a"))->items.size(), 2U);
  EXPECT_EQ(pickle.member(root, "c"), nullptr);
  EXPECT_EQ(pickle.kind(root.items[2].second), "a tuple");
}

TEST(Pickle, AListThatContainsItselfIsHarmless) {
  const Pickle pickle = parse_pickle(Asm().proto().op(']').op('q').op(0).op('h').op(0).op('a').stop(), "f");
  EXPECT_EQ(pickle.sequence(pickle.root())->items[0], pickle.root());
}

TEST(Pickle, ParametersAreTheirTensorsAndMetadataIsDropped) {
  Asm code;
  code.proto().ordered_dict().text("w");
  code.global("torch._utils", "_rebuild_parameter").mark().tensor("0", 6, 0, {2, 3}, {3, 1});
  code.boolean(true).ordered_dict().op('t').op('R').set_item();
  code.dict().text("_metadata").ordered_dict().set_item().op('b');
  const Pickle pickle = parse_pickle(code.stop(), "f");
  const Pickle::Dictionary& root = *pickle.dictionary(pickle.root());
  ASSERT_EQ(root.items.size(), 1U);
  const Pickle::Tensor* const tensor = pickle.tensor(root.items[0].second);
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(pickle.storage(tensor->storage)->key, "0");
}

TEST(Pickle, ForeignNamesAreRefusedWithNameAndPlace) {
  const auto names = {std::pair{"os", "system"},       std::pair{"builtins", "eval"},
                      std::pair{"torch", "load"},      std::pair{"collections", "OrderedDict2"},
                      std::pair{"numpy", "ndarray"},   std::pair{"torch", "ComplexFloatStorage"},
                      std::pair{"__torch__.x", "Net"}, std::pair{"posix", "system"}};
  for (const auto& name : names) {
    const auto error = refusal(Asm().proto().none().global(name.first, name.second).stop());
    ASSERT_TRUE(error) << name.first;
    EXPECT_EQ(error->kind(), ErrorKind::kUnsupported);
    EXPECT_THAT(error->message(), HasSubstr(std::string(name.first) + "." + name.second));
    EXPECT_THAT(error->where(), HasSubstr("byte 3"));
  }
}

TEST(Pickle, EveryInstructionThatIsNotOnTheListIsRefusedByName) {
  const std::string allowed = "(.NJKMGX)t]aes}ucRbQqrhj\x85\x86\x87\x88\x89\x8A\x80";
  for (int code = 0; code < 256; ++code) {
    if (allowed.find(static_cast<char>(code)) != std::string::npos) continue;
    const auto error = refusal(Asm().proto().op(code).stop());
    ASSERT_TRUE(error) << code;
    const std::string_view name = pickle_opcode_name(static_cast<std::uint8_t>(code));
    EXPECT_EQ(error->kind(), name.empty() ? ErrorKind::kDamaged : ErrorKind::kUnsupported) << code;
    EXPECT_THAT(error->message(), HasSubstr(std::string(name)));
    EXPECT_THAT(error->where(), HasSubstr("byte 2"));
  }
}

TEST(Pickle, ProtocolsOtherThanTwoAreRefused) {
  for (const int version : {0, 1, 3, 4, 5, 255})
    EXPECT_EQ(refusal(Asm().proto(version).none().stop())->kind(), ErrorKind::kUnsupported) << version;
}

TEST(Pickle, MalformedProgramsAreDamaged) {
  const std::vector<Bytes> programs{
      {},
      Asm().proto().stop(),                                                      // nothing on the stack
      Asm().proto().none().none().stop(),                                        // too much
      Asm().proto().mark().none().stop(),                                        // a mark left over
      Asm().proto().op('t').stop(),                                              // no mark
      Asm().proto().none().mark().op('a').stop(),                                // reaches below a mark
      Asm().proto().none().op(0x86).stop(),                                      // a pair of one
      Asm().proto().none().integer(1).op('a').stop(),                            // appends to None
      Asm().proto().op(')').integer(1).op('a').stop(),                           // appends to a tuple
      Asm().proto().op(']').none().none().set_item().stop(),                     // sets in a list
      Asm().proto().dict().mark().none().op('u').stop(),                         // a key alone
      Asm().proto().op('h').op(3).stop(),                                        // not in the memo
      Asm().proto().op('q').op(3).stop(),                                        // nothing to remember
      Asm().proto().none().op(')').op('R').stop(),                               // calls None
      Asm().proto().global("collections", "OrderedDict").none().op('R').stop(),  // no tuple
      Asm().proto().none().op('Q').stop(),                                       // no reference
      Asm().proto().tuple({1, 2, 3, 4, 5}).op('Q').stop(),
      Asm().proto().text("\xFF").stop(),
      Asm().proto().op('X').number(0xFFFFFFFF, 4).raw("a").stop(),  // longer than the file
      Asm().proto().op('c').raw("no end of line").stop(),
      Asm().proto().none().op('.').stop(),  // bytes after the end
  };
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const auto error = refusal(programs[i]);
    ASSERT_TRUE(error) << i;
    EXPECT_EQ(error->kind(), ErrorKind::kDamaged) << i << ": " << error->what();
  }
}

TEST(Pickle, EveryCutOfAGoodPickleIsRefused) {
  const Bytes whole = Asm().proto().ordered_dict().text("w").tensor("0", 6, 0, {2, 3}, {3, 1}).set_item().stop();
  ASSERT_FALSE(refusal(whole));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_TRUE(refusal(Bytes(whole.begin(), whole.begin() + static_cast<long>(size)))) << size;
}

TEST(Pickle, TensorsOutsideTheirStorageAreRefused) {
  struct Case {
    std::int64_t elements, offset;
    std::vector<std::int64_t> shape, strides;
  };
  const std::vector<Case> cases{
      {6, 1, {2, 3}, {3, 1}},
      {6, 0, {2, 3}, {4, 1}},
      {6, -1, {2, 3}, {3, 1}},
      {6, 0, {-2, 3}, {3, 1}},
      {6, 0, {2, 3}, {-3, 1}},
      {6, 0, {2, 3}, {3}},
      {6, 0, {1000000}, {0}},                                      // expanded
      {6, 0, {1 << 30, 1 << 30, 1 << 30, 1 << 30}, {0, 0, 0, 0}},  // overflows
      {6, 0, {2, 2}, {1 << 30, 1}},
      {-6, 0, {2, 3}, {3, 1}},
      {0, 0, {1}, {1}},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    EXPECT_TRUE(refusal(Asm().proto().tensor("0", c.elements, c.offset, c.shape, c.strides).stop())) << i;
  }
  // Nothing is a place outside when there are no elements; 65 dimensions are too many.
  EXPECT_FALSE(refusal(Asm().proto().tensor("0", 0, 0, {0, 3}, {3, 1}).stop()));
  const std::vector<std::int64_t> ones(65, 1);
  EXPECT_TRUE(refusal(Asm().proto().tensor("0", 1, 0, ones, ones).stop()));
}

TEST(Pickle, HooksAreRefused) {
  Asm code;
  code.proto().global("torch._utils", "_rebuild_tensor_v2").mark().storage("FloatStorage", "0", 1).integer(0);
  code.tuple({1}).tuple({1}).boolean(false).dict().integer(1).integer(1).set_item().op('t').op('R');
  EXPECT_THAT(refusal(code.stop())->message(), HasSubstr("hooks"));
}

TEST(Pickle, WhatItCostsIsBounded) {
  Asm values;
  values.proto();
  for (std::size_t i = 0; i <= kMostPickleValues; ++i)
    values.none();
  EXPECT_THAT(refusal(values.stop())->message(), HasSubstr("values"));
  Asm marks;
  marks.proto();
  for (std::size_t i = 0; i <= kMostPickleReferences; ++i)
    marks.mark();
  EXPECT_THAT(refusal(marks.stop())->message(), HasSubstr("references"));
  EXPECT_THAT(refusal(Asm().proto().none().op('r').number(0xFFFFFFFF, 4).stop())->message(), HasSubstr("memo"));
  EXPECT_THAT(refusal(Asm().proto().op(0x8A).op(9).number(1, 8).op(0).stop())->message(), HasSubstr("9 bytes"));
  EXPECT_THAT(refusal(Bytes(kMostPickleBytes + 1, std::byte{'N'}))->message(), HasSubstr("bytes"));
}

TEST(Pickle, ObjectsExistOnlyInScripts) {
  Asm code;
  code.proto().global("__torch__.nets", "Net").op(')').op(0x81).dict().text("w").tensor("0", 1, 0, {}, {});
  code.set_item().op('b');
  const Bytes bytes = code.stop();
  const Pickle pickle = parse_pickle(bytes, "f", PickleDialect::kScript);
  const Pickle::Dictionary& net = *pickle.dictionary(pickle.root());
  EXPECT_TRUE(net.is_object);
  EXPECT_NE(pickle.tensor(*pickle.member(net, "w")), nullptr);
  EXPECT_TRUE(refusal(bytes));
  EXPECT_THAT(refusal(Asm().proto().global("os", "system").op(')').op(0x81).stop(), PickleDialect::kScript)->message(),
              HasSubstr("os.system"));
}

}  // namespace
}  // namespace muster::model
