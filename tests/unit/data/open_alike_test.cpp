// Data for a trained model, read by the form of its training data alone: with targets and without.
#include "muster/data/open_alike.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "npy_files.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OpenAlike : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& text) {
    testing::spill(folder_.path() / name, text);
    return folder_.path() / name;
  }
  static std::vector<float> features(const Dataset& dataset, std::uint64_t id) {
    std::vector<float> values(dataset.spec().elements());
    dataset.read(id, values);
    return values;
  }
  TemporaryFolder folder_;
};

TEST_F(OpenAlike, ATableIsReadByTheTrainingScaleAndItsCategories) {
  SourceOptions options;
  options.source = "csv";
  options.path = file("train.csv", "n,colour,class\n0,red,a\n2,blue,b\n4,red,b\n");
  options.test_path = options.path;
  const DataForm form = open_source(options).form;
  const Alike labelled = open_alike(options, form, file("new.csv", "n,colour,class\n2,green,b\n4,red,a\n"));
  EXPECT_TRUE(labelled.labelled);
  EXPECT_THAT(features(*labelled.samples, 0), ElementsAre(0, 0, 0)) << "green is no colour that was trained on";
  std::vector<float> room(3);
  EXPECT_EQ(labelled.samples->read(0, room), 1);
  const Alike bare = open_alike(options, form, file("bare.csv", "n,colour\n2,blue\n0,red\n"));
  EXPECT_FALSE(bare.labelled);
  EXPECT_EQ(bare.samples->size(), 2U);
  EXPECT_THAT(features(*bare.samples, 0), ElementsAre(0, 1, 0));
  EXPECT_EQ(bare.name(1), (folder_.path() / "bare.csv:3").string()) << "the line";
  EXPECT_THAT([&] { open_alike(options, form, file("other.csv", "n,shape\n2,blue\n")); },
              ::testing::ThrowsMessage<Error>(HasSubstr("has no column \"colour\"")));
}

TEST_F(OpenAlike, AHeaderThatDoesNotFitIsToldHowItWasRead) {
  SourceOptions options;
  options.source = "csv";
  options.table.delimiter = ';';
  options.path = file("train.csv",
                      "n;gr\xC3\xB6\xC3\x9F"
                      "e;class\n0;1;a\n2;2;b\n4;3;b\n");
  options.test_path = options.path;
  const DataForm form = open_source(options).form;
  const auto how = ::testing::AllOf(HasSubstr("UTF-8"), HasSubstr("\";\" between columns"));
  EXPECT_THAT([&] { open_alike(options, form, file("comma.csv", "n,size\n2,1\n")); },
              ::testing::ThrowsMessage<Error>(how));
  EXPECT_THAT([&] { open_alike(options, form, file("encoded.csv", "n;groesse\n2;1\n")); },
              ::testing::ThrowsMessage<Error>(how));
  EXPECT_THAT(
      [&] {
        open_alike(options, form,
                   file("twice.csv",
                        "n;gr\xC3\xB6\xC3\x9F"
                        "e;n\n2;1;3\n"));
      },
      ::testing::ThrowsMessage<Error>(HasSubstr("columns 1 and 3 are both called \"n\"")));
  EXPECT_NO_THROW(open_alike(options, form,
                             file("more.csv",
                                  "n;gr\xC3\xB6\xC3\x9F"
                                  "e;x;x\n2;1;3;4\n")));
}

// An answer that rests on less than the model was trained on is not given without a word.
TEST_F(OpenAlike, ValuesAndColumnsThatTrainingNeverSawAreNoted) {
  SourceOptions options;
  options.source = "csv";
  options.path = file("train.csv", "n,colour,class\n0,red,a\n2,blue,b\n4,red,b\n");
  options.test_path = options.path;
  const DataForm form = open_source(options).form;
  const Alike other = open_alike(options, form, file("new.csv", "colour,day,n\ngreen,1,2\nred,1,0\n"));
  EXPECT_THAT(other.notes, ElementsAre(::testing::AllOf(HasSubstr("\"day\""), HasSubstr("not used")),
                                       ::testing::AllOf(HasSubstr("1 of 2 rows"), HasSubstr("\"green\""))));
  EXPECT_THAT(features(*other.samples, 1), ElementsAre(::testing::FloatNear(-1.2247F, 1e-3F), 0, 1));
  EXPECT_THAT(open_alike(options, form, options.path).notes, ::testing::IsEmpty());
}

