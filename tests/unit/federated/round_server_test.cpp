// A server with clients in one process and no wire between them: the bits of the simulation for every algorithm, kills
// at every point of a round, and every kind of update that must not count.
#include "muster/federated/round_server.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <limits>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/clock.h"
#include "muster/base/deadline.h"
#include "muster/base/failpoint.h"
#include "muster/base/hash.h"
#include "muster/federated/aggregate.h"
#include "muster/federated/federated_client.h"
#include "muster/federated/run_state.h"
#include "support/errors.h"
#include "support/sandbox.h"
#include "unit/federated/served.h"

namespace muster::federated {
namespace {

using ::testing::Each;
using testing::expect_error;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using Verdict = UpdateAnswer::Verdict;

class RoundServerTest : public ::testing::Test {
 protected:
  State simulate(const Options& options) const {
    const ClientSplit split = split_of(options);
    Simulation simulation({.federated = options,
                           .seed = 3,
                           .workers = 1,
                           .client_states = folder_ / "simulated",
                           .make_training = [] { return std::make_unique<Quadratic>(); },
                           .make_submodel = [](std::size_t) { return std::make_unique<NarrowQuadratic>(); }},
                          split, kOn);
    while (simulation.rounds() < static_cast<std::uint64_t>(options.rounds))
      simulation.round(kOn);
    return simulation.state();
  }
  // All rounds, with a server that lasts.
  State serve(const Options& options) const {
    Served served(options, folder_.path());
    {
      const Clients clients(served.server(), options, folder_ / "kept");
      while (served.server().rounds() < static_cast<std::uint64_t>(options.rounds))
        served.round();
      served.server().finish("done", std::chrono::seconds(30));
    }
    return *StateFile(folder_ / "state.safetensors").read();
  }
  void expect_bits_of_simulation(const Options& options) {
    const State simulated = simulate(options);
    const State served = serve(options);
    EXPECT_EQ(served.model, simulated.model);
    EXPECT_EQ(served.momentum, simulated.momentum);
    EXPECT_EQ(served.squares, simulated.squares);
    EXPECT_EQ(served.control, simulated.control);
    std::filesystem::remove_all(folder_.path());
    std::filesystem::create_directory(folder_.path());
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(RoundServerTest, GivesTheBitsOfTheSimulation) {
  Options options = live(9, 5);
  expect_bits_of_simulation(options);
  options.algorithm = "fedprox";
  options.server = "yogi";
  options.lr_decay = 0.9;
  expect_bits_of_simulation(options);
  options.sampling = "size";
  options.most_samples = 4;
  options.clip = 0.05;
  expect_bits_of_simulation(options);
}

TEST_F(RoundServerTest, GivesTheBitsOfTheSimulationWithControlsOfClients) {
  Options options = live(7, 3);
  options.algorithm = "scaffold";
  options.server = "momentum";
  options.rounds = 6;
  expect_bits_of_simulation(options);
  options.clip = 0.02;
  expect_bits_of_simulation(options);
}

TEST_F(RoundServerTest, GivesTheBitsOfTheSimulationWithRobustAggregates) {
  Options options = live(8, 7);
  for (const char* aggregate : {"median", "trimmed_mean", "multi_krum"}) {
    options.aggregate = aggregate;
    options.byzantine = options.aggregate == "multi_krum" ? 1 : 0;
    options.krum_keep = options.aggregate == "multi_krum" ? 3 : 1;
    options.trim = 0.2;
    expect_bits_of_simulation(options);
  }
}

TEST_F(RoundServerTest, GivesTheBitsOfTheSimulationWithPartsOfModelsAndUpdates) {
  Options options = live(7, 4);
  options.rounds = 6;
  options.keep = {"head"};
  options.client_test = 0.3;
  options.compress = "topk:0.2";
  expect_bits_of_simulation(options);
  options.compress = "int8";
  options.server = "momentum";
  expect_bits_of_simulation(options);
  options = live(9, 6);
  options.submodels = {"narrow"};
  expect_bits_of_simulation(options);
}

// As many as asked for by one who has time.
int wanted_rounds() {
  const char* const asked = std::getenv("MUSTER_TEST_ROUNDS");
  return asked != nullptr ? std::atoi(asked) : 60;
}

std::uintmax_t bytes_below(const std::filesystem::path& folder) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    bytes += entry.is_regular_file() ? entry.file_size() : 0;
  return bytes;
}

// What server and clients keep is of the last rounds alone: no file grows, and none is left, but for a longer number.
TEST_F(RoundServerTest, WhatIsOnDiskDoesNotGrowWithTheRounds) {
  Options options = live(3, 2);
  options.algorithm = "scaffold";
  options.rounds = wanted_rounds();
  Served served(options, folder_.path());
  const Clients clients(served.server(), options, folder_ / "kept");
  std::uintmax_t early = 0;
  while (served.server().rounds() < static_cast<std::uint64_t>(options.rounds)) {
    served.round();
    if (served.server().rounds() == 20) early = bytes_below(folder_.path());
  }
  EXPECT_GT(early, 2 * kSize * sizeof(float));
  EXPECT_NEAR(static_cast<double>(bytes_below(folder_.path())), static_cast<double>(early), 200);
  served.server().finish("done", std::chrono::seconds(30));
}

// --- Secure aggregation.

TEST_F(RoundServerTest, WithSecureAggregationGivesTheBitsOfTheSimulation) {
  Options options = secure_options(6, 4);
  expect_bits_of_simulation(options);
  options.server = "adam";
  expect_bits_of_simulation(options);
}

TEST_F(RoundServerTest, TheServerSeesNoUpdateWithSecureAggregationAndTheirMeanIsTheirs) {
  Options options = secure_options(4, 4);
  options.rounds = 1;
  options.most_samples = 1;
  const std::vector<float> securely = serve(options).model;
  // What it has of a client is words that look like any others: as many high bits set as not.
  std::size_t set = 0;
  std::size_t words = 0;
  for (int client = 0; client < 4; ++client) {
    const std::string path = (folder_ / "round" / (std::to_string(client) + ".update")).string();
    std::ifstream file(path, std::ios::binary);
    for (std::uint32_t word = 0; file.read(reinterpret_cast<char*>(&word), sizeof word); ++words)
      set += word >> 31;
  }
  EXPECT_EQ(words, 4 * (kSize + 2));
  EXPECT_NEAR(static_cast<double>(set), static_cast<double>(words) / 2, 6 * std::sqrt(static_cast<double>(words) / 4));
  std::filesystem::remove_all(folder_.path());
  std::filesystem::create_directory(folder_.path());
  options.secure = false;
  const std::vector<float> openly = serve(options).model;
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_NEAR(securely[i], openly[i], 1e-7) << i;
}

TEST_F(RoundServerTest, NoiseOfClientsAddsUpToWhatWasAskedForOfAsManyAsTheThreshold) {
  Options options = secure_options(12, 12);
  options.rounds = 1;
  options.noise = 50;
  options.noise_at = "clients";
  options.secure_threshold = 3;
  options.most_samples.reset();
  // Twelve of whom three are enough: twice the noise. Their mean update is nothing beside it.
  const double deviation = 2 * options.noise * *options.clip / 12;
  for (const std::vector<float>& model : {serve(options).model, simulate(options).model}) {
    double squares = 0;
    for (const float value : model)
      squares += (static_cast<double>(value) - 0.5) * (static_cast<double>(value) - 0.5);
    const double found = std::sqrt(squares / kSize);
    EXPECT_GT(found, 0.6 * deviation);  // of the server alone it would be half, and three and a half deviations less
    EXPECT_LT(found, 1.5 * deviation);
  }
}

// A client that leaves, without a word, before it says what belongs to a stage.
class Leaver final : public FederatedCalls {
 public:
  Leaver(FederatedCalls& calls, std::optional<SecureStep> at) : calls_(calls), at_(at) {}
  Enrolled enrol(const std::string& name, const EnrolWish& wish) override { return calls_.enrol(name, wish); }
  TaskAnswer next_task(const std::string& name, std::uint64_t samples, std::chrono::milliseconds wait) override {
    return calls_.next_task(name, samples, wait);
  }
  void leave(const std::string& name, const std::string& reason) override { calls_.leave(name, reason); }
  ModelChunk read_model(const std::string& name, std::uint64_t round, ModelPart part, std::uint64_t offset,
                        std::uint64_t bytes) override {
    return calls_.read_model(name, round, part, offset, bytes);
  }
  UpdateAnswer send_update(const std::string& name, const UpdateChunk& chunk) override {
    if (at_ == SecureStep::kSurvivors) drop_out();
    return calls_.send_update(name, chunk);
  }
  SecureAnswer secure_step(const std::string& name, const SecureMessage& message,
                           std::chrono::milliseconds wait) override {
    if (at_ == message.step) drop_out();
    return calls_.secure_step(name, message, wait);
  }

