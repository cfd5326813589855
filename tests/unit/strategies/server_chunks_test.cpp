// The chunks of a server behind one face: whichever of the three kinds one is, it is read, written, copied and dropped
// by its number alone.
#include "muster/strategies/parameter_server/server_chunks.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/strategies/parameter_server/chunk_state.h"
#include "support/errors.h"

namespace muster::strategies {
namespace {

// One chunk of parameters (0), the book (1), and two partitions of a table (2 and 3).
constexpr std::uint32_t kBookChunk = 1;
constexpr std::uint32_t kCount = 4;

ServerPlan plan_of_all_kinds() {
  ServerPlan plan;
  plan.layout = model::FlatLayout({{"w", {4}}});
  plan.optimizer = compute::Sgd{.lr = 1};
  plan.rules.resize(1);
  plan.buffers.add("mean", model::Dtype::kF32, {1}, 4);
  TableOptions table;
  table.name = "words";
  table.width = 3;
  plan.tables = {{table, 2}};
  return plan;
}

struct Holder {
  explicit Holder(const ServerPlan& plan) : memory(Shard::memory_bytes(plan) + 4096), chunks(plan, aligned(plan), {}) {}

  std::span<std::byte> aligned(const ServerPlan& plan) {
    void* at = memory.data();
    std::size_t space = memory.size();
    std::align(4096, Shard::memory_bytes(plan), at, space);
    return {static_cast<std::byte*>(at), Shard::memory_bytes(plan)};
  }
  // Of a job that stands at `step`.
  void begin(const ServerPlan& plan, std::uint64_t step) {
    std::vector<float> parameters(plan.layout.size(), 0.5F);
    std::vector<std::uint64_t> updates(1);
    chunks.write(0, Shard::first_state(pack_chunk(plan.chunks()[0], {}, {parameters, {}, updates}, 0)));
    chunks.write(kBookChunk, Book::first_state(plan, step, std::vector<std::byte>(plan.buffers.bytes)));
    for (std::uint32_t partition = 2; partition < kCount; ++partition)
      chunks.write(partition, TableShard::first_state(plan.tables[0].options));
  }

  std::vector<std::byte> memory;
  ServerChunks chunks;
};

TEST(ServerChunks, KindsFollowEachOther) {
  const ServerPlan plan = plan_of_all_kinds();
  const Holder holder(plan);
  ASSERT_EQ(holder.chunks.count(), kCount);
  EXPECT_EQ(holder.chunks.book_chunk(), kBookChunk);
  EXPECT_EQ(holder.chunks.kind(0), ChunkKind::kParameters);
  EXPECT_EQ(holder.chunks.kind(1), ChunkKind::kBook);
  EXPECT_EQ(holder.chunks.kind(2), ChunkKind::kPartition);
  EXPECT_EQ(holder.chunks.kind(3), ChunkKind::kPartition);
  for (std::uint32_t chunk = 0; chunk < kCount; ++chunk)
    EXPECT_FALSE(holder.chunks.has(chunk)) << "a server begins with nothing";
}

TEST(ServerChunks, WhatIsReadOfAnyKindMakesTheSameElsewhere) {
  const ServerPlan plan = plan_of_all_kinds();
  Holder first(plan);
  first.begin(plan, 7);
  const std::vector<float> gradient(plan.chunks()[0].floats(), 1.0F);
  const PushUpdateRequest push{.update = 0, .rate = 1};
  ASSERT_EQ(first.chunks.parameters().push(0, 0, push, std::as_bytes(std::span(gradient))), Status::kDone);
  EXPECT_EQ(first.chunks.version(0), 1U);
  EXPECT_EQ(first.chunks.next_update(0, 0), 1U);
  EXPECT_EQ(first.chunks.next_update(kBookChunk, 0), 0U);

  Holder second(plan);
  for (std::uint32_t chunk = 0; chunk < kCount; ++chunk) {
    second.chunks.write(chunk, first.chunks.read(chunk));
    EXPECT_TRUE(second.chunks.has(chunk));
    EXPECT_EQ(second.chunks.read(chunk), first.chunks.read(chunk)) << "chunk " << chunk;
    EXPECT_EQ(second.chunks.version(chunk), first.chunks.version(chunk)) << "chunk " << chunk;
    EXPECT_EQ(second.chunks.next_update(chunk, 0), first.chunks.next_update(chunk, 0)) << "chunk " << chunk;
  }
}

TEST(ServerChunks, OnlyTheChunkThatIsDroppedGoes) {
  const ServerPlan plan = plan_of_all_kinds();
  for (std::uint32_t dropped = 0; dropped < kCount; ++dropped) {
    Holder holder(plan);
    holder.begin(plan, 0);
    holder.chunks.drop(dropped);
    for (std::uint32_t chunk = 0; chunk < kCount; ++chunk)
      EXPECT_EQ(holder.chunks.has(chunk), chunk != dropped) << "chunk " << chunk << ", dropped " << dropped;
    holder.chunks.drop(dropped);  // what is not there may be dropped
  }
}

TEST(BookStore, AStateThatIsRefusedLeavesTheBookAsItWas) {
  const ServerPlan plan = plan_of_all_kinds();
  BookStore store(plan, kBookChunk);
  const std::vector<std::byte> buffers(plan.buffers.bytes);
  std::vector<std::byte> cut = Book::first_state(plan, 9, buffers);
  cut.pop_back();
  EXPECT_EQ(testing::error_of([&] { store.write(kBookChunk, cut); }).kind(), ErrorKind::kDamaged);
  EXPECT_FALSE(store.has(kBookChunk));
  store.write(kBookChunk, Book::first_state(plan, 5, buffers));
  const std::vector<std::byte> before = store.read(kBookChunk);
  EXPECT_EQ(testing::error_of([&] { store.write(kBookChunk, cut); }).kind(), ErrorKind::kDamaged);
  EXPECT_EQ(store.read(kBookChunk), before);
}

TEST(BookStore, HasOneNumber) {
  const ServerPlan plan = plan_of_all_kinds();
  BookStore store(plan, kBookChunk);
  const std::vector<std::byte> state = Book::first_state(plan, 0, std::vector<std::byte>(plan.buffers.bytes));
  EXPECT_EQ(testing::error_of([&] { store.write(kBookChunk + 1, state); }).kind(), ErrorKind::kDamaged);
  store.write(kBookChunk, state);
  EXPECT_FALSE(store.has(kBookChunk + 1));
}

}  // namespace
}  // namespace muster::strategies
