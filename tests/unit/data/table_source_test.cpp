// Tables as samples against numbers worked out by hand; held-out rows never enter a scale.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "idx_files.h"
#include "muster/data/make_table.h"
#include "muster/data/sources.h"
#include "muster/data/table_dataset.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

Bytes text_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class CsvSource : public ::testing::Test {
 protected:
  Data open(std::string_view text, SourceOptions options = {}) {
    options.source = "csv";
    options.path = folder_.write("train.csv", text_bytes(text));
    if (!test_.empty()) options.test_path = folder_.write("test.csv", text_bytes(test_));
    return open_source(options);
  }
  static std::vector<float> features(const Dataset& set, std::uint64_t id) {
    std::vector<float> row(set.spec().elements());
    set.read(id, row);
    return row;
  }
  TemporaryFolder folder_;
  std::string test_;
};

TEST_F(CsvSource, NumbersAreNormalisedAndCategoriesBecomeColumns) {
  test_ = "n,c,y\n3,green,no\n,red,yes\n";
  const Data data = open("n,c,y\n1,red,no\n3,blue,yes\n5,red,no\n,red,no\n");
  EXPECT_EQ(data.train->spec().shape, (std::vector<std::int64_t>{3}));
  EXPECT_THAT(data.train->spec().columns, ElementsAre(1, 2));
  EXPECT_EQ(data.train->spec().classes, 2);
  EXPECT_THAT(data.train->spec().class_names, ElementsAre("no", "yes"));
  // Mean 3, variance (4 + 0 + 4) / 3; the missing one is the mean. Categories: blue, red.
  const float deviation = std::sqrt(8.0F / 3.0F);
  EXPECT_THAT(features(*data.train, 0), ElementsAre(FloatNear(-2 / deviation, 1e-6F), 0, 1));
  EXPECT_THAT(features(*data.train, 1), ElementsAre(FloatNear(0, 1e-6F), 1, 0));
  EXPECT_THAT(features(*data.train, 3), ElementsAre(FloatNear(0, 1e-6F), 0, 1));
  // The test table uses the training table's scale; a colour it never had is none.
  EXPECT_THAT(features(*data.test, 0), ElementsAre(FloatNear(0, 1e-6F), 0, 0));
  EXPECT_THAT(features(*data.test, 1), ElementsAre(FloatNear(0, 1e-6F), 0, 1));
  std::vector<float> row(3);
  EXPECT_EQ(data.test->read(1, row), 1);
  EXPECT_THAT(data.description, HasSubstr("12 bytes a row"));
}

TEST_F(CsvSource, AValidationTableUsesTheTrainingTablesScaleAndClasses) {
  test_ = "n,c,y\n3,blue,no\n";
  const auto validation = folder_.write("validation.csv", text_bytes("n,c,y\n5,red,yes\n"));
  const Data data = open("n,c,y\n1,red,no\n5,blue,yes\n", {.validation_path = validation});
  ASSERT_TRUE(data.validation);
  EXPECT_EQ(data.train->size(), 2U);
  EXPECT_THAT(features(*data.validation, 0), ElementsAre(FloatNear(1, 1e-6F), 0, 1));
  std::vector<float> row(3);
  EXPECT_EQ(data.validation->read(0, row), 1);
}

TEST_F(CsvSource, RowsThatAreHeldOutForValidationDoNotEnterTheScale) {
  std::string text = "n,y\n";
  for (int row = 0; row < 200; ++row)
    text += std::to_string(row * row) + (row % 2 == 0 ? ",a\n" : ",b\n");
  const Data data = open(text, {.seed = 4, .test_fraction = 0.2, .validation = 0.5});
  ASSERT_EQ(data.train->size(), 80U);
  double sum = 0;
  for (std::uint64_t id = 0; id < data.train->size(); ++id)
    sum += features(*data.train, id)[0];
  EXPECT_NEAR(sum / 80, 0, 1e-5);
}

TEST_F(CsvSource, AMissingValueCanBeGiven) {
  test_ = "n,y\n,a\n";
  SourceOptions options;
  options.table.missing_value = 5;
  const Data data = open("n,y\n1,a\n3,b\n", options);
  EXPECT_THAT(features(*data.test, 0), ElementsAre(FloatNear(3, 1e-6F)));  // (5 - 2) / 1
}

TEST_F(CsvSource, AConstantColumnIsZero) {
  test_ = "n,y\n7,a\n";
  const Data data = open("n,y\n7,a\n7,b\n");
  EXPECT_THAT(features(*data.train, 0), ElementsAre(0));
}

