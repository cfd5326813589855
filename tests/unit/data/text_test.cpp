// Tokens, vocabularies and windows, and that held-out parts do not reach into training.
#include "muster/data/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "idx_files.h"
#include "muster/data/sources.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Bytes text_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

struct Window {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> next;
};
Window window(const Dataset& set, std::uint64_t id) {
  Window w{std::vector<std::int64_t>(set.spec().elements()), std::vector<std::int64_t>(set.spec().elements())};
  set.read_sample(id, {.tokens = w.tokens, .labels = w.next});
  return w;
}

TEST(DecodeUtf8, GivesCodePoints) {
  EXPECT_THAT(decode_utf8("aé€😀", "t"), ElementsAre(U'a', U'é', U'€', U'😀'));
  const auto error = error_of([] { decode_utf8("one\ntw\xFFo", "t.txt"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
  EXPECT_EQ(error->where(), "t.txt:2");
}

TEST(Tokens, TheVocabularyIsThatOfTheTrainingPartInOrder) {
  const auto text = decode_utf8("cabbage", "t");
  const Tokens tokens(text, 4);  // "cabb"
  EXPECT_THAT(tokens.names(), ElementsAre("a", "b", "c", "other"));
  EXPECT_EQ(tokens.vocabulary(), 4);
  std::vector<std::int64_t> numbers;
  for (std::uint64_t i = 0; i < tokens.size(); ++i)
    numbers.push_back(tokens[i]);
  EXPECT_THAT(numbers, ElementsAre(2, 0, 1, 1, 0, 3, 3));
  EXPECT_EQ(Tokens(text, 7).vocabulary(), 5);  // a b c e g, and no other
}

TEST(Tokens, LargeVocabulariesKeepTheirNumbers) {
  std::vector<char32_t> text;
  for (char32_t point = 0x4E00; point < 0x4E00 + 1000; ++point)
    text.push_back(point);
  const Tokens tokens(text, text.size());
  EXPECT_EQ(tokens.vocabulary(), 1000);
  EXPECT_EQ(tokens[999], 999);
}

class TextSource : public ::testing::Test {
 protected:
  TextSource() {
    options_.source = "text";
    options_.text.window = 4;
    options_.test_fraction = 0.25;
  }
  TemporaryFolder folder_;
  SourceOptions options_;
};

TEST_F(TextSource, WindowsDoNotOverlapAndTargetsAreTheNextTokens) {
  options_.path = folder_.write("t.txt", text_bytes("abcdefghijklmnopqrst"));  // 20: 15 for training
  options_.text.bytes = true;
  const Data data = open_source(options_);
  const SampleSpec& spec = data.train->spec();
  EXPECT_EQ(spec.input, InputKind::kTokens);
  EXPECT_EQ(spec.target, TargetKind::kTokens);
  EXPECT_EQ(spec.vocabulary, 256);
  EXPECT_EQ(spec.classes, 256);
  ASSERT_EQ(data.train->size(), 3U);
  EXPECT_THAT(window(*data.train, 1).tokens, ElementsAre('e', 'f', 'g', 'h'));
  EXPECT_THAT(window(*data.train, 1).next, ElementsAre('f', 'g', 'h', 'i'));
  ASSERT_EQ(data.test->size(), 1U);
  EXPECT_THAT(window(*data.test, 0).tokens, ElementsAre('p', 'q', 'r', 's'));
  EXPECT_EQ(error_of([&] {
              std::vector<float> floats(4);
              data.train->read(0, floats);
            })->kind(),
            ErrorKind::kUnsupported);
}

TEST_F(TextSource, ValidationLiesBetweenTrainingAndTest) {
  options_.path = folder_.write("t.txt", text_bytes("aaaaaaaaaaaaaaaaaaaabbbbbbbbbbcccccccccc"));
  options_.validation = 1.0 / 3;
  const Data data = open_source(options_);
  ASSERT_TRUE(data.validation);
  EXPECT_EQ(data.train->spec().class_names, (std::vector<std::string>{"a", "other"}));
  EXPECT_EQ(window(*data.train, 0).tokens[0], 0);
  EXPECT_EQ(window(*data.validation, 0).tokens[0], 1);
  EXPECT_EQ(window(*data.test, 0).tokens[0], 1);
}

TEST_F(TextSource, ValidationAndTestMayBeFilesOfTheirOwn) {
  const auto train = folder_.write("train.txt", text_bytes("aaaaaaaaaaaaaaaaaaaabbbbbbbbbb"));  // 20 and 10
  const auto validation = folder_.write("validation.txt", text_bytes("vvvvvaaaaa"));
  const auto test = folder_.write("test.txt.gz", gzip(text_bytes("ttttt")));
  const auto first = [](const std::shared_ptr<const Dataset>& set) { return window(*set, 0).tokens[0]; };
  options_.path = train;
  options_.text.bytes = true;
  options_.test_fraction = 1.0 / 3;
  options_.validation_path = validation;
  Data data = open_source(options_);  // the test part is still the end of the text
  EXPECT_EQ(data.train->size(), 4U);
  EXPECT_EQ(first(data.validation), 'v');
  EXPECT_EQ(data.validation->size(), 2U);
  EXPECT_EQ(first(data.test), 'b');
  options_.test_path = test;
  data = open_source(options_);
  EXPECT_EQ(data.train->size(), 7U) << "all of the text";
  EXPECT_EQ(first(data.validation), 'v');
  EXPECT_EQ(first(data.test), 't');
  options_.validation_path.clear();
  options_.validation = 1.0 / 3;
  data = open_source(options_);
  EXPECT_EQ(first(data.validation), 'b');
  EXPECT_EQ(first(data.test), 't');
  // Characters that only they have are no part of the vocabulary.
  options_.text.bytes = false;
  EXPECT_EQ(open_source(options_).train->spec().class_names, (std::vector<std::string>{"a", "other"}));
}

TEST_F(TextSource, AFolderIsItsTextFilesInOrder) {
  folder_.write("2.txt", text_bytes("efghijklmnop"));
  folder_.write("1.txt.gz", gzip(text_bytes("abcd")));
  folder_.write("notes.md", text_bytes("zzzz"));
  options_.path = folder_.path();
  options_.text.bytes = true;
  options_.test_fraction = 0.5;
  const Data data = open_source(options_);
  EXPECT_THAT(window(*data.train, 0).next, ElementsAre('b', 'c', 'd', 'e'));
}

TEST_F(TextSource, ATextThatIsTooShortIsRefused) {
  options_.path = folder_.write("t.txt", text_bytes("abcdefgh"));
  const auto error = error_of([&] { open_source(options_); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
  EXPECT_THAT(error->message(), HasSubstr("test part"));
}

}  // namespace
}  // namespace muster::data
