// Clients of parameter servers and connections that answer as a test says.
#include "muster/strategies/parameter_server/client.h"

#include <algorithm>
#include <deque>
#include <span>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/strategies/parameter_server/parameter_client.h"
#include "muster/strategies/parameter_server/patience.h"
#include "support/errors.h"

namespace muster::strategies {
namespace {

using muster::testing::expect_error;

struct Answer {
  Status status = Status::kDone;
  std::string body{};
  std::uint64_t next_update = 0;
  std::uint64_t version = 0;
};

// What servers do: the next answer, nothing while there is none, and what they were asked; and how many connections
// were made and are left.
struct Servers {
  std::deque<Answer> answers;
  std::vector<Request> asked;
  int made = 0;
  int left = 0;
};

class FakeConnection final : public Connection {
 public:
  explicit FakeConnection(Servers& servers) : servers_(servers) {
    ++servers_.made;
    ++servers_.left;
  }
  ~FakeConnection() override { --servers_.left; }

  std::optional<Call> try_start(const Request& request, std::span<const std::byte>,
                                std::span<std::byte> reply) override {
    servers_.asked.push_back(request);
    calls_.push_back(reply);
    return calls_.size() - 1;
  }
  bool done(Call) override { return !servers_.answers.empty(); }
  Reply wait(Call call, const Deadline&) override {
    if (servers_.answers.empty()) throw Error(ErrorKind::kTimeout, "no answer");
    const auto [status, body, next_update, version] = servers_.answers.front();
    servers_.answers.pop_front();
    std::ranges::copy(std::as_bytes(std::span(body)), calls_.at(call).begin());
    return {.status = status, .version = version, .details = ReportReply{next_update}, .bytes = body.size()};
  }
  void pause(const Deadline&) override {}

 private:
  Servers& servers_;
  std::vector<std::span<std::byte>> calls_;
};

class ClientOfServers : public ::testing::Test {
 protected:
  ClientOfServers() {
    store_->set(control::map_key(1), control::first_map(1, 1, {{"here", 0}}).to_text());
    client_.emplace(
        ClientOptions{.store = store_, .connect = [this](const std::string&, std::uint32_t, const Deadline&) {
                        return std::make_unique<FakeConnection>(servers_);
                      }});
    client_->find_servers(Deadline::after(std::chrono::seconds(10)));
  }
  static Deadline at_once() { return Deadline::after(std::chrono::nanoseconds(0)); }

  const std::shared_ptr<comm::Store> store_ = comm::make_memory_store();
  Servers servers_;
  std::optional<Client> client_;
  std::vector<std::byte> reply_ = std::vector<std::byte>(100);
};

TEST_F(ClientOfServers, ARefusalIsToldWithItsReason) {
  servers_.answers = {{Status::kRefused, "it is late"}};
  expect_error(ErrorKind::kMismatch, "parameter server 0 refused \"pull\" of chunk 0: it is late",
               [&] { client_->call(0, PullRequest{}, {}, reply_, at_once()); });
}

// A server in the place of one that was lost may load for longer than any time that was thought of.
TEST_F(ClientOfServers, ACallGoesOnBeyondItsDeadlineAsLongAsSomebodyWatches) {
  int asked = 0;
  int until = 3;
  bool answers = true;
  Client client({.store = store_,
                 .connect = [this](const std::string&, std::uint32_t,
                                   const Deadline&) { return std::make_unique<FakeConnection>(servers_); },
                 .watched =
                     [&] {
                       if (++asked < until) return true;
                       if (answers) servers_.answers = {{Status::kDone, "late"}};
                       return answers;
                     }});
  client.find_servers(at_once());
  EXPECT_EQ(client.call(0, PullRequest{}, {}, reply_, at_once()).bytes, 4U);
  EXPECT_EQ(asked, until);
  asked = 0;
  answers = false;
  expect_error(ErrorKind::kTimeout, "no answer", [&] { client.call(0, PullRequest{}, {}, reply_, at_once()); });
  EXPECT_EQ(asked, until) << "nobody watches any more";
  EXPECT_EQ(servers_.left, 0);
}

// Servers of a job that begins may load for as long as they need, too.
TEST(ClientOfAJobThatBegins, WaitsForServersAsLongAsSomebodyWatches) {
  const auto store = comm::make_memory_store();
  int asked = 0;
  Client client({.store = store, .watched = [&] {
                   if (++asked == 3) store->set(control::map_key(1), control::first_map(1, 1, {{"here", 0}}).to_text());
                   return asked <= 3;
                 }});
  client.find_servers(Deadline::after(std::chrono::nanoseconds(0)));
  EXPECT_EQ(asked, 3);
  Client nobodys({.store = comm::make_memory_store(), .watched = [] { return false; }});
  EXPECT_THROW(nobodys.find_servers(Deadline::after(std::chrono::nanoseconds(0))), Error);
}

TEST(ClientOfALostServer, IsWaitedForAsLongAsSomebodyWatches) {
  const auto store = comm::make_memory_store();
  store->set(control::map_key(1), control::first_map(1, 1, {{"here", 0}}).to_text());
  Servers servers;
  servers.answers = {{Status::kDone, "back"}};
  int asked = 0;
  Client client({.store = store,
                 .connect = [&](const std::string&, std::uint32_t, const Deadline&) -> std::unique_ptr<Connection> {
                   if (asked < 2) throw Error(ErrorKind::kPeerLost, "it is loading");
                   return std::make_unique<FakeConnection>(servers);
                 },
                 .watched = [&] { return ++asked < 10; }});
  const Deadline deadline = Deadline::after(std::chrono::nanoseconds(0));
  client.find_servers(deadline);
  std::vector<std::byte> reply(100);
  EXPECT_EQ(client.call(0, PullRequest{}, {}, reply, deadline).bytes, 4U);
  EXPECT_EQ(asked, 2);
}

class PatienceTest : public ::testing::Test {
 protected:
  Patience patience(std::chrono::seconds time) { return {Deadline::after(time, clock_), watched_, clock_}; }

