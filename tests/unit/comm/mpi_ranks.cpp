// The ranks that mpi_transport_test.cpp starts under mpirun: every rank runs the same GoogleTest cases together, or,
// with the name of a scene as argument, meets one failure. MUSTER_TEST_FOLDER is a folder that all ranks share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/comm/connect.h"
#include "muster/comm/hierarchical.h"
#include "muster/comm/mpi_transport.h"
#include "muster/comm/native_collectives.h"
#include "muster/comm/network_backend.h"
#include "muster/comm/self_backend.h"
#include "muster/comm/shm_backend.h"
#include "support/collective_checks.h"

namespace muster::comm {
namespace {

Deadline soon(int seconds = 20) {
  return Deadline::after(std::chrono::seconds(seconds));
}

std::vector<int> everyone(const MpiRuntime& runtime) {
  std::vector<int> ranks(static_cast<std::size_t>(mpi_world(runtime).size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Bytes that tell sender, receiver, message and place apart.
std::vector<std::byte> pattern(int from, int to, int message, std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    result[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<std::size_t>(from * 31 + to * 57 + message * 101));
  return result;
}

class MpiRanks : public ::testing::Test {
 protected:
  GroupOptions options(const std::string& name) const {
    GroupOptions options;
    options.rank = world_.rank;
    options.size = world_.size;
    options.store = make_file_store(folder_);
    options.name = name;
    options.backend = "mpi";
    options.timeout = std::chrono::seconds(30);
    return options;
  }

  std::string folder_ = std::getenv("MUSTER_TEST_FOLDER");
  std::shared_ptr<MpiRuntime> runtime_ = start_mpi();
  MpiWorld world_ = mpi_world(*runtime_);
};

// Every rank sends to every rank (itself too) messages of all sizes in one slot; receives are posted in order.
TEST_F(MpiRanks, MessagesOfAllSizesArriveInOrder) {
  const auto transport = make_mpi_transport(runtime_, everyone(*runtime_), "sizes");
  const std::vector<std::size_t> sizes{1, 7, 4096, 4097, 70001, 3000001};
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::vector<std::byte>> received;
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (int peer = 0; peer < world_.size; ++peer) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      received.emplace_back(sizes[i]);
      transfers.push_back(transport->receive(peer, std::uint64_t{5} << 40, received.back()));
      sent.push_back(pattern(world_.rank, peer, static_cast<int>(i), sizes[i]));
      transfers.push_back(transport->send(peer, std::uint64_t{5} << 40, sent.back()));
    }
  }
  for (const auto& transfer : transfers)
    transfer->wait(soon());
  for (std::size_t i = 0; i < received.size(); ++i) {
    const int peer = static_cast<int>(i / sizes.size());
    const int message = static_cast<int>(i % sizes.size());
    EXPECT_EQ(received[i], pattern(peer, world_.rank, message, sizes[i % sizes.size()])) << peer << " " << message;
  }
}

// A later message of another slot is received first: slots do not queue behind each other.
TEST_F(MpiRanks, SlotsAreIndependent) {
  const auto transport = make_mpi_transport(runtime_, everyone(*runtime_), "slots");
  const int next = (world_.rank + 1) % world_.size;
  const int before = (world_.rank + world_.size - 1) % world_.size;
  const auto first = pattern(world_.rank, next, 1, 100);
  const auto second = pattern(world_.rank, next, 2, 100);
  std::vector<std::byte> got_first(100);
  std::vector<std::byte> got_second(100);
  const auto send_first = transport->send(next, 1, first);
  const auto send_second = transport->send(next, ~std::uint64_t{0}, second);
  transport->receive(before, ~std::uint64_t{0}, got_second)->wait(soon());
  transport->receive(before, 1, got_first)->wait(soon());
  send_first->wait(soon());
  send_second->wait(soon());
  EXPECT_EQ(got_first, pattern(before, world_.rank, 1, 100));
  EXPECT_EQ(got_second, pattern(before, world_.rank, 2, 100));
}

// Odd and even ranks at once, in reverse order, and the same name twice: nobody gets another group's message.
TEST_F(MpiRanks, GroupsOfARankDoNotMix) {
  const auto transport = make_mpi_transport(runtime_, everyone(*runtime_), "whole");
  std::vector<int> members;
  for (int rank = world_.size - 1; rank >= 0; --rank) {
    if (rank % 2 == world_.rank % 2) members.push_back(rank);
  }
  const auto half = transport->split(members, "parity", soon());
  const auto again = transport->split(members, "parity", soon());
  ASSERT_EQ(half->size(), static_cast<int>(members.size()));
  ASSERT_EQ(members[static_cast<std::size_t>(half->rank())], world_.rank);
  const int next = (half->rank() + 1) % half->size();
  const int before = (half->rank() + half->size() - 1) % half->size();
  const auto sent_half = pattern(half->rank(), next, 1, 5000);
  const auto sent_again = pattern(half->rank(), next, 2, 5000);
  const auto send_half = half->send(next, 0, sent_half);
  const auto send_again = again->send(next, 0, sent_again);
  std::vector<std::byte> got_half(5000);
  std::vector<std::byte> got_again(5000);
  again->receive(before, 0, got_again)->wait(soon());
  half->receive(before, 0, got_half)->wait(soon());
  send_half->wait(soon());
  send_again->wait(soon());
  EXPECT_EQ(got_half, pattern(before, half->rank(), 1, 5000));
  EXPECT_EQ(got_again, pattern(before, half->rank(), 2, 5000));
}

// Two threads of a rank, a group each.
TEST_F(MpiRanks, ThreadsTakeTurns) {
  const auto left = make_mpi_transport(runtime_, everyone(*runtime_), "left");
  const auto right = make_mpi_transport(runtime_, everyone(*runtime_), "right");
  const auto ring = [&](Transport& transport, int message) {
    const int next = (world_.rank + 1) % world_.size;
    const int before = (world_.rank + world_.size - 1) % world_.size;
    for (int turn = 0; turn < 20; ++turn) {
      const auto sent = pattern(world_.rank, next, message + turn, 20000);
      std::vector<std::byte> got(20000);
      const auto receive = transport.receive(before, 3, got);
      const auto send = transport.send(next, 3, sent);
      receive->wait(soon());
      send->wait(soon());
      EXPECT_EQ(got, pattern(before, world_.rank, message + turn, 20000));
    }
  };
  std::thread other([&] { ring(*left, 0); });
  ring(*right, 1000);
  other.join();
}

// A receive that nothing has met is cancelled and leaves the group as it was.
TEST_F(MpiRanks, AReceiveCanBeDropped) {
  const auto transport = make_mpi_transport(runtime_, everyone(*runtime_), "drop");
  std::vector<std::byte> never(10);
  EXPECT_FALSE(transport->receive(world_.rank, 9, never)->test());
  const auto sent = pattern(1, 1, 1, 10);
  std::vector<std::byte> got(10);
  const auto send = transport->send(world_.rank, 9, sent);
  transport->receive(world_.rank, 9, got)->wait(soon());
  EXPECT_EQ(got, sent);
  EXPECT_FALSE(transport->receive(world_.rank, 9, never)->test());  // its tag is known now
  const auto send_again = transport->send(world_.rank, 9, sent);
  transport->receive(world_.rank, 9, never)->wait(soon());
  EXPECT_EQ(never, sent);
  send->wait(soon());
  send_again->wait(soon());
}

TEST_F(MpiRanks, NativeAllReduceSums) {
  std::vector<float> data(1001, static_cast<float>(world_.rank + 1));
  native_mpi_collective(*runtime_, Operation::kAllReduce, {}, data);
  const auto expected = static_cast<float>(world_.size * (world_.size + 1) / 2);
  EXPECT_EQ(data, std::vector<float>(1001, expected));
}

TEST_F(MpiRanks, MembersOutsideTheWorldAreRefused) {
  for (const std::vector<int>& members : {std::vector<int>{world_.size}, std::vector<int>{-1}, std::vector<int>{},
                                          std::vector<int>{world_.rank, world_.rank}}) {
    try {
      make_mpi_transport(runtime_, members, "bad");
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    }
  }
}

TEST_F(MpiRanks, EveryCollectiveAgreesWithTheSerialReference) {
  const Group group = make_group(options("matrix"));
  EXPECT_EQ(group.backend(), world_.size == 1 ? "self" : "mpi");
  testing::check_collectives(group, 6001);
}

// Two ranks to a pretend host: shared memory inside, MPI between.
TEST_F(MpiRanks, CollectivesBetweenHostsGoOverMpi) {
  std::vector<int> hosts;
  for (int rank = 0; rank < world_.size; ++rank)
    hosts.push_back(rank / 2);
  const int local_ranks = static_cast<int>(std::count(hosts.begin(), hosts.end(), world_.rank / 2));
  const auto store = with_prefix(make_file_store(folder_), fmt::format("host-{}", world_.rank / 2));
  auto local = local_ranks == 1 ? make_self_backend() : make_shm_backend(world_.rank % 2, local_ranks, store, soon());
  auto network = std::make_unique<NetworkBackend>(make_mpi_transport(runtime_, everyone(*runtime_), "between"));
  const Group group(std::make_shared<HierarchicalBackend>(std::move(local), std::move(network), hosts),
                    std::chrono::seconds(30));
  testing::CollectiveChecks<float> checks(group);
  for (const std::size_t count : {0UL, 1UL, 7UL, 1025UL, 20001UL})
    checks.check(count);
}

TEST_F(MpiRanks, ADifferentCallIsNamedOnAllRanks) {
  if (world_.size == 1) return;  // nobody to differ from
  Group group = make_group(options("mismatch"));
  std::vector<float> data(5);
  try {
    if (world_.rank == 1)
      group.barrier();
    else
      group.all_reduce(std::span(data));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch) << error.what();
    EXPECT_THAT(error.message(), ::testing::HasSubstr("rank 0: all_reduce #1 of 5 float, sum; rank 1: barrier #1"));
  }
}

// Says how a rank's wait ended, for the test that reads it.
void report(int rank, const Error& error) {
  std::printf("rank %d: %s: %s\n", rank, std::string(to_string(error.kind())).c_str(), error.what());
  std::fflush(stdout);
}

// Rank 1 stops for good; rank 0 must get kTimeout naming it, and must be able to end.
int meet_stopped_peer(const MpiWorld& world, Transport& transport) {
  std::vector<std::byte> bytes(8);
  if (world.rank == 1) {
    transport.receive(0, 0, bytes)->wait(soon());
    ::raise(SIGSTOP);
    return 0;
  }
  transport.send(1, 0, bytes)->wait(soon());
  try {
    transport.receive(1, 0, bytes)->wait(soon(1));
  } catch (const Error& error) {
    report(world.rank, error);
    try {
      transport.send(1, 0, bytes);
    } catch (const Error& later) {
      report(world.rank, later);
    }
  }
  return 3;
}

// Rank 1 does not take a message that is too long to be buffered; the process ends all the same, as a failure.
int give_up_half_way(const MpiWorld& world, Transport& transport) {
  std::vector<std::byte> bytes(5 << 20);
  if (world.rank == 1) {
    system_clock().sleep_for(std::chrono::seconds(20));  // sleeps: it is busy until the job is ended
    return 0;
  }
  try {
    transport.send(1, 0, bytes)->wait(Deadline::after(std::chrono::milliseconds(200)));
  } catch (const Error& error) {
    report(world.rank, error);
  }
  try {
    make_mpi_transport(start_mpi(), {world.rank}, "another")->send(0, 0, bytes);
  } catch (const Error& error) {
    report(world.rank, error);
  }
  return 0;
}

// Rank 0 reports rank 1 as lost; everyone's wait ends with the reason.
int abort_group(const MpiWorld& world, Transport& transport) {
  if (world.rank == 0) transport.abort(1, "its parent saw it die");
  std::vector<std::byte> bytes(8);
  try {
    transport.receive((world.rank + 1) % world.size, 0, bytes)->wait(soon());
  } catch (const Error& error) {
    report(world.rank, error);
    return 0;
  }
  return 1;
}

int run_scene(const std::string& scene) {
  // Where all come to the end they are waited for.
  auto runtime = start_mpi(std::chrono::seconds(scene == "abort" ? 60 : 1));
  const MpiWorld world = mpi_world(*runtime);
  const auto transport = make_mpi_transport(runtime, everyone(*runtime), "scene");
  if (scene == "stop") return meet_stopped_peer(world, *transport);
  if (scene == "give-up") return give_up_half_way(world, *transport);
  if (scene == "abort") return abort_group(world, *transport);
  if (scene == "die") {
    if (world.rank == 1) ::raise(SIGKILL);
    std::vector<std::byte> bytes(8);
    transport->receive(1, 0, bytes)->wait(soon(60));
  }
  if (scene == "leave") {  // rank 1 is still at work when the others end
    if (world.rank == 1) system_clock().sleep_for(std::chrono::seconds(60));  // sleeps: until the job is ended
    return 0;
  }
  return 97;
}

}  // namespace
}  // namespace muster::comm

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1) return muster::comm::run_scene(argv[1]);
  const auto runtime = muster::comm::start_mpi();  // held, so that MPI is not ended between two cases
  return RUN_ALL_TESTS();
}
