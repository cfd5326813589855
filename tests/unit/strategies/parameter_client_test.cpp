// Programs' own use of parameter servers: push, pull and wait, by name and by key, with servers that come and go.
#include "muster/strategies/parameter_server/parameter_client.h"

#include <cstring>

#include <gtest/gtest.h>

#include "muster/base/random.h"
#include "muster/base/temporary_folder.h"
#include "muster/control/server_map.h"
#include "muster/strategies/parameter_server/local_servers.h"
#include "muster/strategies/parameter_server/server_thread.h"
#include "muster/strategies/parameter_server/snapshots.h"
#include "muster/strategies/parameter_server/table_shard.h"
#include "muster/strategies/parameter_server/transport.h"
#include "support/errors.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::strategies {
namespace {

constexpr std::chrono::seconds kTimeout{30};
constexpr std::uint32_t kWidth = 64;

TableOptions words() {
  TableOptions options;
  options.name = "words";
  options.width = kWidth;
  options.optimizer = SparseOptimizer::kAdaGrad;
  return options;
}

ServerPlan plan_of(std::uint32_t servers, std::uint32_t copies = 1) {
  ServerPlan plan;
  plan.layout = model::FlatLayout({{"large", {50000}}, {"small", {3}}, {"last", {17, 2}}});
  plan.rules.resize(3);
  plan.optimizer = compute::Sgd{.lr = 0.1};
  plan.chunk_floats = model::kBlockFloats;
  plan.separate_tensors = true;
  plan.tables = {{words(), 5}};
  plan.workers = 2;
  plan.servers = servers;
  plan.copies = copies;
  return plan;
}

ClientOptions client_of(const std::shared_ptr<comm::Store>& store, std::uint32_t number = 0) {
  ClientOptions options;
  options.number = number;
  options.store = store;
  return options;
}

// A table in this process, to which the same pushes are made.
class Reference {
 public:
  explicit Reference(const TableOptions& options) : table_(options) {}
  void push(std::span<const std::int64_t> keys, std::span<const float> gradients, double rate) {
    table_.push(keys, gradients, {.lr = rate});
  }
  std::vector<float> pull(std::span<const std::int64_t> keys) const {
    std::vector<float> rows(keys.size() * table_.options().width);
    table_.pull(keys, rows);
    return rows;
  }

 private:
  SparseTable table_;
};

struct RowsBatch {
  std::vector<std::int64_t> keys;
  std::vector<float> gradients;
};

RowsBatch random_batch(RandomStream& random, std::size_t count, std::int64_t different) {
  RowsBatch batch;
  for (std::size_t i = 0; i < count; ++i)
    batch.keys.push_back(static_cast<std::int64_t>(random.uniform() * static_cast<double>(different)) - different / 2);
  for (std::size_t i = 0; i < count * kWidth; ++i)
    batch.gradients.push_back(static_cast<float>(random.uniform() - 0.5));
  return batch;
}

std::vector<float> pull_rows(ParameterClient& client, std::span<const std::int64_t> keys) {
  std::vector<float> rows(keys.size() * kWidth, -77);
  client.wait(client.pull_rows("words", keys, rows));
  return rows;
}

class Servers : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(Servers, PushedGradientsAreAppliedAndPulledByName) {
  const auto first = [](const std::string& name, std::span<float> values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i) + (name == "small" ? 0.5F : 0);
  };
  const LocalServers servers(plan_of(GetParam(), GetParam() > 1 ? 2 : 1), {.initial = first});
  ParameterClient client(client_of(servers.store()));
  std::vector<float> large(50000);
  std::vector<float> gradient(50000);
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = static_cast<float>(i % 13);
  std::vector<float> small(3);
  client.wait(client.push("large", gradient, 2));
  const auto of_small = client.pull("small", small);
  client.wait(client.push_pull("large", gradient, 1, large));
  client.wait(of_small);
  EXPECT_EQ(small, (std::vector<float>{0.5F, 1.5F, 2.5F}));
  for (std::size_t i = 0; i < large.size(); ++i)
    ASSERT_EQ(large[i], static_cast<float>(i) - 3 * gradient[i]) << i;
}

