// What comes over a socket: strangers, nonsense, and networks that lose, break and alter what they carry.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/random.h"
#include "muster/control/certificates.h"
#include "muster/control/job_secrets.h"
#include "muster/control/server_places.h"
#include "muster/control/trust_files.h"
#include "muster/strategies/parameter_server/grpc_messages.h"
#include "muster/strategies/parameter_server/job_transport.h"
#include "support/errors.h"
#include "support/fault_proxy.h"
#include "support/other_user.h"
#include "support/sandbox.h"
#include "unit/strategies/sample_messages.h"
#include "unit/strategies/transports.h"

namespace muster::strategies {
namespace {

using muster::testing::expect_error;
using muster::testing::FaultProxy;
using muster::testing::OtherUser;

std::uint16_t port_of(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

void expect_served(Connection& connection) {
  std::vector<std::byte> reply(300);
  connection.wait(connection.start(numbered(), bytes_of(300, 7), reply, soon()), soon());
  EXPECT_TRUE(reply == bytes_of(300, 7));
}

std::vector<wire::Frame> frames_of(std::uint64_t call, std::size_t size) {
  std::vector<wire::Frame> frames;
  const std::vector<std::byte> body = bytes_of(size, static_cast<int>(call));
  const Request request = numbered(call);
  cut_into_frames(call, encode(request), body, [&](const Frame& frame) {
    to_wire(frame, frames.emplace_back());
    if (frame.part == 0) to_wire(request, frames.back());
  });
  return frames;
}

TEST(Frames, ComeTogetherAgain) {
  WireJoiner joiner(WireJoiner::Side::kRequests, 5 * kMostFrameBody);
  std::uint64_t call = 0;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kMostFrameBody - 1, kMostFrameBody, kMostFrameBody + 1,
                                 3 * kMostFrameBody, 5 * kMostFrameBody}) {
    ++call;
    const std::vector<wire::Frame> frames = frames_of(call, size);
    EXPECT_EQ(frames.size(), std::max<std::size_t>(1, (size + kMostFrameBody - 1) / kMostFrameBody));
    for (std::size_t i = 0; i < frames.size(); ++i) {
      EXPECT_LE(frames[i].ByteSizeLong(), kMostFrame);
      const std::optional<Framed> message = joiner.add(frames[i]);
      ASSERT_EQ(message.has_value(), i + 1 == frames.size());
      if (!message) continue;
      EXPECT_EQ(message->call, call);
      EXPECT_TRUE(decode_request(message->head.view()) == numbered(call));
      EXPECT_TRUE(message->body == bytes_of(size, static_cast<int>(call)));
    }
  }
}

// In what travels. gRPC ends a stream by itself whose frames are no messages of the contract.
TEST(Frames, EveryFlippedBitIsFoundOrChangesNothing) {
  const std::string whole = frames_of(1, 100)[0].SerializeAsString();
  int found = 0;
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string altered = whole;
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << bit % 8));
    wire::Frame frame;
    if (!frame.ParseFromString(altered)) continue;
    WireJoiner joiner(WireJoiner::Side::kRequests, 1000);
    try {
      const std::optional<Framed> message = joiner.add(frame);
      ASSERT_TRUE(message);
      EXPECT_EQ(message->call, 1U);
      EXPECT_TRUE(decode_request(message->head.view()) == numbered(1)) << "bit " << bit;
      EXPECT_TRUE(message->body == bytes_of(100, 1)) << "bit " << bit;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
      ++found;
    }
  }
  EXPECT_GT(found, 8 * 100) << "all of the body, at least";
}

TEST(GrpcMessages, TheContractHasEveryRequestAndEveryReply) {
  for (const Request& request : every_request()) {
    wire::Frame frame;
    to_wire(request, frame);
    wire::Frame other;
    ASSERT_TRUE(other.ParseFromString(frame.SerializeAsString()));
    EXPECT_TRUE(request_from_wire(other) == request) << frame.ShortDebugString();
    expect_error(ErrorKind::kDamaged, "no reply", [&] { reply_from_wire(frame); });
  }
  for (const Reply& reply : every_reply()) {
    wire::Frame frame;
    to_wire(reply, frame);
    wire::Frame other;
    ASSERT_TRUE(other.ParseFromString(frame.SerializeAsString()));
    EXPECT_TRUE(reply_from_wire(other) == reply) << frame.ShortDebugString();
    expect_error(ErrorKind::kDamaged, "no request", [&] { request_from_wire(frame); });
  }
}

