// Client and server over a real socket; garbage, silence and strangers written by hand.
#include "muster/control/control_server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "control.grpc.pb.h"
#include "muster/base/error.h"
#include "muster/control/access_token.h"
#include "muster/control/control_client.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/sandbox.h"

namespace muster::control {
namespace {

using muster::testing::error_of;
using muster::testing::slurp;
using muster::testing::spill;
using muster::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ProcessId kNobody{2'000'000'000, 1};

Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}

JobStatus example_status() {
  JobStatus status;
  status.job = "fashion";
  status.run = "runs/fashion-1";
  status.state = "running";
  status.reason = "because";
  status.generation = 4;
  status.step = 17;
  status.total_steps = 100;
  status.epoch = 2;
  status.samples_per_second = 1234.5;
  status.min_workers = 1;
  status.max_workers = 4;
  status.target_workers = 2;
  status.min_servers = 1;
  status.max_servers = 8;
  status.target_servers = 3;
  status.servers = 2;
  status.leaving_servers = 4;
  status.coordinator_pid = 77;
  status.members = {
      {.rank = 0, .process = {11, 12}, .restarts = 0, .state = WorkerState::kRunning, .lane = 3, .step = 17},
      {.rank = 1,
       .process = {13, 14},
       .restarts = 2,
       .state = WorkerState::kStarting,
       .waits_for = "lane 3",
       .seconds = 1.5}};
  status.alarms = {"the disk is nearly full"};
  return status;
}

class ControlServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    log_.open_file(folder_ / "log.txt");
    record_ = std::make_unique<JobRecord>(make_sqlite_store(store_file(folder_.path())));
    record_->take_over(this_process());
    record_->begin({"fashion", folder_.path().string(), "20261115-193427"}, {1, 4, 2, false, 2, 8, 2});
  }
  void start() {
    ControlCallbacks callbacks;
    callbacks.status = [] { return example_status(); };
    callbacks.command_stored = [this] { ++stored_; };
    callbacks.check_change = [](const std::string& assignment) {
      if (assignment.starts_with("job."))
        throw Error(ErrorKind::kInvalidInput, "job.seed is fixed", "job.toml:3", "Start a new run.");
    };
    server_ = std::make_unique<ControlServer>(*record_, folder_.path(), callbacks, log_, clock_);
  }
  ControlClient client() const { return ControlClient(folder_.path()); }

  TemporaryFolder folder_;
  Log log_{LogLevel::kOff};
  FakeClock clock_;
  std::atomic<int> stored_{0};
  std::unique_ptr<JobRecord> record_;
  std::unique_ptr<ControlServer> server_;
};

TEST_F(ControlServerTest, TellsTheStatus) {
  start();
  const JobStatus status = client().status(soon());
  JobStatus expected = example_status();
  expected.live = true;
  EXPECT_EQ(to_json(status), to_json(expected));
  EXPECT_EQ(status.members[1].process, (ProcessId{13, 14}));
}

TEST_F(ControlServerTest, CommandsAreInTheRecordWhenTheyAreAcknowledged) {
  start();
  EXPECT_EQ(client().scale({.workers = 3}, soon()).target_workers, 3);
  EXPECT_EQ(client().scale({.servers = 5}, soon()), (WantedState{1, 4, 3, false, 2, 8, 5}));
  EXPECT_EQ(client().set("optimizer.lr=0.5", soon()).number, 1u);
  EXPECT_TRUE(client().stop(soon()).stop);
  EXPECT_EQ(stored_, 4);
  const JobRecord reader(make_sqlite_store(store_file(folder_.path())));
  EXPECT_EQ(reader.wanted(), (WantedState{1, 4, 3, true, 2, 8, 5}));
  EXPECT_THAT(reader.changes(), ElementsAre(Change{1, "optimizer.lr=0.5", std::nullopt}));
}

TEST_F(ControlServerTest, RepeatedCallTakesEffectOnce) {
  start();
  const std::string request = ControlClient::new_request();
  client().set("optimizer.lr=0.5", soon(), request);
  EXPECT_EQ(client().set("optimizer.lr=0.5", soon(), request).number, 1u);
  EXPECT_EQ(record_->changes().size(), 1u);
}

