// People who command a job from another machine: the coordinator's real port on loopback, certificates and tokens of
// all roles, and a coordinator that is not there.
#include "muster/control/far_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/control/cluster_server.h"
#include "muster/control/trust_files.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::control {
namespace {

using namespace std::chrono_literals;
using muster::testing::error_of;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Nobody trains here.
class NoHosts final : public ClusterCalls {
 public:
  Welcome join(const HostCard&) override { return {}; }
  Orders report(const HostReport&, std::uint64_t, std::chrono::milliseconds) override { return {}; }
  void store_set(std::uint64_t, std::string_view, std::string_view) override {}
  std::optional<std::string> store_get(std::uint64_t, std::string_view, std::chrono::milliseconds) override {
    return std::nullopt;
  }
  void leave(std::uint64_t, int, const std::string&) override {}
};

// Remembers what it was told.
class PlayedJob final : public ControlCalls {
 public:
  JobStatus status() override {
    JobStatus status;
    status.job = "digits";
    status.step = 17;
    return status;
  }
  WantedState scale(const std::string& request, const Scaling& scaling) override {
    return told(request, "scale"), WantedState{.target_workers = scaling.workers.value_or(-1)};
  }
  WantedState stop(const std::string& request) override { return told(request, "stop"), WantedState{.stop = true}; }
  Change set(const std::string& request, const std::string& assignment) override {
    if (assignment.starts_with("job.")) throw Error(ErrorKind::kInvalidInput, "job.seed is fixed");
    return told(request, assignment), Change{4, assignment, 9};
  }
  std::vector<std::string> told() {
    const MutexLock lock(mutex_);
    return told_;
  }

 private:
  void told(const std::string& request, const std::string& what) {
    const MutexLock lock(mutex_);
    told_.push_back(request + " " + what);
  }
  Mutex mutex_;
  std::vector<std::string> told_ MUSTER_GUARDED_BY(mutex_);
};

class FarControlTest : public ::testing::Test {
 protected:
  void listen(const TrustOptions& trust) {
    ClusterListen listen{.address = "127.0.0.1:0", .trust = trust, .note = [this](const std::string& line) {
                           const MutexLock lock(mutex_);
                           audit_.push_back(line);
                         }};
    server_.emplace(hosts_, listen, &job_);
  }
  void listen_with_certificates() {
    create_certificates(folder_ / "certs", {.hosts = {}, .now = system_clock().wall()});
    listen({.certs = folder_ / "certs/coordinator"});
  }
  FarControl caller(const TrustOptions& trust) const { return {{server_->address(), trust}, 20s}; }
  FarControl with_certificate(const std::string& role) const { return caller({.certs = folder_ / "certs" / role}); }
  std::vector<std::string> audit() {
    const MutexLock lock(mutex_);
    return audit_;
  }

  const testing::TemporaryFolder folder_;
  NoHosts hosts_;
  PlayedJob job_;
  Mutex mutex_;
  std::vector<std::string> audit_ MUSTER_GUARDED_BY(mutex_);
  std::optional<ClusterServer> server_;
};

TEST_F(FarControlTest, AUserLooksAndCommands) {
  listen_with_certificates();
  FarControl user = with_certificate("user");
  const JobStatus status = user.status();
  EXPECT_EQ(status.job, "digits");
  EXPECT_EQ(status.step, 17U);
  EXPECT_TRUE(status.live);
  EXPECT_EQ(user.scale("one", {.workers = 3}).target_workers, 3);
  EXPECT_EQ(user.set("two", "optimizer.lr=0.1").number, 4U);
  EXPECT_TRUE(user.stop("three").stop);
  EXPECT_THAT(job_.told(), ElementsAre("one scale", "two optimizer.lr=0.1", "three stop"));
  EXPECT_THAT(audit(), Contains(HasSubstr("Stop")));
  EXPECT_EQ(error_of([&] { user.set("four", "job.seed=2"); }).kind(), ErrorKind::kInvalidInput);
}

TEST_F(FarControlTest, AReaderOnlyLooksAndAnAgentDoesNotCommand) {
  listen_with_certificates();
  for (const std::string role : {"reader", "agent"}) {
    FarControl caller = with_certificate(role);
    EXPECT_EQ(caller.status().job, "digits") << role;
    const Error refused = error_of([&] { caller.stop("one"); });
    EXPECT_THAT(refused.what(), HasSubstr("is not for the role \"" + role + "\""));
  }
  EXPECT_THAT(job_.told(), IsEmpty());
}

TEST_F(FarControlTest, StrangersAreNotAnswered) {
  listen_with_certificates();
  create_certificates(folder_ / "others", {.hosts = {}, .now = system_clock().wall()});
  for (const TrustOptions& trust : {TrustOptions{}, TrustOptions{.certs = folder_ / "others/user"}}) {
    FarControl stranger{{server_->address(), trust}, 1s};
    EXPECT_THROW(stranger.status(), Error);
    EXPECT_THROW(stranger.stop("one"), Error);
  }
  EXPECT_THAT(job_.told(), IsEmpty());
}

TEST_F(FarControlTest, TokensHaveRolesToo) {
  create_certificates(folder_ / "certs", {.hosts = {"127.0.0.1"}, .now = system_clock().wall()});
  create_tokens(folder_ / "tokens");
  listen({.tls_certificate = folder_ / "certs/coordinator/cert.crt",
          .tls_key = folder_ / "certs/coordinator/cert.key",
          .token = folder_ / "tokens/tokens"});
  const auto with_token = [&](const std::string& role) {
    return caller({.tls_authority = folder_ / "certs/ca.crt", .token = folder_ / "tokens" / (role + ".token")});
  };
  EXPECT_TRUE(with_token("user").stop("one").stop);
  FarControl reader = with_token("reader");
  EXPECT_EQ(reader.status().job, "digits");
  EXPECT_THROW(reader.stop("two"), Error);
  EXPECT_THAT(job_.told(), ElementsAre("one stop"));
}

TEST_F(FarControlTest, ACommandWaitsForTheNextCoordinatorAndCountsOnce) {
  listen({});
  const std::string address = server_->address();
  server_.reset();
  FarControl user{{address, {}}, 20s};
  EXPECT_EQ(error_of([&] { user.status(); }).kind(), ErrorKind::kPeerLost);
  std::thread command([&] { EXPECT_EQ(user.scale("one", {.workers = 2}).target_workers, 2); });
  server_.emplace(hosts_, ClusterListen{.address = address}, &job_);
  command.join();
  EXPECT_THAT(job_.told(), ElementsAre("one scale"));
}

TEST_F(FarControlTest, WhereNobodyTakesCommandsThatIsSaid) {
  server_.emplace(hosts_, ClusterListen{.address = "127.0.0.1:0"});
  EXPECT_EQ(error_of([&] { caller({}).status(); }).kind(), ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace muster::control
