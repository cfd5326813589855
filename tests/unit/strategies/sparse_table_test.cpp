// Rows against the formulas in double precision, and against dense Adam bit by bit; admission, eviction and a million
// keys.
#include "muster/strategies/parameter_server/sparse_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/compute/optimizer.h"

namespace muster::strategies {
namespace {

using Keys = std::vector<std::int64_t>;
using Floats = std::vector<float>;

TableOptions table_options(std::uint32_t width, SparseOptimizer optimizer = SparseOptimizer::kSgd) {
  TableOptions options;
  options.name = "words";
  options.width = width;
  options.optimizer = optimizer;
  options.seed = 17;
  options.init_scale = 0.5;
  return options;
}

Floats pull(const SparseTable& table, const Keys& keys) {
  Floats rows(keys.size() * table.options().width);
  table.pull(keys, rows);
  return rows;
}

Floats random_floats(std::size_t count, std::uint64_t seed) {
  RandomStream random({.seed = seed});
  Floats floats(count);
  for (float& value : floats)
    value = static_cast<float>(random.normal());
  return floats;
}

// The formulas of row_update.h for one row, in double.
struct DoubleRow {
  std::vector<double> w, m, v;
  double accumulator = 0;
  int updates = 0;

  void update(const TableOptions& options, const std::vector<double>& g, double lr) {
    ++updates;
    double squares = 0;
    for (const double value : g)
      squares += value * value;
    accumulator += squares / static_cast<double>(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      m[i] = options.beta1 * m[i] + (1 - options.beta1) * g[i];
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * g[i] * g[i];
      const double m_hat = m[i] / (1 - std::pow(options.beta1, updates));
      const double v_hat = v[i] / (1 - std::pow(options.beta2, updates));
      switch (options.optimizer) {
        case SparseOptimizer::kSgd:
          w[i] -= lr * g[i];
          break;
        case SparseOptimizer::kAdaGrad:
          w[i] -= lr * g[i] / (std::sqrt(accumulator) + options.eps);
          break;
        case SparseOptimizer::kAdam:
          w[i] -= lr * m_hat / (std::sqrt(v_hat) + options.eps);
          break;
      }
    }
  }
};

class SparseTableFormulas : public ::testing::TestWithParam<std::tuple<SparseOptimizer, std::uint32_t>> {};

TEST_P(SparseTableFormulas, AreThoseOfDenseArithmeticInDouble) {
  const auto [optimizer, width] = GetParam();
  TableOptions options = table_options(width, optimizer);
  options.initial_accumulator = 0.1;
  SparseTable table(options);
  std::map<std::int64_t, DoubleRow> truth;
  RandomStream random({.seed = 3});
  for (std::uint64_t step = 1; step <= 40; ++step) {
    Keys keys(30);  // of 50: some twice in a batch, some long not seen
    for (std::int64_t& key : keys)
      key = static_cast<std::int64_t>(random.below(50)) - 25;
    const Floats gradients = random_floats(keys.size() * width, step);
    const double lr = 0.1 / static_cast<double>(step);
    const double scale = 0.5;
    std::map<std::int64_t, std::vector<double>> sums;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::vector<double>& sum = sums.try_emplace(keys[i], width, 0.0).first->second;
      for (std::size_t j = 0; j < width; ++j)
        sum[j] += scale * static_cast<double>(gradients[i * width + j]);
    }
    for (const auto& [key, sum] : sums) {
      const auto [row, added] = truth.try_emplace(key);
      if (added) {
        const Floats initial = pull(table, {key});
        row->second = {{initial.begin(), initial.end()}, std::vector<double>(width), std::vector<double>(width), 0.1};
      }
      row->second.update(options, sum, lr);
    }
    table.push(keys, gradients, {lr, step, scale});
  }
  ASSERT_EQ(table.counts().rows, truth.size());
  for (const auto& [key, row] : truth) {
    const Floats rows = pull(table, {key});
    for (std::size_t i = 0; i < width; ++i)
      EXPECT_NEAR(rows[i], row.w[i], 2e-5) << "key " << key << " column " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(OptimizersAndWidths, SparseTableFormulas,
                         ::testing::Combine(::testing::Values(SparseOptimizer::kSgd, SparseOptimizer::kAdaGrad,
                                                              SparseOptimizer::kAdam),
                                            ::testing::Values(1u, 7u, 64u, 300u)));

TEST(SparseTable, LazyAdamOfRowsThatComeEveryStepHasTheBitsOfDenseAdam) {
  constexpr std::uint32_t kWidth = 13;
  SparseTable table(table_options(kWidth, SparseOptimizer::kAdam));
  Keys keys{4, -9, 1000, 0};
  const auto adam = compute::make_optimizer(compute::Adam{});
  Floats w = pull(table, keys);
  const std::size_t count = w.size();
  Floats m(count), v(count), next_w(count), next_m(count), next_v(count);
  for (std::uint64_t step = 1; step <= 50; ++step) {
    const Floats g = random_floats(count, step);
    compute::TensorStep tensor_step;
    tensor_step.lr = 0.01;
    tensor_step.step = step;
    adam->update({w, g, {m, v}}, tensor_step, 1, {next_w, {next_m, next_v}});
    w.swap(next_w);
    m.swap(next_m);
    v.swap(next_v);
    table.push(keys, g, {0.01, step});
  }
  EXPECT_EQ(pull(table, keys), w);
}

TEST(SparseTable, PullsInitialRowsThatDependOnSeedNameAndKeyAlone) {
  SparseTable table(table_options(5));
  const Floats first = pull(table, {10, 11});
  EXPECT_EQ(table.counts().rows, 0u);
  const Floats again = pull(table, {12, 11, 10});
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 5, again.begin() + 10));
  EXPECT_TRUE(std::equal(first.begin() + 5, first.end(), again.begin() + 5));