// The fields have the names of those in message.h: what a reader of the contract finds is what was meant.
TEST(GrpcMessages, FieldsAreCalledWhatTheyAre) {
  wire::Frame frame;
  to_wire(Request{.chunk = 3,
                  .passed_on_for = 4,
                  .verb = PushLaneRequest{.step = 5, .lane = 6, .lanes = 7, .manner = LaneManner::kKept}},
          frame);
  EXPECT_EQ(frame.request().chunk(), 3U);
  EXPECT_EQ(frame.request().passed_on_for(), 4U);
  EXPECT_EQ(frame.request().push_lane().step(), 5U);
  EXPECT_EQ(frame.request().push_lane().lane(), 6U);
  EXPECT_EQ(frame.request().push_lane().lanes(), 7U);
  EXPECT_EQ(frame.request().push_lane().manner(), wire::KEPT);
  to_wire(Request{.verb = LeaseRequest{.want = Want::kSettled, .place = 8, .workers_generation = 9}}, frame);
  EXPECT_EQ(frame.request().lease().want(), wire::SETTLED);
  EXPECT_EQ(frame.request().lease().place(), 8U);
  EXPECT_EQ(frame.request().lease().workers_generation(), 9U);
  to_wire(Reply{.status = Status::kRefused, .details = LeaseReply{.grant = Grant::kClosed, .floor = 10}}, frame);
  EXPECT_EQ(frame.reply().status(), wire::REFUSED);
  EXPECT_EQ(frame.reply().lease().grant(), wire::CLOSED);
  EXPECT_EQ(frame.reply().lease().floor(), 10U);
}

TEST(GrpcMessages, EnumsThatNobodyKnowsAreRefused) {
  for (const int value : {-1, 3, 255, 256, 1 << 30}) {
    wire::Frame frame;
    frame.mutable_request()->mutable_push_lane()->set_manner(static_cast<wire::LaneManner>(value));
    expect_error(ErrorKind::kDamaged, "", [&] { decode_request(encode(request_from_wire(frame)).view()); });
  }
}

TEST(Frames, NonsenseIsRefused) {
  const wire::Frame small = frames_of(1, 100)[0];
  const std::vector<wire::Frame> large = frames_of(2, 3 * kMostFrameBody);
  const auto refused = [](const std::vector<wire::Frame>& frames, const std::string& words) {
    WireJoiner joiner(WireJoiner::Side::kRequests, 3 * kMostFrameBody);
    expect_error(ErrorKind::kDamaged, words, [&] {
      for (const wire::Frame& frame : frames)
        joiner.add(frame);
    });
  };
  wire::Frame broken;
  refused({broken}, "no request");
  broken.mutable_request()->set_chunk(1);
  refused({broken}, "no request");
  to_wire(Reply(), broken);
  refused({broken}, "no request");
  broken = large[1];
  to_wire(numbered(), broken);
  refused({large[0], broken}, "a head in part 1");
  broken = large[1];
  broken.set_body_bytes(1);
  refused({large[0], broken}, "altered");
  broken = small;
  broken.set_body(small.body().substr(1));
  refused({broken}, "altered");
  refused({large[1]}, "part 1 of a message where part 0 was due");
  refused({large[0], large[2]}, "part 2 of a message where part 1 was due");
  refused({large[0], large[0]}, "part 0");
  refused({large[0], frames_of(3, 3 * kMostFrameBody)[1]}, "in the middle of");
  refused(frames_of(4, 3 * kMostFrameBody + 1), "at most");
}

TEST(GrpcTransport, ListensOnThisMachineOnly) {
  for (const std::string place :
       {"0.0.0.0:0", "[::]:0", "192.168.1.1:80", "localhost:0", "dns:///127.0.0.1:0", "ipv4:0.0.0.0:0", "127.0.0.1",
        "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:1x", "", ":80", "unix:", "*:0", "127.0.0.1.example.org:80"}) {
    expect_error(ErrorKind::kInvalidInput, "Unix socket", [&] { make_grpc_inbox(kLimits, 0, place, kToken); });
    expect_error(ErrorKind::kInvalidInput, "Unix socket", [&] { connect_grpc(place, kToken, 0, kLimits, soon()); });
  }
}

