// Rounds with a training that can be followed by hand: a client's model moves by a fixed part towards its own target,
// which is the mean of its samples' numbers.
#include "muster/federated/simulation.h"

#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/federated/accountant.h"
#include "muster/federated/run_state.h"
#include "muster/federated/slice_map.h"
#include "support/errors.h"
#include "support/sandbox.h"
#include "unit/federated/quadratic.h"

namespace muster::federated {
namespace {

using testing::expect_error;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::SizeIs;

struct Ran {
  State state;
  std::vector<RoundReport> reports;
};

class SimulationTest : public ::testing::Test {
 protected:
  SimulationOptions simulation_options(const Options& options, int workers) const {
    return {.federated = options,
            .seed = 3,
            .workers = workers,
            .client_states = folder_ / "clients",
            .make_training = [this] { return std::make_unique<Quadratic>(die_once_); },
            .make_submodel = [](std::size_t) { return std::make_unique<NarrowQuadratic>(); }};
  }
  Ran run(const Options& options, int workers = 1) const {
    std::filesystem::remove_all(folder_ / "clients");
    const ClientSplit split = split_of(options);
    Simulation simulation(simulation_options(options, workers), split, kOn);
    Ran ran;
    while (simulation.rounds() < static_cast<std::uint64_t>(options.rounds) && !simulation.ending())
      ran.reports.push_back(simulation.round(kOn));
    ran.state = simulation.state();
    return ran;
  }

