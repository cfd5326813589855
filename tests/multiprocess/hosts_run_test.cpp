// Programs of users on two hosts, as they type it: `muster run --listen` on one, `muster agent` on the other, both on
// this machine with a folder each. The examples run unchanged, with the bits of one host. On hosts that share nothing:
// tests/hosts/strategies_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::eventually;
using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::run_program;
using testing::slurp;
using namespace std::chrono_literals;

constexpr auto kLongest = 300s;

class HostsRun : public ::testing::Test {
 protected:
  HostsRun() {
    for (const char* name : {"alone", "first", "second"})
      std::filesystem::create_directory(folder_ / name);
  }
  // Starts it on the first host, and gives the address at which the other one joins.
  std::string lead(std::vector<std::string> words) {
    // Nobody is silent here, however slow the machine is.
    words.insert(words.begin(),
                 {"run", "-n", "1", "--host-seconds", "60", "--liveness", "60", "--listen", "127.0.0.1:0"});
    std::filesystem::remove(folder_ / "first" / "stderr");  // of the one before, with another address
    first_.emplace(folder_ / "first", words);
    std::string address;
    EXPECT_TRUE(eventually(
        [&] {
          const std::string text = first_->err();
          const std::size_t place = text.find("--join ");
          const std::size_t end = text.find('\n', place);
          if (place == std::string::npos || end == std::string::npos) return false;
          address = text.substr(place + 7, end - place - 7);
          return true;
        },
        Deadline::after(kLongest)))
        << first_->err();
    return address;
  }
  std::vector<std::string> agent(const std::string& address) const {
    return {"agent", "--join", address, "--name", "second"};
  }

  testing::TemporaryFolder folder_;
  std::optional<Program> first_;
};

TEST_F(HostsRun, TheProgramOfTheReadmeGivesTheBitsOfOneHost) {
  const Finished alone = run_program(folder_ / "alone", {"run", "-n", "1", EXAMPLE_FASHION, "1", "6"});
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  Program second(folder_ / "second", agent(lead({EXAMPLE_FASHION, "1", "6"})));
  const Finished led = first_->wait(kLongest);
  EXPECT_EQ(led.exit_code, 0) << led.err;
  const Finished other = second.wait(kLongest);
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_EQ(led.out, alone.out) << "one line of one worker";
  EXPECT_EQ(other.out, "") << "only the leader speaks";
  EXPECT_EQ(slurp(folder_ / "first" / "fashion.safetensors"), slurp(folder_ / "alone" / "fashion.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "second" / "fashion.safetensors"));
}

TEST_F(HostsRun, AModelInPartsHasTheBitsOfOneHost) {
  const Finished alone = run_program(folder_ / "alone", {"run", "-n", "1", OWN_PARTS, "train"});
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  Program second(folder_ / "second", agent(lead({OWN_PARTS, "train"})));
  const Finished led = first_->wait(kLongest);
  EXPECT_EQ(led.exit_code, 0) << led.err;
  const Finished other = second.wait(kLongest);
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_EQ(led.out, alone.out);
  EXPECT_EQ(slurp(folder_ / "first" / "all.safetensors"), slurp(folder_ / "alone" / "all.safetensors"));
}

TEST_F(HostsRun, WorkersWithoutASessionAreRanksOverAllHostsAndGetTheArguments) {
  const std::vector<std::string> program{OWN_RANKS, "two words", "--flag"};
  std::vector<std::string> words{"run", "-n", "2"};
  words.insert(words.end(), program.begin(), program.end());
  const Finished alone = run_program(folder_ / "alone", words);
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("2 workers, two words --flag: "));
  Program second(folder_ / "second", agent(lead(program)));
  const Finished led = first_->wait(kLongest);
  EXPECT_EQ(led.exit_code, 0) << led.err;
  EXPECT_EQ(led.out, alone.out);
  const Finished other = second.wait(kLongest);
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_EQ(other.out, "") << "the first one is on the first host";
}

TEST_F(HostsRun, ASessionWithFixedWorkersGoesOnFromTheCheckpointOfTheFirstHost) {
  for (const char* resumed : {"resumed 0, step 7: ", "resumed 1, step 14: "}) {
    const Finished alone = run_program(folder_ / "alone", {"run", "-n", "2", OWN_RANKS, "session"});
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    EXPECT_THAT(alone.out, HasSubstr(resumed));
    Program second(folder_ / "second", agent(lead({OWN_RANKS, "session"})));
    const Finished led = first_->wait(kLongest);
    EXPECT_EQ(led.exit_code, 0) << led.err;
    EXPECT_EQ(led.out, alone.out);
    const Finished other = second.wait(kLongest);
    EXPECT_EQ(other.exit_code, 0) << other.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "second" / "line"));
}