TEST_F(CsvSource, RegressionGivesValuesByTheScaleOfTheTrainingRows) {
  test_ = "n,y\n7,2.5\n";
  SourceOptions options;
  options.table.regression = true;
  const Data data = open("n,y\n7,-1\n8,4\n", options);
  const SampleSpec& spec = data.test->spec();
  EXPECT_EQ(spec.target, TargetKind::kValues);
  EXPECT_EQ(spec.target_shape, (std::vector<std::int64_t>{1}));
  float feature = 0;
  float value = 0;
  data.test->read_sample(0, {.features = std::span(&feature, 1), .values = std::span(&value, 1)});
  EXPECT_EQ(value, 0.4F) << "(2.5 - 1.5) / 2.5";
  ASSERT_EQ(spec.target_scale.size(), 1U);
  EXPECT_EQ(spec.target_scale[0].mean, 1.5);
  EXPECT_EQ(spec.target_scale[0].stddev, 2.5);
}

TEST_F(CsvSource, WithoutATestFileAPartIsHeldOutAndDoesNotCountForTheScale) {
  std::string text = "n,y\n";
  for (int i = 0; i < 100; ++i)
    text += std::to_string(i) + "," + (i % 2 == 0 ? "a\n" : "b\n");
  SourceOptions options;
  options.test_fraction = 0.2;
  const Data data = open(text, options);
  ASSERT_EQ(data.train->size(), 80U);
  ASSERT_EQ(data.test->size(), 20U);
  double sum = 0;
  double squares = 0;
  std::set<float> different;
  for (std::uint64_t id = 0; id < 80; ++id) {
    const float value = features(*data.train, id)[0];
    sum += value;
    squares += value * value;
    different.insert(value);
  }
  for (std::uint64_t id = 0; id < 20; ++id)
    different.insert(features(*data.test, id)[0]);
  EXPECT_EQ(different.size(), 100U);
  EXPECT_NEAR(sum / 80, 0, 1e-5);
  EXPECT_NEAR(squares / 80, 1, 1e-5);
  options.seed = 1;
  const Data other = open(text, options);
  EXPECT_NE(features(*other.test, 0), features(*data.test, 0));
}

TEST_F(CsvSource, ReadsCompressedFiles) {
  SourceOptions options;
  options.source = "csv";
  options.path = folder_.write("t.csv.gz", gzip(text_bytes("n,y\n1,a\n2,b\n3,a\n4,b\n")));
  options.test_fraction = 0.5;
  EXPECT_EQ(open_source(options).train->size(), 2U);
}

TEST_F(CsvSource, BadRowsAreCounted) {
  SourceOptions options;
  options.bad_samples.on_bad_sample = OnBadSample::kSkip;
  const Data data = open("n,y\n1,a\n2\n3,b\n4,a\n", options);
  EXPECT_EQ(data.train->size() + data.test->size(), 3U);
  EXPECT_EQ(data.bad_samples->count(), 1U);
  EXPECT_THAT(data.bad_samples->examples(), ElementsAre(HasSubstr("train.csv:3")));
}

TEST_F(CsvSource, ATableOfItsTargetAloneIsRefused) {
  EXPECT_EQ(error_of([&] { open("y\na\nb\n"); })->kind(), ErrorKind::kInvalidInput);
}

TEST_F(CsvSource, NeedsATestSet) {
  SourceOptions options;
  options.test_fraction = 0;
  EXPECT_THAT(error_of([&] { open("n,y\n1,a\n2,b\n", options); })->remedy(), HasSubstr("test_fraction"));
}

TEST(MakeTable, IsAFunctionOfItsSeedAndCanBeRead) {
  const TemporaryFolder folder;
  const MadeTable made{.rows = 500, .numeric = 3, .categorical = 2, .classes = 4, .missing = 0.1, .seed = 9};
  make_table(folder.path() / "a.csv", made);
  make_table(folder.path() / "b.csv", made);
  EXPECT_EQ(testing::slurp(folder.path() / "a.csv"), testing::slurp(folder.path() / "b.csv"));
  BadSamples bad({});
  const Table table = read_table(folder.path() / "a.csv", {}, bad);
  EXPECT_EQ(table.rows, 500U);
  EXPECT_EQ(table.columns.size(), 6U);
  EXPECT_EQ(table.columns[5].categories.size(), 4U);
  EXPECT_EQ(table.columns[3].categories.size(), 5U);  // four colours and the missing one
  make_table(folder.path() / "c.csv", {.rows = 10, .classes = 0});
  EXPECT_NO_THROW(read_table(folder.path() / "c.csv", {.regression = true}, bad));
}

}  // namespace
}  // namespace muster::data
