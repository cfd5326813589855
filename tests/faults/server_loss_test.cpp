// Parameter servers that are killed, or come and go, while clients push: real server processes, kept by the real
// keeper. Gradients are powers of two that differ from lane to lane. With plain SGD parameters are exact sums of what
// was applied; with momentum they also depend on the order, which primary and copies must share to the last bit.
#include <signal.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/base/temporary_folder.h"
#include "muster/launch/server_keeper.h"
#include "muster/strategies/parameter_server/book.h"
#include "muster/strategies/parameter_server/chunk_state.h"
#include "muster/strategies/parameter_server/client.h"
#include "muster/strategies/parameter_server/job_transport.h"
#include "muster/strategies/parameter_server/server.h"
#include "muster/strategies/parameter_server/shard.h"
#include "muster/strategies/parameter_server/shm_transport.h"
#include "support/eventually.h"
#include "support/other_user.h"

namespace muster::strategies {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kWorkers = 3;
constexpr std::uint32_t kLanes = 4;
constexpr auto kLong = 120s;

// Sums of many are exact: they stay far below 2^24.
float gradient_of(std::uint64_t step, std::uint32_t lane) {
  return std::ldexp(1.0F, static_cast<int>((step * 5 + lane) % 7));
}

ServerPlan small_plan(Consistency consistency, std::uint32_t servers, std::uint32_t copies) {
  ServerPlan plan;
  plan.layout = model::FlatLayout({{"first", {50000}}, {"second", {40000}}, {"third", {17}}});
  plan.buffers.add("mean", model::Dtype::kF32, {3}, 12);
  plan.optimizer = compute::Sgd{.lr = 1};
  plan.rules.resize(3);
  plan.chunk_floats = model::kBlockFloats;
  plan.lanes = kLanes;
  plan.phases = {{0, consistency}};
  plan.bound = 2;
  plan.workers = kWorkers;
  plan.servers = servers;
  plan.copies = copies;
  return plan;
}

// A job of which only servers and clients exist.
class Job {
 public:
  // plan.servers is the most; so many processes at first, or all.
  explicit Job(ServerPlan plan, int processes = 0, const std::string& failpoints = "")
      : plan_(std::move(plan)), chunks_(plan_.chunks()), store_(comm::make_file_store(folder_.path() / "store")) {
    if (plan_.snapshot_seconds > 0) plan_.folder = folder_.path().string();
    plan_.event_log = (folder_.path() / "events").string();
    launch::ServerKeeperOptions options;
    options.command = {MUSTER_PROGRAM, {"server"}, {}};
    if (!failpoints.empty()) options.command.environment["MUSTER_FAILPOINTS"] = failpoints;
    options.servers = processes > 0 ? processes : static_cast<int>(plan_.servers);
    options.tell = [](const std::string& message) { fmt::print(stderr, "{}\n", message); };
    wanted_ = options.servers;
    keeper_.emplace(options, folder_.path() / "store");
    put_token(*store_, plan_);
    put_plan(*store_, plan_);
    keeping_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        {
          const std::scoped_lock lock(mutex_);
          try {
            keeper_->look();
          } catch (const Error& error) {
            failure_ = error.what();
            return;
          }
        }
        std::this_thread::sleep_for(2ms);  // sleeps: between two looks of the keeper
      }
    });
    Client client(client_options(0));
    client.find_servers(Deadline::after(kLong));
    std::vector<float> zeros(plan_.layout.size());
    std::vector<std::uint64_t> updates(3);
    for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      const auto packed = pack_chunk(chunks_[chunk], {}, {zeros, {zeros, zeros}, updates}, slots());
      client.write_chunk(chunk, Shard::first_state(packed), most(), Deadline::after(kLong));
    }
    const std::vector<std::byte> buffers(plan_.buffers.bytes);
    client.write_chunk(book(), Book::first_state(plan_, 0, buffers), most(), Deadline::after(kLong));
  }

  ClientOptions client_options(std::uint32_t number) const {
    return {number, store_, job_transport(*store_, plan_, Deadline::after(kLong)).connect};
  }
  std::size_t most() const { return plan_.limits().most_body; }
  std::uint32_t book() const { return static_cast<std::uint32_t>(chunks_.size()); }
  const ServerPlan& plan() const { return plan_; }
  std::size_t slots() const { return static_cast<std::size_t>(compute::make_optimizer(plan_.optimizer)->slots()); }
  const std::vector<ServerChunk>& chunks() const { return chunks_; }
  const std::shared_ptr<comm::Store>& store() const { return store_; }
  std::filesystem::path events() const { return plan_.event_log; }
  std::string failure() {
    const std::scoped_lock lock(mutex_);
    return failure_;
  }

  // Kills a server that lives; false if none does. One after the other: a server that dies again and again as soon as
  // it is there is left alone for a while.
  bool kill_one() {
    const std::scoped_lock lock(mutex_);
    std::vector<std::int32_t> pids = keeper_->pids();
    for (std::size_t tries = 0; tries < pids.size(); ++tries) {
      const std::int32_t pid = pids[victim_++ % pids.size()];
      if (pid != 0) return ::kill(pid, SIGKILL) == 0;
    }
    return false;
  }

  void kill(std::uint32_t server) {
    const std::scoped_lock lock(mutex_);
    ASSERT_EQ(::kill(keeper_->pids()[server], SIGKILL), 0);
  }

  int processes() {
    const std::scoped_lock lock(mutex_);
    const std::vector<std::int32_t> pids = keeper_->pids();
    return static_cast<int>(std::count_if(pids.begin(), pids.end(), [](std::int32_t pid) { return pid != 0; }));
  }

  // The last server is to go, and dies before it could.
  void leave_and_kill(std::uint32_t server) {
    const std::scoped_lock lock(mutex_);
    wanted_ = static_cast<int>(server);
    keeper_->set_servers(wanted_);
    keeper_->look();
    if (const std::int32_t pid = keeper_->pids()[server]; pid != 0) {
      ASSERT_EQ(::kill(pid, SIGKILL), 0);
    }
  }

  // Changes how many there are, and waits until all is where it should be.
  void scale(int servers) {
    {
      const std::scoped_lock lock(mutex_);
      keeper_->set_servers(servers);
      wanted_ = servers;
    }
    wait_until_settled(0);
  }

  // Until all servers live that should and nothing is to be moved, by a later map than `generation`; its generation.
  std::uint64_t wait_until_settled(std::uint64_t generation) {
    ServerMaps maps(store_);
    const auto settled = [&] {
      maps.look();
      const control::ServerMap& map = maps.current();
      const auto living =
          std::count_if(map.servers.begin(), map.servers.end(), [](const auto& seat) { return !seat.address.empty(); });
      return map.generation > generation && living == wanted_ && !map.unsettled();
    };
    bool done = false;
    EXPECT_TRUE(testing::eventually([&] { return (done = settled()) || !failure().empty(); }, Deadline::after(kLong)));
    EXPECT_TRUE(done) << failure() << maps.current().to_text();
    return done ? maps.current().generation : 0;
  }

 private:
  TemporaryFolder folder_{"muster-test-"};
  ServerPlan plan_;
  std::vector<ServerChunk> chunks_;
  std::shared_ptr<comm::Store> store_;
  std::mutex mutex_;
  std::optional<launch::ServerKeeper> keeper_;
  std::string failure_;
  std::size_t victim_ = 0;
  int wanted_ = 0;  // servers
  std::jthread keeping_;
};