  const testing::TemporaryFolder folder_;
  std::filesystem::path die_once_;
};

// The model after a round of averaging, from the definition: in double, and without pieces or trees.
std::vector<double> averaged(const Options& options, std::uint64_t rounds) {
  const ClientSplit split = split_of(options);
  std::vector<double> model(kSize, 0.5);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const RoundPlan plan = plan_round(options, split, 3, round);
    std::vector<double> sum(kSize);
    double weight = 0;
    for (const Participant& who : plan.counts) {
      const auto samples = split.samples(who.client);
      weight += static_cast<double>(samples.size());
      for (std::size_t i = 0; i < kSize; ++i)
        sum[i] +=
            static_cast<double>(samples.size()) * (1 - std::pow(1 - kLr, kSteps)) * (target_of(samples, i) - model[i]);
    }
    for (std::size_t i = 0; i < kSize; ++i)
      model[i] += sum[i] / weight;
  }
  return model;
}

TEST_F(SimulationTest, AveragesAreTheMeanBySamples) {
  Options options = options_of(90, 70);  // more clients a round than pieces
  options.split = "dirichlet:1";
  const Ran ran = run(options);
  const std::vector<double> expected = averaged(options, 4);
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_THAT(ran.state.model[i], FloatNear(static_cast<float>(expected[i]), 1e-5F)) << i;
  EXPECT_EQ(ran.reports[0].client_loss, 1.5);
  ASSERT_TRUE(ran.reports[3].test);
  EXPECT_NEAR(ran.reports[3].test->loss, expected[0] + expected[1] + expected[2], 1e-4);
  EXPECT_TRUE(std::isnan(ran.reports[3].test->metrics[0].second)) << "a figure without a value has none";
}

TEST_F(SimulationTest, TheBitsAreThoseOfOneWorkerWhoeverDies) {
  for (const char* algorithm : {"fedavg", "fedprox", "scaffold"}) {
    Options options = options_of(40, 20);
    options.algorithm = algorithm;
    options.server = "adam";
    const Ran one = run(options);
    EXPECT_EQ(run(options, 3).state.model, one.state.model) << algorithm;
    die_once_ = folder_ / "die";
    std::ofstream(die_once_) << "once";
    const Ran killed = run(options, 2);
    EXPECT_EQ(killed.state.model, one.state.model) << algorithm;
    EXPECT_EQ(killed.reports.back().workers_replaced, 1U) << algorithm;
    die_once_.clear();
  }
  for (const char* aggregate : {"median", "trimmed_mean", "krum", "multi_krum"}) {
    Options options = options_of(40, 11);
    options.aggregate = aggregate;
    options.byzantine = 2;
    options.krum_keep = 3;
    EXPECT_EQ(run(options, 3).state.model, run(options, 1).state.model) << aggregate;
  }
}

TEST_F(SimulationTest, GoesOnFromAStateWithTheSameBits) {
  Options options = options_of(40, 20);
  options.algorithm = "scaffold";
  options.server = "yogi";
  const Ran whole = run(options);
  std::filesystem::remove_all(folder_ / "clients");
  const ClientSplit split = split_of(options);
  const StateFile file(folder_ / "state.safetensors");
  EXPECT_FALSE(file.read());
  {
    Simulation first(simulation_options(options, 2), split, kOn);
    first.round(kOn);
    first.round(kOn);
    file.write(first.state());
    first.round(kOn);  // is lost: what its clients wrote must not count
  }
  Simulation second(simulation_options(options, 1), split, kOn);
  second.restore(*file.read());
  EXPECT_EQ(second.rounds(), 2U);
  second.round(kOn);
  second.round(kOn);
  EXPECT_EQ(second.state().model, whole.state.model);
  EXPECT_EQ(second.state().control, whole.state.control);
  State damaged = *file.read();
  damaged.model[3] = std::numeric_limits<float>::quiet_NaN();
  const StateFile bad(folder_ / "bad.safetensors");
  bad.write(damaged);
  expect_error(ErrorKind::kDamaged, "model is not finite", [&] { bad.read(); });
  State other = *file.read();
  other.model.pop_back();
  expect_error(ErrorKind::kMismatch, "another model", [&] { second.restore(other); });
}

// Karimireddy et al. 2020, option II, from the definition.
TEST_F(SimulationTest, ScaffoldIsThatOfThePaper) {
  Options options = options_of(6, 4);
  options.algorithm = "scaffold";
  options.rounds = 3;
  const Ran ran = run(options);
  const ClientSplit split = split_of(options);
  std::vector<double> x(kSize, 0.5);
  std::vector<double> c(kParameters);
  std::vector<std::vector<double>> own(6, std::vector<double>(kParameters));
  for (std::uint64_t round = 0; round < 3; ++round) {
    const RoundPlan plan = plan_round(options, split, 3, round);
    std::vector<double> moved(kSize);
    std::vector<double> change(kParameters);
    for (const Participant& who : plan.counts) {
      for (std::size_t i = 0; i < kSize; ++i) {
        const bool controlled = i < kParameters;
        double y = x[i];
        for (int step = 0; step < kSteps; ++step) {
          const double correction = controlled ? c[i] - own[who.client][i] : 0;
          y -= kLr * (y - target_of(split.samples(who.client), i) + correction);
        }
        moved[i] += (y - x[i]) / static_cast<double>(plan.counts.size());  // clients have equally many samples
        if (!controlled) continue;
        const double next = own[who.client][i] - c[i] + (x[i] - y) / (kSteps * kLr);
        change[i] += next - own[who.client][i];
        own[who.client][i] = next;
      }
    }
    for (std::size_t i = 0; i < kSize; ++i)
      x[i] += moved[i];
    for (std::size_t i = 0; i < kParameters; ++i)
      c[i] += change[i] / 6;
  }
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_THAT(ran.state.model[i], FloatNear(static_cast<float>(x[i]), 1e-5F)) << i;
  for (std::size_t i = 0; i < kParameters; ++i)
    EXPECT_THAT(ran.state.control[i], FloatNear(static_cast<float>(c[i]), 1e-4F)) << i;
}

TEST_F(SimulationTest, UpdatesThatAreNotFiniteAreRefusedAndNamed) {
  Options options = options_of(30, 30);
  options.attack = "nan";
  options.attackers = 0.3;
  const Ran ran = run(options);
  EXPECT_GT(ran.reports[0].refused, 3U);
  EXPECT_EQ(ran.reports[0].client_loss, 1.5) << "of those that count";
  ASSERT_TRUE(ran.reports[0].refused_client);
  for (const float value : ran.state.model)
    EXPECT_TRUE(std::isfinite(value));
  // What is left is the mean of those that are true.
  const ClientSplit split = split_of(options);
  const RoundPlan plan = plan_round(options, split, 3, 0);
  double sum = 0;
  double weight = 0;
  for (const Participant& who : plan.counts) {
    if (who.false_one) continue;
    weight += 5;
    sum += 5 * (1 - std::pow(1 - kLr, kSteps)) * (target_of(split.samples(who.client), 0) - 0.5);
  }
  options.rounds = 1;
  EXPECT_THAT(run(options).state.model[0], FloatNear(static_cast<float>(0.5 + sum / weight), 1e-5F));
}

TEST_F(SimulationTest, FalseClientsMoveTheMeanAndNotTheMedian) {
  Options options = options_of(40, 40);
  options.rounds = 1;
  const auto distance = [&](const Ran& ran, const Ran& other) {
    double squares = 0;
    for (std::size_t i = 0; i < kParameters; ++i)
      squares += std::pow(ran.state.model[i] - other.state.model[i], 2);
    return std::sqrt(squares);
  };
  const Ran clean = run(options);
  options.attack = "huge";
  options.attackers = 0.2;
  EXPECT_GT(distance(run(options), clean), 1e4);
  for (const char* robust : {"median", "trimmed_mean", "multi_krum"}) {
    Options held = options;
    held.aggregate = robust;
    held.trim = 0.4;
    held.byzantine = 16;
    held.krum_keep = 10;
    EXPECT_LT(distance(run(held), clean), 1) << robust;
  }
  options.clip = 0.1;
  EXPECT_LT(distance(run(options), clean), 2) << "clipped";
}

TEST_F(SimulationTest, PrivacyStopsAtTheBudget) {
  Options options = options_of(50, 5);
  options.rounds = 1000;
  options.clip = 1;
  options.noise = 1;
  options.delta = 1e-3;
  options.evaluate_every = 1000;
  options.epsilon = 3;
  const Ran ran = run(options, 2);
  const Mechanism mechanism{.noise = 1, .part = 0.1};
  ASSERT_THAT(ran.reports, SizeIs(rounds_within(mechanism, 3, 1e-3)));
  EXPECT_TRUE(ran.reports.back().test) << "the last round is judged";
  EXPECT_LE(*ran.reports.back().epsilon, 3);
  EXPECT_EQ(run(options, 1).state.model, ran.state.model);
}

// Clients of unlike sizes have unlike budgets. Each trains as often as the accountant allows it, and not once more;
// whose budget is spent is not asked while others have some; and a run that was stopped anywhere goes on as if it had
// not been.
TEST_F(SimulationTest, EveryClientTrainsUntilItsOwnBudgetIsSpent) {
  Options options = options_of(12, 2);
  options.split = "dirichlet:0.5";
  options.rounds = 1000;
  options.evaluate_every = 1000;
  options.sample_noise = 2;
  options.sample_clip = 1;
  options.sample_epsilon = 4;
  const ClientSplit split = split_of(options);
  std::map<std::uint64_t, std::uint64_t> allowed;
  for (std::uint64_t client = 0; client < 12; ++client) {
    const std::uint64_t steps = steps_of_epoch(split.size(client), 2);
    const std::uint64_t rounds =
        steps == 0 ? 0 : rounds_within({2, 1 / static_cast<double>(steps)}, 4, options.delta) / steps;
    if (rounds > 0) allowed[client] = rounds;
  }
  ASSERT_GT(allowed.size(), 3U);
  for (const char* kind : {"uniform", "size", "fedbuff"}) {
    Options of_kind = options;
    if (std::string(kind) == "fedbuff") {
      of_kind.algorithm = kind;
      of_kind.most_staleness = 1000;  // whoever has trained counts
    } else {
      of_kind.sampling = kind;
    }
    const Ran whole = run(of_kind, 2);
    ASSERT_LT(whole.state.rounds, 1000U) << kind;
    std::map<std::uint64_t, std::uint64_t> trained;
    for (const RoundReport& report : whole.reports) {
      EXPECT_FALSE(report.plan.counts.empty()) << kind << " " << report.round;
      EXPECT_FALSE(report.client_loss) << "no noise is on it";
      EXPECT_LE(*report.sample_epsilon, 4);
      for (const Participant& who : report.plan.counts)
        ++trained[who.client];
    }
    EXPECT_EQ(trained, allowed) << kind;
    EXPECT_GT(*whole.reports.back().sample_epsilon, 2) << kind;
    const StateFile file(folder_ / "state.safetensors");
    {
      Simulation first(simulation_options(of_kind, 1), split, kOn);
      while (first.rounds() < whole.state.rounds / 2)
        first.round(kOn);
      file.write(first.state());
    }
    Simulation second(simulation_options(of_kind, 1), split, kOn);
    second.restore(*file.read());
    while (!second.ending())
      second.round(kOn);
    EXPECT_EQ(second.rounds(), whole.state.rounds) << kind;
    EXPECT_EQ(second.state().model, whole.state.model) << kind;
  }
}

// Parts of noise of too few clients are no noise, and without their sum there is nothing to add. The server's own noise
// is added all the same, as its accountant expects; and no client counts in either.
TEST_F(SimulationTest, ASumOfTooFewIsNotCounted) {
  Options options = options_of(6, 6);
  options.rounds = 8;
  options.secure = true;
  options.secure_threshold = 3;
  options.clip = 0.5;
  options.noise = 1;
  options.drop = 0.6;
  for (const char* at : {"clients", "server"}) {
    options.noise_at = at;
    std::uint64_t few = 0;
    for (const RoundReport& report : run(options).reports) {
      if (report.plan.asked - report.plan.dropped >= 3) continue;
      ++few;
      EXPECT_TRUE(report.plan.counts.empty()) << at;
      EXPECT_THAT(report.plan.reason, HasSubstr("3 are the least"));
      EXPECT_FALSE(report.client_loss);
      EXPECT_EQ(report.change_norm > 0, options.noise_at == "server") << at;
    }
    EXPECT_GT(few, 0U);
    EXPECT_LT(few, 8U);
  }
}

TEST_F(SimulationTest, ARoundThatIsBrokenOffIsAsIfItHadNotBeen) {
  const Options options = options_of(20, 10);
  const ClientSplit split = split_of(options);
  Simulation simulation(simulation_options(options, 2), split, kOn);
  simulation.round(kOn);
  const State before = simulation.state();
  expect_error(ErrorKind::kInterrupted, "stopped", [&] { simulation.round([] { return false; }); });
  EXPECT_EQ(simulation.state().model, before.model);
  EXPECT_EQ(simulation.rounds(), 1U);
  simulation.save(folder_ / "model", kOn);
  EXPECT_EQ(testing::slurp(folder_ / "model"), "37");
}

// Li et al. 2020, from the definition: each step also goes back to the round's model by `prox` of the way it has come.
TEST_F(SimulationTest, ProximalStepsAreThoseOfThePaper) {
  Options options = options_of(6, 4);
  options.algorithm = "fedprox";
  options.prox = 0.7;
  options.split = "dirichlet:1";
  options.rounds = 3;
  const Ran ran = run(options);
  const ClientSplit split = split_of(options);
  std::vector<double> x(kSize, 0.5);
  for (std::uint64_t round = 0; round < 3; ++round) {
    std::vector<double> moved(kSize);
    double samples = 0;
    for (const Participant& who : plan_round(options, split, 3, round).counts) {
      const auto own = split.samples(who.client);
      samples += static_cast<double>(own.size());
      for (std::size_t i = 0; i < kSize; ++i) {
        double y = x[i];
        for (int step = 0; step < kSteps; ++step)
          y -= kLr * ((y - target_of(own, i)) + 0.7 * (y - x[i]));
        moved[i] += static_cast<double>(own.size()) * (y - x[i]);
      }
    }
    for (std::size_t i = 0; i < kSize; ++i)
      x[i] += moved[i] / samples;
  }
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_THAT(ran.state.model[i], FloatNear(static_cast<float>(x[i]), 1e-5F)) << i;
}

// A control is the mean gradient of the client's steps: what the server shortens of the update has nothing to do with
// it.
TEST_F(SimulationTest, ControlsAreOfTheStepsAndNotOfWhatIsLeftOfThem) {
  Options options = options_of(4, 4);
  options.algorithm = "scaffold";
  options.rounds = 1;
  options.clip = 1e-3;
  const Ran ran = run(options);
  const ClientSplit split = split_of(options);
  for (std::size_t i = 0; i < kParameters; ++i) {
    double mean = 0;
    for (std::uint64_t client = 0; client < 4; ++client) {
      double y = 0.5;
      for (int step = 0; step < kSteps; ++step) {
        const double gradient = y - target_of(split.samples(client), i);
        mean += gradient / kSteps / 4;
        y -= kLr * gradient;
      }
    }
    EXPECT_THAT(ran.state.control[i], FloatNear(static_cast<float>(mean), 1e-5F)) << i;
  }
}

// What is refused does not count towards the least that a round needs, and what the others wrote down of a round that
// changes nothing is forgotten.
TEST_F(SimulationTest, TooFewAreLeftAfterRefusals) {
  Options options = options_of(30, 30);
  options.algorithm = "scaffold";
  options.attack = "nan";
  options.attackers = 0.3;
  options.least = 28;
  const Ran ran = run(options);
  EXPECT_GT(ran.reports[0].refused, 2U);
  EXPECT_EQ(ran.state.model, std::vector<float>(kSize, 0.5F));
  EXPECT_EQ(ran.state.control, std::vector<float>(kParameters, 0));
  EXPECT_THAT(ran.reports[0].plan.counts, SizeIs(0));
  EXPECT_THAT(ran.reports[0].plan.reason, HasSubstr("28 are the least"));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "clients"))
    EXPECT_TRUE(entry.is_directory()) << entry.path();
}

