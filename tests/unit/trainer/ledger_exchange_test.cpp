// Workers of three hosts as threads, each host with a ledger of its own: after a meeting all have the same, and what is
// told with a step is there before it could be committed.
#include "muster/trainer/ledger_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include <fmt/format.h>

#include "muster/data/ledger.h"
#include "muster/data/ledger_check.h"
#include "support/errors.h"
#include "support/groups.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint64_t kSteps = 3;

class LedgerExchangeTest : public ::testing::Test {
 protected:
  // Two workers on the first host, one on each of the others; worker r computes lane r.
  static constexpr int kWorkers = 4;
  static strategies::Members members(int rank, comm::Group group) {
    strategies::Members made;
    made.generation = 1;
    made.group = std::move(group);
    made.job = {1, kWorkers, {{1, "a", 0b11, 0, 2}, {2, "b", 0b1, 2, 3}, {3, "c", 0b1, 3, 4}}};
    made.host = made.job.host_of(rank);
    return made;
  }
  std::filesystem::path folder(std::size_t host) const { return folder_ / fmt::format("host-{}", host); }
  static void record(data::LedgerWriter& writer, std::uint64_t step, int rank) {
    writer.record_lane(0, step, static_cast<std::uint64_t>(rank),
                       std::vector<std::uint64_t>{step * kWorkers + static_cast<std::uint64_t>(rank)});
  }
  void expect_whole(std::uint64_t steps) {
    for (std::size_t host = 0; host < 3; ++host) {
      const data::LedgerReport report = data::check_ledger(folder(host));
      EXPECT_FALSE(report.violation) << *report.violation;
      EXPECT_EQ(report.steps, steps) << "host " << host;
    }
  }
  static data::LedgerOptions options(int rank) { return {.worker = rank, .epoch_samples = kSteps * kWorkers}; }

  testing::TemporaryFolder folder_;
};

TEST_F(LedgerExchangeTest, AMeetingGivesEveryHostWhatAnyHas) {
  testing::run_group(kWorkers, testing::Network::kShm, [&](int rank, const comm::Group& group) {
    const strategies::Members here = members(rank, group);
    {
      data::LedgerWriter writer(folder(here.host), options(rank));
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        record(writer, step, rank);
        writer.record_commit(0, step, kWorkers);
      }
    }
    comm::Group all = group;
    all.barrier();
    LedgerExchange exchange;
    exchange.settle(folder(here.host), here);
    EXPECT_THAT(exchange.news(), IsEmpty()) << "nothing was written since";
    all.barrier();
    exchange.settle(folder(here.host), here);
  });
  expect_whole(kSteps);
}

TEST_F(LedgerExchangeTest, WhatIsToldWithAStepIsThereBeforeItCounts) {
  std::array<std::vector<std::uint8_t>, 3> told;
  testing::run_group(kWorkers, testing::Network::kShm, [&](int rank, const comm::Group& group) {
    const strategies::Members here = members(rank, group);
    comm::Group all = group;
    LedgerExchange exchange;
    exchange.settle(folder(here.host), here);
    data::LedgerWriter writer(folder(here.host), options(rank));
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      record(writer, step, rank);
      all.barrier();
      if (here.host_index() == 0) told[here.host] = exchange.news();
      all.barrier();
      for (std::size_t host = 0; here.host_index() == 0 && host < told.size(); ++host)
        if (host != here.host) exchange.keep(told[host]);
      all.barrier();
      writer.record_commit(0, step, kWorkers);
      // Whichever hosts are lost now, the others can prove the step.
      all.barrier();
      if (rank == 0) expect_whole(step + 1);
      all.barrier();
    }
  });
}

TEST_F(LedgerExchangeTest, WhatIsCutShortIsRefused) {
  testing::run_group(kWorkers, testing::Network::kShm, [&](int rank, const comm::Group& group) {
    const strategies::Members here = members(rank, group);
    LedgerExchange exchange;
    exchange.settle(folder(here.host), here);
    if (rank != 0) return;
    const data::LedgerWriter writer(folder(0), options(0));
    std::vector<std::uint8_t> news = exchange.news();
    ASSERT_THAT(news, Not(IsEmpty()));
    news.pop_back();
    LedgerExchange other;
    EXPECT_EQ(testing::error_of([&] { other.keep(news); }).kind(), ErrorKind::kMismatch) << "has met nobody";
    EXPECT_EQ(testing::error_of([&] { exchange.keep(news); }).kind(), ErrorKind::kMismatch);
  });
}

}  // namespace
}  // namespace muster::trainer
