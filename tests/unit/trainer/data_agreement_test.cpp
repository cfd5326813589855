// Hosts that read the same, and hosts that do not: a store in a folder stands for that of all hosts.
#include "muster/trainer/data_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/comm/supervisor_sign.h"
#include "muster/data/piece_door.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DataAgreement : public ::testing::Test {
 protected:
  // What a host with these files says.
  DataPrint print(const std::string& name, const std::string& rows) {
    const std::filesystem::path file = folder_ / name / "table.csv";
    std::filesystem::create_directories(file.parent_path());
    testing::spill(file, "x,y\n" + rows);
    const ResolvedJob resolved = parse_job("[data]\nsource = \"csv\"\npath = \"" + file.string() + "\"\n", "job.toml");
    return print_data(resolved.job, open_data(resolved.job));
  }
  // Nothing: the host may train.
  std::optional<Error> refusal(const std::string& host, const DataPrint& mine) {
    std::optional<Error> told;
    try {
      compare_data(*store_, host, mine, [&](const Error& error) { told = error; });
    } catch (const Error& error) {
      EXPECT_TRUE(told && told->message() == error.message());
      return error;
    }
    EXPECT_FALSE(told);
    return std::nullopt;
  }

  static constexpr const char* kRows = "1,a\n2,b\n3,a\n4,b\n5,a\n6,b\n7,a\n8,b\n9,a\n10,b\n11,a\n12,b\n";
  testing::TemporaryFolder folder_;
  std::shared_ptr<comm::Store> store_ = comm::make_file_store(folder_ / "store");
};

TEST_F(DataAgreement, ACopyElsewhereIsTheSame) {
  EXPECT_FALSE(refusal("1 (a)", print("a", kRows)));
  EXPECT_FALSE(refusal("2 (b)", print("b", kRows)));
  EXPECT_FALSE(refusal("1 (a)", print("a", kRows))) << "a worker that was replaced";
}

TEST_F(DataAgreement, ADifferenceNamesBothHostsThePlacesAndWhatToDo) {
  ASSERT_FALSE(refusal("1 (first)", print("a", kRows)));
  std::string other = kRows;
  other[2] = 'b';
  const std::optional<Error> error = refusal("2 (second)", print("b", other));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->exit_code(), 2);
  EXPECT_THAT(error->message(),
              AllOf(HasSubstr("data.path"), HasSubstr("host 1 (first) at " + (folder_ / "a").string()),
                    HasSubstr("host 2 (second) at " + (folder_ / "b").string())));
  EXPECT_THAT(error->where(), HasSubstr("b/table.csv"));
  EXPECT_THAT(error->remedy(), HasSubstr("same files"));
}

TEST_F(DataAgreement, SamplesAreComparedBesideFiles) {
  DataPrint mine{{"the training set", "", "10 samples, 0123"}};
  ASSERT_FALSE(refusal("1 (a)", mine));
  mine[0].print = "11 samples, 0123";
  const std::optional<Error> error = refusal("2 (b)", mine);
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), AllOf(HasSubstr("the training set is 11 samples"), HasSubstr("10 samples")));
}

TEST_F(DataAgreement, WhatOnlyOneHostHasIsADifference) {
  ASSERT_FALSE(refusal("1 (a)", {{"data.path", "/x", "1"}, {"data.labels", "/y", "1"}}));
  const std::optional<Error> error = refusal("2 (b)", {{"data.path", "/x", "1"}});
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("data.labels is nothing on host 2 (b)"));
}

TEST_F(DataAgreement, AnEntryThatIsNoneIsNotBelieved) {
  store_->set("agreement/files", R"({"host": "1", "print": [["data.path", 7]]})");
  testing::expect_error(ErrorKind::kDamaged, "three strings",
                        [&] { compare_data(*store_, "2", {}, [](const Error&) {}); });
}

// Of a job in which no host has the data yet.
class NoData final : public data::PieceDoor {
 public:
  int asked = 0;
  int comes_after = 3;

  data::DepotView open(const Deadline&) override {
    if (++asked < comes_after) throw Error(ErrorKind::kNotFound, "no host of this job has the shards");
    return {.catalog = {}, .cache = "cache", .piece_bytes = 7};
  }
  std::vector<std::byte> fetch(const data::PieceId&, const Deadline&) override { return {}; }
  void expect(std::span<const data::PieceId>) override {}
};

TEST_F(DataAgreement, DataOfAHostThatComesLaterIsWaitedForWhileSomebodySupervises) {
  const auto door = std::make_shared<NoData>();
  std::vector<std::string> told;
  const auto waiting = wait_for_data(door, folder_ / "store", [&](const std::string& news) { told.push_back(news); });
  const auto open = [&] { return waiting->open(Deadline::after(std::chrono::milliseconds(10))); };
  EXPECT_EQ(testing::error_of(open).kind(), ErrorKind::kNotFound) << "nobody supervises: it ends with its time";
  comm::leave_supervisor_sign(*store_, std::chrono::seconds(2));
  door->asked = 0;
  EXPECT_EQ(open().piece_bytes, 7U);
  EXPECT_EQ(door->asked, 3);
  EXPECT_THAT(told, ::testing::ElementsAre(HasSubstr("no host of this job has the shards")));
}

}  // namespace
}  // namespace muster::trainer
