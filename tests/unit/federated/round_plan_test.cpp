// Who takes part in a round: as many as asked, the same each time, by the chances that the options give.
#include "muster/federated/round_plan.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::federated {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Options options_of(std::int64_t clients, std::int64_t per_round) {
  Options options;
  options.clients = clients;
  options.per_round = per_round;
  return options;
}

ClientSplit even_split(std::uint64_t clients, std::uint64_t samples) {
  return ClientSplit({.clients = clients, .seed = 1}, clients * samples, [] { return std::vector<std::int64_t>(); });
}

std::vector<std::uint64_t> clients_of(const RoundPlan& plan) {
  std::vector<std::uint64_t> clients;
  for (const Participant& participant : plan.counts)
    clients.push_back(participant.client);
  return clients;
}

TEST(RoundPlan, AsksAsManyDifferentClientsAsItShould) {
  const ClientSplit split = even_split(50, 4);
  const Options options = options_of(50, 10);
  std::set<std::vector<std::uint64_t>> rounds;
  std::set<std::uint64_t> met;
  for (std::uint64_t round = 0; round < 40; ++round) {
    const auto clients = clients_of(plan_round(options, split, 1, round));
    EXPECT_THAT(std::set<std::uint64_t>(clients.begin(), clients.end()), SizeIs(10));
    EXPECT_EQ(clients, clients_of(plan_round(options, split, 1, round)));
    rounds.insert(clients);
    met.insert(clients.begin(), clients.end());
  }
  EXPECT_THAT(rounds, SizeIs(40));
  EXPECT_THAT(met, SizeIs(50));
}

TEST(RoundPlan, MeansAreWeighedBySamplesAndNoiseWeighsAllAlike) {
  const ClientSplit split = even_split(10, 3);
  Options options = options_of(10, 10);
  EXPECT_DOUBLE_EQ(plan_round(options, split, 1, 0).denominator, 30);
  options.per_round = 5;
  options.noise = 1;
  options.clip = 1;
  const RoundPlan noisy = plan_round(options, split, 1, 0);
  EXPECT_DOUBLE_EQ(noisy.denominator, 5) << "whoever came";
  for (const Participant& participant : noisy.counts)
    EXPECT_DOUBLE_EQ(participant.weight, 1);
}

// What the accountant counts on: every client by itself, so that the number of those asked is binomial.
TEST(RoundPlan, WithNoiseEveryClientIsAskedByItself) {
  const ClientSplit split = even_split(400, 1);
  Options options = options_of(400, 40);
  options.noise = 1;
  double sum = 0;
  double squares = 0;
  constexpr int kRounds = 400;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const auto count = static_cast<double>(plan_round(options, split, 9, round).counts.size());
    sum += count;
    squares += count * count;
  }
  const double mean = sum / kRounds;
  EXPECT_NEAR(mean, 40, 6 * 6.0 / std::sqrt(kRounds));
  EXPECT_NEAR(squares / kRounds - mean * mean, 36, 18);
}

TEST(RoundPlan, OfMoreThanNeededTheFirstToAnswerCount) {
  const ClientSplit split = even_split(100, 10);
  Options options = options_of(100, 10);
  options.over_select = 2;
  options.speed_spread = 1;
  const RoundPlan plan = plan_round(options, split, 1, 0);
  EXPECT_EQ(plan.asked, 20U);
  EXPECT_THAT(plan.counts, SizeIs(10));
  EXPECT_EQ(plan.late, 10U);
  options.over_select = 1;
  options.per_round = 20;
  const RoundPlan all = plan_round(options, split, 1, 0);
  std::vector<double> times;
  for (const Participant& participant : all.counts)
    times.push_back(participant.seconds);
  std::ranges::sort(times);
  EXPECT_DOUBLE_EQ(plan.seconds, times[9]) << "the tenth to answer ends the round";
}

TEST(RoundPlan, SlowOnesMissTheDeadlineAndDropoutsNeverAnswer) {
  const ClientSplit split = even_split(200, 100);
  Options options = options_of(200, 100);
  options.speed_spread = 1;
  options.deadline_seconds = 0.1;  // what a client of mean speed takes
  const RoundPlan plan = plan_round(options, split, 1, 0);
  EXPECT_GT(plan.late, 20U);
  EXPECT_GT(plan.counts.size(), 20U);
  for (const Participant& participant : plan.counts)
    EXPECT_LE(participant.seconds, 0.1);
  EXPECT_DOUBLE_EQ(plan.seconds, 0.1) << "the others are waited for until then";
  options.deadline_seconds.reset();
  options.drop = 0.3;
  const RoundPlan dropping = plan_round(options, split, 1, 0);
  EXPECT_NEAR(static_cast<double>(dropping.dropped), 30, 6 * 4.6);
  EXPECT_EQ(dropping.counts.size() + dropping.dropped, 100U);
}

TEST(RoundPlan, TooFewChangeNothingAndItSaysSo) {
  const ClientSplit split = even_split(20, 1);
  Options options = options_of(20, 10);
  options.drop = 0.9;
  options.least = 9;
  const RoundPlan plan = plan_round(options, split, 1, 0);
  EXPECT_THAT(plan.counts, IsEmpty());
  EXPECT_THAT(plan.reason, HasSubstr("9 are the least"));
}

TEST(RoundPlan, LargeClientsAreAskedMoreOftenWhenSizeDecides) {
  // Dirichlet parts differ much; the correlation of size and being asked must show.
  const ClientSplit split({.split = parse_split("dirichlet:0.2"), .clients = 100, .seed = 2}, 10000, [] {
    std::vector<std::int64_t> labels(10000);
    for (std::size_t i = 0; i < labels.size(); ++i)
      labels[i] = static_cast<std::int64_t>(i % 10);
    return labels;
  });
  const auto mean_size = [&](const char* sampling) {
    Options options = options_of(100, 10);
    options.sampling = sampling;
    double sum = 0;
    double count = 0;
    for (std::uint64_t round = 0; round < 50; ++round) {
      for (const Participant& participant : plan_round(options, split, 1, round).counts) {
        sum += static_cast<double>(participant.samples);
        ++count;
      }
    }
    return sum / count;
  };
  EXPECT_GT(mean_size("size"), 1.2 * mean_size("uniform"));
}

TEST(RoundPlan, WhoIsAvailableIsAskedAndAnswers) {
  const ClientSplit split = even_split(300, 1);
  Options options = options_of(300, 50);
  options.availability = 0.4;
  EXPECT_GT(plan_round(options, split, 1, 0).dropped, 10U);
  options.sampling = "available";
  const RoundPlan plan = plan_round(options, split, 1, 0);
  EXPECT_EQ(plan.dropped, 0U);
  EXPECT_THAT(plan.counts, SizeIs(50));
}

}  // namespace
}  // namespace muster::federated
