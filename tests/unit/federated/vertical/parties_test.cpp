// The label holder and the parties with columns, as threads: what is lost, repeated and killed leaves the result as it
// would have been, and what does not follow the protocol is refused.
#include "parties.h"

#include <cmath>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/federated/vertical/party_seat.h"

namespace muster::federated {
namespace {

using testing::expect_error;
using ::testing::HasSubstr;

TEST_F(Parties, TrainAsOneProgramWouldOnTheRowsThatAllHave) {
  auto labels = holder(holder_options());
  wire_.connect(labels.get());
  const std::atomic<bool> on = true;
  std::vector<EpochFigures> epochs;
  std::thread bank = thread_of("bank", on);
  std::thread shop = thread_of("shop", on);
  labels->run(always, [&](std::uint64_t epoch, const EpochFigures& figures) {
    EXPECT_EQ(epoch, epochs.size());
    epochs.push_back(figures);
  });
  bank.join();
  shop.join();
  expect_the_plain_weights();
  EXPECT_EQ(epochs.size(), 5);
  EXPECT_LT(epochs.back().train_loss, epochs.front().train_loss);
  // Ids 10 to 54 are everybody's; all have them in the same order.
  std::vector<std::string> seen;
  for (const std::string& name : names_) {
    const TableOfIds& table = tables_.at(name);
    std::vector<std::string> ids;
    const auto kept = PartyFiles(state(name)).alignment(mark_of(table.ids));
    for (const std::uint64_t row : kept->rows)
      ids.push_back(table.ids[row]);
    if (seen.empty()) seen = ids;
    EXPECT_EQ(ids, seen);
  }
  std::set<std::string> common(seen.begin(), seen.end());
  EXPECT_EQ(common.size(), 45);
  EXPECT_TRUE(common.contains("10"));
  EXPECT_FALSE(common.contains("55"));
}

TEST_F(Parties, AnswersThatAreLostAndCallsThatComeAgainCountOnce) {
  wire_.lose_every(3);
  auto labels = holder(holder_options());
  wire_.connect(labels.get());
  const std::atomic<bool> on = true;
  std::thread bank = thread_of("bank", on);
  std::thread shop = thread_of("shop", on);
  labels->run(always, [](std::uint64_t, const EpochFigures&) {});
  wire_.lose_every(0);
  bank.join();
  shop.join();
  expect_the_plain_weights();
}

TEST_F(Parties, WhoDiesAndComesBackGoesOnFromACheckpointToTheSameWeights) {
  std::string told;
  std::mutex telling;
  LabelHolderOptions options = holder_options();
  options.tell = [&](const std::string& line) {
    const std::lock_guard<std::mutex> lock(telling);
    told += line + "\n";
  };
  auto labels = holder(options);
  wire_.connect(labels.get());
  const std::atomic<bool> on = true;
  std::thread shop = thread_of("shop", on);
  // The bank dies in step 12, and then in step 18: an epoch has 5 steps that train and 2 with test rows, and a
  // checkpoint is behind every 4th that trains, before steps 4, 10, 16, ...
  std::thread bank([&] {
    for (const std::uint64_t last : {12, 18}) {
      expect_error(ErrorKind::kInterrupted, "stopped",
                   [&] { party("bank", wire_)->run([&] { return wire_.last_step() < last; }); });
    }
    party("bank", wire_)->run(always);
  });
  std::set<std::uint64_t> epochs;
  labels->run(always, [&](std::uint64_t epoch, const EpochFigures&) { epochs.insert(epoch); });
  bank.join();
  shop.join();
  expect_the_plain_weights();
  EXPECT_EQ(epochs.size(), 5);
  EXPECT_THAT(told, HasSubstr("goes on after step 8 of 25"));
  EXPECT_THAT(told, HasSubstr("goes on after step 12 of 25"));
}

TEST_F(Parties, ALabelHolderThatIsKilledGoesOnToTheSameWeights) {
  const std::atomic<bool> on = true;
  std::thread bank = thread_of("bank", on);
  std::thread shop = thread_of("shop", on);
  // In the middle of steps, and once more at another.
  for (const std::uint64_t last : {6, 21}) {
    auto labels = holder(holder_options());
    wire_.connect(labels.get());
    expect_error(ErrorKind::kInterrupted, "stopped", [&] {
      labels->run([&] { return wire_.last_step() < last; }, [](std::uint64_t, const EpochFigures&) {});
    });
    wire_.disconnect();
  }
  auto labels = holder(holder_options());
  wire_.connect(labels.get());
  labels->run(always, [](std::uint64_t, const EpochFigures&) {});
  bank.join();
  shop.join();
  expect_the_plain_weights();
}

TEST_F(Parties, APartyThatHasLostItsStateMakesAllBeginAnewOnlyWhereTheLabelHolderAllowsIt) {
  auto labels = holder(holder_options());
  wire_.connect(labels.get());
  const std::atomic<bool> on = true;
  std::atomic<bool> refused = false;
  std::thread shop = thread_of("shop", on);
  std::thread bank([&] {
    expect_error(ErrorKind::kInterrupted, "stopped",
                 [&] { party("bank", wire_)->run([&] { return wire_.last_step() < 10; }); });
    std::filesystem::remove_all(state("bank"));
    expect_error(ErrorKind::kInvalidInput, "bank has nothing of the training that it is to go on with",
                 [&] { party("bank", wire_)->run(always); });
    refused = true;
  });
  expect_error(ErrorKind::kInterrupted, "stopped",
               [&] { labels->run([&] { return !refused.load(); }, [](std::uint64_t, const EpochFigures&) {}); });
  bank.join();
  wire_.disconnect();
  EXPECT_FALSE(PartyFiles(folder_ / "labels").checkpoints().empty());
  LabelHolderOptions options = holder_options();
  options.begin_anew = true;
  labels = holder(options);
  wire_.connect(labels.get());
  std::thread again = thread_of("bank", on);
  labels->run(always, [](std::uint64_t, const EpochFigures&) {});
  again.join();
  shop.join();
  expect_the_plain_weights();
}

TEST_F(Parties, NothingInCommonIsSaidToAll) {
  tables_["shop"] = ids_from(200, 220, 3);
  auto labels = holder(holder_options());
  wire_.connect(labels.get());
  const std::atomic<bool> on = true;
  std::thread bank = thread_of("bank", on);
  std::thread shop = thread_of("shop", on);
  expect_error(ErrorKind::kInvalidInput, "0 rows are common",
               [&] { labels->run(always, [](std::uint64_t, const EpochFigures&) {}); });
  bank.join();
  shop.join();
  EXPECT_THAT(error_of_party("bank"), HasSubstr("the label holder has ended: 0 rows are common"));
  EXPECT_THAT(error_of_party("shop"), HasSubstr("the label holder has ended: 0 rows are common"));
}

TEST_F(Parties, WhoStaysAwayIsNamed) {
  LabelHolderOptions options = holder_options();
  options.patience = std::chrono::nanoseconds(0);
  auto labels = holder(options);
  expect_error(ErrorKind::kTimeout, "nothing has come of bank and shop",
               [&] { labels->run(always, [](std::uint64_t, const EpochFigures&) {}); });
}

TEST_F(Parties, CallsThatDoNotFollowTheProtocolAreRefused) {
  auto labels = holder(holder_options());
  const auto now = std::chrono::milliseconds(0);
  const PartyWish good{.attempt = 1, .width = kWidth, .ids = 5};
  const auto refused = [&](const std::string& words, const auto& call) {
    expect_error(ErrorKind::kInvalidInput, words, call);
  };
  refused("no party \"mallory\"", [&] { labels->meet("mallory", good, now); });
  PartyWish wish = good;
  wish.width = 0;
  refused("what cannot be", [&] { labels->meet("bank", wish, now); });
  wish.width = kMostWidth;
  wish.ids = kMostIds + 1;
  refused("what cannot be", [&] { labels->meet("bank", wish, now); });
  wish = good;
  wish.checkpoints.resize(kMostCheckpoints + 1);
  refused("what cannot be", [&] { labels->meet("bank", wish, now); });
  LabelHolderOptions large = holder_options();
  large.batch = kMostStepFloats;
  refused("too much for a step", [&] { holder(large)->meet("bank", good, now); });
  // Out of turn: nothing has begun.
  const PartyOrder order = labels->meet("bank", good, now);
  EXPECT_EQ(order.what, PartyOrder::What::kWait);
  EXPECT_EQ(order.reason, "waits for shop");
  EXPECT_EQ(labels->read_points("bank", 7, 0, now).standing, Standing::kMeetAgain);
  EXPECT_EQ(labels->send_points("bank", 7, PointsKind::kOwn, 33, 0, {}).standing, Standing::kMeetAgain);
  EXPECT_EQ(labels->read_places("bank", order.session, 0, now).standing, Standing::kWait);
  EXPECT_EQ(labels->exchange("bank", order.session, 0, {}, now).standing, Standing::kMeetAgain);
}

TEST_F(Parties, NumbersThatCannotBeAreRefusedAndTheRestGoesOn) {
  auto labels = holder(holder_options());
  wire_.connect(labels.get());
  const std::atomic<bool> on = true;
  std::thread shop = thread_of("shop", on);
  std::atomic<bool> done = false;
  // The bank's session, on its way: somebody with its name sends nonsense beside it.
  std::thread bank([&] {
    expect_error(ErrorKind::kInterrupted, "stopped",
                 [&] { party("bank", wire_)->run([&] { return wire_.last_step() < 9; }); });
    const TableOfIds& table = tables_.at("bank");
    const PartyFiles files(state("bank"));
    const Alignment alignment = *files.alignment(mark_of(table.ids));
    const PartyWish wish{.attempt = 77,
                         .width = kWidth,
                         .ids = table.ids.size(),
                         .alignment = alignment.name,
                         .checkpoints = files.checkpoints(),
                         .seat = PartySeat(folder_ / "state", "bank").secret()};
    PartyOrder order;
    while (order.what != PartyOrder::What::kTrain)
      order = labels->meet("bank", wish, std::chrono::milliseconds(20));
    const auto now = std::chrono::milliseconds(0);
    const std::size_t floats = order.plan.at(order.step).rows.size() * kWidth;
    std::vector<float> numbers(floats, 1.0F);
    const auto send = [&](std::uint64_t step) { return labels->exchange("bank", order.session, step, numbers, now); };
    expect_error(ErrorKind::kInvalidInput, "is in step", [&] { send(order.step + 1); });
    numbers.pop_back();
    expect_error(ErrorKind::kInvalidInput, "numbers where", [&] { send(order.step); });
    numbers.push_back(std::nanf(""));
    expect_error(ErrorKind::kInvalidInput, "not finite", [&] { send(order.step); });
    EXPECT_EQ(labels->exchange("bank", order.session + 1, order.step, numbers, now).standing, Standing::kMeetAgain);
    party("bank", wire_)->run(always);
    done = true;
  });
  labels->run(always, [](std::uint64_t, const EpochFigures&) {});
  bank.join();
  shop.join();
  EXPECT_TRUE(done);
  expect_the_plain_weights();
}

TEST(VerticalPlan, AnEpochHasEveryTrainingRowOnceAndThenEveryTestRow) {
  const VerticalPlan plan{.train_rows = 23, .test_rows = 9, .batch = 8, .epochs = 3, .seed = 5, .checkpoint_steps = 4};
  ASSERT_EQ(plan.steps(), 3 * (3 + 2));
  std::vector<std::vector<std::uint64_t>> orders;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::uint64_t> trained;
    std::vector<std::uint64_t> tested;
    for (std::uint64_t step = epoch * 5; step < (epoch + 1) * 5; ++step) {
      const VerticalPlan::Place place = plan.at(step);
      EXPECT_EQ(place.epoch, epoch);
      EXPECT_EQ(place.ends_epoch, step % 5 == 4);
      EXPECT_LE(place.rows.size(), 8);
      std::vector<std::uint64_t>& rows = place.train ? trained : tested;
      rows.insert(rows.end(), place.rows.begin(), place.rows.end());
    }
    orders.push_back(trained);
    std::ranges::sort(trained);
    for (std::uint64_t row = 0; row < 23; ++row)
      EXPECT_EQ(trained.at(row), row);
    ASSERT_EQ(tested.size(), 9);
    for (std::uint64_t row = 0; row < 9; ++row)
      EXPECT_EQ(tested.at(row), 23 + row);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_EQ(plan.epoch_train_steps(), 3);
  EXPECT_EQ(plan.words_at(0), "trains: 3 epochs of 3 steps");
  VerticalPlan none = plan;
  none.batch = 0;
  expect_error(ErrorKind::kDamaged, "cannot be", [&] { none.check(kWidth); });
}

// A step is a batch of training rows: those of test rows count for nobody.
TEST(VerticalPlan, StepsAndCheckpointsAreCountedByWhatTrains) {
  const VerticalPlan plan{.train_rows = 23, .test_rows = 9, .batch = 8, .epochs = 3, .seed = 5, .checkpoint_steps = 4};
  // T T T t t  T T T t t  T T T t t
  const std::vector<std::uint64_t> trained{0, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6, 7, 8, 9, 9, 9};
  std::vector<std::uint64_t> due;
  for (std::uint64_t step = 0; step <= plan.steps(); ++step) {
    EXPECT_EQ(plan.trained_before(step), trained.at(step)) << step;
    if (plan.checkpoint_due(step)) due.push_back(step);
  }
  EXPECT_EQ(due, (std::vector<std::uint64_t>{6, 12, 15}));  // behind the 4th, the 8th, and the end
  EXPECT_EQ(plan.words_at(12), "goes on after step 8 of 9");
  EXPECT_EQ(plan.epochs_at(0), 0);
  EXPECT_EQ(plan.epochs_at(5), 1);
  EXPECT_EQ(plan.epochs_at(6), 2);
}

TEST(VerticalPlan, AStepIsNoLargerThanWhatMayTravel) {
  VerticalPlan plan{
      .train_rows = kMostIds, .test_rows = 9, .batch = 1000, .epochs = 3, .seed = 5, .checkpoint_steps = 4};
  plan.check(kMostStepFloats / 1000);
  expect_error(ErrorKind::kDamaged, "cannot be", [&] { plan.check(kMostStepFloats / 1000 + 1); });
  plan.epochs = 1'000'000'000;
  expect_error(ErrorKind::kDamaged, "cannot be", [&] { plan.check(1); });
}

}  // namespace
}  // namespace muster::federated
