// A script archive made by hand, then cut, flipped and forged in every place: all of it is refused without LibTorch.
#include "muster/model/script_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "muster/base/error.h"
#include "pickle_assembler.h"

namespace muster::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A module of the class Net with one parameter.
Bytes module_pickle(std::int64_t elements = 4, std::int64_t extent = 4) {
  Asm code;
  code.proto().global("__torch__", "Net").op(')').op(0x81);
  code.dict().text("weight").tensor("0", elements, 0, {extent}, {1}).set_item().op('b');
  return code.stop();
}
const Bytes kNoConstants = Asm().proto().op(')').stop();
const std::string kSource = "class Net(Module):\n  def forward(self, x): return x * self.weight\n";

struct Script {
  Bytes data = module_pickle();
  Bytes constants = kNoConstants;
  std::string source = kSource;
  Bytes archive() const {
    return archive_of({{"net/data.pkl", data},
                       {"net/data/0", floats({1, 2, 3, 4})},
                       {"net/constants.pkl", constants},
                       {"net/code/__torch__.py", bytes_of_text(source)},
                       {"net/version", bytes_of_text("3\n")}},
                      ".py");
  }
};

std::optional<Error> refusal(const Bytes& archive) {
  try {
    check_script(aligned(archive), "net.ts");
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

TEST(ScriptCheck, AWholeScriptPasses) {
  const auto error = refusal(Script().archive());
  EXPECT_FALSE(error) << error->what();
}

TEST(ScriptCheck, AFileThatIsCutAnywhereIsRefused) {
  const Bytes whole = Script().archive();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto error = refusal(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
    ASSERT_TRUE(error) << length;
    EXPECT_EQ(error->kind(), ErrorKind::kDamaged) << length << ": " << error->what();
  }
}

// Of data.pkl, a storage, constants.pkl and the source.
TEST(ScriptCheck, AFlippedBitInAnyMemberIsRefused) {
  const Bytes whole = Script().archive();
  const std::string text(reinterpret_cast<const char*>(whole.data()), whole.size());
  for (const char* const name : {"net/data.pkl", "net/data/0", "net/constants.pkl", "net/code/__torch__.py"}) {
    Bytes flipped = whole;
    flipped[text.find(name) + std::string(name).size() + 1] ^= std::byte{4};
    const auto error = refusal(flipped);
    ASSERT_TRUE(error) << name;
    EXPECT_EQ(error->kind(), ErrorKind::kDamaged) << name << ": " << error->what();
  }
}

TEST(ScriptCheck, ANameThatNoScriptNeedsIsRefusedWithIt) {
  const Bytes command = Asm().proto().global("os", "system").mark().text("true").op('t').op('R').stop();
  const auto in_data = refusal(Script{.data = command}.archive());
  ASSERT_TRUE(in_data);
  EXPECT_THAT(in_data->what(), AllOf(HasSubstr("data.pkl"), HasSubstr("os.system"), HasSubstr("nothing of a file")));
  const auto in_constants = refusal(Script{.constants = command}.archive());
  ASSERT_TRUE(in_constants);
  EXPECT_THAT(in_constants->what(), AllOf(HasSubstr("constants.pkl"), HasSubstr("os.system")));
}

TEST(ScriptCheck, ATensorBeyondItsStorageIsRefused) {
  EXPECT_TRUE(refusal(Script{.data = module_pickle(4, 5)}.archive())) << "beyond what the pickle says";
  const auto error = refusal(Script{.data = module_pickle(5, 5)}.archive());
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("has 16 bytes and should have 5 elements"));
}

TEST(ScriptCheck, SourceThatGrowsBeyondMeasureIsRefusedBeforeItGrows) {
  const auto bomb = refusal(Script{.source = std::string(std::size_t{64} << 20, ' ')}.archive());
  ASSERT_TRUE(bomb);
  EXPECT_THAT(bomb->message(), AllOf(HasSubstr("code/__torch__.py"), HasSubstr("67.1 MB")));
  std::string long_source;
  for (int i = 0; i < 20'000; ++i)
    long_source += "  x = torch.add(x, self.weight_" + std::to_string(i) + ")\n";
  EXPECT_FALSE(refusal(Script{.source = long_source}.archive())) << "0.7 MB of real source";
}

TEST(ScriptCheck, WeightsWithoutAScriptAreRefused) {
  const auto error = refusal(pth_of(Asm().proto().ordered_dict().stop(), {}));
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("no script"));
}

}  // namespace
}  // namespace muster::model