  // The row that a push makes begins with these values.
  table.push(Keys{10}, Floats(5, 0.0f), {0.1, 1});
  EXPECT_EQ(pull(table, {10, 11}), first);

  TableOptions other = table_options(5);
  other.seed = 18;
  EXPECT_NE(pull(SparseTable(other), {10, 11}), first);
  other = table_options(5);
  other.name = "others";
  EXPECT_NE(pull(SparseTable(other), {10, 11}), first);
}

TEST(SparseTable, InitialRowsAreUniform) {
  const SparseTable table(table_options(64));
  Keys keys(2000);
  for (std::size_t i = 0; i < keys.size(); ++i)
    keys[i] = static_cast<std::int64_t>(i);
  const Floats rows = pull(table, keys);
  double sum = 0, squares = 0;
  for (const float value : rows) {
    ASSERT_GE(value, -0.5f);
    ASSERT_LT(value, 0.5f);
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(rows.size());
  EXPECT_NEAR(sum / count, 0, 5 * std::sqrt(1 / 12.0 / count));
  EXPECT_NEAR(squares / count, 1 / 12.0, 0.001);
}

TEST(SparseTable, RowsStayApartForExtremeKeysAndEmptyBatches) {
  SparseTable table(table_options(3));
  const Keys keys{std::numeric_limits<std::int64_t>::min(), -1, 0, 1, std::numeric_limits<std::int64_t>::max()};
  Floats expected = pull(table, keys);
  EXPECT_EQ(std::set<float>(expected.begin(), expected.end()).size(), expected.size());
  Floats gradients(keys.size() * 3);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = static_cast<float>(i);
    expected[i] -= 2 * gradients[i];
  }
  table.push(keys, gradients, {2, 1});
  table.push({}, {}, {2, 2});
  EXPECT_EQ(pull(table, keys), expected);
  EXPECT_TRUE(pull(table, {}).empty());
  EXPECT_EQ(table.counts().rows, keys.size());
}

TEST(SparseTable, AdmitsAKeyAtItsThirdPush) {
  TableOptions options = table_options(2);
  options.admit_after = 3;
  SparseTable table(options);
  const Floats initial = pull(table, {1});
  table.push(Keys{1, 1, 2}, Floats{1, 1, 1, 1, 1, 1}, {1, 1});  // twice in a batch counts once
  table.push(Keys{1}, Floats{1, 1}, {1, 2});
  EXPECT_EQ(pull(table, {1}), initial);
  EXPECT_EQ(table.counts().rows, 0u);
  EXPECT_EQ(table.counts().candidates, 2u);
  EXPECT_EQ(table.counts().refused, 3u);
  table.push(Keys{1}, Floats{1, 2}, {1, 3});
  EXPECT_EQ(pull(table, {1}), (Floats{initial[0] - 1, initial[1] - 2}));
  EXPECT_EQ(table.counts().rows, 1u);
  EXPECT_EQ(table.counts().candidates, 1u);
  EXPECT_EQ(table.counts().refused, 3u);
}

TEST(SparseTable, EvictsRowsByAgeAndKeepsTheOthers) {
  TableOptions options = table_options(4);
  options.evict_after = 10;
  SparseTable table(options);
  std::map<std::int64_t, std::uint64_t> last_step;
  Keys all(1000);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<std::int64_t>(i * 7919);
    last_step[all[i]] = 1 + i % 20;
    table.push(Keys{all[i]}, Floats(4, static_cast<float>(i)), {1, 1 + i % 20});
  }
  table.push(Keys{all[0]}, Floats(4, 1.0f), {1, 0});  // a late one makes nothing younger, and nothing older
  const Floats before = pull(table, all);
  const Floats initial = pull(SparseTable(options), all);
  EXPECT_EQ(table.evict(11), 0u);  // the oldest are 10 steps old: not more
  EXPECT_EQ(table.evict(20), 450u);
  EXPECT_EQ(table.counts().rows, 550u);
  EXPECT_EQ(table.counts().evicted, 450u);
  const Floats after = pull(table, all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool evicted = 20 - last_step[all[i]] > 10;
    for (std::size_t j = 4 * i; j < 4 * i + 4; ++j)
      ASSERT_EQ(after[j], evicted ? initial[j] : before[j]) << i;
  }
  EXPECT_EQ(table.evict(1000), 550u);
  EXPECT_EQ(pull(table, all), initial);
  table.push(all, Floats(4 * all.size(), 0.0f), {1, 1001});  // memory is used again
  EXPECT_EQ(pull(table, all), initial);
}

