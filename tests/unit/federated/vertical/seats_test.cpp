// Who may be which party, for how long one is waited for, and what the others hear when one fails, comes back late, or
// brings what cannot be. Time is turned by hand where it matters.
#include "parties.h"

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/clock.h"
#include "muster/federated/vertical/party_seat.h"
#include "support/eventually.h"

namespace muster::federated {
namespace {

using ::testing::AllOf;
using testing::error_of;
using testing::eventually;
using testing::expect_error;
using ::testing::HasSubstr;
using testing::slurp;
using testing::spill;

constexpr auto kNow = std::chrono::milliseconds(0);
constexpr auto kShortly = std::chrono::milliseconds(20);

// Lines that threads tell.
class Lines {
 public:
  void add(const std::string& line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    text_ += line + "\n";
  }
  std::string text() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return text_;
  }
  bool have(const std::string& words) const { return text().find(words) != std::string::npos; }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

// A net that finds its disk full when it has a checkpoint to write.
class FullDiskBottom final : public BottomNet {
 public:
  explicit FullDiskBottom(Values values) : net_(std::move(values)) {}
  std::uint64_t width() const override { return net_.width(); }
  void reset() override { net_.reset(); }
  void save(const std::filesystem::path& path) const override {
    throw Error(ErrorKind::kResource, "cannot be written: No space left on device", path.string(),
                "Free some disk space.");
  }
  void load(const std::filesystem::path& path) override { net_.load(path); }
  void save_model(const std::filesystem::path& path) const override { net_.save_model(path); }
  std::vector<float> forward(std::span<const std::uint64_t> rows, bool train) override {
    return net_.forward(rows, train);
  }
  void backward(std::span<const float> gradient) override { net_.backward(gradient); }

