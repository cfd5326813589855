// Written and read back; cards of another release are named as that.
#include "muster/trainer/model_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ModelCard example() {
  ModelCard card;
  card.name = "iris";
  card.muster_version = "0.1.0";
  card.job = "[job]\nname = \"iris\"\n";
  card.data = "150 flowers";
  card.train_samples = 120;
  card.form.spec.shape = {4};
  card.form.spec.classes = 3;
  card.model = "mlp";
  card.parameters = 1234;
  card.task = "classification";
  return card;
}

TEST(ModelCardTest, IsWrittenForPeopleAndProgramsAndReadBack) {
  const testing::TemporaryFolder folder;
  ModelCard card = example();
  card.write(folder.path());
  EXPECT_FALSE(ModelCard::read(folder.path()).result) << "not at its end";
  card.result = ModelCard::Result{80, 10, 1.5, {0.25, {{"accuracy", 0.9}}, 30}, 64, 0.2, "abc"};
  card.write(folder.path());
  const ModelCard read = ModelCard::read(folder.path());
  EXPECT_EQ(read.to_json(), card.to_json());
  EXPECT_EQ(read.result->test.metric("accuracy"), 0.9);
  EXPECT_THAT(testing::slurp(folder / "card.md"), AllOf(HasSubstr("# iris"), HasSubstr("1,234 parameters"),
                                                        HasSubstr("accuracy 0.9000"), HasSubstr("name = \"iris\"")));
}

TEST(ModelCardTest, ThatIsDamagedOrOfALaterReleaseIsNamed) {
  const testing::TemporaryFolder folder;
  const auto error_of = [&](const std::string& text) {
    testing::spill(folder / "card.json", text);
    try {
      ModelCard::read(folder.path());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error_of("{"), HasSubstr("card.json"));
  EXPECT_THAT(error_of("{\"format\": 1}"), HasSubstr("card.json"));
  Json later = example().to_json();
  later["format"] = 2;
  EXPECT_THAT(error_of(later.dump()), HasSubstr("format 2"));
}

}  // namespace
}  // namespace muster::trainer