// An aggregate that cannot tell true from false any more changes nothing, and says so.
TEST_F(SimulationTest, RobustAggregatesNeedTheirNumberAlsoAfterRefusals) {
  Options options = options_of(40, 11);
  options.attack = "nan";
  options.attackers = 0.3;
  options.byzantine = 4;
  for (const auto& [aggregate, words] :
       {std::pair("krum", "krum needs 11 updates"), std::pair("multi_krum", "multi_krum needs 11 updates"),
        std::pair("trimmed_mean", "trimmed_mean needs 10 updates")}) {
    options.aggregate = aggregate;
    const Ran ran = run(options);
    for (const RoundReport& report : ran.reports) {
      if (report.refused < 2) continue;
      EXPECT_THAT(report.plan.reason, HasSubstr(words));
      EXPECT_THAT(report.plan.counts, SizeIs(0));
      EXPECT_EQ(report.change_norm, 0);
    }
    EXPECT_TRUE(std::ranges::any_of(ran.reports, [](const RoundReport& report) { return report.refused >= 2; }));
  }
}

// Buffers have no bound that noise could hide them by: nothing is taken of them, and they do not use up the bound of
// the parameters.
TEST_F(SimulationTest, WithNoiseOnlyParametersMoveAndAreMeasured) {
  Options options = options_of(20, 20);
  options.rounds = 1;
  options.clip = 0.2;
  options.noise = 1e-7;
  const Ran ran = run(options);
  const ClientSplit split = split_of(options);
  std::vector<double> expected(kSize, 0.5);
  for (std::uint64_t client = 0; client < 20; ++client) {
    std::vector<double> update(kParameters);
    double squares = 0;
    for (std::size_t i = 0; i < kParameters; ++i) {
      update[i] = (1 - std::pow(1 - kLr, kSteps)) * (target_of(split.samples(client), i) - 0.5);
      squares += update[i] * update[i];
    }
    const double factor = std::min(1.0, *options.clip / std::sqrt(squares));
    for (std::size_t i = 0; i < kParameters; ++i)
      expected[i] += factor * update[i] / 20;
  }
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_THAT(ran.state.model[i], FloatNear(static_cast<float>(expected[i]), 1e-6F)) << i;
}

