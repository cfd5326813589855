// That the hosts of tests are hosts: what one has the other does not see, a cut is a cut, and nothing of them is left.
#include "support/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class HostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static const std::string reason = Hosts::impossible();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

std::string link_of(pid_t pid, const std::string& kind) {
  std::error_code none;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/ns/{}", pid, kind), none).string();
}

// A program that answers every datagram with its number of bytes, and says when it does.
HostProgram start_echo(Host& host) {
  HostProgram echo = host.start({"python3", "-c",
                                 "import socket\n"
                                 "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                                 "s.bind(('0.0.0.0', 7000))\n"
                                 "print('ready', flush=True)\n"
                                 "while True:\n"
                                 "  data, peer = s.recvfrom(2000)\n"
                                 "  print('heard', data.decode(), flush=True)\n"
                                 "  s.sendto(str(len(data)).encode(), peer)\n"});
  EXPECT_TRUE(eventually([&] { return echo.out().starts_with("ready"); })) << echo.err();
  return echo;
}

// Whether a word that `from` says to `to` is answered, within a second.
bool answers(Host& from, const Host& to, const std::string& word = "hello") {
  const Finished asked = from.run({"python3", "-c",
                                   "import socket, sys\n"
                                   "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                                   "s.settimeout(1)\n"
                                   "s.sendto(sys.argv[2].encode(), (sys.argv[1], 7000))\n"
                                   "try:\n  print(s.recv(100).decode())\n"
                                   "except TimeoutError:\n  print('silence')\n",
                                   to.address(), word});
  EXPECT_EQ(asked.exit_code, 0) << asked.err;  // an error is not silence: nobody is told of a cut
  return asked.out == fmt::format("{}\n", word.size());
}

TEST_F(HostsTest, AreApartInEverythingButTheProgramsTheyRun) {
  Hosts hosts(2);
  for (const char* kind : {"net", "mnt", "uts", "pid", "ipc"}) {
    const std::set<std::string> all{link_of(::getpid(), kind), link_of(hosts[0].pid(), kind),
                                    link_of(hosts[1].pid(), kind)};
    EXPECT_THAT(all, SizeIs(3)) << kind;
  }
  EXPECT_EQ(hosts[0].run({"hostname"}).out, "host-0\n");
  EXPECT_EQ(hosts[1].run({"uname", "-n"}).out, "host-1\n");
  // Process numbers begin anew, and the other's are not seen.
  HostProgram sleeper = hosts[0].start({"sleep", "1000"});
  EXPECT_THAT(hosts[0].processes(), SizeIs(1));
  EXPECT_LT(hosts[0].processes().front(), 100);
  EXPECT_THAT(hosts[1].processes(), IsEmpty());
  EXPECT_EQ(hosts[1].run({"ls", fmt::format("/proc/{}", sleeper.pid())}).exit_code, 2);
}

TEST_F(HostsTest, NoFileOfOneIsSeenByTheOther) {
  Hosts hosts(2);
  for (const std::string folder : {"/tmp", "/dev/shm", "/tmp/work"}) {
    spill(hosts[0].file(folder) / "note", "of the first");
    EXPECT_EQ(hosts[0].run({"cat", folder + "/note"}).out, "of the first");
    EXPECT_NE(hosts[1].run({"cat", folder + "/note"}).exit_code, 0);
    EXPECT_FALSE(std::filesystem::exists(folder + "/note"));
  }
  EXPECT_EQ(hosts[1].run({"ls", "-A", "/tmp"}).out, "work\n");
  // What all see none can write, so that nothing works by way of it.
  for (const std::string folder : {"/", "/var/tmp", "/etc", "/dev"})
    EXPECT_THAT(hosts[0].run({"touch", folder + "/muster-hosts-test"}).err, HasSubstr("Read-only")) << folder;
}

TEST_F(HostsTest, NoUnixSocketIsSeenByTheOther) {
  Hosts hosts(2);
  HostProgram listener = hosts[0].start({"python3", "-c",
                                         "import socket, time\n"
                                         "s = socket.socket(socket.AF_UNIX)\n"
                                         "s.bind('\\0muster-of-the-first')\n"
                                         "s.listen()\n"
                                         "print('ready', flush=True)\n"
                                         "time.sleep(1000)"});
  ASSERT_TRUE(eventually([&] { return listener.out() == "ready\n"; })) << listener.err();
  const std::vector<std::string> connect{
      "python3", "-c", "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0muster-of-the-first')"};
  EXPECT_EQ(hosts[0].run(connect).exit_code, 0);
  EXPECT_THAT(hosts[1].run(connect).err, HasSubstr("ConnectionRefused"));
}