// How far workers go: as far as it takes, and all equally far.
struct Goal {
  std::atomic<std::uint64_t> begun = 0;  // highest step
  std::atomic<std::uint64_t> steps = ~std::uint64_t{0};

  void end_soon() { steps = begun + 2; }
};

LeaseRequest lease_of(std::uint32_t worker, std::uint64_t step) {
  return {Want::kLane, step, kLanes, worker, kWorkers, 1};
}

PushEntryRequest entry_of(std::uint64_t step, const LeaseReply& granted) {
  return {.step = step, .lane = granted.lane, .lanes = kLanes, .leased_version = granted.updates};
}

// A worker as the strategy is one: leases lanes, pushes every chunk, writes the lane into the book.
void work(Job& job, std::uint32_t number, Goal& goal) {
  Client client(job.client_options(number));
  client.find_servers(Deadline::after(kLong));
  std::vector<float> gradient(job.plan().layout.size());
  std::vector<float> pulled(job.plan().layout.size());
  const std::vector<std::byte> buffers(job.plan().buffers.bytes);
  for (std::uint64_t step = 0; step < goal.steps; ++step) {
    for (std::uint64_t begun = goal.begun; begun < step && !goal.begun.compare_exchange_weak(begun, step);)
      ;
    const Deadline deadline = Deadline::after(kLong);
    for (;;) {
      const Reply answer = client.call(job.book(), lease_of(number, step), {}, {}, deadline);
      if (answer.status == Status::kWait) continue;
      const LeaseReply granted = details_of<LeaseReply>(answer);
      if (granted.grant != Grant::kLane) break;
      std::fill(gradient.begin(), gradient.end(), gradient_of(step, granted.lane));
      std::vector<Client::Ticket> tickets;
      for (std::uint32_t chunk = 0; chunk < job.chunks().size(); ++chunk) {
        const ServerChunk& place = job.chunks()[chunk];
        tickets.push_back(client.start(chunk, PullRequest{}, {},
                                       std::as_writable_bytes(std::span(pulled).subspan(place.begin, place.floats())),
                                       deadline));
        const PushLaneRequest push{.step = step, .lane = granted.lane, .lanes = kLanes, .rate = 1};
        tickets.push_back(client.start(
            chunk, push, std::as_bytes(std::span(gradient).subspan(place.begin, place.floats())), {}, deadline));
      }
      for (const Client::Ticket ticket : tickets)
        client.finish(ticket, deadline);
      client.call(job.book(), entry_of(step, granted), buffers, {}, deadline);
    }
  }
}