// Certificates as jobs of several hosts have them, each set in a folder.
class GrpcTrust : public ::testing::Test {
 protected:
  GrpcReach reach(const std::string& name, const control::CertificateFiles& files) {
    control::write_certificate_files(folder_ / name, files);
    GrpcReach made;
    made.other_hosts = true;
    made.trust.certs = folder_ / name;
    return made;
  }
  GrpcReach of_job(const std::string& name) {
    const control::JobSecrets secrets = control::make_job_secrets("test", true, std::chrono::system_clock::now());
    return reach(name, {secrets.authority, secrets.certificate, secrets.key});
  }
  // One of the same authority, but of a role that has no business here.
  GrpcReach of_role(const std::string& name, control::CallerRole role, const control::SignedKey& authority) {
    const control::SignedKey own = control::make_certificate(authority, {role, name, {}}, life_);
    return reach(name, {authority.certificate, own.certificate, own.key});
  }
  // What becomes of somebody who says nothing of certificates, or has others.
  static Error refusal(const Inbox& inbox, const GrpcReach& caller) {
    try {
      connect_grpc(inbox.address(), kToken, 0, kLimits, Deadline::after(std::chrono::seconds(5)), caller);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "it was let in";
    return Error(ErrorKind::kCompute, "");
  }

  const muster::testing::TemporaryFolder folder_;
  const control::CertificateLife life_{std::chrono::system_clock::now() - std::chrono::hours(1),
                                       std::chrono::system_clock::now() + std::chrono::hours(1)};
};

TEST_F(GrpcTrust, CallsAreServedToThoseOfTheJobAndToNobodyElse) {
  const GrpcReach job = of_job("job");
  const auto inbox = make_grpc_inbox(kLimits, 0, "127.0.0.1:0", kToken, job);
  const Serving serving(*inbox, echo);
  expect_served(*connect_grpc(inbox->address(), kToken, 0, kLimits, soon(), job));
  // In the plain, and by another job's certificate, which neither end takes.
  EXPECT_TRUE(refusal(*inbox, {}).retryable());
  EXPECT_TRUE(refusal(*inbox, of_job("other")).retryable());
  expect_error(ErrorKind::kInvalidInput, "token",
               [&] { connect_grpc(inbox->address(), std::string(64, 'b'), 0, kLimits, soon(), job); });
  expect_served(*connect_grpc(inbox->address(), kToken, 1, kLimits, soon(), job));
}

TEST_F(GrpcTrust, ARoleThatMayNotIsToldSo) {
  const control::SignedKey authority = control::make_authority("test", life_);
  const auto inbox = make_grpc_inbox(kLimits, 0, "127.0.0.1:0", kToken,
                                     of_role("server", control::CallerRole::kCoordinator, authority));
  const Serving serving(*inbox, echo);
  const Error user = refusal(*inbox, of_role("user", control::CallerRole::kUser, authority));
  EXPECT_EQ(user.kind(), ErrorKind::kInvalidInput);
  EXPECT_THAT(user.message(), ::testing::HasSubstr("Calls is not for the role \"user\""));
  expect_served(*connect_grpc(inbox->address(), kToken, 0, kLimits, soon(),
                              of_role("agent", control::CallerRole::kAgent, authority)));
}

TEST_F(GrpcTrust, AServerThatHasNoCertificateForServingGetsNothingSent) {
  const control::SignedKey authority = control::make_authority("test", life_);
  expect_error(ErrorKind::kInvalidInput, "not for this use", [&] {
    make_grpc_inbox(kLimits, 0, "127.0.0.1:0", kToken, of_role("agent", control::CallerRole::kAgent, authority));
  });
  // In the plain, where certificates are expected.
  const auto inbox = make_grpc_inbox(kLimits, 0, "127.0.0.1:0", kToken);
  const Serving serving(*inbox, echo);
  EXPECT_TRUE(refusal(*inbox, of_job("job")).retryable());
}

TEST_F(GrpcTrust, NumbersOfClientsMayBeLarge) {
  TransportLimits many = kLimits;
  many.clients = (1 << 24) + 8;
  const auto inbox = make_grpc_inbox(many, 0, "127.0.0.1:0", kToken, GrpcReach{.other_hosts = true});
  const Serving serving(*inbox, echo);
  expect_served(*connect_grpc(inbox->address(), kToken, 64 * 17 + 3, many, soon()));
  expect_served(*connect_grpc(inbox->address(), kToken, (1 << 24) + 7, many, soon()));
}

TEST(GrpcTransport, AddressesOfOtherHostsAreInNumbers) {
  const GrpcReach reach{.other_hosts = true};
  for (const std::string place : {"localhost:0", "dns:///127.0.0.1:0", "10.0.0.1", "10.0.0.1:", "10.0.0.1:65536", "",
                                  ":80", "*:0", "10.0.0.1.example.org:80", "fd00::1", "[fd00::1]"}) {
    expect_error(ErrorKind::kInvalidInput, "numbers", [&] { make_grpc_inbox(kLimits, 0, place, kToken, reach); });
    expect_error(ErrorKind::kInvalidInput, "numbers", [&] { connect_grpc(place, kToken, 0, kLimits, soon(), reach); });
  }
}

TEST(GrpcTransport, TwoServersNeverShareAPort) {
  const auto inbox = make_inbox("grpc");
  expect_error(ErrorKind::kIo, "cannot listen", [&] { make_grpc_inbox(kLimits, 0, inbox->address(), kToken); });
}

TEST(GrpcTransport, ServesOnUnixSockets) {
  const muster::testing::TemporaryFolder folder;
  for (const std::string& place : {"unix:" + (folder / "socket").string(),
                                   std::string("unix-abstract:muster-test-") + folder.path().filename().string()}) {
    const auto inbox = make_grpc_inbox(kLimits, 0, place, kToken);
    EXPECT_EQ(inbox->address(), place);
    const Serving serving(*inbox, echo);
    expect_served(*connect("grpc", inbox->address()));
  }
  EXPECT_THAT(folder.names(), ::testing::IsEmpty());
}

TEST(GrpcTransport, WhoHasNoTokenGetsNothing) {
  const auto inbox = make_inbox("grpc");
  const Serving serving(*inbox, [](Inbox& box, const Incoming& call) { echo(box, call); });
  for (const std::string& token : {std::string(64, 'b'), std::string(63, 'a'), std::string(65, 'a')})
    expect_error(ErrorKind::kInvalidInput, "token", [&] { connect_grpc(inbox->address(), token, 0, kLimits, soon()); });
  expect_served(*connect("grpc", inbox->address()));
}

TEST(JobTransport, WhoeverReadsTheJobsStoreIsServedAndOthersAreNot) {
  ServerPlan plan;
  EXPECT_FALSE(job_transport(*comm::make_memory_store(), plan, soon()).connect) << "through shared memory";
  plan.grpc = true;
  const auto store = comm::make_memory_store();
  put_token(*store, plan);
  const JobTransport before = job_transport(*store, plan, soon());
  put_token(*store, plan);  // a first worker that died early is followed by another one
  const auto inbox = job_transport(*store, plan, soon()).make_inbox(plan.limits(), 0);
  EXPECT_TRUE(inbox->address().starts_with("unix-abstract:")) << inbox->address();
  const Serving serving(*inbox, echo);
  expect_served(*before.connect(inbox->address(), 0, soon()));
  const auto other = comm::make_memory_store();
  put_token(*other, plan);
  expect_error(ErrorKind::kInvalidInput, "token",
               [&] { job_transport(*other, plan, soon()).connect(inbox->address(), 0, soon()); });
}

constexpr std::string_view kAbstract = "unix-abstract:";

TEST(JobTransport, AnotherUserThatTakesADeadServersNameGetsNothing) {
  if (!OtherUser::possible()) GTEST_SKIP() << "needs root to become another user";
  ServerPlan plan;
  plan.grpc = true;
  const auto store = comm::make_memory_store();
  put_token(*store, plan);
  const JobTransport transport = job_transport(*store, plan, soon());
  const std::string address = transport.make_inbox(plan.limits(), 0)->address();  // and it is dead
  OtherUser other(address.substr(kAbstract.size()), SOCK_STREAM);
  expect_error(ErrorKind::kPeerLost, "of user 65534 listens where the parameter server of user 0 should",
               [&] { transport.connect(address, 0, Deadline::after(std::chrono::seconds(5))); });
  const OtherUser::Heard heard = other.heard();
  EXPECT_EQ(heard.connections, 1);
  EXPECT_EQ(heard.bytes.find(store->get("plan/token", soon())), std::string::npos) << "it has the token";
  EXPECT_EQ(heard.bytes, "");
}

TEST(JobTransport, ConnectionsOfOtherUsersAreClosedUnread) {
  if (!OtherUser::possible()) GTEST_SKIP() << "needs root to become another user";
  ServerPlan plan;
  plan.grpc = true;
  const auto store = comm::make_memory_store();
  put_token(*store, plan);
  const JobTransport transport = job_transport(*store, plan, soon());
  const auto inbox = transport.make_inbox(plan.limits(), 0);
  const Serving serving(*inbox, echo);
  const int status = muster::testing::status_of_child([&] {
    if (::seteuid(OtherUser::kUser) != 0) return 9;
    sockaddr_un place{};
    place.sun_family = AF_UNIX;
    const std::string name = inbox->address().substr(kAbstract.size());
    name.copy(place.sun_path + 1, name.size());
    const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), length) != 0) return 8;
    char byte = 0;
    return ::read(socket.get(), &byte, 1) == 0 ? 0 : 1;  // closed, where gRPC would begin with its settings
  });
  EXPECT_EQ(status, 0);
  expect_served(*transport.connect(inbox->address(), 0, soon()));
}