 private:
  SumBottom net_;
};

class Seats : public Parties {
 protected:
  static PartyWish wish(std::uint64_t attempt, const std::string& seat) {
    return {.attempt = attempt, .width = kWidth, .ids = 5, .seat = seat, .life = 1};
  }
  static void run_all(LabelHolder& labels) {
    labels.run(always, [](std::uint64_t, const EpochFigures&) {});
  }
  // Undisturbed, until all is done.
  void train_all(const LabelHolderOptions& options) {
    auto labels = holder(options);
    wire_.connect(labels.get());
    const std::atomic<bool> on = true;
    std::thread bank = thread_of("bank", on);
    std::thread shop = thread_of("shop", on);
    run_all(*labels);
    bank.join();
    shop.join();
    wire_.disconnect();
  }
  LabelHolderOptions telling(Lines& lines) const {
    LabelHolderOptions options = holder_options();
    options.tell = [&lines](const std::string& line) { lines.add(line); };
    return options;
  }
};

TEST_F(Seats, SomebodyElseOfAPartyThatIsHeardOfIsRefusedAndDisturbsNobody) {
  FakeClock clock;
  auto labels = holder(holder_options(), clock);
  const std::uint64_t session = labels->meet("bank", wish(1, "first"), kNow).session;
  const auto other_is_refused = [&] {
    expect_error(ErrorKind::kInvalidInput, "bank takes part already",
                 [&] { labels->meet("bank", wish(2, "second"), kNow); });
  };
  other_is_refused();
  EXPECT_EQ(labels->meet("bank", wish(1, "first"), kNow).session, session);
  clock.advance(kSilentSeat - std::chrono::seconds(1));
  other_is_refused();
  labels->meet("bank", {.seat = "first"}, kNow);  // it computes, and says that it is there
  labels->meet("bank", {.seat = "second"}, kNow);
  clock.advance(kSilentSeat - std::chrono::seconds(1));
  other_is_refused();
  EXPECT_EQ(labels->meet("bank", wish(3, "first"), kNow).what, PartyOrder::What::kWait);  // another life of it
  clock.advance(kSilentSeat);
  EXPECT_EQ(labels->meet("bank", wish(2, "second"), kNow).what, PartyOrder::What::kWait);
}

// Each time that both have met a session begins, the label holder waits for their points, and both come anew.
TEST_F(Seats, PartiesThatComeAnewForEverDoNotRenewThePatience) {
  FakeClock clock;
  auto labels = holder(holder_options(), clock);
  std::atomic<bool> on = true;
  std::thread holding([&] {
    expect_error(ErrorKind::kTimeout, "training got no further while 60 s were waited",
                 [&] { labels->run([&] { return on.load(); }, [](std::uint64_t, const EpochFigures&) {}); });
  });
  std::uint64_t rounds = 0;
  try {
    for (; rounds < 100; ++rounds) {
      const auto meet = [&](const char* name) { return labels->meet(name, wish(rounds + 1, name), kShortly); };
      meet("bank");
      PartyOrder order;
      while (order.what != PartyOrder::What::kAlign)
        order = meet("shop");
      while (labels->read_points("shop", order.session, 0, kShortly).standing == Standing::kWait) {
      }
      labels->read_places("bank", order.session, 0, kShortly);  // meanwhile it waits
      clock.advance(std::chrono::seconds(10));
    }
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the label holder has ended: training got no further"));
  }
  on = false;
  holding.join();
  EXPECT_GT(rounds, 3);
  EXPECT_LT(rounds, 100);
}

TEST_F(Seats, PointsThatAreNoneAreTheirSendersFailureAlone) {
  Lines told;
  auto labels = holder(telling(told));
  wire_.connect(labels.get());
  const std::atomic<bool> on = true;
  std::thread shop = thread_of("shop", on);
  std::thread bank([&] {
    const PartyWish stranger = wish(5, "stranger");
    PartyOrder order;
    while (order.what != PartyOrder::What::kAlign)
      order = labels->meet("bank", stranger, kShortly);
    const std::vector<std::byte> own(5 * kPointBytes, std::byte{255});
    const std::vector<std::byte> raised(labels_.ids.size() * kPointBytes, std::byte{255});
    labels->send_points("bank", order.session, PointsKind::kOwn, own.size(), 0, own);
    labels->send_points("bank", order.session, PointsKind::kRaised, raised.size(), 0, raised);
    while (labels->read_places("bank", order.session, 0, kShortly).standing == Standing::kWait) {
    }
    expect_error(ErrorKind::kInvalidInput, "what bank sent is refused: what came is no point of the curve",
                 [&] { labels->meet("bank", wish(6, "stranger"), kShortly); });
    party("bank", wire_)->run(always);
  });
  run_all(*labels);
  bank.join();
  shop.join();
  EXPECT_THAT(told.text(), HasSubstr("what bank sent is refused: what came is no point of the curve"));
  expect_the_plain_weights();
}

TEST_F(Seats, WhoseDiskIsFullSaysSoToAllAndGoesOnWhenThereIsRoom) {
  Lines told;
  Lines told_to_shop;
  auto labels = holder(telling(told));
  wire_.connect(labels.get());
  std::thread shop([&] {
    ColumnPartyOptions options = party_options("shop");
    options.tell = [&](const std::string& line) { told_to_shop.add(line); };
    party(options, wire_)->run(always);
  });
  std::thread bank([&] {
    const TableOfIds& table = tables_.at("bank");
    ColumnParty full(wire_, party_options("bank"), table.ids, [&](const Alignment& alignment) {
      return std::make_unique<FullDiskBottom>(table.values(alignment, 1));
    });
    const Error error = error_of([&] { full.run(always); });
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("step-4.safetensors"), HasSubstr("Free some disk space")));
    EXPECT_TRUE(eventually([&] { return told_to_shop.have("waits for bank (ended: "); })) << told_to_shop.text();
    party("bank", wire_)->run(always);
  });
  run_all(*labels);
  bank.join();
  shop.join();
  EXPECT_THAT(told.text(), HasSubstr("bank has ended: "));
  EXPECT_THAT(told_to_shop.text(), HasSubstr("No space left on device"));
  expect_the_plain_weights();
}

