// A parameter server among others that a test plays: it sends what they would send, and answers when it likes.
#include "muster/strategies/parameter_server/server.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/control/server_map.h"
#include "muster/strategies/parameter_server/book.h"
#include "muster/strategies/parameter_server/chunk_state.h"
#include "muster/strategies/parameter_server/server_thread.h"
#include "muster/strategies/parameter_server/server_watch.h"
#include "muster/strategies/parameter_server/shard.h"
#include "muster/strategies/parameter_server/shm_transport.h"
#include "muster/strategies/parameter_server/table_shard.h"

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
  void start(std::uint32_t number, ServerOptions options = {}) {
    put_plan(*store_, plan_);
    options.number = number;
    options.store = store_;
    server_.emplace(std::move(options));
    address_ = store_->get(control::server_key(number, 0), soon());
    seats_ = {{other_->address(), 0}, {other_->address(), 0}};
    seats_[number].address = address_;
  }
  void publish(std::uint64_t generation, std::vector<std::vector<control::ChunkHolder>> chunks) {
    const control::ServerMap map{generation, plan_.copies, seats_, std::move(chunks)};
    store_->set(control::map_key(generation), map.to_text());
  }
  std::unique_ptr<Connection> connect(std::uint32_t client) { return connect_shm(address_, client, soon()); }
  static Reply call(Connection& connection, const Request& request, std::span<const std::byte> body = {},
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
    other_->reply(call.handle, {.status = status}, {});
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

  ServerPlan plan_ = plan_of_two();
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
  Request fill{.generation = 1, .chunk = kChunk, .verb = FillRequest{0, state.size()}};
  ASSERT_EQ(call(*primary, fill, state).status, Status::kDone);
  // Both at once: a map is looked for behind the last one that is known.
  publish(3, {{{0}, {1, true}}, {{0}, {1}}});
  publish(2, {{{0}}, {{0}, {1}}});
  const auto worker = connect(0);
  const Reply answer = call(*worker, {.generation = 3, .chunk = kChunk, .verb = PullRequest{}});
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
  Request fill{.generation = 2, .chunk = kChunk, .verb = FillRequest{0, state.size()}};
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
  const Request write{.generation = 1, .chunk = kBook, .verb = WriteRequest{0, book.size()}};
  const auto written = first->start(write, book, {}, soon());
  answer(next());
  ASSERT_EQ(first->wait(written, soon()).status, Status::kDone);

  const Request push{.generation = 1, .chunk = kBook, .verb = PushEntryRequest{.lanes = 1}};
  const auto pushed = first->start(push, {}, {}, soon());
  const Incoming copied = next();
  ASSERT_EQ(copied.request.verb, push.verb);
  ASSERT_EQ(copied.request.passed_on_for, 0U);

  // The copy has not got the lane.
  const Request settled{.generation = 1, .chunk = kBook, .verb = LeaseRequest{Want::kSettled, 1, 1, 1, kWorkers}};
  const Request pull{.generation = 1, .chunk = kBook, .verb = PullBuffersRequest{.settled_step = 1}};
  const auto asked = second->start(settled, {}, {}, soon());
  const auto pulled = second->start(pull, {}, {}, soon());
  // Whose answer depends on nothing: when it is there, the server has looked at those before.
  const Request nonsense{.generation = 1, .chunk = 99, .verb = LeaseRequest{}};
  for (int turn = 0; turn < 3; ++turn)
    EXPECT_EQ(call(*second, nonsense).status, Status::kRefused);
  EXPECT_FALSE(second->done(asked)) << "it was told that the step is over";
  EXPECT_FALSE(second->done(pulled)) << "it was given what comes of the step";
  EXPECT_FALSE(first->done(pushed));

  answer(copied);
  EXPECT_EQ(first->wait(pushed, soon()).status, Status::kDone);
  const Reply told = second->wait(asked, soon());
  EXPECT_EQ(told.status, Status::kDone);
  EXPECT_EQ(details_of<LeaseReply>(told).floor, 1U);
  EXPECT_EQ(second->wait(pulled, soon()).status, Status::kDone);
}

// A connection on which the first answer is nonsense.
class NonsenseFirst final : public Connection {
 public:
  NonsenseFirst(std::unique_ptr<Connection> good, int& turns) : good_(std::move(good)), turns_(turns) {}