// Nobody began a step more than `bound` ahead of the first one with an unfinished lane, and every lane is in the log:
// once by each process that had the book. The second to say it is one that took over from a server that was lost before
// anybody had learned of it, so of `losses` there are at most as many as workers. Pure, from the log alone.
void check_events(const std::filesystem::path& file, std::uint64_t steps, std::uint64_t bound, int losses) {
  using Process = std::pair<int, int>;
  std::map<std::uint64_t, std::map<std::uint64_t, std::set<Process>>> done;
  int again = 0;
  std::uint64_t floor = 0;
  std::istringstream lines(read_text(file, 1 << 26));
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line);
    const auto step = event.at("step").get<std::uint64_t>();
    while (done[floor].size() == kLanes)
      ++floor;
    if (event.at("event") == "lease") {
      ASSERT_LE(step, floor + bound) << line;
    } else if (event.at("event") == "push") {
      std::set<Process>& said_by = done[step][event.at("lane").get<std::uint64_t>()];
      again += said_by.empty() ? 0 : 1;
      const Process process{event.at("server").get<int>(), event.at("attempt").get<int>()};
      ASSERT_TRUE(said_by.insert(process).second) << "applied twice: " << line;
    }
  }
  EXPECT_LE(again, losses * static_cast<int>(kWorkers));
  for (std::uint64_t step = 0; step < steps; ++step)
    ASSERT_EQ(done[step].size(), kLanes) << "step " << step;
}

// Steps that all workers did until `disturb` was over; that is called until it is false.
std::uint64_t train_while(Job& job, const std::function<bool()>& disturb) {
  Goal goal;
  std::vector<std::jthread> workers;
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker)
    workers.emplace_back([&, worker] {
      try {
        work(job, worker, goal);
      } catch (const Error& error) {
        ADD_FAILURE() << "worker " << worker << ": " << error.what();
        goal.steps = 0;
      }
    });
  while (goal.steps != 0 && disturb()) {
  }
  goal.end_soon();
  workers.clear();
  return goal.steps;
}