// A false client that sends something where nobody else does would change what all others keep.
TEST_F(SimulationTest, WhatIsKeptIsNotMovedByFalseClients) {
  Options options = options_of(20, 20);
  options.keep = {"head", "norm"};
  options.attack = "noise";
  options.attackers = 0.3;
  const Ran ran = run(options);
  for (std::size_t i = 20; i < kSize; ++i)
    EXPECT_EQ(ran.state.model[i], 0.5F) << i;
}

class StraysOnce final : public Quadratic {
 public:
  LocalResult train(const LocalTask& task, std::span<const float> model, std::span<float> update) override {
    const LocalResult result = Quadratic::train(task, model, update);
    if (task.round == 1 && task.client == 2) update[25] = std::numeric_limits<float>::quiet_NaN();  // of its head
    return result;
  }
};

TEST_F(SimulationTest, AClientWhoseOwnPartStraysIsRefusedAndKeepsWhatItHad) {
  Options options = options_of(4, 4);
  options.keep = {"head"};
  options.client_test = 0.4;
  const ClientSplit split = split_of(options);
  SimulationOptions made = simulation_options(options, 1);
  made.make_training = [] { return std::make_unique<StraysOnce>(); };
  Simulation simulation(made, split, kOn);
  EXPECT_EQ(simulation.round(kOn).refused, 0U);
  const RoundReport strayed = simulation.round(kOn);
  EXPECT_EQ(strayed.refused, 1U);
  EXPECT_EQ(strayed.refused_client, 2U);
  const RoundReport after = simulation.round(kOn);
  EXPECT_EQ(after.refused, 0U);
  EXPECT_TRUE(std::isfinite(after.on_clients->loss));
}

