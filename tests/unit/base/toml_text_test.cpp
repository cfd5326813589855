// Hostile and ordinary texts before the TOML parser: every way to hide nesting or length from a scanner.
#include "muster/base/toml_text.h"

#include <gtest/gtest.h>

#include <string>

#include "muster/base/error.h"

namespace muster {
namespace {

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i)
    out += text;
  return out;
}

void expect_fine(const std::string& text) {
  try {
    checked_toml(text, "job.toml");
  } catch (const Error& error) {
    FAIL() << error.what() << "\n" << text.substr(0, 200);
  }
}

void expect_refused(const std::string& text, int line, const std::string& word) {
  try {
    checked_toml(text, "job.toml");
    FAIL() << "accepted: " << text.substr(0, 200);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_EQ(error.where(), "job.toml:" + std::to_string(line)) << error.what();
    EXPECT_NE(error.message().find(word), std::string::npos) << error.what();
  }
}

TEST(TomlText, OrdinaryFilesPass) {
  expect_fine("");
  expect_fine("\n\n");
  expect_fine("\xef\xbb\xbf[job]\nname = \"x\"\n");
  expect_fine("[job]\r\nname = \"x\"\r\n");
  expect_fine("# a comment with \" and ' and [[[[\n[a.\"b.c\".d]\nx = { y = [1, 2.5e-3], z = 'q' } # }}}\n");
  expect_fine("[[a]]\nt = 1979-05-27T07:32:00.999-07:00\nh = 0xdead_beef\no = 0o755\nb = 0b1010\ni = -inf\n");
  expect_fine("a = \"\xc3\xa4\xe2\x82\xac\"\n\"\" = 1\n'' = \"\"\n");
}

TEST(TomlText, RefusesMoreThan64Kibibytes) {
  expect_fine("#" + std::string((64 << 10) - 1, 'x'));
  try {
    checked_toml("#" + std::string(64 << 10, 'x'), "job.toml");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
    EXPECT_EQ(error.where(), "job.toml");
  }
}

TEST(TomlText, RefusesBytesThatAreNoText) {
  expect_refused(std::string("a = 1\nb = \0", 11), 2, "zero byte");
  expect_refused("a = 1\n\nb = \"\xff\"\n", 3, "UTF-8");
  expect_refused("# caf\xe9\n", 1, "UTF-8");
  expect_refused("a = \"x\x1by\"\n", 1, "0x1b");
  expect_refused("\n# \x7f\n", 2, "0x7f");
  expect_refused("a = 1\rb = 2\n", 1, "0x0d");
  expect_fine("a = \"x\ty\"\t# \t\n");
}

