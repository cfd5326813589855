// Partitions of embedding tables as a server holds them, and their place in a job's plan.
#include "muster/strategies/parameter_server/table_shard.h"

#include <cstring>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace muster::strategies {
namespace {

constexpr std::uint32_t kWidth = 3;
constexpr std::uint32_t kChunk = 2;  // after one chunk of parameters and the book

ServerPlan plan_with(TableOptions options) {
  ServerPlan plan;
  plan.layout = model::FlatLayout({{"w", {4}}});
  plan.rules.resize(1);
  options.name = "words";
  options.width = kWidth;
  plan.tables = {{options, 2}, {options, 1}};
  plan.tables[1].options.name = "places";
  return plan;
}

std::vector<std::byte> rows_body(std::span<const std::int64_t> keys, float gradient) {
  const std::vector<float> gradients(keys.size() * kWidth, gradient);
  ByteWriter bytes;
  bytes.put_all(keys);
  bytes.put_all(std::span<const float>(gradients));
  return bytes.take();
}

PushRowsRequest push_of(std::uint64_t id, std::uint64_t first = 0, std::uint64_t step = 0) {
  return {.update = id, .over_below = first, .rate = 1, .step = step};
}

// A shard with the first partition of the first table.
struct Partition {
  explicit Partition(const TableOptions& options = {}) : plan(plan_with(options)), shard(plan) {
    shard.write(kChunk, TableShard::first_state(plan.tables[0].options));
  }
  float value(std::int64_t key) {
    const auto rows = shard.pull(kChunk, std::as_bytes(std::span(&key, 1)));
    return rows->front();
  }
  Status push(const PushRowsRequest& push, std::int64_t key, std::uint32_t client = 0) {
    return shard.push(kChunk, client, push, rows_body(std::span(&key, 1), 1));
  }