  std::optional<Call> try_start(const Request& request, std::span<const std::byte> body,
                                std::span<std::byte> reply) override {
    return good_->try_start(request, body, reply);
  }
  bool done(Call call) override { return good_->done(call); }
  Reply wait(Call call, const Deadline& deadline) override {
    if (turns_++ == 0) throw Error(ErrorKind::kDamaged, "a message of kind 99");
    return good_->wait(call, deadline);
  }
  void pause(const Deadline& deadline) override { good_->pause(deadline); }

 private:
  const std::unique_ptr<Connection> good_;
  int& turns_;
};

TEST_F(ServerAmongOthers, ACopyThatAnswersNonsenseIsAskedAgain) {
  int turns = 0;
  ServerOptions options;
  options.connect = [&](const std::string& address, std::uint32_t client, const Deadline& deadline) {
    return std::make_unique<NonsenseFirst>(connect_shm(address, client, deadline), turns);
  };
  start(0, std::move(options));
  publish(1, {{{0}, {1}}, {{0}, {1}}});
  const auto worker = connect(0);
  const std::vector<std::byte> state = first_chunk();
  const Request write{.generation = 1, .chunk = kChunk, .verb = WriteRequest{0, state.size()}};
  const auto written = worker->start(write, state, {}, soon());
  answer(next());
  answer(next());
  EXPECT_EQ(worker->wait(written, soon()).status, Status::kDone);
  server_.reset();
  EXPECT_EQ(turns, 2);
}

// Of a server alone, with a chunk of parameters, the book and a partition.
class ServerOfEveryKind : public ServerAmongOthers {
 protected:
  ServerOfEveryKind() {
    plan_.copies = 1;
    plan_.tables = {{{.name = "words", .width = 3}, 1}};
    start(0);
    publish(1, {{{0}}, {{0}}, {{0}}});
    worker_ = connect(0);
  }
  Reply ask(std::uint32_t chunk, const Verb& verb, std::span<const std::byte> body = {}) {
    return call(*worker_, {.generation = 1, .chunk = chunk, .verb = verb}, body, reply_);
  }
  void expect_refused(std::uint32_t chunk, const Verb& verb, const std::string& words) {
    const Reply answer = ask(chunk, verb);
    EXPECT_EQ(answer.status, Status::kRefused) << name_of(verb) << " of chunk " << chunk;
    const std::string reason(reinterpret_cast<const char*>(reply_.data()), answer.bytes);
    EXPECT_NE(reason.find(words), std::string::npos) << reason;
  }
  std::vector<std::vector<std::byte>> first_states() const {
    return {first_chunk(), Book::first_state(plan_, 0, {}), TableShard::first_state(plan_.tables[0].options)};
  }

  std::unique_ptr<Connection> worker_;
  std::vector<std::byte> reply_ = std::vector<std::byte>(4096);
};

TEST_F(ServerOfEveryKind, AVerbIsForTheKindOfChunkThatUnderstandsIt) {
  const std::vector<std::vector<std::byte>> states = first_states();
  for (std::uint32_t chunk = 0; chunk < states.size(); ++chunk) {
    EXPECT_EQ(ask(chunk, ReadRequest{}).status, Status::kWait) << "it has not come yet";
    ASSERT_EQ(ask(chunk, WriteRequest{0, states[chunk].size()}, states[chunk]).status, Status::kDone) << chunk;
    EXPECT_EQ(details_of<ReadReply>(ask(chunk, ReadRequest{})).total, states[chunk].size()) << chunk;
    EXPECT_EQ(details_of<ReportReply>(ask(chunk, ReportRequest{})).next_update, 0U);
    EXPECT_EQ(ask(chunk, KeepRequest{}).status, Status::kDone);
  }
  const std::vector<std::pair<ChunkKind, Verb>> special{{ChunkKind::kParameters, PullRequest{}},
                                                        {ChunkKind::kParameters, PushLaneRequest{}},
                                                        {ChunkKind::kParameters, PushUpdateRequest{}},
                                                        {ChunkKind::kParameters, RecordsRequest{}},
                                                        {ChunkKind::kParameters, ApplyRequest{}},
                                                        {ChunkKind::kBook, PullBuffersRequest{}},
                                                        {ChunkKind::kBook, PushEntryRequest{}},
                                                        {ChunkKind::kBook, CloseRequest{}},
                                                        {ChunkKind::kBook, LeaseRequest{}},
                                                        {ChunkKind::kBook, ReopenRequest{}},
                                                        {ChunkKind::kPartition, PullRowsRequest{}},
                                                        {ChunkKind::kPartition, PushRowsRequest{}}};
  for (const auto& [kind, verb] : special) {
    for (std::uint32_t chunk = 0; chunk < states.size(); ++chunk) {
      if (static_cast<std::uint32_t>(kind) != chunk) expect_refused(chunk, verb, "not of the kind");
    }
  }
  const std::int64_t key = 7;
  EXPECT_EQ(ask(0, PullRequest{}).status, Status::kDone);
  EXPECT_EQ(ask(1, PullBuffersRequest{}).status, Status::kDone);
  EXPECT_EQ(ask(2, PullRowsRequest{}, std::as_bytes(std::span(&key, 1))).bytes, 3 * sizeof(float));
}