TEST(GrpcTransport, ANewStreamTakesTheOldOnesPlace) {
  const auto inbox = make_inbox("grpc");
  const Serving serving(*inbox, echo);
  const auto old = connect("grpc", inbox->address(), 1);
  expect_served(*old);
  const auto fresh = connect("grpc", inbox->address(), 1);
  expect_served(*fresh);
  expect_error(ErrorKind::kPeerLost, "", [&] {
    for (const Deadline deadline = soon(); !deadline.passed();)
      expect_served(*old);
  });
  expect_served(*fresh);
}

// Bytes that are no gRPC at all.
TEST(GrpcTransport, GarbageOnThePortHarmsNobody) {
  const auto inbox = make_inbox("grpc");
  const Serving serving(*inbox, echo);
  const auto connection = connect("grpc", inbox->address());
  std::string noise(20'000, '\0');
  RandomStream chance({.seed = 3});
  for (char& byte : noise)
    byte = static_cast<char>(chance.next_u32());
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  std::vector<FileDescriptor> open;  // some are left open, as a slow attacker would
  for (const std::string& bytes :
       {noise, std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(4096, '\xff'), preface + noise,
        preface + std::string("\xff\xff\xff\x00\x00\x00\x00\x00\x01", 9) + noise,
        preface + std::string("\x00\x00\x00\x04\x00\x00\x00\x00\x00", 9) + std::string("\x00\x00\x04\x01", 4)}) {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port_of(inbox->address()));
    ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    (void)!::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    open.push_back(std::move(socket));
    expect_served(*connection);
  }
  open.clear();
  expect_served(*connection);
  expect_served(*connect("grpc", inbox->address(), 1));
}