// Nguyen et al. 2022, from the definition: each update from the model of when its client began, by 1 / sqrt(1 + age),
// and their sum divided by the size of the buffer.
TEST_F(SimulationTest, BuffersAreThoseOfThePaper) {
  Options options = options_of(30, 4);
  options.algorithm = "fedbuff";
  options.concurrency = 12;
  options.speed_spread = 1;
  options.most_staleness = 3;
  options.lr_decay = 0.8;
  options.rounds = 8;
  const Ran ran = run(options, 1);
  const ClientSplit split = split_of(options);
  BufferedPlan plan(options, split, 3);
  std::vector<std::vector<double>> models{std::vector<double>(kSize, 0.5)};
  for (std::uint64_t round = 0; round < 8; ++round) {
    std::vector<double> next = models.back();
    for (const Participant& who : plan.of(round).counts) {
      const std::vector<double>& from = models[who.version];
      const double weight = 1 / std::sqrt(1.0 + static_cast<double>(round - who.version));
      const double rate = kLr * std::pow(0.8, static_cast<double>(who.version));  // of when it began
      const double part = 1 - std::pow(1 - rate, kSteps);
      for (std::size_t i = 0; i < kSize; ++i)
        next[i] += weight / 4 * part * (target_of(split.samples(who.client), i) - from[i]);
    }
    models.push_back(next);
  }
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_THAT(ran.state.model[i], FloatNear(static_cast<float>(models.back()[i]), 1e-5F)) << i;
  EXPECT_EQ(run(options, 3).state.model, ran.state.model);
  // From a state in the middle: the models that some began from are part of it.
  const StateFile file(folder_ / "state.safetensors");
  Simulation first(simulation_options(options, 1), split, kOn);
  for (int round = 0; round < 5; ++round)
    first.round(kOn);
  file.write(first.state());
  Simulation second(simulation_options(options, 2), split, kOn);
  second.restore(*file.read());
  while (second.rounds() < 8)
    second.round(kOn);
  EXPECT_EQ(second.state().model, ran.state.model);
}