TEST_F(ServerOfEveryKind, WhatCannotBeRightIsRefusedWithAReason) {
  const std::vector<std::vector<std::byte>> states = first_states();
  for (std::uint32_t chunk = 0; chunk < states.size(); ++chunk)
    expect_refused(chunk, WriteRequest{0, 0}, "the state of a chunk ends too early");
  EXPECT_EQ(ask(1, LeaseRequest{}).status, Status::kWait) << "a book that could not be written is none";
  for (std::uint32_t chunk = 0; chunk < states.size(); ++chunk)
    ASSERT_EQ(ask(chunk, WriteRequest{0, states[chunk].size()}, states[chunk]).status, Status::kDone) << chunk;
  for (const std::uint32_t chunk : {3U, 99U, ~0U})
    expect_refused(chunk, PullRequest{}, "no such chunk");
  expect_refused(0, WriteRequest{5, 4}, "outside of its state");
  expect_refused(0, WriteRequest{5, 9}, "is missing");
  expect_refused(0, ReadRequest{~std::uint64_t{0}}, "shorter");
  expect_refused(0, FillRequest{}, "only servers copy");
  expect_refused(1, ReopenRequest{}, "only servers reopen");
  expect_refused(1, LeaseRequest{.lanes = 99}, "99 lanes");
  Request passed_on{.generation = 1, .chunk = 2, .passed_on_for = 0, .verb = PushRowsRequest{}};
  EXPECT_EQ(call(*worker_, passed_on).status, Status::kRefused) << "a worker passes nothing on";
  // Nor does a server for clients that there are not.
  const auto server = connect(kWorkers + 1);
  passed_on.passed_on_for = kWorkers + 2;
  EXPECT_EQ(call(*server, passed_on).status, Status::kRefused);
}

TEST(TurnJudge, ATurnThatUsesUpTheProcessorIsOneTooMany) {
  TurnJudge judge;
  EXPECT_FALSE(judge.stuck(std::nullopt)) << "it does not run";
  EXPECT_FALSE(judge.stuck(Server::Progress{5, seconds(100)}));
  EXPECT_FALSE(judge.stuck(Server::Progress{5, seconds(100) + kMostOfATurn})) << "it had no more time than a turn may";
  EXPECT_FALSE(judge.stuck(Server::Progress{6, seconds(200)})) << "it gets on";
  EXPECT_FALSE(judge.stuck(Server::Progress{6, seconds(201)}));
  EXPECT_EQ(judge.stuck(Server::Progress{6, seconds(201) + kMostOfATurn}), "a parameter server spins");
  EXPECT_FALSE(judge.stuck(std::nullopt)) << "it has ended";
  EXPECT_FALSE(judge.stuck(Server::Progress{6, seconds(300)})) << "another one";
}

TEST(TurnJudge, ATurnInWhichItSleepsOnAndOnIsOneTooMany) {
  TurnJudge judge;
  const auto looks = [&](std::uint64_t turn, bool asleep, int count) {
    for (int look = 0; look < count; ++look)
      if (judge.stuck(Server::Progress{turn, seconds(1), asleep})) return true;
    return false;
  };
  for (std::uint64_t turn = 0; turn < 3 * kMostAsleep; ++turn)
    EXPECT_FALSE(looks(turn, true, 1)) << "idle, but it gets on";
  EXPECT_FALSE(looks(1000, true, kMostAsleep));
  EXPECT_FALSE(looks(1001, false, 10 * kMostAsleep)) << "it wants to run, or waits for a disk";
  EXPECT_FALSE(looks(1001, true, kMostAsleep));
  EXPECT_FALSE(looks(1001, false, 1));
  EXPECT_FALSE(looks(1001, true, kMostAsleep));
  EXPECT_TRUE(looks(1001, true, 1));
}

}  // namespace
}  // namespace muster::strategies
