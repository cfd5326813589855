// Hosts as processes on loopback that are killed, stopped, told to leave, and lose their coordinator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <sstream>

#include <fmt/format.h>

#include "muster/base/mutex.h"
#include "muster/base/version.h"
#include "muster/control/cluster_server.h"
#include "muster/coordinator/cluster.h"
#include "muster/coordinator/coordinator.h"
#include "muster/launch/child_process.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::coordinator {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// What an agent has reported last.
struct Overheard {
  std::uint64_t host = 0;
  std::uint64_t begun = 0;
  std::uint64_t step = 0;
};

class HostsFaults : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("TMPDIR", temporary_.path().c_str(), 1); }
  void TearDown() override {
    for (auto& [name, agent] : agents_)
      agent.kill(SIGCONT);
    agents_.clear();
    end_orphans();
    ::unsetenv("TMPDIR");
  }

  // Workers outlive an agent that is killed. Each has left its number in the store of its host.
  void end_orphans() const {
    constexpr std::string_view kSign = "value+server+";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(temporary_.path())) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(kSign)) continue;
      const std::string pid = name.substr(kSign.size());
      std::error_code ignored;
      const std::filesystem::path program = std::filesystem::read_symlink("/proc/" + pid + "/exe", ignored);
      if (program.filename() == "supervised_worker") ::kill(std::stoi(pid), SIGKILL);
    }
  }

  void lead(std::size_t least, std::size_t most) {
    ClusterOptions options;
    options.least = least;
    options.most = most;
    options.lanes = 8;
    options.patience = 1500ms;
    server_.reset();
    options.welcome.interval = 50ms;
    options.tell = [this](const std::string& line) {
      const MutexLock lock(mutex_);
      told_ += line + "\n";
    };
    cluster_.reset();
    cluster_.emplace(std::move(options));
    server_.emplace(*cluster_, control::ClusterListen{.address = "127.0.0.1:0"});
    address_ = server_->address();
  }
  launch::ChildProcess& start(const std::string& name) {
    const launch::Command command{HOST_PROCESS, {"agent", address_, name, file(name)}, {}};
    return agents_.emplace(name, launch::ChildProcess(command)).first->second;
  }
  std::string file(const std::string& name) const { return (temporary_ / name).string(); }
  Overheard overheard(const std::string& name) const {
    Overheard heard;
    if (std::filesystem::exists(file(name)))
      std::istringstream(testing::slurp(file(name))) >> heard.host >> heard.begun >> heard.step;
    return heard;
  }
  // Whether generation `number` or a later one has these hosts, all have begun it, and all train.
  bool train(const std::vector<std::string>& names) {
    const bool begun = testing::eventually([&] {
      const control::JobGeneration generation = cluster_->generation();
      if (generation.hosts.size() != names.size()) return false;
      return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
        const Overheard heard = overheard(name);
        return heard.begun == generation.number && generation.hosts[place(generation, name)].number == heard.host;
      });
    });
    return begun && std::all_of(names.begin(), names.end(), [&](const std::string& name) { return steps(name); });
  }
  static std::size_t place(const control::JobGeneration& generation, const std::string& name) {
    const auto found = std::find_if(generation.hosts.begin(), generation.hosts.end(),
                                    [&](const control::JobHost& host) { return host.name == name; });
    return found == generation.hosts.end() ? 0 : static_cast<std::size_t>(found - generation.hosts.begin());
  }
  // Whether its workers commit further steps.
  bool steps(const std::string& name) {
    const std::uint64_t before = overheard(name).step;
    return testing::eventually([&] { return overheard(name).step > before; });
  }
  std::optional<launch::Ending> end_of(const std::string& name) {
    std::optional<launch::Ending> ending;
    EXPECT_TRUE(testing::eventually([&] { return (ending = agents_.at(name).poll()).has_value(); }));
    return ending;
  }
  JobFolder make_run() const {
    std::filesystem::create_directory(temporary_ / "run");
    return {.path = temporary_ / "run"};
  }
  std::string told() {
    const MutexLock lock(mutex_);
    return told_;
  }

  const testing::TemporaryFolder temporary_;
  Mutex mutex_;
  std::string told_ MUSTER_GUARDED_BY(mutex_);
  std::string address_;
  std::optional<Cluster> cluster_;
  std::optional<control::ClusterServer> server_;
  std::map<std::string, launch::ChildProcess> agents_;
};

TEST_F(HostsFaults, AHostThatIsKilledIsGivenUpAndTheOthersGoOn) {
  lead(3, 3);
  start("a");
  start("b");
  start("c");
  ASSERT_TRUE(train({"a", "b", "c"}));
  const std::uint64_t before = cluster_->generation().number;
  agents_.at("b").kill(SIGKILL);
  ASSERT_TRUE(train({"a", "c"}));
  EXPECT_GT(cluster_->generation().number, before);
  EXPECT_THAT(told(), HasSubstr("was not heard of for"));
  // Another process in its place is another host.
  agents_.erase("b");
  start("b");
  ASSERT_TRUE(train({"a", "b", "c"}));
  EXPECT_EQ(overheard("b").host, 4U);
}

