// What both transports of the parameter server promise, and what only shared memory does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "muster/base/random.h"
#include "muster/comm/region.h"
#include "muster/strategies/parameter_server/shm_seats.h"
#include "support/command.h"
#include "support/errors.h"
#include "support/eventually.h"
#include "support/other_user.h"
#include "unit/strategies/sample_messages.h"
#include "unit/strategies/transports.h"

namespace muster::strategies {
namespace {

using muster::testing::Command;
using muster::testing::error_of;
using muster::testing::expect_error;

Deadline at_once() {
  return Deadline::after(std::chrono::nanoseconds(0));
}
Deadline shortly() {
  return Deadline::after(std::chrono::milliseconds(30));
}

// The first line that a process prints.
std::string first_line(const Command& command) {
  EXPECT_TRUE(testing::eventually([&] { return command.out().find('\n') != std::string::npos; }, soon()))
      << "the process says nothing";
  const std::string out = command.out();
  return out.substr(0, out.find('\n'));
}

class Transport : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Inbox> make(std::size_t memory_bytes = 0) { return make_inbox(GetParam(), memory_bytes); }
  std::unique_ptr<Connection> join(const std::string& address, std::uint32_t client = 0) {
    return connect(GetParam(), address, client);
  }
  Incoming next(Inbox& inbox) {
    std::optional<Incoming> call = inbox.next(soon());
    if (!call) throw std::runtime_error("no call came");
    return *call;
  }
  void check_in_place(std::size_t bytes);
};

TEST_P(Transport, EchoesBodiesOfEverySize) {
  const auto inbox = make();
  const Serving serving(*inbox, echo);
  const auto connection = join(inbox->address(), 2);
  int seed = 0;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, std::size_t{1} << 20,
                                 (std::size_t{1} << 20) + 1, kLimits.most_body}) {
    std::vector<std::byte> body = bytes_of(size, ++seed);
    const std::vector<std::byte> sent = body;
    std::vector<std::byte> reply(size);
    const auto call = connection->start(numbered(size), body, reply, soon());
    std::fill(body.begin(), body.end(), std::byte{0xee});  // it is the sender's again
    const Reply answer = connection->wait(call, soon());
    EXPECT_EQ(answer.bytes, size);
    EXPECT_EQ(answer.generation, 2u) << "who called";
    EXPECT_EQ(answer.version, size) << "which call";
    EXPECT_TRUE(reply == sent) << size;
  }
}

TEST_P(Transport, EveryRequestAndEveryReplyTravelsWhole) {
  const auto inbox = make();
  const auto connection = join(inbox->address(), 1);
  const std::vector<Reply> replies = every_reply();
  std::size_t turn = 0;
  for (Request request : every_request()) {
    const auto call = connection->start(request, {}, {}, soon());
    const Incoming incoming = next(*inbox);
    request.client = 1;
    EXPECT_TRUE(incoming.request == request) << name_of(request.verb);
    const Reply& reply = replies[turn++ % replies.size()];
    inbox->reply(incoming.handle, reply, {});
    EXPECT_TRUE(connection->wait(call, soon()) == reply) << turn;
  }
}

TEST_P(Transport, AFullWindowHoldsTheClientBackAndCallsArriveInOrder) {
  const auto inbox = make();
  const auto connection = join(inbox->address());
  std::vector<Connection::Call> calls;
  for (std::uint64_t id = 0; id < 4; ++id)
    calls.push_back(connection->try_start(numbered(id), {}, {}).value());
  EXPECT_FALSE(connection->try_start(numbered(), {}, {}));
  expect_error(ErrorKind::kTimeout, "deadline", [&] { connection->start(numbered(), {}, {}, shortly()); });
  // Answered, and not waited for: there is room all the same.
  std::vector<Incoming> incoming;
  for (std::uint64_t id = 0; id < 4; ++id) {
    incoming.push_back(next(*inbox));
    EXPECT_EQ(number_of(incoming.back().request), id);
  }
  echo(*inbox, incoming[1]);
  const auto fifth = connection->start(numbered(4), {}, {}, soon());
  EXPECT_FALSE(connection->try_start(numbered(), {}, {}));
  EXPECT_EQ(connection->wait(calls[1], soon()).version, 1u);
  EXPECT_EQ(number_of(next(*inbox).request), 4u);
  EXPECT_FALSE(connection->done(fifth));
}

