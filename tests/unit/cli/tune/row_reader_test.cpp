// Rows of a file that grows: each once, when it is whole, among lines that are no rows.
#include "muster/cli/tune/row_reader.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/sandbox.h"

namespace muster::cli {
namespace {

class RowReaderTest : public ::testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(folder_ / "rows", std::ios::app | std::ios::binary) << text; }
  testing::TemporaryFolder folder_;
};

TEST_F(RowReaderTest, GivesEachRowOnceItIsWhole) {
  RowReader reader(folder_ / "rows");
  EXPECT_TRUE(reader.read().empty()) << "there is no file yet";
  append("{\"a\": 1}\n{\"a\":");
  ASSERT_EQ(reader.read().size(), 1U);
  EXPECT_TRUE(reader.read().empty());
  append(" 2}\n{\"a\": 3}\n");
  const std::vector<Json> rows = reader.read();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("a"), 2);
  EXPECT_EQ(rows[1].at("a"), 3);
}

TEST_F(RowReaderTest, LeavesOutWhatIsNoRow) {
  append("hello\n\n[1, 2]\n{broken\n{\"a\": 1}\n");
  RowReader reader(folder_ / "rows");
  ASSERT_EQ(reader.read().size(), 1U);
}

TEST_F(RowReaderTest, ReadsPastWhatFitsIntoOnePiece) {
  for (int i = 0; i < 20000; ++i)
    append("{\"number\": " + std::to_string(i) + "}\n");
  RowReader reader(folder_ / "rows");
  const std::vector<Json> rows = reader.read();
  ASSERT_EQ(rows.size(), 20000U);
  EXPECT_EQ(rows.back().at("number"), 19999);
}

}  // namespace
}  // namespace muster::cli