TEST_F(ControlServerTest, RefusalsArriveAsTheyWereThrown) {
  start();
  const Error error = error_of([&] { client().set("job.seed=3", soon()); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(error.message(), "job.seed is fixed");
  EXPECT_EQ(error.where(), "job.toml:3");
  EXPECT_EQ(error.remedy(), "Start a new run.");
  EXPECT_EQ(error_of([&] { client().scale({.workers = 9}, soon()); }).kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(error_of([&] { client().set(std::string(2000, 'x'), soon()); }).kind(), ErrorKind::kInvalidInput);
  EXPECT_TRUE(record_->changes().empty());
  EXPECT_EQ(stored_, 0);
}

TEST_F(ControlServerTest, TextThatIsNoUtf8DoesNotBreakTheCall) {
  ControlCallbacks callbacks;
  callbacks.status = [] {
    JobStatus status;
    status.job = "a\xff\xfe";
    return status;
  };
  server_ = std::make_unique<ControlServer>(*record_, folder_.path(), callbacks, log_, clock_);
  EXPECT_EQ(client().status(soon()).job, "a??");
}

TEST_F(ControlServerTest, TokenIsPrivateAndLong) {
  start();
  struct stat status {};
  ASSERT_EQ(::stat(token_file(folder_.path()).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(read_token(token_file(folder_.path())).size(), 64u);
  const std::string first = read_token(token_file(folder_.path()));
  server_.reset();
  start();
  EXPECT_NE(read_token(token_file(folder_.path())), first);
}

TEST_F(ControlServerTest, WrongTokensAreRefusedWithOneLineInTheLog) {
  start();
  const std::string good = slurp(token_file(folder_.path()));
  std::string wrong = good;
  wrong[0] = wrong[0] == '0' ? '1' : '0';
  spill(token_file(folder_.path()), wrong);
  for (int i = 0; i < 5; ++i) {
    const Error error = error_of([&] { client().stop(soon()); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_THAT(error.what(), HasSubstr("token"));
  }
  EXPECT_FALSE(record_->wanted().stop);
  const auto lines = [&] {
    const std::string text = slurp(folder_ / "log.txt");
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines(), 1);
  clock_.advance(std::chrono::seconds(11));
  error_of([&] { client().stop(soon()); });
  EXPECT_EQ(lines(), 2);
  EXPECT_THAT(slurp(folder_ / "log.txt"), HasSubstr("refused 5 call(s)"));  // four unreported and this one
  EXPECT_THAT(slurp(folder_ / "log.txt"), ::testing::Not(HasSubstr(wrong.substr(0, 64))));
}

TEST_F(ControlServerTest, CallsWithoutOrWithTwoTokensAreRefused) {
  start();
  const auto stub = v1::Control::NewStub(grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  const std::string token = read_token(token_file(folder_.path()));
  const auto code_with = [&](const std::vector<std::string>& tokens) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    for (const std::string& each : tokens)
      context.AddMetadata("muster-token", each);
    v1::WantedReply reply;
    v1::StopRequest request;
    request.set_request("r");
    return stub->Stop(&context, request, &reply).error_code();
  };
  EXPECT_EQ(code_with({}), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code_with({""}), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code_with({token.substr(1)}), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code_with({token + "0"}), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code_with({std::string(64, '0'), token}), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_FALSE(record_->wanted().stop);
  EXPECT_EQ(code_with({token}), grpc::StatusCode::OK);
}

TEST_F(ControlServerTest, OversizedRequestsAreRefused) {
  start();
  const auto stub = v1::Control::NewStub(grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  context.AddMetadata("muster-token", read_token(token_file(folder_.path())));
  v1::SetRequest request;
  request.set_request("r");
  request.set_assignment(std::string(20'000, 'x'));
  v1::SetReply reply;
  EXPECT_EQ(stub->Set(&context, request, &reply).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(client().status(soon()).job, "fashion");
}

// Connects to the server's socket by hand.
int raw_connection(const std::string& address) {
  const std::string name = address.substr(std::string("unix-abstract:").size());
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  name.copy(place.sun_path + 1, name.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&place), length), 0);
  return fd;
}

TEST_F(ControlServerTest, GarbageAndSilentConnectionsDisturbNobody) {
  start();
  std::vector<int> sockets;
  for (const std::string& bytes : {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1000, '\xff'),
                                   std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff", 29)}) {
    for (int i = 0; i < 20; ++i) {
      const int fd = raw_connection(server_->address());
      EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
      sockets.push_back(fd);
    }
  }
  EXPECT_EQ(client().scale({.workers = 4}, soon()).target_workers, 4);
  for (const int fd : sockets)
    ::close(fd);
  EXPECT_EQ(client().status(soon()).job, "fashion");
}

TEST_F(ControlServerTest, ManyClientsAtOnceAreServed) {
  start();
  muster::testing::run_ranks(6, [&](int rank) { client().set("optimizer.lr=" + std::to_string(rank), soon()); });
  EXPECT_EQ(record_->changes().size(), 6u);
}

TEST_F(ControlServerTest, WithoutCoordinatorTheRecordAnswers) {
  start();
  record_->put_membership(
      {.generation = 5,
       .members = {{0, this_process(), 1, WorkerState::kRunning}, {1, kNobody, 0, WorkerState::kRunning}}});
  record_->put_standing({JobPhase::kRunning, "", 40, 90});
  server_.reset();
  // The lease of a process that is gone.
  record_ = std::make_unique<JobRecord>(make_sqlite_store(store_file(folder_.path())));
  record_->take_over(kNobody, true);
  const JobStatus status = client().status(soon());
  EXPECT_FALSE(status.live);
  EXPECT_EQ(status.job, "fashion");
  EXPECT_EQ(status.state, "running");
  EXPECT_EQ(status.step, 40u);
  EXPECT_EQ(status.generation, 5u);
  ASSERT_EQ(status.members.size(), 2u);
  EXPECT_EQ(status.members[0].state, WorkerState::kRunning);
  EXPECT_EQ(status.members[1].state, WorkerState::kGone);
  ASSERT_EQ(status.alarms.size(), 1u);
  EXPECT_THAT(status.alarms[0], HasSubstr("coordinator (pid 2000000000) is gone"));
  EXPECT_THAT(status.alarms[0], HasSubstr("0 (pid " + std::to_string(this_process().pid)));
  const Error error = error_of([&] { client().scale({.workers = 1}, soon()); });
  EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(error.what(), HasSubstr("is gone"));
  EXPECT_THAT(error.what(), HasSubstr("muster attach"));
}

TEST_F(ControlServerTest, JobThatIsOverRaisesNoAlarm) {
  record_->put_standing({JobPhase::kFinished, "all steps done", 90, 90});
  record_->release();
  const JobStatus status = client().status(soon());
  EXPECT_EQ(status.state, "finished");
  EXPECT_EQ(status.coordinator_pid, 0);
  EXPECT_THAT(status.alarms, IsEmpty());
}

TEST_F(ControlServerTest, CoordinatorThatDoesNotListenYetIsWaitedForUntilTheDeadline) {
  const JobStatus status = client().status(Deadline::after(std::chrono::milliseconds(120)));
  EXPECT_FALSE(status.live);
  ASSERT_EQ(status.alarms.size(), 1u);
  EXPECT_THAT(status.alarms[0], HasSubstr("does not listen yet"));
  std::thread later([&] { start(); });
  EXPECT_TRUE(client().status(soon()).live);
  later.join();
}

TEST_F(ControlServerTest, FencedCoordinatorAcknowledgesNothing) {
  start();
  const ControlClient old = client();
  JobRecord other(make_sqlite_store(store_file(folder_.path())));
  other.take_over(this_process(), true);
  other.put_endpoint(server_->address());  // the client is led to the old one
  EXPECT_EQ(error_of([&] { old.stop(soon()); }).kind(), ErrorKind::kMismatch);
  EXPECT_FALSE(other.wanted().stop);
}

TEST_F(ControlServerTest, TokenThatOthersMayReadIsNotUsed) {
  start();
  ::chmod(token_file(folder_.path()).c_str(), 0644);
  const Error error = error_of([&] { client().stop(soon()); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
  EXPECT_THAT(error.what(), HasSubstr("chmod 600"));
}

TEST_F(ControlServerTest, TokenIsNotSentToAnotherUsersProcess) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give the token file to another user";
  start();
  ASSERT_EQ(::chown(token_file(folder_.path()).c_str(), 65534, 65534), 0);
  const Error error = error_of([&] { client().stop(Deadline::after(std::chrono::milliseconds(100))); });
  EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(error.what(), HasSubstr("user 0 listens where the coordinator of user 65534"));
  EXPECT_FALSE(record_->wanted().stop);
}

TEST_F(ControlServerTest, ConnectionsOfOtherUsersAreClosedUnread) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  start();
  const int status = muster::testing::status_of_child([&] {
    if (::seteuid(65534) != 0) return 9;
    const int fd = raw_connection(server_->address());
    char byte = 0;
    return ::read(fd, &byte, 1) == 0 ? 0 : 1;  // closed, where gRPC would begin with its settings
  });
  EXPECT_EQ(status, 0);
  EXPECT_THAT(slurp(folder_ / "log.txt"), HasSubstr("user 65534"));
  EXPECT_EQ(client().status(soon()).job, "fashion");
}

TEST(ControlClient, SaysWhenARunHasNoRecord) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { ControlClient client(folder.path()); }).kind(), ErrorKind::kNotFound);
}

TEST(AccessToken, DamagedFilesAreRefused) {
  const TemporaryFolder folder;
  for (const std::string& text : {std::string(), std::string("abc\n"), std::string(64, 'x') + "\n"}) {
    spill(folder / "token", text);
    ::chmod((folder / "token").c_str(), 0600);
    EXPECT_EQ(error_of([&] { read_token(folder / "token"); }).kind(), ErrorKind::kDamaged);
  }
}

TEST(AccessToken, ComparesWholeTokens) {
  EXPECT_TRUE(same_token("abc", "abc"));
  EXPECT_FALSE(same_token("abc", "abd"));
  EXPECT_FALSE(same_token("abc", "ab"));
  EXPECT_FALSE(same_token("", "a"));
}

}  // namespace
}  // namespace muster::control
