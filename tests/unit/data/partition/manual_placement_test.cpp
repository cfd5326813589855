// The little language of placement files, and where it is wrong.
#include "muster/data/partition/manual_placement.h"

#include "support.h"

namespace muster::data {
namespace {

const std::vector<Member> kMembers{{"hospital"}, {"clinic"}, {"host:7"}};

std::string complaint(std::string_view text) {
  const auto error = error_of([&] { parse_manual_placement(text, 6, kMembers, "who.txt"); });
  if (error) {
    EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
  }
  return error ? error->what() : "";
}

TEST(ManualPlacement, ReadsNamesNumbersRangesAndComments) {
  const Placement expected{{0, 0, 1, 2, 0, 1}};
  EXPECT_EQ(parse_manual_placement("hospital: 0-1, 4\nclinic: 2,5\nhost:7: 3\n", 6, kMembers, ""), expected);
  EXPECT_EQ(parse_manual_placement("# who\r\n\n hospital :0 - 1 # ours\r\nclinic:5-5\nclinic: 2,\nhospital:4\nhost:7:3",
                                   6, kMembers, ""),
            expected);
  EXPECT_EQ(parse_manual_placement("", 0, {}, ""), Placement{});
}

TEST(ManualPlacement, SaysWhereItIsWrong) {
  EXPECT_NE(complaint("hospital: 0-5\nclinik: 1").find("who.txt:2"), std::string::npos);
  EXPECT_NE(complaint("clinik: 1").find("did you mean \"clinic\""), std::string::npos);
  EXPECT_NE(complaint("hospital: 0-5\nclinic: 3").find("already"), std::string::npos);
  EXPECT_NE(complaint("hospital: 0-4").find("5 is placed on nobody"), std::string::npos);
  EXPECT_NE(complaint("hospital: 0-5, 1-").find("no number"), std::string::npos);
  for (const char* text : {"hospital", "hospital: 6", "hospital: 0-99999999999999999999", "hospital: -1",
                           "hospital: 3-1", "hospital: 1-", "hospital: 1-2-3", "hospital: 0x1", "hospital: ,", ": 0-5",
                           "hospital: 0-5 5", "hospital: 0-18446744073709551615"}) {
    EXPECT_NE(complaint(text), "") << text;
  }
}

TEST(ManualPlacement, IsReadFromAFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "who.txt";
  ::muster::testing::spill(path, "hospital: 0-5\n");
  EXPECT_EQ(read_manual_placement(path, 6, kMembers).member_of, std::vector<std::uint32_t>(6, 0));
  EXPECT_EQ(error_of([&] { read_manual_placement(folder.path() / "none", 6, kMembers); })->kind(),
            ErrorKind::kNotFound);
}

}  // namespace
}  // namespace muster::data