TEST_F(HostsFaults, AHostThatWasStoppedForTooLongComesBackUnderAnotherNumberWithItsWorkers) {
  lead(2, 2);
  start("a");
  start("b");
  ASSERT_TRUE(train({"a", "b"}));
  const std::uint64_t number = overheard("b").host;
  const std::uint64_t step = overheard("b").step;
  agents_.at("b").kill(SIGSTOP);
  ASSERT_TRUE(train({"a"}));
  EXPECT_THAT(told(), HasSubstr("was not heard of for"));
  agents_.at("b").kill(SIGCONT);
  ASSERT_TRUE(train({"a", "b"}));
  EXPECT_NE(overheard("b").host, number);
  EXPECT_GT(overheard("b").step, step) << "its arena, and its workers, are those from before";
}

TEST_F(HostsFaults, AHostThatIsToldToEndLeavesAtOnceAndInGoodOrder) {
  lead(2, 2);
  start("a");
  start("b");
  ASSERT_TRUE(train({"a", "b"}));
  agents_.at("b").kill(SIGTERM);
  EXPECT_EQ(end_of("b")->exit_code, 128 + SIGTERM);
  ASSERT_TRUE(train({"a"}));
  EXPECT_THAT(told(), HasSubstr("leaves the job; the others go on without it"));
}

TEST_F(HostsFaults, AJobThatIsStoppedOrFailsEndsOnAllHosts) {
  lead(2, 2);
  start("a");
  start("b");
  ASSERT_TRUE(train({"a", "b"}));
  cluster_->wish(1, true, false);
  EXPECT_EQ(end_of("a")->exit_code, 128 + SIGTERM) << "as their workers do";
  EXPECT_EQ(end_of("b")->exit_code, 128 + SIGTERM);
  EXPECT_TRUE(cluster_->wait_until_alone(99, Deadline::after(5s)));
  agents_.clear();
  lead(2, 2);
  start("a");
  start("b");
  ASSERT_TRUE(train({"a", "b"}));
  cluster_->end("the disk is full");
  EXPECT_EQ(end_of("a")->exit_code, 9);
  EXPECT_EQ(end_of("b")->exit_code, 9);
}

// Of the coordinator's own host, in this process.
class OurJob final : public Training {
 public:
  bool ours() const override { return true; }
};

TEST_F(HostsFaults, ACoordinatorLeadsItsOwnHostAndOthersToTheEnd) {
  CoordinatedJob job;
  job.name = "digits";
  job.command = {SUPERVISED_WORKER, {"train"}, {}};
  job.most_workers = 1;
  job.grace = 2s;
  job.training = std::make_shared<const OurJob>();
  job.folder = make_run();
  job.hosts.emplace();
  job.hosts->least = 2;
  job.hosts->most = 2;
  job.hosts->lanes = 8;
  job.hosts->name = "first";
  job.hosts->listen.address = "127.0.0.1:0";
  std::string told;
  Mutex mutex;
  Coordinator coordinator(std::move(job), [&](const std::string& line) {
    const MutexLock lock(mutex);
    told += line + "\n";
  });
  control::JobStatus seen;
  int signal = 0;
  Audience audience;
  audience.requested_signal = [&] { return signal; };
  audience.look = [&] {
    const MutexLock lock(mutex);
    const std::size_t place = told.find("--join ");
    if (agents_.empty() && place != std::string::npos) {
      address_ = told.substr(place + 7, told.find('\n', place) - place - 7);
      start("b");
    }
    if (overheard("b").begun == 0 || overheard("b").step == 0 || signal != 0 || !coordinator.trains()) return;
    seen = coordinator.status();
    if (seen.hosts.size() == 2 && seen.hosts[0].step > 0) signal = SIGTERM;
  };
  EXPECT_EQ(coordinator.run(audience), 128 + SIGTERM);
  EXPECT_EQ(end_of("b")->exit_code, 128 + SIGTERM);
  EXPECT_THAT(told, HasSubstr("waiting for hosts: 1 of 2"));
  EXPECT_THAT(told, HasSubstr("host b (2) has come"));
  ASSERT_THAT(seen.hosts, SizeIs(2));
  EXPECT_EQ(seen.hosts[0].name, "first");
  EXPECT_EQ(seen.hosts[0].first_lane, 0U);
  EXPECT_EQ(seen.hosts[1].last_lane, 8U);
  EXPECT_GE(seen.job_generation, 1U);
}

TEST_F(HostsFaults, WorkersGoOnWithoutACoordinatorForAWhileAndThenEnd) {
  const launch::Command command{HOST_PROCESS, {"coordinator", file("address")}, {}};
  launch::ChildProcess coordinator(command);
  ASSERT_TRUE(testing::eventually([&] { return std::filesystem::exists(file("address")); }));
  address_ = testing::slurp(file("address"));
  start("a");
  start("b");
  ASSERT_TRUE(testing::eventually([&] { return overheard("a").begun > 0 && overheard("b").begun > 0; }));
  coordinator.kill(SIGKILL);
  ASSERT_TRUE(testing::eventually([&] { return coordinator.poll().has_value(); }));
  for (const char* name : {"a", "b", "a"})
    EXPECT_TRUE(steps(name));
  EXPECT_FALSE(agents_.at("a").poll());
  EXPECT_EQ(end_of("a")->exit_code, 9) << "with the reason";
  EXPECT_EQ(end_of("b")->exit_code, 9);
}

}  // namespace
}  // namespace muster::coordinator
