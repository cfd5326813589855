// Through JSON and back; forms that contradict themselves are refused by their place.
#include "muster/data/data_form.h"
#include "muster/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/data/sources.h"
#include "support.h"

namespace muster::data {
namespace {

DataForm form_of_a_table() {
  const TemporaryFolder folder;
  testing::spill(folder.path() / "t.csv", "size,kind,id,price\n1,a,7,10\n3,b,8,20\n5,a,9,60\n7,,10,70\n");
  SourceOptions options;
  options.source = "csv";
  options.path = folder.path() / "t.csv";
  options.test_path = options.path;
  options.table.target = "price";
  options.table.regression = true;
  options.table.ignore = {"id"};
  return open_source(options).form;
}

TEST(DataForm, SurvivesJsonWithColumnsAndScales) {
  const DataForm form = form_of_a_table();
  const DataForm read = DataForm::from_json(parse_json(form.to_json().dump(), "card"), "card");
  EXPECT_EQ(read.to_json(), form.to_json());
  EXPECT_EQ(read.columns.targets, (std::vector<std::size_t>{3}));
  EXPECT_THAT(read.columns.columns[1].categories, ::testing::ElementsAre("", "a", "b"));
  EXPECT_EQ(read.scales[0].mean, 4);
  EXPECT_EQ(read.spec.target_scale[0].mean, 40);
  EXPECT_EQ(read.spec.shape, (std::vector<std::int64_t>{4}));
}

TEST(DataForm, ThatContradictsItselfIsRefusedByItsPlace) {
  const Json good = form_of_a_table().to_json();
  const auto refused = [&](const std::string& path, const Json& value) {
    Json bad = good;
    bad[Json::json_pointer(path)] = value;
    try {
      DataForm::from_json(bad, "the card");
      ADD_FAILURE() << path << " = " << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind() == ErrorKind::kDamaged || error.kind() == ErrorKind::kInvalidInput, true) << error.what();
    }
  };
  refused("/samples/shape", {9});
  refused("/samples/shape", {-1});
  refused("/samples/shape", {1LL << 30, 1LL << 30});
  refused("/samples/target", "wishes");
  refused("/samples/target_scale", {{{"mean", 0}, {"std", 0}}});
  refused("/samples/target_scale/0/std", -1);
  refused("/samples/classes", -2);
  refused("/columns/0/kind", "roman");
  refused("/columns/0/std", 0);
  refused("/columns", 5);
  refused("/target", 4);
  refused("/mean", {1.0});
}

}  // namespace
}  // namespace muster::data