TEST_P(Servers, RowsAreThoseOfATableInOnePiece) {
  ServerPlan plan = plan_of(GetParam(), GetParam() > 1 ? 2 : 1);
  if (GetParam() == 1) plan.tables[0].partitions = 1;
  const LocalServers servers(plan);
  ParameterClient client(client_of(servers.store()));
  Reference reference(words());
  RandomStream random({.seed = 3});
  // Far more than a call takes, with many, some and no keys that come twice; one key; none.
  for (const auto& [count, different] :
       {std::pair<std::size_t, std::int64_t>{6000, 3000}, {1, 10}, {0, 1}, {3000, 30000}, {5000, 1L << 60}}) {
    const RowsBatch batch = random_batch(random, count, different);
    const auto pushed = client.push_rows("words", batch.keys, batch.gradients, 0.1);
    std::vector<float> rows(count * kWidth);
    const auto pulled = client.pull_rows("words", batch.keys, rows);
    client.wait(pulled);
    client.wait(pushed);
    reference.push(batch.keys, batch.gradients, 0.1);
    EXPECT_EQ(rows, reference.pull(batch.keys)) << count << " keys";
  }
}

TEST_P(Servers, ARowMayBeLongerThanACallOfManyRows) {
  constexpr std::uint32_t kWide = 40'000;
  ServerPlan plan = plan_of(GetParam());
  plan.tables[0].options.width = kWide;
  const LocalServers servers(plan);
  ParameterClient client(client_of(servers.store()));
  Reference reference(plan.tables[0].options);
  const std::vector<std::int64_t> keys{5, -3, 5};
  std::vector<float> gradients(keys.size() * kWide);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    gradients[i] = static_cast<float>(i % 17) - 8;
  client.wait(client.push_rows("words", keys, gradients, 0.1));
  std::vector<float> rows(gradients.size());
  client.wait(client.pull_rows("words", keys, rows));
  reference.push(keys, gradients, 0.1);
  EXPECT_EQ(rows, reference.pull(keys));
}

INSTANTIATE_TEST_SUITE_P(Numbers, Servers, ::testing::Values(1U, 3U));

TEST(ParameterClient, UpdatesOfOneOwnReplaceTheOptimizer) {
  const LocalServers servers(plan_of(2, 2), {.update = [](auto parameters, auto gradient, double rate) {
                               for (std::size_t i = 0; i < parameters.size(); ++i)
                                 parameters[i] = std::max(parameters[i], static_cast<float>(rate) * gradient[i]);
                             }});
  ParameterClient client(client_of(servers.store()));
  std::vector<float> values(3);
  client.wait(client.push("small", std::vector<float>{1, -2, 3}, 2));
  client.wait(client.push_pull("small", std::vector<float>{3, 1, 1}, 1, values));
  EXPECT_EQ(values, (std::vector<float>{3, 1, 6}));
}

TEST(ParameterClient, ASecondOneOfTheSameNumberGoesOnCounting) {
  const LocalServers servers(plan_of(1));
  const std::vector<float> ones(3, 1);
  const RowsBatch batch{{5}, std::vector<float>(kWidth, 1)};
  Reference reference(words());
  std::vector<float> values(3);
  for (int turn = 0; turn < 3; ++turn) {
    ParameterClient client(client_of(servers.store()));
    client.wait(client.push("small", ones, 1));
    client.wait(client.push_pull("small", ones, 1, values));
    client.wait(client.push_rows("words", batch.keys, batch.gradients, 0.1));
    reference.push(batch.keys, batch.gradients, 0.1);
    EXPECT_EQ(pull_rows(client, batch.keys), reference.pull(batch.keys));
  }
  EXPECT_EQ(values, std::vector<float>(3, -6));
}

// What was saved goes on in another job, with another number of servers, as if nothing had happened.
TEST(ParameterClient, ACheckpointHasEverything) {
  const TemporaryFolder folder("muster-test");
  const std::filesystem::path saved = folder.path() / "saved";
  RandomStream random({.seed = 5});
  Reference reference(words());
  const std::vector<float> gradient(50000, 2);
  const RowsBatch before = random_batch(random, 4000, 1000);
  const RowsBatch after = random_batch(random, 4000, 1000);
  {
    const LocalServers servers(plan_of(2, 2));
    ParameterClient client(client_of(servers.store()));
    client.wait(client.push("large", gradient, 1));
    client.wait(client.push_rows("words", before.keys, before.gradients, 0.1));
    client.save(saved);
    testing::expect_error(ErrorKind::kInvalidInput, "already", [&] { client.save(saved); });
    client.wait(client.push("large", gradient, 100));  // not part of it
  }
  const LocalServers servers(plan_of(3));
  ParameterClient client(client_of(servers.store()));
  client.load(saved);
  std::vector<float> large(50000);
  client.wait(client.push_pull("large", gradient, 1, large));
  EXPECT_EQ(large, std::vector<float>(50000, -4));
  client.wait(client.push_rows("words", after.keys, after.gradients, 0.1));
  reference.push(before.keys, before.gradients, 0.1);
  reference.push(after.keys, after.gradients, 0.1);
  EXPECT_EQ(pull_rows(client, before.keys), reference.pull(before.keys));
  EXPECT_EQ(pull_rows(client, after.keys), reference.pull(after.keys));
}