  const ServerPlan plan;
  TableShard shard;
};

TEST(TableShard, APushThatIsSentAgainTakesEffectOnce) {
  Partition partition({.name = "words", .init_scale = 0});
  EXPECT_EQ(partition.push(push_of(0), 7), Status::kDone);
  EXPECT_EQ(partition.push(push_of(0), 7), Status::kDuplicate);
  EXPECT_EQ(partition.value(7), -1);
  EXPECT_EQ(partition.push(push_of(2), 7), Status::kDone);
  EXPECT_EQ(partition.push(push_of(1), 7), Status::kDone);
  EXPECT_EQ(partition.push(push_of(2), 7), Status::kDuplicate);
  EXPECT_EQ(partition.value(7), -3);
  EXPECT_EQ(partition.shard.version(kChunk), 3U);
}

TEST(TableShard, ClientsCountForThemselves) {
  Partition partition({.name = "words", .init_scale = 0});
  EXPECT_EQ(partition.push(push_of(0), 7), Status::kDone);
  EXPECT_EQ(partition.push(push_of(0), 7, 1), Status::kDone);
  EXPECT_EQ(partition.value(7), -2);
  EXPECT_EQ(partition.shard.next_update(kChunk, 1), 1U);
  EXPECT_EQ(partition.shard.next_update(kChunk, 2), 0U);
}

TEST(TableShard, UpdatesOfAClientThatWasLostAreNotWaitedFor) {
  Partition partition;
  // Number 0 never came: its client died. The next one says that all below its first are over.
  EXPECT_EQ(partition.push(push_of(1), 7), Status::kDone);
  ASSERT_EQ(partition.shard.next_update(kChunk, 0), 2U);
  const std::uint64_t far = AppliedSet::kFarthest;
  EXPECT_EQ(partition.push(push_of(far), 7), Status::kRefused);
  EXPECT_EQ(partition.push(push_of(2, 2), 7), Status::kDone);
  EXPECT_EQ(partition.push(push_of(far), 7), Status::kDone);
  EXPECT_EQ(partition.push(push_of(0), 7), Status::kDuplicate);
}

TEST(TableShard, AStateThatTravelsKnowsRowsAndUpdates) {
  Partition from({.name = "words", .optimizer = SparseOptimizer::kAdam});
  for (std::uint64_t id = 0; id < 5; ++id)
    from.push(push_of(id), static_cast<std::int64_t>(id % 3));
  Partition to({.name = "words", .optimizer = SparseOptimizer::kAdam});
  to.shard.write(kChunk, from.shard.read(kChunk));
  EXPECT_EQ(to.shard.version(kChunk), 5U);
  EXPECT_EQ(to.push(push_of(4), 1), Status::kDuplicate);
  EXPECT_EQ(to.push(push_of(5), 1), from.push(push_of(5), 1));
  EXPECT_EQ(to.shard.read(kChunk), from.shard.read(kChunk));
}

TEST(TableShard, DamagedAndForeignStatesAreRefused) {
  Partition partition;
  std::vector<std::byte> state = partition.shard.read(kChunk);
  state.pop_back();
  testing::expect_error(ErrorKind::kDamaged, "", [&] { partition.shard.write(kChunk, state); });
  testing::expect_error(ErrorKind::kDamaged, "no such partition",
                        [&] { partition.shard.write(5, partition.shard.read(kChunk)); });
  // The other table has another name.
  testing::expect_error(ErrorKind::kMismatch, "", [&] { partition.shard.write(4, partition.shard.read(kChunk)); });
  EXPECT_FALSE(partition.shard.has(4));
}

TEST(TableShard, BodiesOfAnotherLengthAreRefused) {
  Partition partition;
  const std::int64_t key = 7;
  std::vector<std::byte> body = rows_body(std::span(&key, 1), 1);
  body.pop_back();
  EXPECT_EQ(partition.shard.push(kChunk, 0, push_of(0), body), Status::kRefused);
  EXPECT_EQ(partition.shard.push(kChunk, 0, push_of(0, 1), rows_body(std::span(&key, 1), 1)), Status::kRefused);
  EXPECT_FALSE(partition.shard.pull(kChunk, std::span(body).first(9)).has_value());
  const std::vector<std::int64_t> many(partition.plan.limits().most_body / (kWidth * sizeof(float)) + 1);
  EXPECT_FALSE(partition.shard.pull(kChunk, std::as_bytes(std::span(many))).has_value());
  EXPECT_EQ(partition.shard.version(kChunk), 0U);
}

TEST(TableShard, RowsThatNobodyPushesAnyMoreAreEvicted) {
  Partition partition({.name = "words", .init_scale = 0, .evict_after = 10});
  partition.push(push_of(0, 0, 1), 7);
  partition.push(push_of(1, 0, 10), 8);
  EXPECT_EQ(partition.value(7), -1);
  partition.push(push_of(2, 0, 16), 9);
  EXPECT_EQ(partition.value(7), 0);
  EXPECT_EQ(partition.value(8), -1);
}

TEST(ServerPlan, TablesComeAfterTheBookAndSurviveAsText) {
  TableOptions options;
  options.optimizer = SparseOptimizer::kAdaGrad;
  options.initial_accumulator = 0.1;
  options.seed = ~std::uint64_t{0};
  options.admit_after = 3;
  options.evict_after = 100;
  ServerPlan plan = plan_with(options);
  plan.separate_tensors = true;
  EXPECT_EQ(plan.chunk_count(), 5U);
  EXPECT_EQ(plan.first_partition(1), 4U);
  EXPECT_EQ(plan.table_of(1), nullptr);
  EXPECT_EQ(plan.table_of(3)->name, "words");
  EXPECT_EQ(plan.table_of(4)->name, "places");
  EXPECT_EQ(plan.table_of(5), nullptr);
  const ServerPlan same = ServerPlan::from_text(plan.to_text());
  EXPECT_EQ(same.to_text(), plan.to_text());
  EXPECT_EQ(same.tables[0].options.seed, options.seed);
  EXPECT_EQ(same.tables[0].options.initial_accumulator, 0.1);
  EXPECT_EQ(same.tables[0].options.optimizer, SparseOptimizer::kAdaGrad);
  EXPECT_EQ(same.tables[0].options.admit_after, 3U);
  EXPECT_EQ(same.tables[0].options.evict_after, 100U);
  EXPECT_TRUE(same.separate_tensors);
  std::string wrong = plan.to_text();
  wrong.replace(wrong.find("\"partitions\":2"), 14, "\"partitions\":0");
  testing::expect_error(ErrorKind::kDamaged, "words", [&] { ServerPlan::from_text(wrong); });
}

}  // namespace
}  // namespace muster::strategies