// A client with the token that does not keep to the contract loses its stream.
TEST(GrpcTransport, BadFramesEndTheirStreamAndNoOther) {
  const auto inbox = make_inbox("grpc");
  const auto good = connect("grpc", inbox->address(), 1);
  const auto stub =
      wire::ParameterServer::NewStub(grpc::CreateChannel(inbox->address(), grpc::InsecureChannelCredentials()));
  const auto ends = [&](const std::vector<wire::Frame>& frames) {
    grpc::ClientContext context;
    context.AddMetadata("muster-token", kToken);
    context.AddMetadata("muster-client", "0");
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    const auto stream = stub->Calls(&context);
    for (const wire::Frame& frame : frames)
      if (!stream->Write(frame)) break;
    wire::Frame reply;
    while (stream->Read(&reply)) {
    }
    const grpc::Status status = stream->Finish();
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  };
  const auto several = [](std::initializer_list<std::uint64_t> calls) {
    std::vector<wire::Frame> frames;
    for (const std::uint64_t call : calls)
      frames.push_back(frames_of(call, 10)[0]);
    return frames;
  };
  ends({wire::Frame()});
  ends(frames_of(1, kLimits.most_body + 1));
  ends({frames_of(1, kLimits.most_body)[1]});
  ends(several({1, 1}));           // doubled
  ends(several({2}));              // one was lost
  ends(several({1, 2, 3, 4, 5}));  // more than the window
  wire::Frame huge;
  huge.set_body(std::string(5 << 20, 'x'));
  ends({huge});
  EXPECT_FALSE(inbox->next(Deadline::after(std::chrono::milliseconds(20))));
  const Serving serving(*inbox, echo);
  expect_served(*good);
}

