// A parameter server among others that a test plays: it sends what they would send, and answers when it likes.
#include "muster/strategies/parameter_server/server.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/control/server_map.h"
#include "muster/strategies/parameter_server/book.h"
#include "muster/strategies/parameter_server/chunk_state.h"
#include "muster/strategies/parameter_server/server_thread.h"
#include "muster/strategies/parameter_server/server_watch.h"
#include "muster/strategies/parameter_server/shm_transport.h"

namespace muster::strategies {
namespace {

using std::chrono::seconds;

constexpr std::uint32_t kWorkers = 2;
constexpr std::uint32_t kChunk = 0;
constexpr std::uint32_t kBook = 1;

Deadline soon() {
  return Deadline::after(seconds(30));
}

ServerPlan plan_of_two() {
  ServerPlan plan;
  plan.layout = model::FlatLayout({{"w", {4}}});
  plan.rules.resize(1);
  plan.optimizer = compute::Sgd{.lr = 1};
  plan.phases = {{0, Consistency::kAsp}};
  plan.workers = kWorkers;
  plan.servers = 2;
  plan.copies = 2;
  return plan;
}

// A job of two servers: one is real, the other is the test.
class ServerAmongOthers : public ::testing::Test {
 protected:
  void start(std::uint32_t number) {
    put_plan(*store_, plan_);
    server_.emplace(ServerOptions{.number = number, .store = store_});
    address_ = store_->get(control::server_key(number, 0), soon());
    seats_ = {{other_->address(), 0}, {other_->address(), 0}};
    seats_[number].address = address_;
  }
  void publish(std::uint64_t generation, std::vector<std::vector<control::ChunkHolder>> chunks) {
    const control::ServerMap map{generation, plan_.copies, seats_, std::move(chunks)};
    store_->set(control::map_key(generation), map.to_text());
  }
  std::unique_ptr<Connection> connect(std::uint32_t client) { return connect_shm(address_, client, soon()); }
  static Header call(Connection& connection, const Header& request, std::span<const std::byte> body = {},
                     std::span<std::byte> reply = {}) {
    return connection.wait(connection.start(request, body, reply, soon()), soon());
  }
  // The next call that comes to the server that the test plays.
  Incoming next() {
    const std::optional<Incoming> call = other_->next(soon());
    if (!call) throw Error(ErrorKind::kTimeout, "nothing came");
    return *call;
  }
  void answer(const Incoming& call, Status status = Status::kDone) {
    Header header = call.request;
    header.status = status;
    other_->reply(call.handle, header, {});
  }
  bool is_set(const std::string& key) {
    try {
      store_->get(key, Deadline::after(std::chrono::nanoseconds(0)));
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  std::vector<std::byte> first_chunk() const {
    std::vector<float> zeros(plan_.layout.size());
    std::vector<std::uint64_t> updates(1);
    return Shard::first_state(pack_chunk(plan_.chunks()[0], {}, {zeros, {}, updates}, 0));
  }

  const ServerPlan plan_ = plan_of_two();
  const std::shared_ptr<comm::Store> store_ = comm::make_memory_store();
  const std::unique_ptr<Inbox> other_ = make_shm_inbox(plan_.limits(), 0);
  std::optional<ServerThread> server_;
  std::string address_;
  std::vector<control::ServerSeat> seats_;
};

// What it had of the chunk is not what the chunk is: others have updated it meanwhile.
TEST_F(ServerAmongOthers, OneThatIsToHaveAChunkAgainIsFilledWhenItHasGotItAgain) {
  start(1);
  publish(1, {{{0}, {1}}, {{0}, {1}}});
  const auto primary = connect(kWorkers + 0);
  const std::vector<std::byte> state = first_chunk();
  Header fill{.verb = Verb::kFill, .generation = 1, .chunk = kChunk, .flags = kCopied, .second = state.size()};
  ASSERT_EQ(call(*primary, fill, state).status, Status::kDone);
  // Both at once: a map is looked for behind the last one that is known.
  publish(3, {{{0}, {1, true}}, {{0}, {1}}});
  publish(2, {{{0}}, {{0}, {1}}});
  const auto worker = connect(0);
  const Header answer = call(*worker, {.verb = Verb::kPull, .generation = 3, .chunk = kChunk});
  ASSERT_EQ(answer.status, Status::kStale);
  ASSERT_EQ(answer.generation, 3U);
  EXPECT_FALSE(is_set(control::filled_key(3, 1))) << "it has what it had before";
  fill.generation = 3;
  EXPECT_EQ(call(*primary, fill, state).status, Status::kDone);
  EXPECT_TRUE(is_set(control::filled_key(3, 1)));
}

// One that takes the place of a server that was lost must not take maps for its own that tell of that one.
TEST_F(ServerAmongOthers, MapsOfItsPredecessorAreNotItsOwn) {
  seats_ = {{other_->address(), 0}, {"gone", 0}};
  publish(1, {{{0}, {1}}, {{0}, {1}}});
  publish(2, {{{0}, {1}}, {{0}, {1}}});
  start(1);
  const auto primary = connect(kWorkers + 0);
  const std::vector<std::byte> state = first_chunk();
  Header fill{.verb = Verb::kFill, .generation = 2, .chunk = kChunk, .flags = kCopied, .second = state.size()};
  EXPECT_EQ(call(*primary, fill, state).status, Status::kWait);
  publish(3, {{{0}, {1, true}}, {{0}, {1}}});
  fill.generation = 3;
  EXPECT_EQ(call(*primary, fill, state).status, Status::kDone);
  EXPECT_TRUE(is_set(control::filled_key(3, 1)));
}

// A worker that was told that a step is over goes on; if the only server that knows it dies then, nobody can be asked.
TEST_F(ServerAmongOthers, TheBookTellsOfNothingThatItsCopyDoesNotHave) {
  start(0);
  publish(1, {{{0}, {1}}, {{0}, {1}}});
  const auto first = connect(0);
  const auto second = connect(1);
  const std::vector<std::byte> book = Book::first_state(plan_, 0, {});
  const Header write{.verb = Verb::kWrite, .generation = 1, .chunk = kBook, .second = book.size()};
  const auto written = first->start(write, book, {}, soon());
  answer(next());
  ASSERT_EQ(first->wait(written, soon()).status, Status::kDone);

  const std::vector<std::byte> entry(sizeof(LaneEntry));
  const Header push{.verb = Verb::kPush, .generation = 1, .chunk = kBook, .first = 1};
  const auto pushed = first->start(push, entry, {}, soon());
  const Incoming copied = next();
  ASSERT_EQ(copied.request.verb, Verb::kPush);

  // The copy has not got the lane.
  const Header settled{.verb = Verb::kLease,
                       .generation = 1,
                       .chunk = kBook,
                       .step = 1,
                       .flags = static_cast<std::uint32_t>(Want::kSettled),
                       .first = 1,
                       .second = 1 | std::uint64_t{kWorkers} << 32};
  const Header pull{.verb = Verb::kPull, .generation = 1, .chunk = kBook, .step = 1, .flags = kExact};
  const auto asked = second->start(settled, {}, {}, soon());
  const auto pulled = second->start(pull, {}, {}, soon());
  // Whose answer depends on nothing: when it is there, the server has looked at those before.
  const Header nonsense{.verb = Verb::kLease, .generation = 1, .chunk = 99};
  for (int turn = 0; turn < 3; ++turn)
    EXPECT_EQ(call(*second, nonsense).status, Status::kRefused);
  EXPECT_FALSE(second->done(asked)) << "it was told that the step is over";
  EXPECT_FALSE(second->done(pulled)) << "it was given what comes of the step";
  EXPECT_FALSE(first->done(pushed));

  answer(copied);
  EXPECT_EQ(first->wait(pushed, soon()).status, Status::kDone);
  const Header told = second->wait(asked, soon());
  EXPECT_EQ(told.status, Status::kDone);
  EXPECT_EQ(told.id, 1U) << "the floor";
  EXPECT_EQ(second->wait(pulled, soon()).status, Status::kDone);
}

TEST(SpinJudge, ATurnThatUsesUpTheProcessorIsOneTooMany) {
  SpinJudge judge;
  EXPECT_FALSE(judge.spins(std::nullopt)) << "it does not run";
  EXPECT_FALSE(judge.spins(Server::Progress{5, seconds(100)}));
  EXPECT_FALSE(judge.spins(Server::Progress{5, seconds(100) + kMostOfATurn})) << "it had no more time than a turn may";
  EXPECT_FALSE(judge.spins(Server::Progress{6, seconds(200)})) << "it gets on";
  EXPECT_FALSE(judge.spins(Server::Progress{6, seconds(201)}));
  EXPECT_TRUE(judge.spins(Server::Progress{6, seconds(201) + kMostOfATurn}));
  EXPECT_FALSE(judge.spins(std::nullopt)) << "it has ended";
  EXPECT_FALSE(judge.spins(Server::Progress{6, seconds(300)})) << "another one";
}

}  // namespace
}  // namespace muster::strategies