 private:
  [[noreturn]] static void drop_out() { throw Error(ErrorKind::kInterrupted, "has dropped out"); }
  FederatedCalls& calls_;
  const std::optional<SecureStep> at_;
};

// One round of five clients with 3 of them enough, of whom the first two leave at a stage; the mean of who is in it.
void expect_mean_of_those_left(SecureStep stage, const std::filesystem::path& folder) {
  std::filesystem::create_directory(folder);
  Options options = secure_options(5, 5);
  options.rounds = 1;
  options.most_samples = 1;
  options.secure_threshold = 3;
  options.silence_seconds = 8;
  Served served(options, folder);
  const ClientSplit split = split_of(options);
  std::vector<std::jthread> threads;
  std::vector<double> expected(kSize, 0.5);
  const bool counts = stage == SecureStep::kUnmask;  // their updates were in the sum before
  for (std::uint64_t client = 0; client < 5; ++client) {
    const bool leaves = client < 2;
    const std::vector<float> first(kSize, 0.5F);
    std::vector<float> update(kSize);
    Quadratic().train({.client = client, .samples = split.samples(client)}, first, update);
    clip_to(update, *options.clip);
    for (std::size_t i = 0; (!leaves || counts) && i < kSize; ++i)
      expected[i] += static_cast<double>(update[i]) / (counts ? 5 : 3);
    threads.emplace_back([&served, client, leaves, stage, samples = split.samples(client)] {
      Leaver calls(served.server(), leaves ? std::optional(stage) : std::nullopt);
      ClientOptions client_options;
      client_options.name = "client-" + std::to_string(client);
      Quadratic training;
      FederatedClient one(calls, client_options);
      try {
        one.run(one.enrol({.number = client}, kOn), training, samples, kOn);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInterrupted) << error.what();
      }
    });
  }
  const RoundReport report = served.round();
  served.server().finish("done", std::chrono::seconds(30));
  threads.clear();
  EXPECT_EQ(report.plan.counts.size(), counts ? 5U : 3U);
  EXPECT_EQ(report.plan.dropped, counts ? 0U : 2U);
  const std::vector<float> model = StateFile(folder / "state.safetensors").read()->model;
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_NEAR(model[i], expected[i], 1e-6) << i;
}

TEST_F(RoundServerTest, WhoDropsOutAtAStageOfSecureAggregationDoesNotDisturbTheSum) {
  // At once, because each waits for the silence of those who left.
  std::vector<std::jthread> stages;
  for (const SecureStep stage : {SecureStep::kKeys, SecureStep::kShares, SecureStep::kSurvivors, SecureStep::kUnmask})
    stages.emplace_back([stage, folder = folder_ / std::to_string(static_cast<int>(stage))] {
      expect_mean_of_those_left(stage, folder);
    });
}

// --- One client by hand.

TEST_F(RoundServerTest, WhatMustNotCountIsRefusedCountedAndNamed) {
  Options options = live(6, 5);
  options.most_norm = 100;
  options.over_select = 1.2;
  options.silence_seconds = 3600;
  options.rounds = 2;
  Served served(options, folder_.path());
  RoundServer& server = served.server();
  OpenRound round(served, 6);
  EXPECT_THAT(send(server, "c0", 0, update_of(std::numeric_limits<float>::quiet_NaN())).reason, HasSubstr("finite"));
  EXPECT_THAT(send(server, "c1", 0, update_of(1e30F)).reason, HasSubstr("norm"));
  EXPECT_THAT(send(server, "c2", 0, update_of(1, kSize + 1)).reason, HasSubstr("another model"));
  EXPECT_EQ(send(server, "c2", 0, update_of(1)).verdict, Verdict::kRefused);  // it had its chance
  EXPECT_EQ(send(server, "c3", 0, update_of(1)).verdict, Verdict::kAccepted);
  EXPECT_EQ(send(server, "c3", 0, update_of(1)).verdict, Verdict::kAccepted);  // its acknowledgement was lost
  EXPECT_EQ(send(server, "c3", 0, update_of(7)).verdict, Verdict::kRefused);
  EXPECT_EQ(send(server, "c4", 1, update_of(1)).verdict, Verdict::kLate);
  EXPECT_THAT(send(server, "c4", 0, update_of(1), 0).reason, HasSubstr("0 samples"));
  expect_error(ErrorKind::kNotFound, "has not enrolled", [&] { send(server, "nobody", 0, update_of(1)); });
  EXPECT_EQ(send(server, "c5", 0, update_of(3)).verdict, Verdict::kAccepted);
  const RoundReport report = round.end();
  EXPECT_EQ(report.refused, 4U);
  EXPECT_EQ(report.repeated, 2U);
  EXPECT_EQ(report.late_updates, 1U);
  EXPECT_EQ(report.plan.counts.size() - report.refused, 2U);
  EXPECT_EQ(StateFile(folder_ / "state.safetensors").read()->model, std::vector<float>(kSize, 0.5F + 2));
  EXPECT_EQ(send(server, "c3", 0, update_of(1)).verdict, Verdict::kLate);
  EXPECT_THAT(served.told(),
              ::testing::AllOf(HasSubstr("client 0 (c0)"), HasSubstr("client 1 (c1)"), HasSubstr("client 2 (c2)"),
                               HasSubstr("client 4 (c4)"), HasSubstr("c3) sends another update")));
}

// FedBuff with clients that are there: whoever asks begins, an update counts by its age, one that is too old does not.
TEST_F(RoundServerTest, ABufferTakesUpdatesOfRoundsBefore) {
  Options options = live(4, 2);
  options.algorithm = "fedbuff";
  options.concurrency = 4;
  options.most_staleness = 1;
  options.wait_for = {};
  options.silence_seconds = 3600;
  Served served(options, folder_.path());
  RoundServer& server = served.server();
  {
    OpenRound round(served, 3);
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(server.next_task(OpenRound::name(i), 5, std::chrono::milliseconds(0)).task.round, 0U);
    EXPECT_EQ(send(server, "c0", 0, update_of(1)).verdict, Verdict::kAccepted);
    EXPECT_EQ(server.next_task("c0", 5, std::chrono::milliseconds(0)).kind, TaskAnswer::Kind::kWait) << "counts once";
    EXPECT_EQ(send(server, "c1", 0, update_of(2)).verdict, Verdict::kAccepted);
    EXPECT_EQ(round.end().plan.counts.size(), 2U);
  }
  const auto model = [&] { return StateFile(folder_ / "state.safetensors").read()->model; };
  EXPECT_THAT(model(), Each(FloatNear(0.5F + 1.5F, 1e-6F)));
  {
    OpenRound round(served, 2);
    // Its acknowledgement was lost with the end of the round: it has counted, and does not count again.
    EXPECT_EQ(send(server, "c0", 0, update_of(1)).reason, "has counted before");
    EXPECT_EQ(send(server, "c2", 0, update_of(6)).verdict, Verdict::kAccepted) << "a round old";
    EXPECT_EQ(send(server, "c0", 1, update_of(4)).verdict, Verdict::kAccepted);
    EXPECT_EQ(round.end().repeated, 1U);
  }
  const float second = 2 + (6 / std::sqrt(2.0F) + 4) / 2;
  EXPECT_THAT(model(), Each(FloatNear(second, 1e-5F)));
  {
    OpenRound round(served, 2);
    EXPECT_EQ(send(server, "c3", 0, update_of(9)).verdict, Verdict::kLate) << "two rounds old";
    send(server, "c0", 2, update_of(0));
    send(server, "c1", 2, update_of(0));
    EXPECT_EQ(round.end().late_updates, 1U);
  }
  EXPECT_THAT(model(), Each(FloatNear(second, 1e-5F)));
  // Who still trains when it is over is told so, and does not try for ever.
  server.finish("done", std::chrono::nanoseconds(0));
  EXPECT_EQ(send(server, "c2", 2, update_of(1)).verdict, Verdict::kLate);
}

// Who still trains when a buffer is full has its place in the next one, before those who wait.
TEST_F(RoundServerTest, ABufferIsFilledByNoMoreThanTrainAtATime) {
  Options options = live(4, 1);
  options.algorithm = "fedbuff";
  options.concurrency = 2;
  options.wait_for = {};
  options.silence_seconds = 3600;
  Served served(options, folder_.path());
  RoundServer& server = served.server();
  const auto begins = [&](int client) {
    return server.next_task(OpenRound::name(client), 5, std::chrono::milliseconds(0)).kind == TaskAnswer::Kind::kTask;
  };
  {
    OpenRound round(served, 2);
    EXPECT_TRUE(begins(0));  // both, whoever of them has opened the round
    EXPECT_TRUE(begins(1));
    EXPECT_EQ(send(server, "c0", 0, update_of(1)).verdict, Verdict::kAccepted);
    round.end();
  }
  OpenRound round(served, 2);
  EXPECT_TRUE(begins(0)) << "again; and c1 has not ended";
  EXPECT_FALSE(begins(2));
  EXPECT_FALSE(begins(3));
  EXPECT_EQ(send(server, "c1", 0, update_of(1)).verdict, Verdict::kAccepted);
  round.end();
}

TEST_F(RoundServerTest, WhatClientsKeepIsNotMovedByAFalseOne) {
  Options options = live(2, 2);
  options.keep = {"head"};
  Served served(options, folder_.path());
  OpenRound round(served, 2);
  send(served.server(), "c0", 0, update_of(1));
  send(served.server(), "c1", 0, update_of(3));
  round.end();
  const std::vector<float> model = StateFile(folder_ / "state.safetensors").read()->model;
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_FLOAT_EQ(model[i], i >= 20 && i < kParameters ? 0.5F : 2.5F) << i;
}

// Finite, and its square is not: a state with that in it could never be gone on with.
TEST_F(RoundServerTest, AChangeThatTheServersOptimizerCannotTakeChangesNothing) {
  Options options = live(2, 2);
  options.server = "adam";
  Served served(options, folder_.path());
  OpenRound round(served, 2);
  send(served.server(), "c0", 0, update_of(1e25F));
  send(served.server(), "c1", 0, update_of(1e25F));
  EXPECT_THAT(round.end().plan.reason, HasSubstr("not finite"));
  const State state = *StateFile(folder_ / "state.safetensors").read();
  EXPECT_EQ(state.model, std::vector<float>(kSize, 0.5F));
  EXPECT_EQ(state.momentum, std::vector<float>(kParameters, 0));
}

TEST_F(RoundServerTest, BelowTheThresholdARoundOfSecureAggregationChangesNothing) {
  Options options = secure_options(4, 4);
  options.rounds = 1;
  options.silence_seconds = 3;
  Served served(options, folder_.path());
  RoundServer& server = served.server();
  OpenRound round(served, 4);
  SecureClient one({.run = "run", .words = kSize + 2, .most_clients = 4}, 0);
  EXPECT_EQ(server.secure_step("c0", {.says = true, .keys = one.advert()}, {}).verdict, SecureAnswer::Verdict::kWait);
  EXPECT_EQ(server.secure_step("c1", {.says = true, .keys = one.advert()}, {}).verdict,
            SecureAnswer::Verdict::kRefused);
  EXPECT_THAT(send(server, "c0", 0, update_of(1, kSize + 2)).reason, HasSubstr("not its turn"));
  const RoundReport report = round.end();
  EXPECT_THAT(report.plan.reason, HasSubstr("nothing is revealed"));
  EXPECT_EQ(StateFile(folder_ / "state.safetensors").read()->model, std::vector<float>(kSize, 0.5F));
}

TEST_F(RoundServerTest, ASumThatIsNotFiniteChangesNothing) {
  Options options = live(2, 2);
  Served served(options, folder_.path());
  OpenRound round(served, 2);
  send(served.server(), "c0", 0, update_of(std::numeric_limits<float>::max()), 1000);
  send(served.server(), "c1", 0, update_of(1));
  EXPECT_THAT(round.end().plan.reason, HasSubstr("not finite"));
  EXPECT_EQ(StateFile(folder_ / "state.safetensors").read()->model, std::vector<float>(kSize, 0.5F));
}

TEST_F(RoundServerTest, AServerThatIsStartedAgainGoesOnWithTheRound) {
  const Options options = live(3, 3);
  const std::vector<float> third = update_of(6);
  const auto bytes = std::as_bytes(std::span(third));
  UpdateChunk part{
      .digest = sha256(bytes), .total_bytes = bytes.size(), .data = bytes.first(kSmallChunk), .samples = 5};
  {
    Served served(options, folder_.path());
    std::atomic<bool> on = true;
    served.server().enrol("c0", {});
    served.server().enrol("c1", {});
    served.server().enrol("c2", {});
    std::jthread computing([&] {
      expect_error(ErrorKind::kInterrupted, "stopped",
                   [&] { served.server().round([&] { return on.load(); }, [](State&, const RoundReport&) {}); });
    });
    while (served.server().standing().asked == 0) {
      for (const char* name : {"c0", "c1", "c2"})
        served.server().next_task(name, 5, std::chrono::milliseconds(1));
    }
    EXPECT_EQ(send(served.server(), "c0", 0, update_of(1)).verdict, Verdict::kAccepted);
    EXPECT_EQ(served.server().send_update("c2", part).received, kSmallChunk);
    on = false;
  }
  Served again(options, folder_.path());
  // Before the round is open again nobody is told that it is over.
  expect_error(ErrorKind::kPeerLost, "about to go on", [&] { again.server().send_update("c2", part); });
  RoundReport report;
  std::jthread computing([&] { report = again.round(); });
  while (again.server().standing().asked == 0)
    std::this_thread::yield();
  EXPECT_EQ(again.server().send_update("c2", part).received, kSmallChunk);  // and not at the beginning
  EXPECT_EQ(send(again.server(), "c0", 0, update_of(1)).reason, "was there before");
  EXPECT_EQ(send(again.server(), "c1", 0, update_of(2)).verdict, Verdict::kAccepted);
  EXPECT_EQ(send(again.server(), "c2", 0, third).verdict, Verdict::kAccepted);
  computing.join();
  EXPECT_EQ(report.plan.counts.size(), 3U);
  EXPECT_THAT(StateFile(folder_ / "state.safetensors").read()->model, Each(FloatNear(0.5F + 3, 1e-5F)));
}

TEST_F(RoundServerTest, TheFirstOnesCountAndNobodyElse) {
  constexpr int kAtOnce = 24;
  Options options = live(kAtOnce, 1);
  options.over_select = kAtOnce;
  options.silence_seconds = 3600;
  Served served(options, folder_.path());
  OpenRound round(served, kAtOnce);
  // All have sent, before the thread that computes can have seen the first.
  std::atomic<int> accepted = 0;
  {
    std::latch begin(kAtOnce);
    std::vector<std::jthread> clients;
    for (int i = 0; i < kAtOnce; ++i) {
      clients.emplace_back([&, i] {
        begin.arrive_and_wait();
        accepted += send(served.server(), OpenRound::name(i), 0, update_of(1)).verdict == Verdict::kAccepted ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(accepted, 1);
  EXPECT_EQ(round.end().plan.counts.size(), 1U);
}

TEST_F(RoundServerTest, AServerThatStoodStillTakesNobodyForSilent) {
  Options options = live(2, 2);
  options.silence_seconds = 5;
  options.deadline_seconds = 60;
  FakeClock clock;
  Served served(options, folder_.path(), clock);
  RoundServer& server = served.server();
  OpenRound round(served, 2);
  clock.advance(std::chrono::seconds(1000));
  // It has looked when both are there again.
  for (const Deadline deadline = Deadline::after(std::chrono::seconds(120)); server.standing().present < 2;) {
    ASSERT_FALSE(deadline.passed());
    std::this_thread::yield();  // it wants the lock, too
  }
  EXPECT_EQ(send(server, "c0", 0, update_of(1)).verdict, Verdict::kAccepted);
  EXPECT_EQ(send(server, "c1", 0, update_of(1)).verdict, Verdict::kAccepted);
  EXPECT_EQ(round.end().plan.counts.size(), 2U);
}

TEST_F(RoundServerTest, WhatItKeepsOfClientsIsForNobodyElse) {
  const Served served(live(2, 2), folder_.path());
  const auto for_others = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
  EXPECT_EQ(std::filesystem::status(folder_ / "round").permissions() & for_others, std::filesystem::perms::none);
}

TEST_F(RoundServerTest, OnlyWhoWasAskedReadsTheModelAndGetsItInChunks) {
  const Options options = live(2, 1);
  Served served(options, folder_.path());
  OpenRound round(served, 2);
  RoundServer& server = served.server();
  const bool first = server.next_task("c0", 5, std::chrono::milliseconds(0)).kind == TaskAnswer::Kind::kTask;
  const std::string asked = first ? "c0" : "c1";
  const ModelChunk chunk = server.read_model(asked, 0, ModelPart::kModel, kSize * 4 - 8, 1000);
  EXPECT_EQ(chunk.total_bytes, kSize * 4);
  EXPECT_EQ(chunk.data.size(), 8U);
  EXPECT_EQ(server.read_model(asked, 0, ModelPart::kModel, 0, 1000).data.size(), kSmallChunk);
  expect_error(ErrorKind::kInvalidInput, "", [&] { server.read_model(asked, 0, ModelPart::kModel, kSize * 4 + 1, 1); });
  expect_error(ErrorKind::kMismatch, "round 2", [&] { server.read_model(asked, 1, ModelPart::kModel, 0, 8); });
  expect_error(ErrorKind::kMismatch, "", [&] { server.read_model(first ? "c1" : "c0", 0, ModelPart::kModel, 0, 8); });
  EXPECT_EQ(send(server, first ? "c1" : "c0", 0, update_of(1)).reason, "was not asked in this round");
  send(server, asked, 0, update_of(1));
  round.end();
}

}  // namespace
}  // namespace muster::federated
