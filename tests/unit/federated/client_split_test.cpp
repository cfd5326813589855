// Who has which samples: every sample once where they are shared out, any number of clients where they are drawn.
#include "muster/federated/client_split.h"

#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::federated {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::IsEmpty;

std::vector<std::int64_t> labels_of(std::uint64_t samples) {
  std::vector<std::int64_t> labels(samples);
  for (std::uint64_t i = 0; i < samples; ++i)
    labels[i] = static_cast<std::int64_t>(i % 10);
  return labels;
}

ClientSplit split_of(const SplitOptions& options, std::uint64_t samples) {
  return ClientSplit(options, samples, [samples] { return labels_of(samples); });
}

void expect_each_once(const ClientSplit& split, std::uint64_t samples) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t client = 0; client < split.clients(); ++client) {
    const auto ids = split.samples(client);
    EXPECT_EQ(ids.size(), split.size(client));
    for (const std::uint64_t id : ids)
      EXPECT_TRUE(seen.insert(id).second) << id;
  }
  EXPECT_EQ(seen.size(), samples);
  EXPECT_LT(*seen.rbegin(), samples);
}

TEST(ClientSplit, EverySampleBelongsToOneClient) {
  expect_each_once(split_of({.split = parse_split("iid"), .clients = 7, .seed = 3}, 1000), 1000);
  expect_each_once(split_of({.split = parse_split("dirichlet:0.1"), .clients = 20, .seed = 3}, 1000), 1000);
}

TEST(ClientSplit, SmallAlphasGiveClientsFewLabels) {
  const auto largest_part = [](const char* word) {
    const ClientSplit split = split_of({.split = parse_split(word), .clients = 20, .seed = 5}, 4000);
    double sum = 0;
    for (std::uint64_t client = 0; client < 20; ++client) {
      std::map<std::uint64_t, double> counts;
      for (const std::uint64_t id : split.samples(client))
        counts[id % 10] += 1;
      double most = 0;
      for (const auto& [label, count] : counts)
        most = std::max(most, count);
      if (split.size(client) > 0) sum += most / static_cast<double>(split.size(client)) / 20;
    }
    return sum;
  };
  EXPECT_GT(largest_part("dirichlet:0.1"), 0.45);
  EXPECT_LT(largest_part("dirichlet:100"), 0.2);
  EXPECT_LT(largest_part("iid"), 0.2);
}

TEST(ClientSplit, AMillionClientsDrawTheirSamples) {
  const ClientSplit split =
      split_of({.split = parse_split("dirichlet:0.1"), .clients = 1'000'000, .seed = 1, .drawn = 30}, 500);
  const auto ids = split.samples(999'999);
  EXPECT_EQ(ids.size(), 30U);
  EXPECT_EQ(ids, split.samples(999'999));
  EXPECT_NE(ids, split.samples(999'998));
  for (const std::uint64_t id : ids)
    EXPECT_LT(id, 500U);
}

TEST(ClientSplit, AFileSaysWhoseSampleIsWhose) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "clients.txt";
  std::ofstream(path) << "1\n0\n1\n3\n";
  const SplitOptions options{.split = parse_split("file:" + path.string()), .clients = 4};
  const ClientSplit split = split_of(options, 4);
  EXPECT_THAT(split.samples(1), ElementsAre(0, 2));
  EXPECT_THAT(split.samples(2), IsEmpty());
  expect_error(ErrorKind::kInvalidInput, "4 lines for the 5 samples", [&] { split_of(options, 5); });
  expect_error(ErrorKind::kInvalidInput, ":4: client 3 of 3",
               [&] { split_of({.split = options.split, .clients = 3}, 4); });
  std::ofstream(path) << "1\nx\n";
  expect_error(ErrorKind::kInvalidInput, ":2: a line is the number of a client", [&] { split_of(options, 2); });
}

TEST(ClientSplit, WhatCannotBeIsRefused) {
  expect_error(ErrorKind::kInvalidInput, "federated.client_samples",
               [] { split_of({.split = parse_split("iid"), .clients = 11}, 10); });
  for (const char* word : {"", "dirichlet:", "dirichlet:-1", "dirichlet:x", "dirichlet:nan", "file:", "other"})
    expect_error(ErrorKind::kInvalidInput, "Splits are", [&] { parse_split(word); });
}

}  // namespace
}  // namespace muster::federated
