// What listens while a job trains is what docs/security.md says, and nothing of it can be reached from another host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "support/eventually.h"
#include "support/hosts.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster::testing {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;)
    words.push_back(word);
  return words;
}

// What listens in a host's network: "tcp 0100007F:1CE8", "udp ...", "unix @name". Of UDP everything that has a port.
std::set<std::string> listening(const Host& host) {
  std::set<std::string> found;
  for (const std::string protocol : {"tcp", "tcp6", "udp", "udp6", "raw", "raw6"}) {
    std::istringstream lines(slurp(fmt::format("/proc/{}/net/{}", host.pid(), protocol)));
    std::string line;
    std::getline(lines, line);  // names of the columns
    while (std::getline(lines, line)) {
      const std::vector<std::string> words = words_of(line);
      constexpr const char* kListens = "0A";
      if (words.size() > 3 && (!protocol.starts_with("tcp") || words[3] == kListens))
        found.insert(fmt::format("{} {}", protocol, words[1]));
    }
  }
  std::istringstream lines(slurp(fmt::format("/proc/{}/net/unix", host.pid())));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    const std::vector<std::string> words = words_of(line);
    constexpr const char* kAccepts = "00010000";  // __SO_ACCEPTCON
    if (words.size() > 3 && words[3] == kAccepts)
      found.insert(fmt::format("unix {}", words.size() > 7 ? words[7] : "without a name"));
  }
  return found;
}

// The first column of the page's table of sockets, as regular expressions for the lines above.
std::vector<std::string> documented() {
  std::istringstream page(slurp(SECURITY_PAGE));
  std::vector<std::string> patterns;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("#")) inside = line == "## What listens";
    const std::size_t begin = line.find('`');
    if (!inside || !line.starts_with("| `")) continue;
    patterns.push_back(line.substr(begin + 1, line.find('`', begin + 1) - begin - 1));
  }
  return patterns;
}

bool is_documented(const std::string& socket) {
  static const std::vector<std::string> patterns = documented();
  return std::ranges::any_of(patterns,
                             [&](const std::string& one) { return std::regex_match(socket, std::regex(one)); });
}

class SocketsTest : public ::testing::TestWithParam<std::vector<std::string>> {
 protected:
  void SetUp() override {
    static const std::string reason = Hosts::impossible();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(SocketsTest, ThePageHasATable) {
  EXPECT_THAT(documented(), Not(IsEmpty()));
  EXPECT_FALSE(is_documented("tcp 00000000:1CE8"));
  EXPECT_FALSE(is_documented("udp 0100007F:1CE8"));
  EXPECT_FALSE(is_documented("unix @other"));
}

// A look that sees nothing would pass every test below.
TEST_F(SocketsTest, EveryKindIsSeen) {
  Hosts hosts(1);
  HostProgram program = hosts[0].start({"python3", "-c",
                                        "import socket, time\n"
                                        "t = socket.create_server(('127.0.0.1', 7001))\n"
                                        "s = socket.create_server(('::1', 7002), family=socket.AF_INET6)\n"
                                        "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                                        "u.bind(('0.0.0.0', 7003))\n"
                                        "a = socket.socket(socket.AF_UNIX)\n"
                                        "a.bind('\\0other')\n"
                                        "a.listen()\n"
                                        "print('ready', flush=True)\n"
                                        "time.sleep(1000)\n"});
  ASSERT_TRUE(eventually([&] { return program.out() == "ready\n"; })) << program.err();
  EXPECT_THAT(listening(hosts[0]), IsSupersetOf({"tcp 0100007F:1B59", "tcp6 00000000000000000000000001000000:1B5A",
                                                 "udp 00000000:1B5B", "unix @other"}));
}

TEST_P(SocketsTest, OnlyWhatIsDocumentedListensWhileAJobTrains) {
  Hosts hosts(1);
  Host& host = hosts[0];
  spill(host.file("/tmp/work/job.toml"), small_job("sockets", {"job.epochs=100000"}));
  std::vector<std::string> words = train_arguments(2, GetParam());
  words.insert(words.begin(), MUSTER_PROGRAM);
  HostProgram program = host.start(words);
  std::set<std::string> seen;
  // From its first process to epochs later: what listens for a moment only is seen if it can be.
  ASSERT_TRUE(eventually(
      [&] {
        const std::string out = program.out();
        seen.merge(listening(host));  // after that: the last look is at a job that trains
        return std::ranges::count(out, '\n') > 10;
      },
      Deadline::after(std::chrono::seconds(90))))
      << program.out() << program.err();
  for (const std::string& socket : seen)
    EXPECT_TRUE(is_documented(socket)) << socket;
  EXPECT_THAT(seen, Contains(::testing::StartsWith("unix @muster-"))) << "commands have their socket";
  host.kill_all();
  // The kernel frees what was on its way between processes a moment later.
  EXPECT_TRUE(eventually([&] { return listening(host).empty(); }, Deadline::after(std::chrono::seconds(10))));
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, SocketsTest,
    ::testing::Values(std::vector<std::string>{}, std::vector<std::string>{"parallel.strategy=all_reduce"},
                      std::vector<std::string>{"parallel.strategy=parameter_server"},
                      std::vector<std::string>{"parallel.strategy=parameter_server", "parallel.transport=grpc"}),
    [](const auto& info) {
      std::string name = "SharedSync";
      for (const std::string& word : info.param)
        name = word.substr(word.find('=') + 1);
      std::erase(name, '_');
      return name;
    });

}  // namespace
}  // namespace muster::testing