// While servers were killed, each when those before were back.
std::uint64_t train_under_fire(Job& job, int kills) {
  std::mt19937 random(7);
  // With two copies one loss at a time is what is promised to be survived.
  std::uint64_t settled = job.wait_until_settled(0);
  return train_while(job, [&] {
    if (kills-- <= 0 || settled == 0) return false;
    // sleeps: long enough that a server has lasted when it is its turn again
    std::this_thread::sleep_for(std::chrono::milliseconds(400 + random() % 100));
    EXPECT_TRUE(job.kill_one());
    settled = job.wait_until_settled(settled);
    return true;
  });
}

// Five in a run of all tests; as many as asked for by one who has time.
int wanted_kills() {
  const char* asked = std::getenv("MUSTER_TEST_KILLS");
  return asked != nullptr ? std::atoi(asked) : 5;
}

void expect_every_lane_once(Job& job, std::uint64_t steps) {
  Client client(job.client_options(0));
  client.find_servers(Deadline::after(kLong));
  std::vector<float> parameters(job.plan().layout.size());
  std::vector<float> slot(job.plan().layout.size());
  std::vector<std::uint64_t> updates(3);
  for (std::uint32_t chunk = 0; chunk < job.chunks().size(); ++chunk) {
    const std::vector<std::byte> state = client.read_chunk(chunk, job.most(), Deadline::after(kLong));
    const ChunkHistory history =
        unpack_chunk(job.chunks()[chunk], Shard::packed_part(state), {parameters, {slot, slot}, updates}, job.slots());
    EXPECT_EQ(history.version, steps * kLanes) << "chunk " << chunk;
    EXPECT_EQ(history.lanes.floor(), steps) << "chunk " << chunk;
  }
  if (job.slots() > 0) return;  // what they come to depends on the order
  float sum = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      sum += gradient_of(step, lane);
  }
  ASSERT_LT(sum, 0x1.0p24F) << "no exact sum any more";
  for (const model::TensorSlot& tensor : job.plan().layout.tensors()) {
    for (std::uint64_t at = tensor.offset; at < tensor.offset + tensor.count; ++at)
      ASSERT_EQ(parameters[at], -sum) << tensor.name << " at " << at;
  }
}

// Everything that the servers have, while nobody pushes.
std::vector<std::vector<std::byte>> states_of(Job& job) {
  Client client(job.client_options(0));
  client.find_servers(Deadline::after(kLong));
  std::vector<std::vector<std::byte>> states;
  for (std::uint32_t chunk = 0; chunk <= job.book(); ++chunk)
    states.push_back(client.read_chunk(chunk, job.most(), Deadline::after(kLong)));
  return states;
}

// Who takes a dead primary's place has what that had, byte by byte. Every server has its turn to die.
void expect_copies_agree(Job& job) {
  std::uint64_t settled = job.wait_until_settled(0);
  const std::vector<std::vector<std::byte>> expected = states_of(job);
  for (std::uint32_t server = 0; server < job.plan().servers && settled != 0; ++server) {
    job.kill(server);
    settled = job.wait_until_settled(settled);
    const std::vector<std::vector<std::byte>> found = states_of(job);
    for (std::size_t chunk = 0; chunk < expected.size(); ++chunk)
      EXPECT_TRUE(found[chunk] == expected[chunk]) << "chunk " << chunk << " without server " << server;
  }
}

Json report_of(Client& client, std::uint32_t chunk) {
  std::vector<std::byte> text(4096);
  const Reply reply = client.call(chunk, ReportRequest{}, {}, text, Deadline::after(kLong));
  return Json::parse(std::string(reinterpret_cast<const char*>(text.data()), reply.bytes));
}

class ServerLoss : public ::testing::TestWithParam<Consistency> {};

