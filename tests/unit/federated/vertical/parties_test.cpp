// The label holder and the parties with columns, as threads: what is lost, repeated and killed leaves the result as it
// would have been, and what does not follow the protocol is refused. Nets are sums whose arithmetic can be followed.
#include "muster/federated/vertical/column_party.h"
#include "muster/federated/vertical/label_holder.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::federated {
namespace {

using testing::expect_error;
using ::testing::HasSubstr;
using testing::slurp;

constexpr std::uint64_t kWidth = 2;

// Numbers of rows as the party's table has them.
using Values = std::vector<float>;

void write_numbers(const std::filesystem::path& path, const std::vector<double>& numbers) {
  std::ofstream file(path);
  for (const double number : numbers)
    file << fmt::format("{}\n", number);
}
std::vector<double> read_numbers(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<double> numbers;
  for (double number = 0; file >> number;)
    numbers.push_back(number);
  return numbers;
}

// Gives weight times value; a step moves each weight by the gradient.
class SumBottom final : public BottomNet {
 public:
  explicit SumBottom(Values values) : values_(std::move(values)) { reset(); }
  std::uint64_t width() const override { return kWidth; }
  void reset() override { weights_ = {1, -1}; }
  void save(const std::filesystem::path& path) const override { write_numbers(path, {weights_[0], weights_[1]}); }
  void load(const std::filesystem::path& path) override {
    const std::vector<double> numbers = read_numbers(path);
    weights_ = {static_cast<float>(numbers.at(0)), static_cast<float>(numbers.at(1))};
  }
  void save_model(const std::filesystem::path& path) const override { save(path); }
  std::vector<float> forward(std::span<const std::uint64_t> rows, bool train) override {
    std::vector<float> given;
    for (const std::uint64_t row : rows) {
      for (const float weight : weights_)
        given.push_back(weight * values_.at(row));
    }
    if (train) rows_.assign(rows.begin(), rows.end());
    return given;
  }
  void backward(std::span<const float> gradient) override {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (std::size_t k = 0; k < kWidth; ++k)
        weights_[k] -= 0.01F * gradient[i * kWidth + k] * values_[rows_[i]];
    }
  }

 private:
  const Values values_;
  std::array<float, kWidth> weights_{};
  std::vector<std::uint64_t> rows_;
};

// Adds up all it is given, weighs each party, and wants the sum to be the row's value.
class SumTop final : public TopNet {
 public:
  SumTop(Values values, std::size_t parties) : values_(std::move(values)), scales_(parties) { reset(); }
  void reset() override {
    std::ranges::fill(scales_, 0.5F);
    loss_ = test_ = 0;
  }
  void save(const std::filesystem::path& path) const override {
    std::vector<double> numbers{loss_, test_};
    numbers.insert(numbers.end(), scales_.begin(), scales_.end());
    write_numbers(path, numbers);
  }
  void load(const std::filesystem::path& path) override {
    const std::vector<double> numbers = read_numbers(path);
    loss_ = numbers.at(0);
    test_ = numbers.at(1);
    for (std::size_t i = 0; i < scales_.size(); ++i)
      scales_[i] = static_cast<float>(numbers.at(i + 2));
  }
  void save_model(const std::filesystem::path& path) const override { save(path); }
  std::vector<std::vector<float>> step(std::span<const std::uint64_t> rows,
                                       std::span<const std::vector<float>> activations, bool train) override {
    std::vector<std::vector<float>> gradients(scales_.size(), std::vector<float>(rows.size() * kWidth));
    std::vector<float> moves(scales_.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      float sum = 0;
      for (std::size_t party = 0; party < scales_.size(); ++party)
        sum += scales_[party] * (activations[party].at(2 * i) + 2 * activations[party].at(2 * i + 1));
      const float error = sum - values_.at(rows[i]);
      (train ? loss_ : test_) += static_cast<double>(error) * error;
      for (std::size_t party = 0; party < scales_.size(); ++party) {
        gradients[party][2 * i] = error * scales_[party];
        gradients[party][2 * i + 1] = 2 * error * scales_[party];
        moves[party] += error * (activations[party][2 * i] + 2 * activations[party][2 * i + 1]);
      }
    }
    if (!train) return {};
    for (std::size_t party = 0; party < scales_.size(); ++party)
      scales_[party] -= 0.001F * moves[party];
    return gradients;
  }
  EpochFigures end_epoch() override {
    const EpochFigures figures{.train_loss = std::exchange(loss_, 0), .test_loss = std::exchange(test_, 0)};
    return figures;
  }