TEST(ParameterClient, ACallIsWaitedForOnce) {
  const LocalServers servers(plan_of(1));
  ParameterClient client(client_of(servers.store()));
  const std::vector<float> gradient(client.plan().layout.tensors()[0].count);
  const ParameterClient::Ticket ticket = client.push(client.plan().layout.tensors()[0].name, gradient, 0.1);
  client.wait(ticket);
  testing::expect_error(ErrorKind::kInvalidInput, "once", [&] { client.wait(ticket); });
}

TEST(ParameterClient, ACheckpointThatIsDamagedOrOfAnotherPlanIsRefused) {
  const TemporaryFolder folder("muster-test");
  const std::filesystem::path saved = folder.path() / "saved";
  const LocalServers servers(plan_of(1));
  ParameterClient client(client_of(servers.store()));
  client.save(saved);
  testing::expect_error(ErrorKind::kNotFound, "no such", [&] { client.load(folder.path() / "other"); });
  ServerPlan wider = plan_of(1);
  wider.tables[0].options.width = 2 * kWidth;
  const LocalServers of_another(wider);
  ParameterClient stranger(client_of(of_another.store()));
  testing::expect_error(ErrorKind::kMismatch, "other tables", [&] { stranger.load(saved); });
  // Of the same sizes: only the names tell that values would come to the wrong place.
  ServerPlan renamed = plan_of(1);
  std::vector<model::TensorInfo> tensors;
  for (auto tensor = renamed.layout.tensors().rbegin(); tensor != renamed.layout.tensors().rend(); ++tensor)
    tensors.push_back({tensor->name + "2", tensor->shape, tensor->trainable});
  renamed.layout = model::FlatLayout(tensors);
  const LocalServers of_others(renamed);
  ParameterClient namesake(client_of(of_others.store()));
  testing::expect_error(ErrorKind::kMismatch, "other tensors", [&] { namesake.load(saved); });
  std::filesystem::resize_file(saved / "server-0" / "chunk-1", 100);
  testing::expect_error(ErrorKind::kDamaged, "chunk 1 of", [&] { client.load(saved); });
}

TEST(ParameterClient, NamesAndLengthsThatAreWrongAreRefused) {
  const LocalServers servers(plan_of(1));
  ParameterClient client(client_of(servers.store()));
  std::vector<float> four(4);
  const std::vector<std::int64_t> keys(1);
  const auto expect_refused = [](const char* what, const auto& call) {
    testing::expect_error(ErrorKind::kInvalidInput, what, call);
  };
  expect_refused("no parameters \"none\"", [&] { client.pull("none", four); });
  expect_refused("4 floats for \"small\", which has 3", [&] { client.push("small", four, 1); });
  expect_refused("no table \"small\"", [&] { client.pull_rows("small", keys, four); });
  expect_refused("rows have 64", [&] { client.push_rows("words", keys, four, 1); });
  ServerPlan plan = plan_of(1);
  plan.copies = 2;
  expect_refused("2 copies", [&] { LocalServers{plan}; });
  plan = plan_of(1);
  plan.separate_tensors = false;
  expect_refused("separate_tensors", [&] { LocalServers{plan}; });
}

// --- Servers that are lost.

class Job {
 public:
  explicit Job(ServerPlan plan) : plan_(std::move(plan)), servers_(plan_.servers), attempts_(plan_.servers) {
    put_plan(*store, plan_);
    for (std::uint32_t number = 0; number < plan_.servers; ++number)
      start(number);
    put_first_map(*store, plan_, Deadline::after(kTimeout));
    map_ = control::ServerMap::from_text(store->get(control::map_key(1), Deadline::after(kTimeout)));
    ParameterClient(client_of(store)).fill();
  }