TEST_P(Transport, RepliesComeInAnyOrder) {
  const auto inbox = make();
  const auto connection = join(inbox->address());
  std::vector<Connection::Call> calls;
  std::vector<std::vector<std::byte>> replies(4, std::vector<std::byte>(5000));
  for (int i = 0; i < 4; ++i)
    calls.push_back(connection->start(numbered(), bytes_of(5000, i), replies[static_cast<std::size_t>(i)], soon()));
  std::vector<Incoming> incoming;
  for (int i = 0; i < 4; ++i)
    incoming.push_back(next(*inbox));
  EXPECT_FALSE(connection->done(calls[3]));
  for (const int i : {3, 1, 0, 2})
    echo(*inbox, incoming[static_cast<std::size_t>(i)]);
  for (const int i : {0, 2, 3, 1}) {
    while (!connection->done(calls[static_cast<std::size_t>(i)]))
      connection->pause(soon());
    connection->wait(calls[static_cast<std::size_t>(i)], at_once());
    EXPECT_TRUE(replies[static_cast<std::size_t>(i)] == bytes_of(5000, i)) << i;
  }
}

TEST_P(Transport, AReplyInPlaceIsRightOrSaysThatItIsNot) {
  check_in_place(std::size_t{1} << 20);
}

// Which is read past the caches.
TEST_P(Transport, AReplyInPlaceOfALargeModelIsRightOrSaysThatItIsNot) {
  check_in_place(std::size_t{80} << 20);
}