 private:
  const Values values_;
  std::vector<float> scales_;
  double loss_ = 0;
  double test_ = 0;
};

// A party's table: ids, and a value that follows from the id, in an order of its own.
struct TableOfIds {
  std::vector<std::string> ids;
  Values values(const Alignment& alignment, float factor) const {
    Values aligned;
    for (const std::uint64_t row : alignment.rows)
      aligned.push_back(factor * std::stof(ids.at(row)) / 100);
    return aligned;
  }
};

TableOfIds ids_from(int first, int last, int stride) {
  TableOfIds table;
  const int count = last - first;
  for (int i = 0; i < count; ++i)
    table.ids.push_back(std::to_string(first + (i * stride) % count));
  return table;
}

// What parties call: the label holder of now, if there is one; and calls whose answers may be lost.
class Wire final : public VerticalCalls {
  template <typename Call>
  auto pass(const Call& call) {
    ++inside_;
    const struct Leave {
      std::atomic<int>& inside;
      ~Leave() { --inside; }
    } leave{inside_};
    VerticalCalls* const calls = calls_;
    if (calls == nullptr) throw Error(ErrorKind::kPeerLost, "nobody is there", "the wire");
    auto answer = call(*calls);
    if (lose_ > 0 && ++calls_made_ % lose_ == 0) throw Error(ErrorKind::kPeerLost, "the answer is lost", "the wire");
    return answer;
  }

 public:
  void connect(VerticalCalls* calls) { calls_ = calls; }
  void lose_every(std::uint64_t nth) { lose_ = nth; }

  PartyOrder meet(const std::string& name, const PartyWish& wish, std::chrono::milliseconds wait) override {
    return pass([&](VerticalCalls& calls) { return calls.meet(name, wish, wait); });
  }
  PointsPart read_points(const std::string& name, std::uint64_t session, std::uint64_t offset,
                         std::chrono::milliseconds wait) override {
    return pass([&](VerticalCalls& calls) { return calls.read_points(name, session, offset, wait); });
  }
  PointsTaken send_points(const std::string& name, std::uint64_t session, PointsKind kind, std::uint64_t total,
                          std::uint64_t offset, std::span<const std::byte> data) override {
    return pass([&](VerticalCalls& calls) { return calls.send_points(name, session, kind, total, offset, data); });
  }
  PlacesPart read_places(const std::string& name, std::uint64_t session, std::uint64_t offset,
                         std::chrono::milliseconds wait) override {
    return pass([&](VerticalCalls& calls) { return calls.read_places(name, session, offset, wait); });
  }
  StepAnswer exchange(const std::string& name, std::uint64_t session, std::uint64_t step,
                      std::span<const float> activations, std::chrono::milliseconds wait) override {
    last_step_ = std::max<std::uint64_t>(last_step_, step);
    return pass([&](VerticalCalls& calls) { return calls.exchange(name, session, step, activations, wait); });
  }
  std::uint64_t last_step() const { return last_step_; }
  // Until nobody is in a call any more.
  void disconnect() {
    calls_ = nullptr;
    while (inside_ > 0)
      std::this_thread::yield();
  }

 private:
  std::atomic<VerticalCalls*> calls_ = nullptr;
  std::atomic<std::uint64_t> lose_ = 0;
  std::atomic<std::uint64_t> calls_made_ = 0;
  std::atomic<std::uint64_t> last_step_ = 0;
  std::atomic<int> inside_ = 0;
};

