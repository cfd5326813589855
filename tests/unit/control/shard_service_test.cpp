// The wire between hosts that have data and hosts that have not, and between workers and the depot of their host.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/control/access_token.h"
#include "muster/control/depot_client.h"
#include "muster/control/depot_door.h"
#include "muster/control/shard_client.h"
#include "muster/control/shard_server.h"
#include "muster/control/shard_wire.h"
#include "muster/control/trust_files.h"
#include "support/errors.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::control {
namespace {

using namespace std::chrono_literals;
using testing::expect_error;
using ::testing::HasSubstr;

const data::ShardCatalog kCatalog{"0123456789abcdef", {{"test-0.pack", 1000}, {"train-0.pack", 1'000'000}}};

// Gives bytes that say where they are from, and remembers what it was asked.
class PlayedShards final : public data::ShardCalls {
 public:
  data::ShardCatalog catalog(const Deadline&) override { return kCatalog; }
  std::vector<std::byte> read(const std::string& print, std::size_t shard, std::uint64_t offset, std::uint64_t bytes,
                              const Deadline&) override {
    if (print != kCatalog.print) throw Error(ErrorKind::kMismatch, "other data", "/data", "Bring the same.");
    return std::vector<std::byte>(bytes, static_cast<std::byte>(shard * 100 + offset % 100));
  }
};

class ShardServiceTest : public ::testing::Test {
 protected:
  Deadline soon() const { return Deadline::after(60s); }

  PlayedShards shards_;
  ShardServer server_{shards_, {"127.0.0.1:0"}};
};

TEST_F(ShardServiceTest, CatalogAndBytesArriveAsTheyAre) {
  const auto client = make_shard_client({server_.address()});
  EXPECT_EQ(client->catalog(soon()), kCatalog);
  EXPECT_EQ(client->read(kCatalog.print, 1, 7, 3, soon()), std::vector<std::byte>(3, std::byte{107}));
  EXPECT_EQ(client->read(kCatalog.print, 0, 0, 0, soon()).size(), 0U);
  const std::uint64_t many = std::uint64_t{9} << 20;
  EXPECT_EQ(client->read(kCatalog.print, 1, 1, many, soon()).size(), many) << "more than gRPC takes by itself";
}

TEST_F(ShardServiceTest, WhatIsThrownThereIsThrownHere) {
  const auto client = make_shard_client({server_.address()});
  expect_error(ErrorKind::kMismatch, "other data", [&] { client->read("another", 0, 0, 1, soon()); });
}

TEST_F(ShardServiceTest, AHostThatIsNotThereIsLostAtOnce) {
  const auto client = make_shard_client({"127.0.0.1:1"});
  expect_error(ErrorKind::kPeerLost, "127.0.0.1:1", [&] { client->catalog(soon()); });
}

TEST_F(ShardServiceTest, AnAddressThatIsTakenOrNoneIsNamed) {
  expect_error(ErrorKind::kIo, server_.address(), [&] { ShardServer(shards_, {server_.address()}); });
  expect_error(ErrorKind::kInvalidInput, "nowhere", [&] { ShardServer(shards_, {"nowhere"}); });
}

TEST_F(ShardServiceTest, WhoIsNoAgentOfTheJobsAuthorityGetsNothing) {
  const testing::TemporaryFolder folder;
  CertificateTerms terms{.hosts = {"one"}};
  terms.now = std::chrono::system_clock::now();
  create_certificates(folder / "certs", terms);
  create_certificates(folder / "foreign", terms);
  ShardServer server(shards_, {.address = "127.0.0.1:0", .trust = {.certs = folder / "certs/coordinator"}});
  for (const char* stranger : {"certs/user", "certs/reader", "foreign/agent-one"}) {
    const auto client = make_shard_client({.address = server.address(), .trust = {.certs = folder / stranger}});
    EXPECT_THROW(client->catalog(soon()), Error) << stranger;
    EXPECT_THROW(client->read(kCatalog.print, 0, 0, 1, soon()), Error) << stranger;
  }
  EXPECT_THROW(make_shard_client({.address = server.address()})->catalog(soon()), Error) << "no TLS";
  const auto agent = make_shard_client({.address = server.address(), .trust = {.certs = folder / "certs/agent-one"}});
  EXPECT_EQ(agent->catalog(soon()), kCatalog);
  EXPECT_EQ(agent->read(kCatalog.print, 0, 0, 5, soon()).size(), 5U);
  expect_error(ErrorKind::kInvalidInput, "coordinator's certificate", [&] {
    ShardServer(shards_, {"127.0.0.1:0", {.certs = folder / "certs/agent-one"}});
  });
}

// The port for data is at another address than the one that hosts joined by, which the certificate names.
TEST_F(ShardServiceTest, WithATokenTheCertificateIsThatOfTheAddressThatWasJoined) {
  const testing::TemporaryFolder folder;
  CertificateTerms terms{.hosts = {"one"}};
  terms.now = std::chrono::system_clock::now();
  create_certificates(folder / "certs", terms);
  create_tokens(folder / "tokens");
  const ShardServer server(shards_, {.address = "127.0.0.1:0",
                                     .trust = {.tls_certificate = folder / "certs/coordinator/cert.crt",
                                               .tls_key = folder / "certs/coordinator/cert.key",
                                               .token = folder / "tokens/tokens"}});
  const ClusterTarget target{server.address(),
                             {.tls_authority = folder / "certs/ca.crt", .token = folder / "tokens/agent.token"}};
  EXPECT_EQ(make_shard_client(target, "coordinator.muster")->catalog(soon()), kCatalog);
  EXPECT_THROW(make_shard_client(target, "elsewhere.example")->catalog(soon()), Error);
}

TEST_F(ShardServiceTest, ARefusalIsInTheAuditAndWhoSaysNothingDoesNotStayConnected) {
  const testing::TemporaryFolder folder;
  CertificateTerms terms{.hosts = {"one"}};
  terms.now = std::chrono::system_clock::now();
  create_certificates(folder / "certs", terms);
  Mutex mutex;
  std::string noted;
  const ShardServer server(shards_, {.address = "127.0.0.1:0",
                                     .trust = {.certs = folder / "certs/coordinator"},
                                     .note = [&](const std::string& line) {
                                       const MutexLock lock(mutex);
                                       noted += line + "\n";
                                     }});
  const auto has = [&](const std::string& words) {
    const MutexLock lock(mutex);
    return noted.find(words) != std::string::npos;
  };
  const auto reader = make_shard_client({.address = server.address(), .trust = {.certs = folder / "certs/reader"}});
  EXPECT_THROW(reader->catalog(soon()), Error);
  EXPECT_TRUE(testing::eventually([&] { return has("refused Catalog by reader"); })) << noted;
  // The gate before the port: whoever does not speak TLS never reaches the library behind it.
  EXPECT_THROW(make_shard_client({.address = server.address()})->catalog(soon()), Error);
  EXPECT_TRUE(testing::eventually([&] { return has("TLS"); })) << noted;
}

TEST(ShardWire, RepliesThatAreNotWhatTheySayAreRefused) {
  v1::ReadShardReply reply;
  to_wire(std::vector<std::byte>(10, std::byte{3}), reply);
  EXPECT_EQ(from_wire(reply, 10, "there").size(), 10U);
  expect_error(ErrorKind::kDamaged, "10 bytes came, 11", [&] { from_wire(reply, 11, "there"); });
  reply.mutable_data()->at(4) ^= 1;
  expect_error(ErrorKind::kDamaged, "another checksum", [&] { from_wire(reply, 10, "there"); });
  v1::CatalogReply catalog;
  to_wire(kCatalog, catalog);
  EXPECT_EQ(from_wire(catalog, "there"), kCatalog);
  catalog.mutable_shards(0)->set_name("../x.pack");
  expect_error(ErrorKind::kDamaged, "no shard's name", [&] { from_wire(catalog, "there"); });
  v1::OpenDepotReply depot;
  to_wire(data::DepotView{kCatalog, "/cache", 4096}, depot);
  EXPECT_EQ(from_wire(depot, "there").cache, "/cache");
  depot.set_piece_bytes(0);
  expect_error(ErrorKind::kDamaged, "pieces of 0", [&] { from_wire(depot, "there"); });
}

class PlayedDepot final : public data::PieceDoor {
 public:
  data::DepotView open(const Deadline&) override {
    if (opens++ == 0) throw Error(ErrorKind::kNotFound, "no host of this job has the data");
    return {kCatalog, "/cache", 16384};
  }
  std::vector<std::byte> fetch(const data::PieceId& piece, const Deadline&) override {
    if (piece.shard == 9) throw Error(ErrorKind::kIo, "no host gives it", {}, "Start one.");
    return std::vector<std::byte>(piece.piece, static_cast<std::byte>(piece.shard));
  }
  void expect(std::span<const data::PieceId> pieces) override {
    const MutexLock lock(mutex_);
    expected_.insert(expected_.end(), pieces.begin(), pieces.end());
  }
  std::vector<data::PieceId> expected() {
    const MutexLock lock(mutex_);
    return expected_;
  }