void Transport::check_in_place(std::size_t bytes) {
  const auto inbox = make(bytes);
  const std::span<std::byte> memory = inbox->memory();
  ASSERT_EQ(memory.size(), bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096, 0u);
  auto& guard = *reinterpret_cast<std::atomic<std::uint64_t>*>(memory.data());
  EXPECT_EQ(guard.load(), 0u);
  const std::vector<std::byte> values = bytes_of(100'000, 3);
  std::copy(values.begin(), values.end(), memory.begin() + 4096);
  const auto connection = join(inbox->address());
  std::vector<std::byte> reply(100'000);
  // The guard as it is at the answer, and as it is when the client reads it.
  const auto pull = [&](std::uint64_t before, std::uint64_t after) {
    guard.store(before);
    const auto call = connection->start({.verb = PullRequest{}}, {}, reply, soon());
    inbox->reply_in_place(next(*inbox).handle, {}, memory.subspan(4096, 100'000), guard, 7);
    guard.store(after);
    return connection->wait(call, soon());
  };
  const Reply good = pull(6, 6);
  EXPECT_EQ(good.status, Status::kDone);
  EXPECT_EQ(good.bytes, 100'000u);
  EXPECT_TRUE(reply == values);
  EXPECT_EQ(pull(7, 7).status, Status::kWait);
  // Over a socket it was copied before.
  EXPECT_EQ(pull(6, 7).status, GetParam() == "shm" ? Status::kWait : Status::kDone);
}

TEST_P(Transport, AReplyThatIsTooLongIsRefusedAndTheNextIsNot) {
  const auto inbox = make();
  const Serving serving(*inbox, echo);
  const auto connection = join(inbox->address());
  std::vector<std::byte> reply(10);
  const auto call = connection->start(numbered(), bytes_of(11, 0), reply, soon());
  expect_error(ErrorKind::kDamaged, "11 bytes", [&] { connection->wait(call, soon()); });
  EXPECT_EQ(connection->wait(connection->start(numbered(), bytes_of(10, 0), reply, soon()), soon()).bytes, 10u);
}

TEST_P(Transport, TheReasonOfARefusalIsCutWhereThereIsLittleRoomForIt) {
  const auto inbox = make();
  const Serving serving(*inbox, [](Inbox& from, const Incoming& call) {
    from.reply(call.handle, {.status = Status::kRefused}, bytes_of(11, 0));
  });
  const auto connection = join(inbox->address());
  for (const std::size_t room : {0, 10, 11, 12}) {
    std::vector<std::byte> reply(room);
    const Reply answer = connection->wait(connection->start(numbered(), {}, reply, soon()), soon());
    EXPECT_EQ(answer.status, Status::kRefused);
    EXPECT_EQ(answer.bytes, std::min<std::size_t>(room, 11));
    const std::vector<std::byte> reason = bytes_of(11, 0);
    EXPECT_TRUE(std::equal(reason.begin(), reason.begin() + static_cast<std::ptrdiff_t>(answer.bytes), reply.begin()));
  }
}

TEST_P(Transport, ADeadlineEndsAWaitAndNotTheCall) {
  const auto inbox = make();
  const auto connection = join(inbox->address());
  const auto call = connection->start(numbered(), {}, {}, soon());
  const Incoming incoming = next(*inbox);
  expect_error(ErrorKind::kTimeout, "deadline", [&] { connection->wait(call, shortly()); });
  connection->pause(shortly());
  EXPECT_FALSE(connection->done(call));
  EXPECT_FALSE(inbox->next(shortly()));
  inbox->reply(incoming.handle, {.version = 9}, {});
  EXPECT_EQ(connection->wait(call, soon()).version, 9u);
}

TEST_P(Transport, WakeEndsTheWaitForACall) {
  const auto inbox = make();
  std::thread waker([&] { inbox->wake(); });
  EXPECT_FALSE(inbox->next(soon()));
  waker.join();
}

TEST_P(Transport, AClientThatWasKilledIsForgottenAndItsSuccessorIsServed) {
  const auto inbox = make();
  std::optional<Command> holder(std::in_place,
                                std::vector<std::string>{TRANSPORT_PEER, "hold", GetParam(), inbox->address()});
  EXPECT_EQ(first_line(*holder), "held");
  const Incoming first = next(*inbox);
  const Incoming second = next(*inbox);
  holder.reset();  // killed
  const auto connection = join(inbox->address());
  std::vector<std::byte> reply(2000);
  const auto one = connection->start(numbered(1), bytes_of(2000, 1), reply, soon());
  const Incoming mine = next(*inbox);
  EXPECT_EQ(number_of(mine.request), 1u);  // what the dead one had asked and nobody had looked at is forgotten
  // What the server has in its hands stays until it lets go.
  EXPECT_TRUE(std::ranges::equal(first.body, std::vector<std::byte>(1000, std::byte{'k'})));
  echo(*inbox, second);
  echo(*inbox, mine);
  EXPECT_EQ(connection->wait(one, soon()).version, 1u);
  EXPECT_TRUE(reply == bytes_of(2000, 1));
  echo(*inbox, first);
  // And the whole window is there again.
  for (int i = 0; i < 4; ++i)
    connection->start(numbered(), {}, {}, soon());
  EXPECT_FALSE(connection->try_start(numbered(), {}, {}));
}

TEST_P(Transport, AServerThatWasKilledIsFoundLost) {
  std::optional<Command> server(std::in_place, std::vector<std::string>{TRANSPORT_PEER, "serve", GetParam()});
  const std::string address = first_line(*server);
  const auto connection = join(address);
  std::vector<std::byte> reply(10);
  EXPECT_EQ(connection->wait(connection->start(numbered(), reply, reply, soon()), soon()).bytes, 10u);
  const auto answered = connection->start(numbered(5), {}, {}, soon());
  while (!connection->done(answered))
    connection->pause(soon());
  const auto never = connection->start({.verb = LeaseRequest{}}, {}, {}, soon());
  server.reset();  // killed
  expect_error(ErrorKind::kPeerLost, "", [&] { connection->wait(never, soon()); });
  EXPECT_EQ(connection->wait(answered, soon()).version, 5u);
  expect_error(ErrorKind::kPeerLost, "", [&] { connection->done(never); });
  expect_error(ErrorKind::kPeerLost, "", [&] {
    for (const Deadline deadline = soon(); !deadline.passed();)
      connection->start(numbered(), {}, {}, deadline);
  });
  expect_error(ErrorKind::kPeerLost, "", [&] { join(address); });
}

TEST_P(Transport, AServerThatClosesIsFoundLost) {
  auto inbox = make();
  const auto connection = join(inbox->address());
  const auto call = connection->start(numbered(), {}, {}, soon());
  inbox.reset();
  expect_error(ErrorKind::kPeerLost, "", [&] { connection->wait(call, soon()); });
}

TEST_P(Transport, ADroppedConnectionMakesRoomForTheNext) {
  const auto inbox = make();
  for (std::uint64_t round = 0; round < 20; ++round) {
    const auto connection = join(inbox->address(), 1);
    connection->start(numbered(round), {}, {}, soon());
    connection->start(numbered(round), {}, {}, soon());
    const Incoming incoming = next(*inbox);
    EXPECT_EQ(number_of(incoming.request), round);
    if (round % 2 == 0) echo(*inbox, incoming);
    if (round % 2 == 1) inbox->reply(incoming.handle, {}, bytes_of(10, 0));
  }
}

TEST_P(Transport, RefusesANumberThatItDoesNotHave) {
  const auto inbox = make();
  expect_error(ErrorKind::kInvalidInput, "3 clients", [&] { join(inbox->address(), 3); });
}

// Who is killed at a random instruction leaves nothing that could harm the next, and wrong bytes are never seen.
TEST_P(Transport, ClientsAreKilledAtRandomMoments) {
  const auto inbox = make();
  std::atomic<std::uint64_t> served{0};
  const Serving serving(*inbox, [&](Inbox& box, const Incoming& call) {
    ++served;
    echo(box, call);
  });
  RandomStream chance({.seed = 11});
  for (int round = 0; round < 6; ++round) {
    Command client({TRANSPORT_PEER, "hammer", GetParam(), inbox->address()});
    EXPECT_EQ(first_line(client), "connected");
    const std::uint64_t before = served.load();
    ASSERT_TRUE(testing::eventually([&] { return served.load() >= before + 5; }, soon()));
    // sleeps: the kill falls anywhere inside a call
    system_clock().sleep_for(std::chrono::microseconds(chance.below(5000)));
    ::kill(client.pid(), SIGKILL);
    const auto result = client.wait();
    EXPECT_EQ(result.signal, SIGKILL) << result.out;
  }
  const auto connection = join(inbox->address());
  for (int i = 0; i < 20; ++i) {
    std::vector<std::byte> reply(10'000);
    connection->wait(connection->start(numbered(), bytes_of(10'000, i), reply, soon()), soon());
    EXPECT_TRUE(reply == bytes_of(10'000, i));
  }
}

std::vector<std::string> kinds() {
  std::istringstream words(TRANSPORT_KINDS);
  std::vector<std::string> kinds;
  for (std::string word; words >> word;)
    kinds.push_back(word);
  return kinds;
}
INSTANTIATE_TEST_SUITE_P(Kinds, Transport, ::testing::ValuesIn(kinds()),
                         [](const auto& information) { return information.param; });

TEST(ShmTransport, ASecondConnectionOfALivingClientIsRefused) {
  const auto inbox = make_inbox("shm");
  auto first = connect("shm", inbox->address());
  expect_error(ErrorKind::kMismatch, "client 0 is connected already", [&] { connect("shm", inbox->address()); });
  first.reset();
  EXPECT_NO_THROW(connect("shm", inbox->address()));
}

TEST(ShmTransport, ServesItsClientsInTurn) {
  const auto inbox = make_inbox("shm");
  const auto eager = connect("shm", inbox->address(), 0);
  const auto modest = connect("shm", inbox->address(), 2);
  for (std::uint64_t id = 0; id < 4; ++id)
    eager->start(numbered(id), {}, {}, soon());
  modest->start(numbered(100), {}, {}, soon());
  std::vector<std::uint64_t> order;
  while (const auto call = inbox->next(at_once()))
    order.push_back(number_of(call->request));
  EXPECT_THAT(order, ::testing::ElementsAre(0, 100, 1, 2, 3));
}

// Whoever shares the memory may write anything into it.
TEST(ShmTransport, GarbageInASlotIsRefusedAndHarmsNobody) {
  const auto inbox = make_inbox("shm");
  const auto good = connect("shm", inbox->address(), 1);
  const comm::SharedRegion region = comm::fetch_region(inbox->address(), soon());
  const ShmSeats seats(region.bytes().data(), kLimits, 0);
  const auto refused = [&](const std::function<void(ShmSeats::Slot&)>& spoil, const std::string& words) {
    const auto connection = connect("shm", inbox->address());
    std::vector<std::byte> reply(200);
    const auto call = connection->start(numbered(1), bytes_of(100, 1), reply, soon());
    for (int slot = 0; slot < kLimits.window; ++slot)
      spoil(seats.slot(seats.index(0, slot)));
    EXPECT_FALSE(inbox->next(shortly())) << words;
    const Reply answer = connection->wait(call, soon());
    EXPECT_EQ(answer.status, Status::kRefused);
    EXPECT_THAT(std::string(reinterpret_cast<const char*>(reply.data()), answer.bytes), ::testing::HasSubstr(words));
  };
  refused([](ShmSeats::Slot& slot) { slot.head_bytes = kMostHead + 1; }, "a head of 129 bytes");
  refused([](ShmSeats::Slot& slot) { slot.head_bytes = ~std::uint64_t{0}; }, "a head of");
  refused([](ShmSeats::Slot& slot) { slot.head_bytes = 0; }, "too early");
  refused([](ShmSeats::Slot& slot) { ++slot.head_bytes; }, "too many");
  refused([](ShmSeats::Slot& slot) { slot.head_place.fill(std::byte{0xff}); }, "protocol");
  refused([](ShmSeats::Slot& slot) { slot.head_place[2] = std::byte{99}; }, "does not know");
  refused([](ShmSeats::Slot& slot) { slot.body_bytes = kLimits.most_body + 1; }, "the body is too long");
  refused([](ShmSeats::Slot& slot) { slot.body_bytes = ~std::uint64_t{0}; }, "the body is too long");
  const auto call = good->start(numbered(7), {}, {}, soon());
  echo(*inbox, *inbox->next(soon()));
  EXPECT_EQ(good->wait(call, soon()).version, 7U);
}

TEST(ShmTransport, GarbageInAReplyIsFoundAndTheNextIsGood) {
  const auto inbox = make_inbox("shm");
  const auto connection = connect("shm", inbox->address());
  const comm::SharedRegion region = comm::fetch_region(inbox->address(), soon());
  const ShmSeats seats(region.bytes().data(), kLimits, 0);
  std::vector<std::byte> reply(200);
  const auto spoiled = [&](const std::function<void(ShmSeats::Slot&)>& spoil) {
    const auto call = connection->start(numbered(1), {}, reply, soon());
    inbox->reply(inbox->next(soon())->handle, {}, bytes_of(10, 1));
    for (int slot = 0; slot < kLimits.window; ++slot)
      spoil(seats.slot(seats.index(0, slot)));
    expect_error(ErrorKind::kDamaged, "", [&] { connection->wait(call, soon()); });
  };
  spoiled([](ShmSeats::Slot& slot) { slot.head_bytes = ~std::uint64_t{0}; });
  spoiled([](ShmSeats::Slot& slot) { slot.head_place.fill(std::byte{0}); });
  spoiled([](ShmSeats::Slot& slot) { slot.head_place[4] = std::byte{6}; });  // the status
  spoiled([](ShmSeats::Slot& slot) { slot.body_bytes = ~std::uint64_t{0}; });
  spoiled([](ShmSeats::Slot& slot) { slot.in_place = 1, slot.offset = ~std::uint64_t{0}; });
  const auto call = connection->start(numbered(7), {}, reply, soon());
  echo(*inbox, *inbox->next(soon()));
  EXPECT_EQ(connection->wait(call, soon()).version, 7U);
}

TEST(ShmTransport, RefusesARegionThatNoServerMade) {
  const comm::SharedRegion region = comm::SharedRegion::create(1 << 20);
  const comm::RegionServer server(region);
  expect_error(ErrorKind::kMismatch, "foreign", [&] { connect("shm", server.address()); });
  const comm::SharedRegion small = comm::SharedRegion::create(16);
  const comm::RegionServer small_server(small);
  expect_error(ErrorKind::kDamaged, "truncated", [&] { connect("shm", small_server.address()); });
}

TEST(ShmTransport, AnotherUserThatTakesADeadServersNameIsNobody) {
  if (!muster::testing::OtherUser::possible()) GTEST_SKIP() << "needs root to become another user";
  const std::string address = make_inbox("shm")->address();  // and it is dead
  const muster::testing::OtherUser other(address, SOCK_SEQPACKET);
  expect_error(ErrorKind::kPeerLost, "user 65534", [&] { connect("shm", address); });
}

TEST(ShmTransport, RefusesLimitsThatMakeNoSense) {
  for (const TransportLimits& limits :
       {TransportLimits{.window = 0}, TransportLimits{.window = 33}, TransportLimits{.clients = 0},
        TransportLimits{.clients = 5000}, TransportLimits{.most_body = 0}})
    expect_error(ErrorKind::kInvalidInput, "are possible", [&] { make_shm_inbox(limits, 0); });
}

}  // namespace
}  // namespace muster::strategies