TEST_P(ServerLoss, WithTwoCopiesNoAcknowledgedUpdateIsLostOrDoubled) {
  Job job(small_plan(GetParam(), 3, 2));
  const std::uint64_t steps = train_under_fire(job, wanted_kills());
  EXPECT_EQ(job.failure(), "");
  expect_every_lane_once(job, steps);
  if (GetParam() == Consistency::kSsp) check_events(job.events(), steps, job.plan().bound, wanted_kills());
}

// Gradients of three workers arrive in another order at every chunk, and with momentum that shows.
TEST_P(ServerLoss, PrimaryAndCopiesApplyUpdatesInOneOrder) {
  ServerPlan plan = small_plan(GetParam(), 3, 2);
  plan.optimizer = compute::Sgd{.lr = 1, .momentum = 0.9};
  Job job(std::move(plan));
  const std::uint64_t steps = train_under_fire(job, 2);
  EXPECT_EQ(job.failure(), "");
  expect_every_lane_once(job, steps);
  expect_copies_agree(job);
}

INSTANTIATE_TEST_SUITE_P(Modes, ServerLoss, ::testing::Values(Consistency::kAsp, Consistency::kSsp),
                         [](const auto& info) { return std::string(to_string(info.param)); });

// The log is what the staleness bound is proved by: what a copy has got is in it, whoever dies then.
TEST(ServerLossOfTheBook, TheEventLogHasWhatItsCopyHas) {
  constexpr std::uint64_t kSteps = 20;
  // Only the primary of the book sends so much: here nothing but the book is pushed to.
  Job job(small_plan(Consistency::kSsp, 2, 2), 0, "server.copy.sent=kill@call=30,attempt=0");
  Client client(job.client_options(0));
  client.find_servers(Deadline::after(kLong));
  const std::uint64_t settled = job.wait_until_settled(0);
  const std::vector<std::byte> buffers(job.plan().buffers.bytes);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    for (std::uint32_t lane = 0; lane < kLanes;) {
      const Reply answer = client.call(job.book(), lease_of(0, step), {}, {}, Deadline::after(kLong));
      if (answer.status == Status::kWait) continue;
      const LeaseReply granted = details_of<LeaseReply>(answer);
      ASSERT_EQ(granted.grant, Grant::kLane);
      client.call(job.book(), entry_of(step, granted), buffers, {}, Deadline::after(kLong));
      ++lane;
    }
  }
  EXPECT_GT(job.wait_until_settled(settled), settled);  // it was killed
  check_events(job.events(), kSteps, job.plan().bound, 1);
}

TEST(ServerLossOverGrpc, WithTwoCopiesNoAcknowledgedUpdateIsLostOrDoubled) {
  ServerPlan plan = small_plan(Consistency::kAsp, 3, 2);
  plan.grpc = true;
  Job job(std::move(plan));
  const std::uint64_t steps = train_under_fire(job, 2);
  EXPECT_EQ(job.failure(), "");
  expect_every_lane_once(job, steps);
}

// Names of abstract sockets are seen by every user, and those of the dead are free.
class ServerLossToAnotherUser : public ::testing::TestWithParam<bool> {};

TEST_P(ServerLossToAnotherUser, WhoTakesTheNameOfADeadServerGetsNothingAndTheJobGoesOn) {
  if (!testing::OtherUser::possible()) GTEST_SKIP() << "needs root to become another user";
  ServerPlan plan = small_plan(Consistency::kAsp, 3, 2);
  plan.grpc = GetParam();
  Job job(std::move(plan));
  const std::uint64_t settled = job.wait_until_settled(0);
  ServerMaps maps(job.store());
  maps.look();
  std::string name = maps.current().servers[1].address;
  if (job.plan().grpc) name = name.substr(name.find(':') + 1);
  testing::OtherUser::Heard heard;
  const std::uint64_t steps = train_while(job, [&] {
    std::this_thread::sleep_for(50ms);  // sleeps: while it trains
    job.kill(1);
    testing::OtherUser other(name, job.plan().grpc ? SOCK_STREAM : SOCK_SEQPACKET);
    job.wait_until_settled(settled);
    heard = other.heard();
    return false;
  });
  EXPECT_EQ(job.failure(), "");
  EXPECT_EQ(heard.bytes, "") << "of " << heard.connections << " connections";
  expect_every_lane_once(job, steps);
}