// Who predicts does not need the answers, and answers that training never saw are no obstacle.
TEST_F(OpenAlike, TargetsThatAreNotWantedAreNotRead) {
  for (const bool header : {true, false}) {
    SourceOptions options;
    options.source = "csv";
    options.table.header = header;
    options.path = file("train.csv", std::string(header ? "n,class,m\n" : "") + "0,a,1\n2,b,1\n");
    options.table.target = header ? "class" : "1";
    options.test_path = options.path;
    const DataForm form = open_source(options).form;
    const auto path = file("new.csv", std::string(header ? "n,class,m\n" : "") + "0,zebra,1\n2,,1\n");
    EXPECT_THROW(open_alike(options, form, path), Error);
    const Alike bare = open_alike(options, form, path, {.targets = false});
    EXPECT_FALSE(bare.labelled);
    EXPECT_EQ(bare.samples->size(), 2U);
    EXPECT_THAT(bare.notes, ::testing::IsEmpty()) << bare.notes.size();
    EXPECT_EQ(features(*bare.samples, 0), features(*open_alike(options, form, options.path).samples, 0));
  }
}

TEST_F(OpenAlike, SeveralTargetsComeInTheirOrderAndUnits) {
  SourceOptions options;
  options.source = "csv";
  options.table.regression = true;
  options.table.targets = {"v", "u"};
  options.path = file("train.csv", "u,x,v\n1,2,30\n3,5,50\n");
  options.test_path = options.path;
  const Data data = open_source(options);
  EXPECT_THAT(data.train->spec().target_shape, ElementsAre(2));
  const DataForm form = DataForm::from_json(data.form.to_json(), "card");
  const Alike alike = open_alike(options, form, options.path);
  std::vector<float> room(1);
  std::vector<float> values(2);
  alike.samples->read_sample(1, {.features = room, .values = values});
  EXPECT_THAT(values, ElementsAre(1, 1));
  EXPECT_EQ(form.spec.target_scale[0].mean, 40);
  EXPECT_EQ(form.spec.target_scale[1].mean, 2);
  EXPECT_FALSE(open_alike(options, form, file("bare.csv", "x\n7\n")).labelled);
}

TEST_F(OpenAlike, ATableWithoutAHeaderMayLackItsTarget) {
  SourceOptions options;
  options.source = "csv";
  options.table.header = false;
  options.path = file("train.csv", "0,1,a\n2,1,b\n");
  options.test_path = options.path;
  const DataForm form = open_source(options).form;
  EXPECT_TRUE(open_alike(options, form, options.path).labelled);
  EXPECT_FALSE(open_alike(options, form, file("bare.csv", "0,1\n")).labelled);
}

TEST_F(OpenAlike, ArraysNeedNoTargets) {
  SourceOptions options;
  options.source = "numpy";
  options.path = folder_.path() / "train";
  options.table.regression = true;
  std::filesystem::create_directories(options.path);
  folder_.write("train/x_train.npy", npy<float>("<f4", "(2, 1)", {1, 3}));
  folder_.write("train/y_train.npy", npy<float>("<f4", "(2,)", {10, 30}));
  folder_.write("train/x_test.npy", npy<float>("<f4", "(1, 1)", {2}));
  folder_.write("train/y_test.npy", npy<float>("<f4", "(1,)", {20}));
  const DataForm form = open_source(options).form;
  folder_.write("x.npy", npy<float>("<f4", "(3, 1)", {2, 3, 4}));
  const Alike bare = open_alike(options, form, folder_.path() / "x.npy");
  EXPECT_FALSE(bare.labelled);
  float feature = 0;
  float value = 0;
  bare.samples->read_sample(2, {.features = std::span(&feature, 1), .values = std::span(&value, 1)});
  EXPECT_EQ(feature, 2) << "(4 - 2) / 1";
  const Alike labelled = open_alike(options, form, options.path);
  EXPECT_TRUE(labelled.labelled);
  labelled.samples->read_sample(0, {.features = std::span(&feature, 1), .values = std::span(&value, 1)});
  EXPECT_EQ(value, 0) << "(20 - 20) / 10";
  EXPECT_EQ(labelled.samples->size(), 1U) << "what a model is judged on";
  const Alike trained = open_alike(options, form, options.path, {.train = true});
  EXPECT_EQ(trained.samples->size(), 2U);
  trained.samples->read_sample(0, {.features = std::span(&feature, 1), .values = std::span(&value, 1)});
  EXPECT_EQ(value, -1) << "(10 - 20) / 10";
}

