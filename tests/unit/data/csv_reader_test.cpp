// Records across the ends of buffers of every size, with quotes and line ends of all kinds.
#include "muster/data/csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support.h"

namespace muster::data {
namespace {

using Record = std::vector<std::string>;
using ::testing::ElementsAre;

struct Read {
  std::vector<Record> records;
  std::vector<std::uint64_t> lines;
};

Read read(std::string_view text, char delimiter = ',', std::size_t buffer = CsvReader::kBufferBytes) {
  CsvReader reader(ByteReader::of_memory(std::as_bytes(std::span(text)), "t.csv"), "t.csv", delimiter, buffer);
  Read result;
  std::vector<std::string_view> fields;
  while (reader.next(fields)) {
    result.records.emplace_back(fields.begin(), fields.end());
    result.lines.push_back(reader.line());
  }
  return result;
}

std::vector<Record> records(std::string_view text, char delimiter = ',') {
  return read(text, delimiter).records;
}

TEST(CsvReader, SplitsRecordsIntoFields) {
  EXPECT_THAT(records("a,b\n1,2\n"), ElementsAre(Record{"a", "b"}, Record{"1", "2"}));
  EXPECT_THAT(records("a;b\n1,5;2\n", ';'), ElementsAre(Record{"a", "b"}, Record{"1,5", "2"}));
  EXPECT_THAT(records("a\tb", '\t'), ElementsAre(Record{"a", "b"}));
}

TEST(CsvReader, EmptyFieldsAreFieldsAndBlankLinesAreNothing) {
  EXPECT_THAT(records(",\n\n,,\n\r\n"), ElementsAre(Record{"", ""}, Record{"", "", ""}));
  EXPECT_THAT(records("\"\"\n"), ElementsAre(Record{""}));
  EXPECT_TRUE(records("").empty());
  EXPECT_TRUE(records("\n\n").empty());
}

TEST(CsvReader, TheLastLineNeedsNoEnd) {
  EXPECT_THAT(records("a,b"), ElementsAre(Record{"a", "b"}));
  EXPECT_THAT(records("a,"), ElementsAre(Record{"a", ""}));
  EXPECT_THAT(records("a,\"b\""), ElementsAre(Record{"a", "b"}));
}

TEST(CsvReader, LinesMayEndWithCarriageReturnToo) {
  EXPECT_THAT(records("a,b\r\n\"c\",\"d\"\r\ne,f\r\n"),
              ElementsAre(Record{"a", "b"}, Record{"c", "d"}, Record{"e", "f"}));
  EXPECT_THAT(records("a,\"b\"\r"), ElementsAre(Record{"a", "b"}));
}

TEST(CsvReader, QuotesHoldDelimitersLineEndsAndDoubledQuotes) {
  EXPECT_THAT(records("\"a,b\",\"c\nd\",\"say \"\"hi\"\"\",\"\"\"\"\n1,2,3,4\n"),
              ElementsAre(Record{"a,b", "c\nd", "say \"hi\"", "\""}, Record{"1", "2", "3", "4"}));
  EXPECT_THAT(records("5\" disk,b\n"), ElementsAre(Record{"5\" disk", "b"}));
}

TEST(CsvReader, CountsLinesAcrossQuotedLineEnds) {
  EXPECT_THAT(read("h\n\"a\nb\nc\"\n\nlast\n").lines, ElementsAre(1, 2, 6));
}

TEST(CsvReader, LeavesOutAByteOrderMark) {
  EXPECT_THAT(records("\xEF\xBB\xBFname,b\n"), ElementsAre(Record{"name", "b"}));
}

// Records of many lengths over several buffers, so that every kind of field meets the end of one.
TEST(CsvReader, ReadsTheSameAcrossTheEndsOfItsBuffer) {
  std::string text;
  std::vector<Record> expected;
  for (int i = 0; text.size() < 3'500'000; ++i) {
    Record record{std::to_string(i), std::string(static_cast<std::size_t>(i % 97), 'x'), "q\"u,\no\r\nte", ""};
    text += record[0] + "," + record[1] + ",\"q\"\"u,\no\r\nte\"," + (i % 2 == 0 ? "\r\n" : "\n");
    expected.push_back(std::move(record));
  }
  EXPECT_EQ(records(text), expected);
}

TEST(CsvReader, ReadsTheSameWithAnyBuffer) {
  const std::string text =
      "\xEF\xBB\xBF"
      "a,\"b\"\"\r\n\",c\r\n\n1,2,\"\"\n\"x\",,\r\n\"last\"";
  const Read expected = read(text);
  ASSERT_EQ(expected.records.size(), 4U);
  for (std::size_t buffer = 1; buffer < 70; ++buffer) {
    const Read found = read(text, ',', buffer);
    EXPECT_EQ(found.records, expected.records) << buffer;
    EXPECT_EQ(found.lines, expected.lines) << buffer;
  }
}

TEST(CsvReader, ARecordMayBeLongerThanTheFirstBuffer) {
  const std::string large(5'000'000, 'y');
  EXPECT_THAT(records("a," + large + "\nb,\"" + large + "\"\n"), ElementsAre(Record{"a", large}, Record{"b", large}));
}

TEST(CsvReader, WhatIsNoCsvIsDamagedWithItsLine) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"a,b\n1,\"open\n2,3\n", "t.csv:2"},
      {"a\n\"x\"y,3\n", "t.csv:2"},
      {"\"", "t.csv:1"},
      {"a\n" + std::string(70'000, ','), "t.csv:2"},
      {"a\n\"" + std::string(40'000'000, 'z'), "t.csv:2"},
  };
  for (const auto& [text, where] : cases) {
    const std::string& content = text;
    const auto error = error_of([&] { read(content); });
    ASSERT_TRUE(error) << where;
    EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
    EXPECT_EQ(error->where(), where);
  }
}

}  // namespace
}  // namespace muster::data