class Parties : public ::testing::Test {
 protected:
  Parties() : labels_(ids_from(0, 60, 7)), names_{"bank", "shop"} {
    tables_["bank"] = ids_from(10, 70, 11);
    tables_["shop"] = ids_from(5, 55, 3);
  }

  LabelHolderOptions holder_options() const {
    LabelHolderOptions options;
    options.run = "run";
    options.folder = folder_ / "labels";
    options.parties = names_;
    options.test_fraction = 0.2;
    options.batch = 8;
    options.epochs = 5;
    options.seed = 3;
    options.checkpoint_steps = 4;
    options.patience = std::chrono::seconds(60);
    return options;
  }
  std::unique_ptr<LabelHolder> holder(const LabelHolderOptions& options) const {
    return std::make_unique<LabelHolder>(options, labels_.ids,
                                         [this](const Alignment& alignment, std::span<const std::uint64_t> widths) {
                                           return std::make_unique<SumTop>(labels_.values(alignment, 3), widths.size());
                                         });
  }
  ColumnPartyOptions party_options(const std::string& name) const {
    return {.name = name, .state = folder_ / "state", .width = kWidth, .patience = std::chrono::seconds(60)};
  }
  std::unique_ptr<ColumnParty> party(const std::string& name, VerticalCalls& calls) const {
    const TableOfIds& table = tables_.at(name);
    return std::make_unique<ColumnParty>(calls, party_options(name), table.ids, [&table, name](const Alignment& a) {
      return std::make_unique<SumBottom>(table.values(a, name == "bank" ? 1 : 2));
    });
  }
  std::filesystem::path state(const std::string& name) const { return folder_ / "state" / "run" / name; }
  std::string model_of(const std::string& name) const {
    return slurp((name == "labels" ? folder_ / "labels" : state(name)) / "model.safetensors");
  }

  // What all parties' weights are when one program computes everything, without any protocol.
  std::map<std::string, std::string> plainly() {
    const PartyFiles labels(folder_ / "labels");
    const Alignment alignment = *labels.alignment(digest_of_ids(labels_.ids), labels_.ids.size());
    SumTop top(labels_.values(alignment, 3), names_.size());
    std::vector<SumBottom> bottoms;
    for (const std::string& name : names_) {
      const TableOfIds& table = tables_.at(name);
      const Alignment own = *PartyFiles(state(name)).alignment(digest_of_ids(table.ids), table.ids.size());
      bottoms.emplace_back(table.values(own, name == "bank" ? 1 : 2));
    }
    const VerticalPlan plan = plan_of(alignment);
    for (std::uint64_t step = 0; step < plan.steps(); ++step) {
      const VerticalPlan::Place place = plan.at(step);
      std::vector<std::vector<float>> activations;
      for (SumBottom& bottom : bottoms)
        activations.push_back(bottom.forward(place.rows, place.train));
      const auto gradients = top.step(place.rows, activations, place.train);
      for (std::size_t i = 0; place.train && i < bottoms.size(); ++i)
        bottoms[i].backward(gradients[i]);
      if (place.ends_epoch) top.end_epoch();
    }
    std::map<std::string, std::string> models;
    top.save_model(folder_ / "plain");
    models["labels"] = slurp(folder_ / "plain");
    for (std::size_t i = 0; i < bottoms.size(); ++i) {
      bottoms[i].save_model(folder_ / "plain");
      models[names_[i]] = slurp(folder_ / "plain");
    }
    return models;
  }
  VerticalPlan plan_of(const Alignment& alignment) const {
    const LabelHolderOptions options = holder_options();
    return {alignment.train_rows, alignment.rows.size() - alignment.train_rows,
            options.batch,        options.epochs,
            options.seed,         options.checkpoint_steps};
  }
  void expect_the_plain_weights() {
    for (const auto& [name, model] : plainly())
      EXPECT_EQ(model_of(name), model) << name;
  }