// What is kept never leaves the client, is where it left it, and the rest is the mean of all.
TEST_F(SimulationTest, WhatClientsKeepIsTheirs) {
  Options options = options_of(6, 6);
  options.keep = {"head", "norm"};
  options.client_test = 0.4;
  options.rounds = 5;
  const Ran ran = run(options, 2);
  const ClientSplit split = split_of(options);
  std::vector<double> shared(kSize, 0.5);
  std::vector<std::vector<double>> own(6, std::vector<double>(kSize, 0.5));
  const double part = 1 - std::pow(1 - kLr, kSteps);
  double loss = 0;
  for (int round = 0; round < 5; ++round) {
    std::vector<double> moved(kSize);
    loss = 0;
    for (std::uint64_t client = 0; client < 6; ++client) {
      const ClientSamples samples = hold_out(split.samples(client), 2, 3, client);
      for (std::size_t i = 0; i < kSize; ++i) {
        double& at = i < 20 ? shared[i] : own[client][i];
        if (i < kParameters) loss += std::abs(at - target_of(samples.test, i)) / kParameters / 6;
        const double step = part * (target_of(samples.train, i) - at);
        if (i < 20)
          moved[i] += step / 6;
        else
          at += step;
      }
    }
    for (std::size_t i = 0; i < kSize; ++i)
      shared[i] += moved[i];
  }
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_THAT(ran.state.model[i], FloatNear(static_cast<float>(shared[i]), 1e-5F)) << i;
  ASSERT_TRUE(ran.reports.back().on_clients);
  EXPECT_NEAR(ran.reports.back().on_clients->loss, loss, 1e-5);
  EXPECT_EQ(ran.reports.back().on_clients->metrics.at(0).first, "closeness");
  EXPECT_EQ(ran.reports.back().on_clients->samples, 12U);
  EXPECT_EQ(run(options, 1).state.model, ran.state.model);
}