  FakeClock clock_;
  bool watches_ = false;
  int asked_ = 0;
  const std::function<bool()> watched_ = [this] {
    ++asked_;
    return watches_;
  };
};

TEST_F(PatienceTest, EndsWithItsTimeWhereNobodyWatchesAndNothingChanges) {
  Patience wait = patience(std::chrono::seconds(120));
  EXPECT_FALSE(wait.is_over(5));
  clock_.advance(std::chrono::seconds(120) - std::chrono::nanoseconds(1));
  EXPECT_FALSE(wait.is_over(5));
  EXPECT_EQ(asked_, 0) << "before its time is over nobody has to be asked";
  clock_.advance(std::chrono::nanoseconds(1));
  EXPECT_TRUE(wait.is_over(5));
}

TEST_F(PatienceTest, BeginsAnewWithWhateverChanges) {
  Patience wait = patience(std::chrono::seconds(120));
  std::uint64_t progress = 0;
  for (int hour = 0; hour < 100; ++hour) {
    EXPECT_FALSE(wait.is_over(progress++)) << hour;
    clock_.advance(std::chrono::seconds(119));
  }
  EXPECT_FALSE(wait.is_over(progress));
  clock_.advance(std::chrono::seconds(120));
  EXPECT_TRUE(wait.is_over(progress)) << "it stands still";
}

TEST_F(PatienceTest, HasNoEndWhileSomebodyWatchesAndEndsSoonAfterwards) {
  watches_ = true;
  Patience wait = patience(std::chrono::seconds(120));
  for (int hour = 0; hour < 100; ++hour) {
    clock_.advance(std::chrono::hours(1));
    EXPECT_FALSE(wait.is_over()) << hour;
    EXPECT_GT(wait.remaining(), std::chrono::seconds(0));
    EXPECT_FALSE(wait.is_over()) << "it is not asked all the time";
  }
  EXPECT_EQ(asked_, 100);
  watches_ = false;
  clock_.advance(std::chrono::seconds(1));
  EXPECT_TRUE(wait.is_over());
}

// Whoever waited may be gone, and the place for the answer with it.
TEST_F(ClientOfServers, AnAnswerThatComesAfterTheDeadlineIsWrittenNowhere) {
  expect_error(ErrorKind::kTimeout, "no answer", [&] { client_->call(0, PullRequest{}, {}, reply_, at_once()); });
  EXPECT_EQ(servers_.left, 0) << "the connection still knows the call";
  servers_.answers = {{Status::kDone, "now"}};
  EXPECT_EQ(client_->call(0, PullRequest{}, {}, reply_, at_once()).bytes, 3U);
  EXPECT_EQ(servers_.made, 2);
}

TEST_F(ClientOfServers, OfACallThatIsForgottenNothingIsLeftAndOthersAreSentAgain) {
  const Client::Ticket forgotten = client_->start(0, PullRequest{}, {}, reply_, at_once());
  const Client::Ticket kept = client_->start(0, PullRequest{}, {}, reply_, at_once());
  client_->forget(forgotten);
  EXPECT_EQ(servers_.left, 0);
  servers_.answers = {{Status::kDone, "kept"}};
  EXPECT_EQ(client_->finish(kept, at_once()).bytes, 4U);
}

// How many acknowledged updates are gone is the difference to what a server that came back has: each such loss by
// itself.
TEST_F(ClientOfServers, AServerThatCameBackIsToldWhatWasAcknowledgedSinceTheLastTime) {
  const auto replace = [&](std::uint32_t attempt) {
    control::ServerMap map = control::first_map(1, 1, {{"here", attempt}});
    map.generation = attempt + 1;
    store_->set(control::map_key(map.generation), map.to_text());
    servers_.answers = {{.status = Status::kStale}};  // by which the client learns of the map
  };
  const auto told = [&] { return std::get<PullRequest>(servers_.asked.back().verb).seen_version; };
  const Deadline soon = Deadline::after(std::chrono::seconds(10));
  servers_.answers = {{.version = 100}};
  client_->call(0, PushLaneRequest{}, {}, {}, soon);
  replace(1);
  servers_.answers.push_back({.version = 80});
  client_->call(0, PullRequest{}, {}, reply_, soon);
  EXPECT_EQ(told(), 100U);
  servers_.answers = {{.version = 85}};
  client_->call(0, PushLaneRequest{}, {}, {}, soon);
  replace(2);
  servers_.answers.push_back({.version = 82});
  client_->call(0, PullRequest{}, {}, reply_, soon);
  EXPECT_EQ(told(), 85U);
  servers_.answers = {{.version = 82}};
  client_->call(0, PullRequest{}, {}, reply_, soon);
  EXPECT_EQ(told(), std::nullopt) << "it knows";
}

TEST(ClientOfALostServer, TheErrorSaysWhyItCannotBeReached) {
  const auto store = comm::make_memory_store();
  store->set(control::map_key(1), control::first_map(1, 1, {{"here", 0}}).to_text());
  Client client({.store = store,
                 .connect = [](const std::string&, std::uint32_t, const Deadline&) -> std::unique_ptr<Connection> {
                   throw Error(ErrorKind::kPeerLost, "somebody else is there");
                 }});
  const Deadline deadline = Deadline::after(std::chrono::nanoseconds(0));
  client.find_servers(deadline);
  expect_error(ErrorKind::kTimeout, "from parameter server 0: somebody else is there",
               [&] { client.call(0, PullRequest{}, {}, {}, deadline); });
}

// A program's client with no time to wait: what is not answered at once fails.
class ProgramsClient : public ::testing::Test {
 protected:
  ProgramsClient() {
    ServerPlan plan;
    plan.layout = model::FlatLayout({{"w", {4}}});
    plan.rules.resize(1);
    plan.separate_tensors = true;
    const auto store = comm::make_memory_store();
    put_plan(*store, plan);
    store->set(control::map_key(1), control::first_map(plan.chunk_count(), 1, {{"here", 0}}).to_text());
    client_.emplace(
        ClientOptions{.store = store,
                      .connect = [this](const std::string&, std::uint32_t,
                                        const Deadline&) { return std::make_unique<FakeConnection>(servers_); }},
        std::chrono::nanoseconds(0));
  }
  void push() { client_->wait(client_->push("w", gradient_, 1)); }
  const PushUpdateRequest& pushed(std::size_t index) const {
    return std::get<PushUpdateRequest>(servers_.asked.at(index).verb);
  }

