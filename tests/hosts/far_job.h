// A job named "far" of hosts that share nothing but a network, with certificates between them: led by the first one,
// and on the others an agent each. What tests of such jobs do alike: start it, look where it stands, stop it and hold
// it against an undisturbed run.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/eventually.h"
#include "support/hosts.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster::testing {

constexpr const char* kPort = "7400";
constexpr const char* kWork = "/tmp/work";
constexpr std::chrono::seconds kLongest{300};

class FarJob : public ::testing::Test {
 protected:
  // `keys` of the job beside those of every test. `slowly`: a failpoint that makes steps take a while, because a job of
  // steps that take no time at all is nothing that happens to people.
  FarJob(std::vector<std::string> keys, std::string slowly) : keys_(std::move(keys)), slowly_(std::move(slowly)) {
    keys_.insert(keys_.end(), {"parallel.interface=\"eth0\"", "job.ledger=true"});
  }

  void SetUp() override {
    if (const std::string why = Hosts::impossible(); !why.empty()) GTEST_SKIP() << why;
  }

  // `count` hosts; the first has the job file, and each a folder of certificates.
  void prepare(int count, const std::vector<std::string>& more = {}) {
    hosts_.emplace(count);
    std::vector<std::string> keys = keys_;
    keys.insert(keys.end(), more.begin(), more.end());
    Host& first = (*hosts_)[0];
    spill(first.file("/tmp/work/job.toml"), stateful_job("far", keys));
    std::vector<std::string> create{MUSTER_PROGRAM, "certs", "create", "certs"};
    for (int host = 1; host < count; ++host)
      create.insert(create.end(), {"--host", (*hosts_)[host].name()});
    const Finished made = first.run(create);
    ASSERT_EQ(made.exit_code, 0) << made.err;
    std::filesystem::copy(first.file("/tmp/work/certs/coordinator"), first.file("/tmp/work/own"));
    for (int host = 1; host < count; ++host)
      std::filesystem::copy(first.file("/tmp/work/certs/agent-" + (*hosts_)[host].name()),
                            (*hosts_)[host].file("/tmp/work/own"));
  }
  std::string address() { return (*hosts_)[0].address() + ":" + kPort; }

  HostProgram train(const std::string& hosts, const std::string& workers) {
    std::vector<std::string> words{MUSTER_PROGRAM};
    const std::vector<std::string> arguments = train_arguments(workers, {"parallel.hosts=" + hosts});
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.end(), {"--listen", address()});
    words.insert(words.end(), trust_.begin(), trust_.end());
    return (*hosts_)[0].start(words, {"MUSTER_FAILPOINTS=" + slowly_});
  }
  HostProgram& agent(int host) {
    std::vector<std::string> words{MUSTER_PROGRAM, "agent", "--join", address(), "--wait", "200"};
    words.insert(words.end(), trust_.begin(), trust_.end());
    return agents_.emplace_back((*hosts_)[host].start(words, {"MUSTER_FAILPOINTS=" + slowly_}));
  }
  // What people have been told on all hosts.
  std::string told(const HostProgram& train) {
    std::string text = train.out() + train.err();
    for (const HostProgram& agent : agents_)
      text += "an agent: " + agent.err();
    return text;
  }
  // Where the job stands, as `muster status` on the first host has it.
  Json status() {
    const Finished result = (*hosts_)[0].run({MUSTER_PROGRAM, "status", "far", "--json"});
    return result.exit_code == 0 ? rows(result.out).back() : Json();
  }
  // Once so many hosts train, and what else is asked for is so, and have committed `steps` steps since this was seen
  // first.
  void wait_until(std::size_t hosts, const HostProgram& train, std::uint64_t steps,
                  const std::function<bool(const Json& status)>& more) {
    Json now;
    std::optional<std::uint64_t> from;
    const auto look = [&] {
      now = status();
      if (!now.is_object() || !now.contains("hosts") || now.at("hosts").size() != hosts) return false;
      const auto trains = [](const Json& host) { return host.at("workers") > 0; };
      if (!std::ranges::all_of(now.at("hosts"), trains) || !more(now)) return false;
      const std::uint64_t step = now.at("step");
      if (!from) from = step;
      return step >= *from + steps;
    };
    ASSERT_TRUE(eventually(look, Deadline::after(kLongest))) << now << "\n" << told(train);
  }
  // Stops the job. It has the state that `undisturbed` has after as many steps: of one worker on one host.
  void stop_and_compare(HostProgram& train, const std::function<Json(std::uint64_t steps)>& undisturbed) {
    Host& first = (*hosts_)[0];
    const Finished stop = first.run({MUSTER_PROGRAM, "stop", "far"}, kLongest);
    EXPECT_EQ(stop.exit_code, 0) << stop.out << stop.err << told(train);
    const Finished end = train.wait(kLongest);
    ASSERT_FALSE(rows(end.out).empty()) << told(train);
    const Json stopped = rows(end.out).back();
    ASSERT_EQ(stopped.at("event"), "interrupted") << stopped << told(train);
    const std::uint64_t steps = stopped.at("step");
    const Json expected = undisturbed(steps);
    ASSERT_EQ(expected.at("step"), steps);
    for (const char* part : {"model.safetensors", "optimizer.safetensors"}) {
      const auto bytes = [&](const Json& row) {
        return slurp(first.file(std::filesystem::path(kWork) / row.at("checkpoint").get<std::string>() / part));
      };
      EXPECT_TRUE(bytes(stopped) == bytes(expected)) << part << " after " << steps << " steps\n" << told(train);
    }
  }

  std::optional<Hosts> hosts_;
  std::deque<HostProgram> agents_;
  std::vector<std::string> trust_{"--certs", "own"};

 private:
  std::vector<std::string> keys_;
  const std::string slowly_;
};

}  // namespace muster::testing