// Counts updates by their ids, as a server of parameters does.
class Counter {
 public:
  void operator()(Inbox& inbox, const Incoming& call) {
    const std::uint64_t id = number_of(call.request);
    if (!std::ranges::equal(call.body, bytes_of(call.body.size(), static_cast<int>(id)))) ++wrong_;
    const bool fresh = seen_.insert(id).second;
    if (fresh) ++applied_[id];
    duplicates_ += fresh ? 0 : 1;
    inbox.reply(call.handle, {.status = fresh ? Status::kDone : Status::kDuplicate}, {});
  }
  const std::map<std::uint64_t, int>& applied() const { return applied_; }
  int duplicates() const { return duplicates_; }
  int wrong() const { return wrong_; }

 private:
  std::set<std::uint64_t> seen_;
  std::map<std::uint64_t, int> applied_;
  int duplicates_ = 0;
  int wrong_ = 0;
};

// Sends updates through a proxy, and those again whose fate is unknown.
class Pusher {
 public:
  Pusher(FaultProxy& proxy, std::uint64_t updates) : proxy_(proxy) {
    for (std::uint64_t id = 1; id <= updates; ++id)
      unacknowledged_.insert(id);
  }

  void run(RandomStream& chance) {
    while (!unacknowledged_.empty()) {
      try {
        const auto connection =
            connect_grpc(proxy_.address(), kToken, 0, kLimits, Deadline::after(std::chrono::milliseconds(500)));
        while (!unacknowledged_.empty())
          push_some(*connection, chance);
      } catch (const Error& error) {
        EXPECT_TRUE(error.retryable()) << error.what();
        ++failures_;
      }
    }
  }
  int failures() const { return failures_; }

 private:
  void push_some(Connection& connection, RandomStream& chance) {
    const Deadline deadline = Deadline::after(std::chrono::milliseconds(200));
    std::map<std::uint64_t, Connection::Call> calls;
    for (const std::uint64_t id : unacknowledged_) {
      if (calls.size() == 4) break;
      const std::size_t size = chance.below(40'000);
      calls[id] = connection.start(numbered(id), bytes_of(size, static_cast<int>(id)), {}, deadline);
      do_harm(chance);
    }
    for (const auto& [id, call] : calls) {
      const Status status = connection.wait(call, deadline).status;
      EXPECT_TRUE(status == Status::kDone || status == Status::kDuplicate);
      unacknowledged_.erase(id);
    }
  }

  void do_harm(RandomStream& chance) {
    switch (chance.below(40)) {
      case 0:
        return proxy_.cut();
      case 1:
        return proxy_.swallow(FaultProxy::Direction::kToServer);
      case 2:
        return proxy_.swallow(FaultProxy::Direction::kToClient);
      case 3:
        return proxy_.flip(FaultProxy::Direction::kToServer);
      case 4:
        return proxy_.flip(FaultProxy::Direction::kToClient);
      case 5:
        return proxy_.delay(std::chrono::milliseconds(1));
      case 6:
        return proxy_.delay(std::chrono::milliseconds(0));
      default:
        return;
    }
  }

  FaultProxy& proxy_;
  std::set<std::uint64_t> unacknowledged_;
  int failures_ = 0;
};

TEST(GrpcTransport, UpdatesAreAppliedOnceThroughANetworkThatLosesAndAlters) {
  constexpr std::uint64_t kUpdates = 150;
  const auto inbox = make_inbox("grpc");
  FaultProxy proxy(port_of(inbox->address()));
  Counter counter;
  RandomStream chance({.seed = 8});
  Pusher pusher(proxy, kUpdates);
  {
    const Serving serving(*inbox, std::ref(counter));
    pusher.run(chance);
  }
  std::map<std::uint64_t, int> once;
  for (std::uint64_t id = 1; id <= kUpdates; ++id)
    once[id] = 1;
  EXPECT_EQ(counter.applied(), once);
  EXPECT_EQ(counter.wrong(), 0);
  // Else the network did no harm, and nothing was tested.
  EXPECT_GE(pusher.failures(), 5);
  EXPECT_GE(counter.duplicates(), 1);
}

}  // namespace
}  // namespace muster::strategies