  Servers servers_;
  std::optional<ParameterClient> client_;
  const std::vector<float> gradient_ = std::vector<float>(4);
};

// Servers forget what a client says is over; what it never says they remember for ever, and refuse more in the end.
TEST_F(ProgramsClient, AnUpdateThatFailedIsOver) {
  servers_.answers = {{.next_update = 7}};
  expect_error(ErrorKind::kTimeout, "no answer", [&] { push(); });
  servers_.answers = {{}, {}};
  push();
  push();
  ASSERT_EQ(servers_.asked.size(), 4U);
  EXPECT_EQ(pushed(1).update, 7U);
  EXPECT_EQ(pushed(2).update, 8U);
  EXPECT_EQ(pushed(2).over_below, 8U);
  EXPECT_EQ(pushed(3).update, 9U);
  EXPECT_EQ(pushed(3).over_below, 9U);
}

// Else its updates would have the numbers of those that another process has made before.
TEST_F(ProgramsClient, AsksAgainHowFarItsPredecessorCameWhenNobodyAnswered) {
  expect_error(ErrorKind::kTimeout, "no answer", [&] { push(); });
  servers_.answers = {{.next_update = 7}, {}};
  push();
  EXPECT_EQ(pushed(servers_.asked.size() - 1).update, 7U);
}

}  // namespace
}  // namespace muster::strategies