TEST(TomlText, RefusesDeepNesting) {
  expect_fine("a = " + repeated("[", 16) + repeated("]", 16));
  expect_refused("\na = " + repeated("[", 17) + repeated("]", 17), 2, "nested deeper than 16");
  expect_refused("a = " + repeated("{b=", 17) + "1" + repeated("}", 17), 1, "nested deeper than 16");
  expect_refused("a = " + repeated("[\n", 17) + repeated("]", 17), 17, "nested deeper than 16");
  expect_refused("a = " + repeated("[", 60'000), 1, "nested deeper than 16");
  expect_fine("a = [" + repeated("[[]],", 100) + "]");
  expect_fine(repeated("[[a]]\n", 100));
}

TEST(TomlText, BracketsInTextAndCommentsDoNotNest) {
  const std::string many = repeated("[", 50);
  expect_fine("a = \"" + many + "\"\nb = '" + many + "'\n# " + many + "\n");
  expect_fine("a = \"\"\"\n" + many + "\n" + many + "\"\"\"\n");
  expect_fine("a = '''\n" + many + "\\'''\n");
  expect_fine("a = \"\\\"" + many + "\"\n");
  expect_fine("a = [ # " + many + "\n1]\n");
}

// Every way to make a scanner believe that it stands inside a text or a comment when it does not.
TEST(TomlText, NestingCannotBeHidden) {
  const std::string deep = repeated("[", 40) + repeated("]", 40);
  expect_refused("a = [\"\"\"\n\"\"\", " + deep + "]", 2, "nested");
  expect_refused("a = [\"\"\"\n# \"\"\", " + deep + "]", 2, "nested");
  expect_refused("a = ['''\n' \"\\''', " + deep + "]", 2, "nested");
  expect_refused("a = ['\\', " + deep + ", '']", 1, "nested");
  expect_refused("a = [\"\"\"x\\\\\"\"\", " + deep + "]", 1, "nested");
  expect_refused("a = [\"\"\"x\"\"\"\"\", " + deep + "]", 1, "nested");
  expect_refused("a = [\"\", " + deep + "]", 1, "nested");
  expect_refused("\"#\" = " + deep, 1, "nested");
  expect_refused("'''' = " + deep, 1, "not closed");
}

TEST(TomlText, RefusesKeysOfManyParts) {
  expect_fine("a" + repeated(".a", 15) + " = 1\n");
  expect_refused("\na" + repeated(".a", 16) + " = 1\n", 2, "more than 16 parts");
  expect_refused("[a" + repeated(" . 'a'", 16) + "]\n", 1, "more than 16 parts");
  expect_refused("a = {x = 1, b" + repeated(".b", 16) + " = 1}\n", 1, "more than 16 parts");
  expect_fine("a = [" + repeated("1.5, ", 50) + "2.5]\n");
  expect_fine("a = \"" + repeated(".", 50) + "\"\n");
}

TEST(TomlText, RefusesTextThatIsNotClosed) {
  expect_refused("a = 1\nb = \"abc\nc = 2\n", 2, "not closed");
  expect_refused("b = 'abc", 1, "not closed");
  expect_refused("\nb = \"\"\"abc\n\n\n", 2, "not closed");
  expect_refused("b = '''abc''\n", 1, "not closed");
  expect_refused("b = \"abc\\", 1, "not closed");
  expect_refused("b = \"abc\\\n\"", 1, "not closed");
}

TEST(TomlText, RefusesEscapesThatAreNoCharacter) {
  expect_fine(R"(a = "\u0041\uD7FF\ue000\U0010ffff\\ud800")");
  expect_fine(R"(a = '\ud800')");
  expect_refused("\na = \"\\ud800\"", 2, "\\ud800");
  expect_refused("a = \"\\uDFFF\"", 1, "\\uDFFF");
  expect_refused("a = \"\\U00110000\"", 1, "\\U00110000");
  expect_refused("a = \"\"\"x\n\\ud8001\"\"\"", 2, "\\ud800 ");
  // Too few digits are the parser's to refuse, and nothing is read behind the end.
  expect_fine(R"(a = "\ud80")");
  expect_refused("a = \"\\u", 1, "not closed");
}

TEST(TomlText, RefusesBracketsThatAreNotClosed) {
  expect_refused("a = 1\nb = [1,\n2\nc = 3\n", 2, "not closed");
  expect_refused("b = {x = 1\n", 1, "not closed");
  expect_refused("b = [{x = [1]}, [2]\n", 1, "not closed");
}

TEST(TomlText, RefusesNumbersThatCannotBeHeld) {
  for (const std::string number :
       {"9223372036854775808", "-9223372036854775809", "99999999999999999999", "1e309", "-1e999",
        "1_000_000_000_000_000_000_000", "0xffffffffffffffff", "0o7777777777777777777777", "1e-999", "1.5e+400"}) {
    expect_refused("[a]\nx = " + number + "\n", 2, number);
    expect_refused("x = [1, " + number + "]", 1, number);
    expect_refused("x = {y=" + number + "}", 1, number);
  }
  for (const std::string number : {"9223372036854775807", "-9223372036854775808", "+1", "1e308", "5e-324",
                                   "0x7fffffffffffffff", "-0.0", "nan", "1_000", "0", "0.0", "0e999"}) {
    expect_fine("x = " + number);
  }
  expect_fine("x = \"99999999999999999999\" # 1e999\n");
}

TEST(TomlText, RefusesMoreThanAJobCanMean) {
  expect_fine(repeated("a = 1\n", 1000));
  expect_refused(repeated("a = 1\n", 1001), 1001, "more than 1000 keys");
  expect_refused(repeated("[[a]]\n", 1001), 1001, "more than 1000 keys");
  expect_refused("a = {" + repeated("a = 1,", 1001) + "}", 1, "more than 1000 keys");
  expect_fine("a = [" + repeated("1,", 3999) + "]");  // and the array itself
  expect_refused("a = [" + repeated("1,", 4000) + "]", 1, "more than 4000 elements");
  expect_refused("a = [" + repeated("[],", 2000) + "]", 1, "more than 4000 elements");
}

TEST(TomlText, RefusesManyValuesOnALongLine) {
  const std::string wide = "\"" + std::string(16, 'x') + "\",";
  expect_refused("\na = [" + repeated(wide, 3000) + "]", 2, "too many values on a line");
  expect_refused("a = [" + repeated(wide, 3000) + "]\n\n", 1, "too many values on a line");
  expect_fine("a = [" + repeated(wide + "\n", 3000) + "]");
  expect_fine("a = [" + repeated(wide, 1000) + "]");
  expect_fine("a = \"\"\"" + repeated("x\n", 10'000) + "\"\"\"");
  // Lines of a text that look like comments, which the parser would read again for each of the values behind them.
  expect_refused("a = [\"\"\"" + repeated("\n#", 1000) + "\n\"\"\"," + repeated("1,", 1000) + "]", 1002, "too many");
  expect_fine("a = [\"\"\"" + repeated("\n-", 1000) + "\n\"\"\"," + repeated("1,", 1000) + "]");
  expect_fine("a = [\n" + repeated("#\n", 1000) + repeated("1,", 1000) + "]");
}

TEST(TomlText, GivesTheTextWithoutItsComments) {
  const auto without = [](const std::string& text) { return checked_toml(text, "job.toml"); };
  EXPECT_EQ(without(""), "");
  EXPECT_EQ(without("#"), "");
  EXPECT_EQ(without("# a\n\n#b\n"), "\n\n\n");
  EXPECT_EQ(without("a = 1 # one\nb = 2\n# end"), "a = 1 \nb = 2\n");
  EXPECT_EQ(without("a = [ # x\n1, # y ]\n]\n"), "a = [ \n1, \n]\n");
  EXPECT_EQ(without("a = \"#1\" # 2\r\nb = '#'\n"), "a = \"#1\" \nb = '#'\n");
  const std::string kept = "a = \"\"\"\n# no comment\n\"\"\"\nb = '''#'''\n\"#\" = 1\n";
  EXPECT_EQ(without(kept), kept);
}

}  // namespace
}  // namespace muster