TEST_F(HostsTest, ReachEachOtherAndNothingElse) {
  Hosts hosts(3);
  const HostProgram first = start_echo(hosts[0]);
  const HostProgram last = start_echo(hosts[2]);
  EXPECT_TRUE(answers(hosts[1], hosts[0]));
  EXPECT_TRUE(answers(hosts[1], hosts[2]));
  EXPECT_TRUE(answers(hosts[0], hosts[2]));
  EXPECT_EQ(hosts[1].run({"ip", "route"}).out, "10.93.71.0/24 dev eth0 proto kernel scope link src 10.93.71.2 \n");
  EXPECT_EQ(hosts[1].run({"getent", "hosts", "host-2"}).out.substr(0, 10), "10.93.71.3");
}

TEST_F(HostsTest, ACutIsACutBothWaysAndHeals) {
  Hosts hosts(3);
  HostProgram cut_off = start_echo(hosts[1]);
  const HostProgram first = start_echo(hosts[0]);
  hosts.cut(1);
  EXPECT_FALSE(answers(hosts[0], hosts[1], "lost"));
  EXPECT_FALSE(answers(hosts[1], hosts[0]));
  EXPECT_TRUE(answers(hosts[2], hosts[0]));
  EXPECT_TRUE(answers(hosts[1], hosts[1]));  // it lives
  hosts.heal();
  EXPECT_TRUE(answers(hosts[0], hosts[1]));
  EXPECT_THAT(cut_off.out(), Not(HasSubstr("lost")));
}

TEST_F(HostsTest, AOneWayCutLetsTheOtherWayThrough) {
  Hosts hosts(2);
  HostProgram first = start_echo(hosts[0]);
  HostProgram second = start_echo(hosts[1]);
  hosts.cut_one_way(0, 1);
  EXPECT_FALSE(answers(hosts[0], hosts[1], "question"));
  EXPECT_THAT(second.out(), Not(HasSubstr("question")));
  EXPECT_FALSE(answers(hosts[1], hosts[0], "heard"));
  EXPECT_THAT(first.out(), HasSubstr("heard heard")) << "only the answer is lost";
}

TEST_F(HostsTest, ALinkThatIsDownIsToldOfOnItsHostAndComesUpAgain) {
  Hosts hosts(3);
  const HostProgram first = start_echo(hosts[0]);
  const HostProgram second = start_echo(hosts[1]);
  hosts.link_down(1);
  const Finished told = hosts[1].run({"python3", "-c",
                                      "import socket, sys\n"
                                      "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                                      "s.sendto(b'x', (sys.argv[1], 7000))\n",
                                      hosts[0].address()});
  EXPECT_THAT(told.err, HasSubstr("Network is unreachable"));
  EXPECT_FALSE(answers(hosts[0], hosts[1]));
  EXPECT_TRUE(answers(hosts[2], hosts[0]));
  hosts.link_up(1);
  EXPECT_TRUE(answers(hosts[1], hosts[0]));
  EXPECT_TRUE(answers(hosts[0], hosts[1]));
}

TEST_F(HostsTest, AShapedLinkCarriesNoMoreThanItsRate) {
  Hosts hosts(2);
  const std::string kBytes = "2500000";  // one second
  const auto transfer = [&](int from, int to) {
    HostProgram sink = hosts[to].start({"python3", "-c",
                                        "import socket, time\n"
                                        "s = socket.create_server(('0.0.0.0', 7001))\n"
                                        "print('ready', flush=True)\n"
                                        "c = s.accept()[0]\n"
                                        "n = 0\n"
                                        "begin = time.monotonic()\n"
                                        "while data := c.recv(1 << 20): n += len(data)\n"
                                        "print(n, time.monotonic() - begin)\n"});
    EXPECT_TRUE(eventually([&] { return sink.out() == "ready\n"; })) << sink.err();
    const std::uint64_t before = hosts[from].sent_bytes();
    const Finished sent = hosts[from].run({"python3", "-c",
                                           "import socket, sys\n"
                                           "s = socket.create_connection((sys.argv[1], 7001))\n"
                                           "s.sendall(bytes(int(sys.argv[2])))\n",
                                           hosts[to].address(), kBytes});
    EXPECT_EQ(sent.exit_code, 0) << sent.err;
    std::istringstream line(sink.wait().out.substr(6));
    std::uint64_t bytes = 0;
    double seconds = 0;
    line >> bytes >> seconds;
    EXPECT_EQ(bytes, std::stoull(kBytes));
    EXPECT_GE(hosts[from].sent_bytes() - before, bytes);
    return seconds;
  };
  // A busy machine is slower, never faster: only the least time is asserted, less what the bucket lets through at once.
  hosts.shape("20mbit");
  EXPECT_GT(transfer(0, 1), 0.8);
  EXPECT_GT(transfer(1, 0), 0.8);
  hosts.shape("2gbit");
  EXPECT_GT(transfer(0, 1), 0);
  hosts.shape("");
  EXPECT_GT(transfer(0, 1), 0);
}