  std::atomic<int> opens = 0;

 private:
  Mutex mutex_;
  std::vector<data::PieceId> expected_ MUSTER_GUARDED_BY(mutex_);
};

class DepotDoorTest : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder_;
  PlayedDepot depot_;
  DepotDoor door_{depot_, folder_.path()};
};

TEST_F(DepotDoorTest, WorkersReachTheDepotOfTheirHost) {
  const auto worker = open_depot(door_.address());
  const data::DepotView view = worker->open(Deadline::after(60s));
  EXPECT_EQ(view.catalog, kCatalog);
  EXPECT_EQ(view.cache, "/cache");
  EXPECT_EQ(view.piece_bytes, 16384U);
  EXPECT_EQ(depot_.opens, 2) << "asked again until a host had it";
  EXPECT_EQ(worker->fetch({3, 5}, Deadline::after(60s)), std::vector<std::byte>(5, std::byte{3}));
  expect_error(ErrorKind::kIo, "Start one.", [&] { worker->fetch({9, 1}, Deadline::after(60s)); });
}

TEST_F(DepotDoorTest, WhatIsExpectedArrivesInOrder) {
  const auto worker = open_depot(door_.address());
  std::vector<data::PieceId> pieces;
  for (std::uint64_t i = 0; i < 10000; ++i)
    pieces.push_back({i % 3, i});
  worker->expect(pieces);
  worker->expect({});
  EXPECT_TRUE(testing::eventually([&] { return depot_.expected() == pieces; }, Deadline::after(60s)));
}

TEST_F(DepotDoorTest, WithoutTheTokenNobodyIsAnswered) {
  make_token(folder_ / "other.token");
  const std::string socket = door_.address().substr(0, door_.address().find(','));
  const auto stranger = open_depot(socket + "," + (folder_ / "other.token").string());
  expect_error(ErrorKind::kInvalidInput, "token", [&] { stranger->fetch({0, 1}, Deadline::after(60s)); });
  expect_error(ErrorKind::kInvalidInput, "MUSTER_DATA", [] { open_depot("10.0.0.1:7400"); });
}

}  // namespace
}  // namespace muster::control