  void start(std::uint32_t number) {
    servers_[number] =
        std::make_unique<ServerThread>(ServerOptions{.number = number, .attempt = attempts_[number]++, .store = store});
  }
  void lose(std::uint32_t number) { servers_[number].reset(); }
  // The map of the servers as they are.
  void publish() {
    std::vector<control::ServerSeat> seats(plan_.servers);
    for (std::uint32_t number = 0; number < plan_.servers; ++number) {
      if (!servers_[number]) continue;
      const std::uint32_t attempt = attempts_[number] - 1;
      seats[number] = {store->get(control::server_key(number, attempt), Deadline::after(kTimeout)), attempt};
    }
    set(control::next_map(map_, std::move(seats)));
  }
  void settle() {
    for (const std::uint32_t server : map_.filling())
      store->get(control::filled_key(map_.generation, server), Deadline::after(kTimeout));
    set(control::settled_map(map_));
  }

  const std::shared_ptr<comm::Store> store = comm::make_memory_store();

 private:
  void set(control::ServerMap map) {
    map_ = std::move(map);
    store->set(control::map_key(map_.generation), map_.to_text());
  }
  const ServerPlan plan_;
  std::vector<std::unique_ptr<ServerThread>> servers_;
  std::vector<std::uint32_t> attempts_;
  control::ServerMap map_;
};

TEST(ParameterClient, RowsSurviveTheLossOfEveryServerInTurnWhenThereAreTwoCopies) {
  Job job(plan_of(2, 2));
  ParameterClient client(client_of(job.store));
  Reference reference(words());
  RandomStream random({.seed = 4});
  std::vector<std::int64_t> all;
  const auto push = [&] {
    const RowsBatch batch = random_batch(random, 300, 500);
    all.insert(all.end(), batch.keys.begin(), batch.keys.end());
    client.wait(client.push_rows("words", batch.keys, batch.gradients, 0.1));
    reference.push(batch.keys, batch.gradients, 0.1);
  };
  push();
  for (const std::uint32_t lost : {0U, 1U, 0U}) {
    job.lose(lost);
    job.publish();
    push();
    EXPECT_EQ(pull_rows(client, all), reference.pull(all)) << "without server " << lost;
    job.start(lost);
    job.publish();
    push();
    job.settle();
    push();
    EXPECT_EQ(pull_rows(client, all), reference.pull(all)) << "with server " << lost;
  }
}

TEST(ParameterClient, ACheckpointThatCannotBeWrittenLeavesNothing) {
  const TemporaryFolder folder("muster-test-");
  EXPECT_EQ(testing::status_of_child([&] {
              const LocalServers servers(plan_of(1));
              ParameterClient client(client_of(servers.store()));
              testing::limit_file_size(10'000);  // the largest chunk is longer, and not the first
              try {
                client.save(folder.path() / "saved");
              } catch (const Error&) {
                return std::filesystem::is_empty(folder.path()) ? 0 : 1;
              }
              return 2;
            }),
            0);
}

TEST(ParameterClient, ASingleServerBeginsFromItsSnapshotOfATable) {
  const TemporaryFolder folder("muster-test-");
  ServerPlan plan = plan_of(1);
  plan.snapshot_seconds = 0.001;
  plan.folder = folder.path().string();
  Job job(plan);
  ParameterClient client(client_of(job.store));
  const RowsBatch batch{{5}, std::vector<float>(kWidth, 1)};
  client.wait(client.push_rows("words", batch.keys, batch.gradients, 0.1));
  Reference reference(words());
  reference.push(batch.keys, batch.gradients, 0.1);
  const std::uint32_t chunk = plan.first_partition(0) + partition_of(5, 5);
  const auto written = [&] {
    TableShard shard(plan);
    for (const Snapshot& snapshot : read_snapshots(plan.folder, 0)) {
      if (snapshot.chunk == chunk) shard.write(chunk, snapshot.state);
    }
    return shard.has(chunk) && shard.version(chunk) == 1;
  };
  ASSERT_TRUE(testing::eventually(written, Deadline::after(kTimeout)));
  job.lose(0);
  job.start(0);
  job.publish();
  EXPECT_EQ(pull_rows(client, batch.keys), reference.pull(batch.keys));
}

}  // namespace
}  // namespace muster::strategies