TEST_F(OpenAlike, SamplesOfAnotherShapeAreRefusedWithBoth) {
  SourceOptions options;
  options.source = "numpy";
  options.path = folder_.path();
  folder_.write("x.npy", npy<float>("<f4", "(4, 2)", {1, 2, 3, 4, 5, 6, 7, 8}));
  folder_.write("y.npy", npy<std::int64_t>("<i8", "(4,)", {0, 1, 0, 1}));
  const DataForm form = open_source(options).form;
  folder_.write("wide.npy", npy<float>("<f4", "(1, 3)", {1, 2, 3}));
  EXPECT_THROW(open_alike(options, form, folder_.path() / "wide.npy"), Error);
  EXPECT_THROW(open_alike(options, form, folder_.path() / "none.npy"), Error);
}

class OpenAlikeText : public OpenAlike {
 protected:
  OpenAlikeText() {
    options_.source = "text";
    options_.text.window = 2;
    options_.test_fraction = 0.25;
    options_.path = file("train.txt", "abcdabcdabcdabcd");
  }
  std::vector<std::int64_t> first_tokens(const Alike& alike) {
    std::vector<std::int64_t> tokens(2);
    std::vector<std::int64_t> labels(2);
    alike.samples->read_sample(0, {.tokens = tokens, .labels = labels});
    tokens.push_back(labels.back());
    return tokens;
  }
  SourceOptions options_;
};

TEST_F(OpenAlikeText, OtherTextHasTheNumbersOfTheTrainingText) {
  const Alike alike = open_alike(options_, open_source(options_).form, file("other.txt", "dcdb"));
  EXPECT_EQ(alike.samples->size(), 1u);
  EXPECT_EQ(alike.samples->spec().vocabulary, 4) << "though it has no a";
  EXPECT_EQ(first_tokens(alike), (std::vector<std::int64_t>{3, 2, 3}));
  EXPECT_EQ(alike.name(0), "other.txt: characters 0 to 1");
}

TEST_F(OpenAlikeText, ACharacterThatTrainingNeverSawIsNamedWithItsLine) {
  const DataForm form = open_source(options_).form;
  options_.path = file("lines.txt", "a\nb\na\nb\na\nb\n");
  const DataForm with_lines = open_source(options_).form;
  const auto other = file("other.txt", "ab\nab\na\xc3\xa9\n");
  EXPECT_THAT([&] { open_alike(options_, with_lines, other); },
              ::testing::ThrowsMessage<Error>(
                  ::testing::AllOf(HasSubstr("other.txt:3"), HasSubstr("\"\xc3\xa9\""), HasSubstr("U+00E9"))));
  EXPECT_THAT([&] { open_alike(options_, form, other); },
              ::testing::ThrowsMessage<Error>(::testing::AllOf(HasSubstr("other.txt:1"), HasSubstr("U+000A"))));
}

// The test part of this text has a character that its training part has not, so that there is a token for such.
TEST_F(OpenAlikeText, ACharacterThatTrainingNeverSawIsTheTokenForOthersIfThereIsOne) {
  options_.path = file("odd.txt", "abababababab!!!!");
  const Alike alike = open_alike(options_, open_source(options_).form, file("other.txt", "a?b"));
  EXPECT_EQ(first_tokens(alike), (std::vector<std::int64_t>{0, 2, 1}));
}

TEST_F(OpenAlikeText, BytesAreAllKnown) {
  options_.text.bytes = true;
  const Alike alike = open_alike(options_, open_source(options_).form, file("other.txt", "\xff\x01\x02"));
  EXPECT_EQ(first_tokens(alike), (std::vector<std::int64_t>{255, 1, 2}));
}

TEST_F(OpenAlikeText, LessThanAWindowIsRefused) {
  EXPECT_THAT([&] { open_alike(options_, open_source(options_).form, file("other.txt", "ab")); },
              ::testing::ThrowsMessage<Error>(HasSubstr("has 2 characters")));
}

TEST_F(OpenAlike, ComputedDataIsNotReadAlike) {
  SourceOptions options;
  options.source = "synthetic";
  const DataForm form = open_source(options).form;
  EXPECT_THAT([&] { open_alike(options, form, folder_.path()); },
              ::testing::ThrowsMessage<Error>(HasSubstr("cannot be given other files")));
}

}  // namespace
}  // namespace muster::data