// Diao et al. 2021: each number is the mean over the clients that have it.
TEST_F(SimulationTest, NarrowerModelsAreAveragedWhereTheyAre) {
  Options options = options_of(12, 12);
  options.submodels = {"narrow"};
  options.rounds = 1;
  const Ran ran = run(options, 3);
  const ClientSplit split = split_of(options);
  std::uint64_t narrow = 0;
  std::vector<double> expected(kSize, 0.5);
  std::vector<double> weights(kSize);
  std::vector<double> sums(kSize);
  const SliceMap map(Quadratic().tensors(), NarrowQuadratic().tensors());
  std::vector<float> places(kSize);
  std::vector<float> of_slice(NarrowQuadratic::kFloats, -1);
  for (std::size_t i = 0; i < kSize; ++i)
    places[i] = static_cast<float>(i);
  map.take(places, of_slice);
  for (const Participant& who : plan_round(options, split, 3, 0).counts) {
    narrow += who.submodel;
    const std::size_t count = who.submodel > 0 ? of_slice.size() : kSize;
    for (std::size_t i = 0; i < count; ++i) {
      if (who.submodel > 0 && of_slice[i] < 0) continue;
      const auto place = who.submodel > 0 ? static_cast<std::size_t>(of_slice[i]) : i;
      weights[place] += 5;
      sums[place] += 5 * (1 - std::pow(1 - kLr, kSteps)) * (target_of(split.samples(who.client), i) - 0.5);
    }
  }
  EXPECT_GT(narrow, 0U);
  EXPECT_LT(narrow, 12U);
  EXPECT_EQ(ran.reports[0].update_bytes, 4 * ((12 - narrow) * kSize + narrow * NarrowQuadratic::kFloats));
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_THAT(ran.state.model[i], FloatNear(static_cast<float>(0.5 + sums[i] / weights[i]), 1e-5F)) << i;
  EXPECT_EQ(run(options, 1).state.model, ran.state.model);
}

// What is sent in a byte a number leads to where whole floats lead; and where few numbers are sent, what is held back
// comes later.
TEST_F(SimulationTest, CompressedUpdatesComeToTheSame) {
  Options options = options_of(8, 8);
  options.rounds = 60;
  const Ran plain = run(options);
  const auto distance = [&](const Ran& ran) {
    double largest = 0;
    for (std::size_t i = 0; i < kSize; ++i)
      largest = std::max(largest, std::abs(static_cast<double>(ran.state.model[i] - plain.state.model[i])));
    return largest;
  };
  EXPECT_EQ(plain.reports[0].update_bytes, 8 * kSize * 4);
  options.compress = "int8";
  const Ran bytes = run(options, 2);
  EXPECT_LT(distance(bytes), 0.005);
  EXPECT_EQ(bytes.reports[0].update_bytes, 8 * (kSize + 4));
  EXPECT_EQ(run(options, 1).state.model, bytes.state.model);
  options.compress = "topk:0.25";
  EXPECT_LT(distance(run(options, 2)), 0.3)
      << "each round a quarter of the numbers moves, by what four rounds held back";
}

}  // namespace
}  // namespace muster::federated