TEST(SparseTable, EvictionForgetsCandidatesThatDoNotComeBack) {
  TableOptions options = table_options(1);
  options.admit_after = 3;
  options.evict_after = 5;
  SparseTable table(options);
  table.push(Keys{1, 2}, Floats{1, 1}, {1, 1});
  table.evict(2);
  EXPECT_EQ(table.counts().candidates, 2u);
  table.push(Keys{2}, Floats{1}, {1, 2});
  table.evict(3);
  EXPECT_EQ(table.counts().candidates, 1u);
  table.push(Keys{1, 2}, Floats{1, 1}, {1, 3});  // the third of 2, the first of 1 that counts
  EXPECT_EQ(table.counts().rows, 1u);
  EXPECT_EQ(table.counts().candidates, 1u);
}

TEST(SparseTable, NeverEvictsUnlessAsked) {
  SparseTable table(table_options(1));
  table.push(Keys{1}, Floats{1}, {1, 1});
  EXPECT_EQ(table.evict(std::numeric_limits<std::uint64_t>::max()), 0u);
  EXPECT_EQ(table.counts().rows, 1u);
}

TEST(SparseTable, HoldsAMillionKeys) {
  constexpr std::size_t kKeys = 1'000'000;
  constexpr std::uint32_t kWidth = 2;
  SparseTable table(table_options(kWidth));
  Keys keys(kKeys);
  Floats gradients(kKeys * kWidth);
  for (std::size_t i = 0; i < kKeys; ++i) {
    keys[i] = static_cast<std::int64_t>(i * 0x9E3779B97F4A7C15);
    gradients[i * kWidth] = static_cast<float>(i);  // exact
  }
  Floats expected = pull(table, keys);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] -= gradients[i];
  for (std::size_t begin = 0; begin < kKeys; begin += 50'000)
    table.push(std::span(keys).subspan(begin, 50'000), std::span(gradients).subspan(begin * kWidth, 50'000 * kWidth),
               {1, begin});
  EXPECT_EQ(table.counts().rows, kKeys);
  EXPECT_GE(table.counts().bytes, kKeys * kWidth * sizeof(float));
  EXPECT_EQ(pull(table, keys), expected);
}