TEST_F(Seats, ASeatIsGivenUpByWhoHasIt) {
  auto labels = holder(holder_options());
  labels->meet("bank", wish(1, "first"), kNow);
  expect_error(ErrorKind::kInvalidInput, "a seat that it does not have",
               [&] { labels->give_up("bank", "second", "because"); });
  labels->give_up("bank", "first", "because");
  EXPECT_EQ(labels->meet("shop", wish(2, "shop"), kNow).reason, "waits for bank (ended: because)");
  EXPECT_EQ(labels->meet("bank", wish(3, "second"), kNow).what, PartyOrder::What::kWait);
}

TEST_F(Seats, WhoComesBackBehindTheLastStepLearnsThatAllIsDone) {
  auto labels = holder(holder_options());
  wire_.connect(labels.get());
  const std::atomic<bool> on = true;
  std::thread bank = thread_of("bank", on);
  std::thread shop = thread_of("shop", on);
  run_all(*labels);
  bank.join();
  shop.join();
  // It was killed before it could write down that it was told; the label holder is there still.
  const PartyFiles files(state("bank"));
  files.finish({.epochs = 5, .told = false});
  EXPECT_EQ(party("bank", wire_)->run(always), state("bank"));
  EXPECT_TRUE(files.finished()->told);
  expect_the_plain_weights();
  // Nobody is there any more.
  files.finish({.epochs = 5, .told = false});
  wire_.disconnect();
  FakeClock clock;
  Lines told;
  ColumnPartyOptions options = party_options("bank");
  options.tell = [&](const std::string& line) { told.add(line); };
  const TableOfIds& table = tables_.at("bank");
  ColumnParty late(
      wire_, options, table.ids, [](const Alignment&) -> std::unique_ptr<BottomNet> { return nullptr; }, clock);
  EXPECT_EQ(late.run(always), state("bank"));
  EXPECT_THAT(told.text(), HasSubstr("all steps were done, and the label holder has gone"));
  EXPECT_TRUE(files.finished()->told);
  // Who was told waits for a new run as ever.
  expect_error(ErrorKind::kPeerLost, "nobody is there", [&] { late.run(always); });
}

TEST_F(Seats, WhoHasLostItsNetWhenAllIsDoneIsNotToldThatItIsDone) {
  train_all(holder_options());
  auto labels = holder(holder_options());
  wire_.connect(labels.get());
  const std::atomic<bool> on = true;
  std::thread bank = thread_of("bank", on);
  std::thread shop = thread_of("shop", on);
  run_all(*labels);
  bank.join();
  shop.join();
  std::filesystem::remove_all(state("bank"));
  expect_error(ErrorKind::kMismatch, "this party's net is not here", [&] { party("bank", wire_)->run(always); });
}

TEST_F(Seats, ARunIsNotTrainedAnewBecauseItIsToEndEarlier) {
  train_all(holder_options());
  const std::string model = model_of("labels");
  const auto finished = PartyFiles(folder_ / "labels").finished();
  ASSERT_TRUE(finished);
  EXPECT_EQ(finished->epochs, 5);
  EXPECT_EQ(finished->alignment.size(), 32);
  EXPECT_EQ(PartyFiles(state("bank")).finished(), finished);  // of one training, as those who predict compare
  LabelHolderOptions options = holder_options();
  options.epochs = 3;
  const Error error = error_of([&] { holder(options); });
  EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("is in epoch 5 already"), HasSubstr("job.epochs")));
  EXPECT_EQ(model_of("labels"), model);
  // To go on is to begin where it ended.
  Lines told;
  options = telling(told);
  options.epochs = 7;
  train_all(options);
  EXPECT_THAT(told.text(), HasSubstr("goes on after step 25 of 35"));
  EXPECT_NE(model_of("labels"), model);
  EXPECT_EQ(PartyFiles(state("bank")).finished(),
            (FinishedRun{.epochs = 7, .told = true, .alignment = finished->alignment}));
}