TEST_F(HostsTest, KillAllLeavesNoProcessAndTheHostIsThereForOthers) {
  Hosts hosts(2);
  HostProgram family = hosts[1].start({"sh", "-c", "setsid sleep 1000 & sleep 1000 & echo two; sleep 1000"});
  const HostProgram other = hosts[0].start({"sleep", "1000"});
  ASSERT_TRUE(eventually([&] { return hosts[1].processes().size() == 4; }));
  hosts[1].kill_all();
  EXPECT_THAT(hosts[1].processes(), IsEmpty());
  EXPECT_EQ(family.wait().signal, SIGKILL);
  EXPECT_THAT(hosts[0].processes(), SizeIs(1));
  EXPECT_EQ(hosts[1].run({"hostname"}).out, "host-1\n");
}

TEST_F(HostsTest, AFrozenHostDoesNothingUntilItIsThawed) {
  Hosts hosts(2);
  HostProgram echo = start_echo(hosts[1]);
  hosts[1].freeze();
  EXPECT_FALSE(answers(hosts[0], hosts[1], "cold"));
  EXPECT_THAT(echo.out(), Not(HasSubstr("cold")));
  hosts[1].thaw();
  EXPECT_TRUE(eventually([&] { return echo.out().find("cold") != std::string::npos; }));
}

// Processes that are in one of these namespaces.
std::vector<std::string> processes_in(const std::set<std::string>& networks) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::error_code none;
    const std::string network = std::filesystem::read_symlink(entry.path() / "ns/net", none).string();
    if (networks.contains(network)) found.push_back(entry.path().string());
  }
  return found;
}

std::string interfaces() {
  std::string names;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net"))
    names += entry.path().filename().string() + " ";
  return names;
}

TEST_F(HostsTest, NothingIsLeft) {
  const std::string mounts = slurp("/proc/self/mountinfo");
  const std::string links = interfaces();
  std::set<std::string> networks;
  std::vector<HostProgram> outliving;
  {
    Hosts hosts(3);
    for (int host = 0; host < hosts.size(); ++host) {
      networks.insert(link_of(hosts[host].pid(), "net"));
      outliving.push_back(hosts[host].start({"sh", "-c", "setsid sleep 1000 & exec sleep 1000"}));
      ASSERT_TRUE(eventually([&] { return hosts[host].processes().size() == 2; }));
    }
    EXPECT_THAT(processes_in(networks), SizeIs(9));
    EXPECT_EQ(interfaces(), links) << "the bridge is in a network of its own";
  }
  EXPECT_THAT(processes_in(networks), IsEmpty());
  EXPECT_EQ(slurp("/proc/self/mountinfo"), mounts);
  EXPECT_EQ(interfaces(), links);
  for (HostProgram& program : outliving)
    EXPECT_EQ(program.wait().signal, SIGKILL);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was not waited for";
}

TEST_F(HostsTest, NothingIsLeftOfATestThatIsKilled) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t test = ::fork();
  if (test == 0) {
    Hosts hosts(2);
    HostProgram program = hosts[1].start({"sh", "-c", "setsid sleep 1000 & exec sleep 1000"});
    if (!eventually([&] { return hosts[1].processes().size() == 2; })) ::_exit(1);
    const std::string text = link_of(hosts[0].pid(), "net") + " " + link_of(hosts[1].pid(), "net") + "\n";
    if (::write(ends[1], text.data(), text.size()) < 0) ::_exit(1);
    for (;;)
      ::pause();
  }
  ::close(ends[1]);
  std::array<char, 200> text{};
  const ssize_t got = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  std::istringstream words(std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))));
  std::set<std::string> networks;
  for (std::string word; words >> word;)
    networks.insert(word);
  ASSERT_THAT(networks, SizeIs(2));
  EXPECT_THAT(processes_in(networks), SizeIs(4));
  ::kill(test, SIGKILL);
  ::waitpid(test, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return processes_in(networks).empty(); }));
}

TEST_F(HostsTest, ThirtyTwoOfThemAreMade) {
  Hosts hosts(32);
  const HostProgram echo = start_echo(hosts[31]);
  EXPECT_TRUE(answers(hosts[0], hosts[31]));
}

}  // namespace
}  // namespace muster::testing