TEST(SparseTable, RefusesOptionsOutOfRangeByName) {
  const auto refusal = [](auto change) -> std::string {
    TableOptions options = table_options(4);
    change(options);
    try {
      SparseTable table(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(refusal([](TableOptions& o) { o.width = 0; }).find("width = 0"), std::string::npos);
  EXPECT_NE(refusal([](TableOptions& o) { o.width = 65537; }).find("width = 65537"), std::string::npos);
  EXPECT_NE(refusal([](TableOptions& o) { o.eps = -1; }).find("eps = -1"), std::string::npos);
  EXPECT_NE(refusal([](TableOptions& o) { o.beta1 = 1; }).find("beta1 = 1"), std::string::npos);
  EXPECT_NE(refusal([](TableOptions& o) { o.beta2 = std::nan(""); }).find("beta2 = nan"), std::string::npos);
  EXPECT_NE(refusal([](TableOptions& o) { o.init_scale = INFINITY; }).find("init_scale = inf"), std::string::npos);
  EXPECT_NE(refusal([](TableOptions& o) { o.initial_accumulator = -2; }).find("initial_accumulator = -2"),
            std::string::npos);
  EXPECT_NE(refusal([](TableOptions& o) { o.admit_after = 0; }).find("admit_after = 0"), std::string::npos);
}

TEST(Partitions, AreEvenForKeysInAnyPattern) {
  for (const std::uint64_t stride : {std::uint64_t{1}, std::uint64_t{64}, std::uint64_t{1} << 40}) {
    std::vector<int> counts(7);
    for (std::uint64_t i = 0; i < 70'000; ++i)
      ++counts[partition_of(static_cast<std::int64_t>(i * stride), 7)];
    for (const int count : counts)
      EXPECT_NEAR(count, 10'000, 500) << "stride " << stride;
  }
  for (std::int64_t key = -100; key < 100; ++key)
    EXPECT_EQ(partition_of(key, 1), 0u);
}

TEST(Partitions, AreNeverChanged) {
  // Written down at the first release: saved tables are cut this way. SplitMix64 of 0 begins with E220A8397B1DCDAF.
  EXPECT_EQ(partition_of(0, 1u << 16), 0xE220u);
  EXPECT_EQ(partition_of(0, std::numeric_limits<std::uint32_t>::max()), 0xE220A838u);
}

TEST(Partitions, LeaveTheKeysOfOneSpreadOverItsIndex) {
  // Were both hashes one, the keys of a partition would crowd in a part of the index.
  std::vector<int> counts(16);
  int keys = 0;
  for (std::int64_t key = 0; keys < 16'000; ++key) {
    if (partition_of(key, 16) != 5) continue;
    ++counts[scatter_key(key) % 16];
    ++keys;
  }
  for (const int count : counts)
    EXPECT_NEAR(count, 1000, 200);
}

}  // namespace
}  // namespace muster::strategies
