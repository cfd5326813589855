// What a shard promises to those who read its memory.
#include "muster/strategies/parameter_server/shard.h"

#include <atomic>
#include <vector>

#include <gtest/gtest.h>

#include "muster/strategies/parameter_server/chunk_state.h"

namespace muster::strategies {
namespace {

// A chunk that leaves a server and comes back, perhaps older, lies where it lay: who still reads what was there before
// must find out.
TEST(Shard, AReaderNoticesThatTheChunkWasWrittenAnew) {
  ServerPlan plan;
  plan.layout = model::FlatLayout({{"all", {100}}});
  plan.optimizer = compute::Sgd{.lr = 1};
  plan.rules.resize(1);
  const std::size_t bytes = Shard::memory_bytes(plan);
  std::vector<std::byte> spare(bytes + 4096);
  void* aligned = spare.data();
  std::size_t space = spare.size();
  ASSERT_NE(std::align(4096, bytes, aligned, space), nullptr);
  Shard shard(plan, {static_cast<std::byte*>(aligned), bytes}, {});

  std::vector<float> parameters(plan.layout.size());
  std::vector<std::uint64_t> updates(1);
  const std::vector<std::byte> first =
      Shard::first_state(pack_chunk(plan.chunks()[0], {}, {parameters, {}, updates}, 0));
  shard.write(0, first);
  const std::vector<float> gradient(plan.chunks()[0].floats(), 1.0F);
  for (std::uint64_t id = 0; id < 5; ++id) {
    const PushUpdateRequest push{.update = id, .rate = 1};
    ASSERT_EQ(shard.push(0, 0, push, std::as_bytes(std::span(gradient))), Status::kDone);
  }
  const Shard::View view = shard.view(0);
  EXPECT_EQ(view.version, 5U);
  EXPECT_LT(view.guard->load(), view.limit);
  shard.drop(0);
  shard.write(0, first);
  EXPECT_GE(view.guard->load(), view.limit);
  const Shard::View now = shard.view(0);
  EXPECT_EQ(now.version, 0U);
  EXPECT_LT(now.guard->load(), now.limit);
}

}  // namespace
}  // namespace muster::strategies
