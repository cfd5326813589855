// Real processes: exit codes, signals, groups, orphans, and signals that come before a child is itself.
#include "muster/launch/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "muster/base/error.h"
#include "muster/base/process.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::launch {
namespace {

using namespace std::chrono_literals;
using muster::testing::slurp;
using muster::testing::TemporaryFolder;

Command shell(const std::string& script) {
  return {"sh", {"-c", script}, {}};
}

Ending ending_of(ChildProcess& child) {
  if (!muster::testing::eventually([&] { return child.poll().has_value(); }))
    throw std::runtime_error("the child did not end");
  return *child.poll();
}

TEST(ChildProcess, ItsExitCodeAndItsSignalAreToldApart) {
  ChildProcess good(shell("exit 0"));
  EXPECT_TRUE(ending_of(good).good());
  ChildProcess bad(shell("exit 7"));
  EXPECT_EQ(to_string(ending_of(bad)), "exit code 7");
  ChildProcess killed(shell("kill -9 $$"));
  EXPECT_EQ(to_string(ending_of(killed)), "killed by signal 9 (Killed)");
}

TEST(ChildProcess, GetsItsArgumentsAndItsEnvironment) {
  const TemporaryFolder folder;
  ChildProcess child({"sh",
                      {"-c", "printf '%s %s %s' \"$1\" \"$MUSTER_TEST_WORD\" \"${PATH:+path}\" > \"$0\"",
                       (folder / "out").string(), "two words"},
                      {{"MUSTER_TEST_WORD", "a=b"}}});
  EXPECT_TRUE(ending_of(child).good());
  EXPECT_EQ(slurp(folder / "out"), "two words a=b path");
}

TEST(ChildProcess, AProgramThatIsNotThereIsAnErrorAndNotAChild) {
  try {
    ChildProcess child({"no-such-program-anywhere", {}, {}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_NE(std::string(error.what()).find("no-such-program-anywhere"), std::string::npos);
  }
  const TemporaryFolder folder;
  muster::testing::spill(folder / "text", "not a program");
  EXPECT_THROW(ChildProcess({(folder / "text").string(), {}, {}}), Error);
}

TEST(ChildProcess, EndsWithItsOwner) {
  ProcessId process;
  {
    const ChildProcess child(shell("exec sleep 600"));
    process = {child.pid(), 0};
    EXPECT_EQ(state_of(process), ProcessState::kRunning);
  }
  EXPECT_EQ(state_of(process), ProcessState::kGone);
}

TEST(ChildProcess, EndsWhenItsParentIsKilled) {
  const TemporaryFolder folder;
  const std::string script = "echo $$ > '" + (folder / "pid.new").string() + "' && mv '" +
                             (folder / "pid.new").string() + "' '" + (folder / "pid").string() + "' && exec sleep 600";
  const int status = muster::testing::status_of_child([&] {
    ChildProcess child(shell(script));
    if (!muster::testing::eventually([&] { return std::filesystem::exists(folder / "pid"); })) return 1;
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  const ProcessId orphan{std::stoi(slurp(folder / "pid")), 0};
  EXPECT_TRUE(muster::testing::eventually([&] { return state_of(orphan) == ProcessState::kGone; }));
}

// A process that is nobody's child here: its own parent is gone.
ProcessId stray() {
  const TemporaryFolder folder;
  const std::string file = (folder / "pid").string();
  ChildProcess parent(shell("sleep 600 > /dev/null 2>&1 & echo $! > " + file));
  ending_of(parent);
  return process_of(std::stoi(slurp(file)));
}

TEST(Adopted, IsWatchedToItsEndWhichNobodyTells) {
  ChildProcess adopted = ChildProcess::adopt(stray());
  EXPECT_FALSE(adopted.poll());
  adopted.kill(SIGTERM);
  ASSERT_TRUE(muster::testing::eventually([&] { return adopted.poll().has_value(); }));
  EXPECT_TRUE(adopted.poll()->unknown);
  EXPECT_FALSE(adopted.poll()->good());
}

TEST(Adopted, IsKilledWithItsOwner) {
  const ProcessId process = stray();
  { const ChildProcess adopted = ChildProcess::adopt(process); }
  EXPECT_EQ(state_of(process), ProcessState::kGone);
}

TEST(Adopted, MayBeGoneAlreadyAndIsNotTakenForALaterOneOfThatNumber) {
  ProcessId other = this_process();
  --other.start_time;
  ChildProcess adopted = ChildProcess::adopt(other);
  ASSERT_TRUE(adopted.poll());
  adopted.kill(SIGKILL);  // reaches nobody
}

TEST(ChildProcess, IsStartedInTheFolderThatItWasGiven) {
  const TemporaryFolder folder;
  Command command = shell("pwd > here");
  command.folder = folder.path().string();
  ChildProcess child(command);
  ending_of(child);
  EXPECT_EQ(slurp(folder / "here"), folder.path().string() + "\n");
  command.folder = "/nowhere/at/all";
  EXPECT_THROW(ChildProcess{command}, Error);
}

TEST(WaitForAll, TellsTheFirstThatFailedAndDoesNotWaitForTheRest) {
  std::vector<ChildProcess> children;
  children.emplace_back(shell("exit 0"));
  children.emplace_back(shell("exec sleep 600"));
  children.emplace_back(shell("exit 3"));
  const auto first = wait_for_all(children, Deadline::after(60s));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->index, 2U);
  EXPECT_EQ(first->ending.exit_code, 3);
}

TEST(WaitForAll, IsSilentWhenAllEndWellAndHasADeadline) {
  std::vector<ChildProcess> children;
  children.emplace_back(shell("exit 0"));
  children.emplace_back(shell("exit 0"));
  EXPECT_FALSE(wait_for_all(children, Deadline::after(60s)));
  children.emplace_back(shell("exec sleep 600"));
  EXPECT_THROW(wait_for_all(children, Deadline::after(10ms)), Error);
}

TEST(ChildProcess, ACopyOfThisProcessDoesWhatItIsToldAndIsWatchedLikeAnyOther) {
  const TemporaryFolder folder;
  Command command;
  command.environment["MUSTER_TEST_WORD"] = "hello";
  command.folder = folder.path().string();
  command.copy = [parent = ::getpid()] {
    std::ofstream("said") << std::getenv("MUSTER_TEST_WORD") << " " << (::getppid() == parent);
    return 7;
  };
  ChildProcess child(command);
  EXPECT_NE(child.pid(), ::getpid());
  EXPECT_EQ(ending_of(child).exit_code, 7);
  EXPECT_EQ(slurp(folder / "said"), "hello 1");
  EXPECT_EQ(std::getenv("MUSTER_TEST_WORD"), nullptr) << "it is the copy's own";
}

TEST(ChildProcess, ACopyHasNoHandlersOfItsParents) {
  const auto before = ::signal(SIGTERM, [](int) {});
  Command command;
  command.copy = [] {
    ::raise(SIGTERM);
    return 0;
  };
  ChildProcess child(command);
  EXPECT_EQ(ending_of(child).signal, SIGTERM);
  ::signal(SIGTERM, before);
}

TEST(ChildProcess, OneThatIsNotInItsGroupYetIsKilledAllTheSame) {
  Command command;
  command.own_group = true;
  command.copy = [] {
    ::pause();
    return 0;
  };
  for (int attempt = 0; attempt < 50; ++attempt) {
    ChildProcess child(command);
    child.kill(SIGKILL);
    ASSERT_EQ(ending_of(child).signal, SIGKILL) << "attempt " << attempt;
  }
}

// The parent's handler would swallow it in the child, and nobody would end there.
TEST(ChildProcess, ASignalThatComesBeforeTheChildIsItselfIsNotLost) {
  const auto before = ::signal(SIGTERM, [](int) {});
  Command copy;
  copy.copy = [] {
    ::pause();
    return 0;
  };
  const Command program{"/bin/sleep", {"600"}, {}};
  for (int attempt = 0; attempt < 50; ++attempt) {
    for (const Command& command : {copy, program}) {
      ChildProcess child(command);
      child.kill(SIGTERM);
      ASSERT_EQ(ending_of(child).signal, SIGTERM) << "attempt " << attempt;
    }
  }
  ::signal(SIGTERM, before);
}

}  // namespace
}  // namespace muster::launch