// Typed where only the agent is: the coordinator's folder is another one.
TEST_F(HostsRun, CommandsAreTakenOnTheHostOfAnAgent) {
  const std::string name = std::filesystem::path(EXAMPLE_FASHION).filename().string();
  const std::string address = lead({EXAMPLE_FASHION, "1000", "100000000"});
  Program second(folder_ / "second", agent(address));
  const auto on_second = [&](std::vector<std::string> words) { return run_program(folder_ / "second", words); };
  Finished status;
  const auto both_train = [&] {
    status = on_second({"status", name, "--json"});
    if (status.exit_code != 0) return false;
    const Json now = testing::rows(status.out).back();
    return now.contains("hosts") && now.at("hosts").size() == 2 && now.at("step") > 0;
  };
  ASSERT_TRUE(eventually(both_train, Deadline::after(kLongest))) << status.out << status.err << second.err();
  const Finished logs = on_second({"logs", name});
  EXPECT_EQ(logs.exit_code, 0) << logs.err;
  EXPECT_THAT(logs.out, HasSubstr("is the agent of this host"));
  EXPECT_THAT(logs.err, HasSubstr("the run of the host that leads is"));
  const Finished scale = on_second({"scale", name, "1"});
  EXPECT_EQ(scale.exit_code, 0) << scale.out << scale.err;
  const Finished set = on_second({"set", name, "optimizer.lr=0.1"});
  EXPECT_EQ(set.exit_code, 2) << "a program has no keys";
  const Finished stop = on_second({"stop", name});
  EXPECT_EQ(stop.exit_code, 0) << stop.out << stop.err;
  EXPECT_NE(first_->wait(kLongest).exit_code, 0);
  EXPECT_NE(second.wait(kLongest).exit_code, 0);
}

TEST_F(HostsRun, AProgramThatIsNotThereIsNamedOnBothSides) {
  const std::filesystem::path program = folder_ / "first" / "program";
  testing::spill(program, "#!/bin/sh\ntouch started\nexec \"$@\"\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string address = lead({"./program", EXAMPLE_FASHION, "1", "2"});
  // From here on it is gone, as if the other host did not have it.
  ASSERT_TRUE(
      eventually([&] { return std::filesystem::exists(folder_ / "first" / "started"); }, Deadline::after(kLongest)))
      << first_->err();
  std::filesystem::rename(program, folder_ / "first" / "moved");
  const Finished missing = run_program(folder_ / "second", agent(address));
  EXPECT_EQ(missing.exit_code, 2) << missing.err;
  EXPECT_THAT(missing.err, AllOf(HasSubstr(program.string()), HasSubstr("is not on this host"),
                                 HasSubstr("at the same path on every host")));
  EXPECT_TRUE(eventually([&] { return first_->err().find("host second (2) has ended") != std::string::npos; }))
      << first_->err();
  std::filesystem::rename(folder_ / "first" / "moved", program);
  Program second(folder_ / "second", agent(address));
  const Finished led = first_->wait(kLongest);
  EXPECT_EQ(led.exit_code, 0) << led.err;
  EXPECT_EQ(second.wait(kLongest).exit_code, 0);
}

TEST_F(HostsRun, FlagsHaveToAgree) {
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "-n", "1"});
    words.emplace_back("./program");
    const Finished end = run_program(folder_ / "first", words);
    EXPECT_EQ(end.exit_code, 2) << end.err;
    return end.err;
  };
  EXPECT_THAT(refused({"--hosts", "2"}), AllOf(HasSubstr("--hosts 2"), HasSubstr("--listen ADDRESS:PORT")));
  EXPECT_THAT(refused({"--hosts", "1", "--listen", "127.0.0.1:0"}), HasSubstr("nobody could join"));
  EXPECT_THAT(refused({"--hosts", "4:2", "--listen", "127.0.0.1:0"}), HasSubstr("--hosts 4:2"));
  EXPECT_THAT(refused({"--listen", "10.0.0.1:7400"}), AllOf(HasSubstr("10.0.0.1:7400"), HasSubstr("--insecure")));
}

}  // namespace
}  // namespace muster