TEST_F(Seats, NetsThatWereNotTrainedTogetherDoNotPredictTogether) {
  LabelHolderOptions options = holder_options();
  options.net = NetMark{.alignment = "0123456789abcdef", .epochs = 10};
  auto labels = holder(options);
  const auto refused_with = [&](const std::optional<NetMark>& net) {
    PartyWish of_bank = wish(1, "first");
    of_bank.net = net;
    const Error error = error_of([&] { labels->meet("bank", of_bank, kNow); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    return std::string(error.what());
  };
  EXPECT_THAT(refused_with(NetMark{.alignment = "0123456789abcdef", .epochs = 5}),
              AllOf(HasSubstr("the net of bank is of epoch 5 on alignment 0123456789ab"),
                    HasSubstr("the label holder's is of epoch 10 on alignment 0123456789ab"), HasSubstr("--net")));
  EXPECT_THAT(refused_with(NetMark{.alignment = "fedcba9876543210", .epochs = 10}),
              HasSubstr("is of epoch 10 on alignment fedcba987654"));
  EXPECT_THAT(refused_with({}), HasSubstr("the label holder predicts, and bank does not"));
  PartyWish same = wish(1, "first");
  same.net = options.net;
  EXPECT_EQ(labels->meet("bank", same, kNow).reason, "waits for shop");
  auto training = holder(holder_options());
  expect_error(ErrorKind::kInvalidInput, "the label holder trains, and bank does not",
               [&] { training->meet("bank", same, kNow); });
}

TEST_F(Seats, NobodyIsToldThatAllIsPredictedWhereTheAnswersCannotBeWritten) {
  LabelHolderOptions options = holder_options();
  options.net = NetMark{.alignment = "a", .epochs = 5};
  options.before_end = [] { throw Error(ErrorKind::kResource, "cannot be written", "answers.csv"); };
  auto labels = holder(options);
  wire_.connect(labels.get());
  const auto predicting = [&](const std::string& name) {
    return std::thread([this, name, net = options.net] {
      ColumnPartyOptions of_party = party_options(name);
      of_party.net = net;
      const Error error = error_of([&] { party(of_party, wire_)->run(always); });
      EXPECT_THAT(error.what(), HasSubstr("the label holder has ended: cannot be written")) << name;
    });
  };
  std::thread bank = predicting("bank");
  std::thread shop = predicting("shop");
  expect_error(ErrorKind::kResource, "cannot be written", [&] { run_all(*labels); });
  bank.join();
  shop.join();
}

TEST_F(Seats, ACheckpointThatIsDamagedIsLeftOutAndAllGoOnFromTheOneBefore) {
  Lines told;
  auto labels = holder(telling(told));
  wire_.connect(labels.get());
  const std::atomic<bool> on = true;
  std::thread shop = thread_of("shop", on);
  std::thread bank([&] {
    expect_error(ErrorKind::kInterrupted, "stopped",
                 [&] { party("bank", wire_)->run([&] { return wire_.last_step() < 18; }); });
    std::string bytes = slurp(PartyFiles(state("bank")).checkpoint(16));
    bytes.at(bytes.size() - 3) = static_cast<char>(bytes.at(bytes.size() - 3) ^ 4);
    spill(PartyFiles(state("bank")).checkpoint(16), bytes);
    Lines told_to_bank;
    ColumnPartyOptions options = party_options("bank");
    options.tell = [&](const std::string& line) { told_to_bank.add(line); };
    party(options, wire_)->run(always);
    EXPECT_THAT(told_to_bank.text(), AllOf(HasSubstr("step-16.safetensors"), HasSubstr("left out")));
  });
  run_all(*labels);
  bank.join();
  shop.join();
  EXPECT_THAT(told.text(), HasSubstr("goes on after step 8 of 25"));
  expect_the_plain_weights();
}

TEST_F(Seats, AnotherTableThanWhenTrainingBeganIsRefused) {
  train_all(holder_options());
  LabelHolderOptions options = holder_options();
  options.content = "other";
  expect_error(ErrorKind::kMismatch, "the table is another one", [&] { holder(options); });
  auto labels = holder(holder_options());
  wire_.connect(labels.get());
  ColumnPartyOptions of_bank = party_options("bank");
  of_bank.columns = 9;
  expect_error(ErrorKind::kMismatch, "the table is another one", [&] { party(of_bank, wire_)->run(always); });
}

}  // namespace
}  // namespace muster::federated
