// A client of parameter servers and connections that answer as a test says.
#include "muster/strategies/parameter_server/client.h"

#include <cstring>
#include <deque>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "support/errors.h"

namespace muster::strategies {
namespace {

using muster::testing::expect_error;

// What servers do: the next answer, nothing while there is none, and how many connections were made and are left.
struct Servers {
  std::deque<std::pair<Status, std::string>> answers;
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

  std::optional<Call> try_start(const Header& request, std::span<const std::byte>,
                                std::span<std::byte> reply) override {
    calls_.emplace_back(request, reply);
    return calls_.size() - 1;
  }
  bool done(Call) override { return !servers_.answers.empty(); }
  Header wait(Call call, const Deadline&) override {
    if (servers_.answers.empty()) throw Error(ErrorKind::kTimeout, "no answer");
    const auto [status, body] = servers_.answers.front();
    servers_.answers.pop_front();
    auto [header, reply] = calls_.at(call);
    std::memcpy(reply.data(), body.data(), body.size());
    header.status = status;
    header.bytes = body.size();
    return header;
  }
  void pause(const Deadline&) override {}

 private:
  Servers& servers_;
  std::vector<std::pair<Header, std::span<std::byte>>> calls_;
};

class ClientOfServers : public ::testing::Test {
 protected:
  ClientOfServers() {
    const auto store = comm::make_memory_store();
    store->set(control::map_key(1), control::first_map(1, 1, {{"here", 0}}).to_text());
    client_.emplace(
        ClientOptions{.store = store, .connect = [this](const std::string&, std::uint32_t, const Deadline&) {
                        return std::make_unique<FakeConnection>(servers_);
                      }});
    client_->find_servers(Deadline::after(std::chrono::seconds(10)));
  }
  static Deadline at_once() { return Deadline::after(std::chrono::nanoseconds(0)); }

  Servers servers_;
  std::optional<Client> client_;
  std::vector<std::byte> reply_ = std::vector<std::byte>(100);
};

TEST_F(ClientOfServers, ARefusalIsToldWithItsReason) {
  servers_.answers = {{Status::kRefused, "it is late"}};
  expect_error(ErrorKind::kMismatch, "parameter server 0 refused \"pull\" of chunk 0: it is late",
               [&] { client_->call({.verb = Verb::kPull}, {}, reply_, at_once()); });
}

// Whoever waited may be gone, and the place for the answer with it.
TEST_F(ClientOfServers, AnAnswerThatComesAfterTheDeadlineIsWrittenNowhere) {
  expect_error(ErrorKind::kTimeout, "no answer", [&] { client_->call({.verb = Verb::kPull}, {}, reply_, at_once()); });
  EXPECT_EQ(servers_.left, 0) << "the connection still knows the call";
  servers_.answers = {{Status::kDone, "now"}};
  EXPECT_EQ(client_->call({.verb = Verb::kPull}, {}, reply_, at_once()).bytes, 3U);
  EXPECT_EQ(servers_.made, 2);
}

TEST_F(ClientOfServers, OfACallThatIsForgottenNothingIsLeftAndOthersAreSentAgain) {
  const Client::Ticket forgotten = client_->start({.verb = Verb::kPull}, {}, reply_, at_once());
  const Client::Ticket kept = client_->start({.verb = Verb::kPull}, {}, reply_, at_once());
  client_->forget(forgotten);
  EXPECT_EQ(servers_.left, 0);
  servers_.answers = {{Status::kDone, "kept"}};
  EXPECT_EQ(client_->finish(kept, at_once()).bytes, 4U);
}

}  // namespace
}  // namespace muster::strategies