INSTANTIATE_TEST_SUITE_P(Transports, ServerLossToAnotherUser, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "grpc" : "shm"; });

// Also the only copy of a chunk moves, while it is pushed to.
class ServerScaling : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(ServerScaling, ServersComeAndGoUnderLoadAndNoUpdateIsLostOrDoubled) {
  const std::uint32_t copies = GetParam();
  ServerPlan plan = small_plan(Consistency::kSsp, 4, copies);
  plan.snapshot_seconds = 0.02;  // what was written down before a chunk moved must not come back
  Job job(std::move(plan), 2);
  const std::vector<int> numbers{4, 2, 3, static_cast<int>(copies), 3};
  auto next = numbers.begin();
  const std::uint64_t steps = train_while(job, [&] {
    std::this_thread::sleep_for(50ms);  // sleeps: while it trains
    job.scale(*next);
    return ++next != numbers.end();
  });
  EXPECT_EQ(job.failure(), "");
  EXPECT_EQ(job.processes(), 3);
  expect_every_lane_once(job, steps);
  check_events(job.events(), steps, job.plan().bound, 0);
  Client client(job.client_options(0));
  client.find_servers(Deadline::after(kLong));
  for (std::uint32_t chunk = 0; chunk < job.chunks().size(); ++chunk) {
    const Json counted = report_of(client, chunk);
    EXPECT_EQ(counted.at("lost_updates"), 0) << "chunk " << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Copies, ServerScaling, ::testing::Values(1U, 2U));

TEST(ServerScalingAndLoss, AServerThatDiesWhileItIsLeavingTakesNothingWithIt) {
  Job job(small_plan(Consistency::kAsp, 3, 2));
  const std::uint64_t steps = train_while(job, [&] {
    std::this_thread::sleep_for(50ms);  // sleeps: while it trains
    job.leave_and_kill(2);
    job.wait_until_settled(1);
    return false;
  });
  EXPECT_EQ(job.failure(), "");
  EXPECT_EQ(job.processes(), 2);
  expect_every_lane_once(job, steps);
}

// What a server that was the primary of a chunk still had to send when it no longer was must not go over what the next
// one has done.
TEST(ServerFencing, OnlyThePrimaryOfAChunkWritesToItsCopies) {
  Job job(small_plan(Consistency::kAsp, 3, 1), 2);
  Client client(job.client_options(0));
  client.find_servers(Deadline::after(kLong));
  const std::vector<std::byte> old = client.read_chunk(0, job.most(), Deadline::after(kLong));
  const std::vector<float> ones(job.chunks()[0].floats(), 1.0F);
  const PushUpdateRequest push{.rate = 1};
  ASSERT_EQ(client.call(0, push, std::as_bytes(std::span(ones)), {}, Deadline::after(kLong)).version, 1U);

  // The third server is none yet: this test takes its place.
  const std::string address = client.map().servers[*client.map().primary(0)].address;
  const auto other = connect_shm(address, kWorkers + 2, Deadline::after(kLong));
  const Request fill{.generation = client.map().generation, .verb = FillRequest{0, old.size()}};
  ASSERT_LE(old.size(), job.most());
  const auto call = other->start(fill, old, {}, Deadline::after(kLong));
  EXPECT_EQ(other->wait(call, Deadline::after(kLong)).status, Status::kStale);
  std::vector<float> pulled(ones.size());
  EXPECT_EQ(
      client.call(0, PullRequest{}, {}, std::as_writable_bytes(std::span(pulled)), Deadline::after(kLong)).version, 1U);
}

// Nobody sees from outside that it does nothing: its process runs.
TEST(ServerThatSpins, IsEndedAndReplaced) {
  Job job(small_plan(Consistency::kAsp, 3, 2), 0, "server.push.before_copies=spin@rank=1,call=20,attempt=0");
  const std::uint64_t settled = job.wait_until_settled(0);
  const std::uint64_t steps = train_while(job, [&] {
    job.wait_until_settled(settled);
    return false;
  });
  EXPECT_EQ(job.failure(), "");
  expect_every_lane_once(job, steps);
}

// Neither stopped, nor does it need the processor. It takes as long as a server may be asleep in a call.
TEST(ServerThatIsBlocked, IsEndedAndReplaced) {
  Job job(small_plan(Consistency::kAsp, 3, 2), 0, "server.push.before_copies=delay=600000@rank=1,call=20,attempt=0");
  const std::uint64_t settled = job.wait_until_settled(0);
  const std::uint64_t steps = train_while(job, [&] {
    job.wait_until_settled(settled);
    return false;
  });
  EXPECT_EQ(job.failure(), "");
  expect_every_lane_once(job, steps);
}

TEST(ServerLossOfAllCopies, EndsTheJobWithARemedy) {
  Job job(small_plan(Consistency::kAsp, 2, 2));
  ASSERT_TRUE(job.kill_one());
  ASSERT_TRUE(job.kill_one() || job.kill_one());
  EXPECT_TRUE(testing::eventually(
      [&] {
        job.kill_one();
        return !job.failure().empty();
      },
      Deadline::after(kLong)));
  EXPECT_NE(job.failure().find("--resume"), std::string::npos) << job.failure();
}

TEST(ServerLossOfThePrimary, ItsSuccessorKnowsTheUpdatesOfEveryClient) {
  Job job(small_plan(Consistency::kAsp, 2, 2));
  Client client(job.client_options(1));
  client.find_servers(Deadline::after(kLong));
  const std::vector<float> ones(job.chunks()[0].floats(), 1.0F);
  const auto push = [&](std::uint64_t id) {
    const PushUpdateRequest update{.update = id, .rate = 1};
    return client.call(0, update, std::as_bytes(std::span(ones)), {}, Deadline::after(kLong));
  };
  for (std::uint64_t id = 0; id < 10; ++id)
    EXPECT_EQ(push(id).version, id + 1);
  const std::uint64_t settled = job.wait_until_settled(0);
  job.kill(*client.map().primary(0));
  job.wait_until_settled(settled);
  const Reply repeated = push(9);
  EXPECT_EQ(repeated.status, Status::kDuplicate);
  EXPECT_EQ(repeated.version, 10U);
}

TEST(ServerLossOfTheOnlyCopy, IsReportedExactly) {
  ServerPlan plan = small_plan(Consistency::kAsp, 1, 1);
  plan.snapshot_seconds = 0.02;
  Job job(std::move(plan));
  Client client(job.client_options(1));
  client.find_servers(Deadline::after(kLong));
  const std::vector<float> ones(job.plan().layout.size(), 1.0F);
  const auto push = [&](std::uint64_t id) {
    const PushUpdateRequest update{.update = id, .rate = 1};
    const ServerChunk& place = job.chunks()[0];
    return client.call(0, update, std::as_bytes(std::span(ones).subspan(place.begin, place.floats())), {},
                       Deadline::after(kLong));
  };
  for (std::uint64_t id = 0; id < 100; ++id)
    push(id);
  const std::filesystem::path snapshot = std::filesystem::path(job.plan().folder) / "server-0" / "chunk-0";
  ASSERT_TRUE(testing::eventually([&] { return std::filesystem::exists(snapshot); }, Deadline::after(kLong)));
  for (std::uint64_t id = 100; id < 300; ++id)
    push(id);
  ASSERT_TRUE(job.kill_one());
  std::vector<float> pulled(job.chunks()[0].floats());
  const Reply after =
      client.call(0, PullRequest{}, {}, std::as_writable_bytes(std::span(pulled)), Deadline::after(kLong));
  const Json counted = report_of(client, 0);
  EXPECT_EQ(counted.at("lost_updates").get<std::uint64_t>(), 300 - after.version);
  EXPECT_EQ(pulled[0], -static_cast<float>(after.version));
}

}  // namespace
}  // namespace muster::strategies