  // The party in a thread; `on` false stops it.
  std::thread thread_of(const std::string& name, const std::atomic<bool>& on) {
    return std::thread([this, name, &on] {
      try {
        party(name, wire_)->run([&] { return on.load(); });
      } catch (const Error& error) {
        const std::lock_guard<std::mutex> lock(mutex_);
        errors_[name] = error.what();
      }
    });
  }
  std::string error_of_party(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return errors_[name];
  }

  static bool always() { return true; }

  const TableOfIds labels_;
  const std::vector<std::string> names_;
  std::map<std::string, TableOfIds> tables_;
  const testing::TemporaryFolder folder_;
  Wire wire_;
  std::mutex mutex_;
  std::map<std::string, std::string> errors_;
};

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
    const auto kept = PartyFiles(state(name)).alignment(digest_of_ids(table.ids), table.ids.size());
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
  // The bank dies in step 10, and then in step 17.
  std::thread bank([&] {
    for (const std::uint64_t last : {10, 17}) {
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
  EXPECT_THAT(told, HasSubstr("goes on before step 8 of 35"));
  EXPECT_THAT(told, HasSubstr("goes on before step 16 of 35"));
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

TEST_F(Parties, APartyThatHasLostItsStateMakesAllBeginAnew) {
  auto labels = holder(holder_options());
  wire_.connect(labels.get());
  const std::atomic<bool> on = true;
  std::thread shop = thread_of("shop", on);
  std::thread bank([&] {
    expect_error(ErrorKind::kInterrupted, "stopped",
                 [&] { party("bank", wire_)->run([&] { return wire_.last_step() < 10; }); });
    std::filesystem::remove_all(state("bank"));
    party("bank", wire_)->run(always);
  });
  labels->run(always, [](std::uint64_t, const EpochFigures&) {});
  bank.join();
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

TEST_F(Parties, ATableWithOtherIdsThanThenIsRefused) {
  const PartyFiles files(folder_ / "other");
  const Alignment kept{.name = "a", .ids_digest = digest_of_ids(labels_.ids), .train_rows = 2, .rows = {4, 0, 2}};
  files.keep(kept);
  EXPECT_EQ(files.alignment(digest_of_ids(labels_.ids), labels_.ids.size()), kept);
  expect_error(ErrorKind::kMismatch, "other ids", [&] { files.alignment("another", labels_.ids.size()); });
  expect_error(ErrorKind::kDamaged, "no alignment", [&] { files.alignment(kept.ids_digest, 4); });
}

TEST_F(Parties, OfCheckpointsTheNewestTwoStayAndAnotherAlignmentTakesAll) {
  const PartyFiles files(folder_ / "files");
  for (const std::uint64_t step : {5, 100, 20})
    std::ofstream(files.checkpoint(step)) << "x";
  EXPECT_EQ(files.checkpoints(), (std::vector<std::uint64_t>{5, 20, 100}));
  files.prune();
  EXPECT_EQ(files.checkpoints(), (std::vector<std::uint64_t>{20, 100}));
  files.keep({.name = "b", .ids_digest = "c", .train_rows = 0, .rows = {}});
  EXPECT_TRUE(files.checkpoints().empty());
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
    const Alignment alignment = *files.alignment(digest_of_ids(table.ids), table.ids.size());
    const PartyWish wish{.attempt = 77,
                         .width = kWidth,
                         .ids = table.ids.size(),
                         .alignment = alignment.name,
                         .checkpoints = files.checkpoints()};
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
  EXPECT_FALSE(plan.checkpoint_due(0));
  EXPECT_TRUE(plan.checkpoint_due(4));
  EXPECT_TRUE(plan.checkpoint_due(15));
  VerticalPlan none = plan;
  none.batch = 0;
  expect_error(ErrorKind::kDamaged, "cannot be", [&] { none.check(); });
}

}  // namespace
}  // namespace muster::federated
