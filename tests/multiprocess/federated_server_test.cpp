// muster federated server and client as processes: the bits of the simulation, a server that is killed at every point
// of a round, a client that is killed, certificates, and who is refused.
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/command.h"
#include "support/program.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::slurp;

constexpr int kClients = 3;

class FederatedServer : public ::testing::Test {
 protected:
  FederatedServer() {
    job_ =
        "[data]\nsource = \"synthetic\"\nshape = [12]\nclasses = 4\nsamples = 300\ntest_samples = 200\nbatch = 10\n"
        "[model]\nname = \"mlp\"\nhidden = [16]\ndropout = 0.1\n[optimizer]\nlr = 0.1\n"
        "[federated]\nclients = 3\nper_round = 2\nrounds = 4\nwait_for = 3\n";
  }
  std::filesystem::path folder(const std::string& name) const {
    const std::filesystem::path path = folder_.path() / name;
    if (std::filesystem::create_directory(path)) std::ofstream(path / "job.toml") << job_;
    return path;
  }
  std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) const {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::unique_ptr<Program> serve(const std::vector<std::string>& more) const {
    return std::make_unique<Program>(folder("server"), with({"federated", "server", "job.toml", "--json"}, more));
  }
  // Where the server listens, once it does.
  std::string address() const {
    std::string found;
    const auto look = [&] {
      for (const auto& run : std::filesystem::directory_iterator(folder_.path() / "server/runs"))
        found = slurp(run.path() / "address");
      return !found.empty();
    };
    EXPECT_TRUE(testing::eventually([&] { return std::filesystem::exists(folder_.path() / "server/runs") && look(); }));
    return found.substr(0, found.find('\n'));
  }
  std::unique_ptr<Program> join(int number, const std::string& where, const std::vector<std::string>& more = {}) const {
    return std::make_unique<Program>(
        folder("client-" + std::to_string(number)),
        with({"federated", "client", "--join", where, "--as", std::to_string(number)}, more));
  }
  std::filesystem::path run() const {
    return std::filesystem::directory_iterator(folder_.path() / "server/runs")->path();
  }
  std::string simulated(const std::vector<std::string>& more) const {
    const Finished result =
        run_program(folder("simulated"), with({"federated", "simulate", "job.toml", "--json"}, more));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return slurp(folder("simulated") / rows(result.out).back().at("run").get<std::string>() / "model.safetensors");
  }
  // A row for each round, once.
  void expect_whole_rows(std::uint64_t rounds) const {
    std::uint64_t next = 1;
    for (const Json& row : rows(slurp(run() / "metrics.jsonl"))) {
      if (row.at("event") != "round") continue;
      EXPECT_EQ(row.at("round").get<std::uint64_t>(), next++);
      EXPECT_EQ(row.at("counted"), 2);
    }
    EXPECT_EQ(next, rounds + 1);
  }

  std::string job_;
  const testing::TemporaryFolder folder_;
};

TEST_F(FederatedServer, WithCertificatesGivesTheBitsOfTheSimulation) {
  const std::vector<std::string> scaffold{"--set", "federated.algorithm=scaffold"};
  const std::string certs = (folder_.path() / "certs").string();
  ASSERT_EQ(run_program(folder_.path(), {"certs", "create", certs}).exit_code, 0);
  for (int i = 0; i < kClients; ++i)
    ASSERT_EQ(run_program(folder_.path(), {"certs", "add", certs, "client", "site-" + std::to_string(i)}).exit_code, 0);
  // A server that is refused leaves no run behind.
  EXPECT_EQ(serve(with({"--certs", certs + "/client-site-0"}, scaffold))->wait().exit_code, 2);
  EXPECT_TRUE(!std::filesystem::exists(folder_ / "server/runs") || std::filesystem::is_empty(folder_ / "server/runs"));
  ::setenv("MUSTER_FAILPOINTS", "federated.round.after_commit=kill@call=1", 1);
  auto server = serve(with({"--listen", "127.0.0.1:0", "--certs", certs + "/coordinator"}, scaffold));
  ::unsetenv("MUSTER_FAILPOINTS");
  const std::string where = address();
  std::vector<std::unique_ptr<Program>> clients;
  for (int i = 0; i < kClients; ++i)
    clients.push_back(join(i, where, {"--certs", certs + "/client-site-" + std::to_string(i)}));
  EXPECT_EQ(server->wait().signal, SIGKILL);
  // Clients come back to it by themselves: handshakes, too, are made again.
  server = serve(with({"--listen", where, "--certs", certs + "/coordinator", "--run", run().string()}, scaffold));
  const Finished result = server->wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (auto& client : clients)
    EXPECT_EQ(client->wait().exit_code, 0);
  EXPECT_EQ(slurp(run() / "model.safetensors"), simulated(scaffold));
  EXPECT_THAT(slurp(run() / "clients.txt"), HasSubstr("1 site-1\n"));
  EXPECT_THAT(slurp(run() / "log.txt"), HasSubstr("took Enrol by client site-2"));
  expect_whole_rows(4);
}

TEST_F(FederatedServer, KilledAtEveryPointOfARoundItGoesOnWithTheSameBits) {
  // Each start dies at another point; the last one ends the job.
  const std::vector<std::string> points{
      "federated.update.before_it_counts=kill@call=1", "federated.update.before_it_is_acknowledged=kill@call=0",
      "federated.round.before_commit=kill@call=0",     "federated.round.after_commit=kill@call=0",
      "federated.server.before_row=kill@call=0",       ""};
  std::vector<std::unique_ptr<Program>> clients;
  std::string where = "127.0.0.1:0";
  for (const std::string& point : points) {
    ::setenv("MUSTER_FAILPOINTS", point.c_str(), 1);
    const bool first = clients.empty();
    auto server = serve(first ? std::vector<std::string>{"--listen", where}
                              : std::vector<std::string>{"--listen", where, "--run", run().string()});
    ::unsetenv("MUSTER_FAILPOINTS");
    if (first) {
      where = address();
      for (int i = 0; i < kClients; ++i)
        clients.push_back(join(i, where));
    }
    const Finished result = server->wait();
    EXPECT_EQ(result.signal, point.empty() ? 0 : SIGKILL) << point << "\n" << result.err;
  }
  for (auto& client : clients)
    EXPECT_EQ(client->wait().exit_code, 0);
  EXPECT_EQ(slurp(run() / "model.safetensors"), simulated({}));
  expect_whole_rows(4);
}

// Kills of the server at any moment; as many as asked for by one who has time.
int wanted_kills() {
  const char* const asked = std::getenv("MUSTER_TEST_KILLS");
  return asked != nullptr ? std::atoi(asked) : 3;
}

// Whenever it dies, the model has the bits of one that never did: no update that was acknowledged is lost, and none
// counts twice. The next kill is some while after the first sign that rounds go on.
TEST_F(FederatedServer, KilledAtAnyMomentNoUpdateIsLostAndNoneCountsTwice) {
  const int kills = wanted_kills();
  const int wanted = 8 * kills + 8;
  const std::string rounds = std::to_string(wanted);
  const std::vector<std::string> settings{"--set", "federated.rounds=" + rounds, "--set", "federated.local_epochs=20"};
  auto server = serve(with({"--listen", "127.0.0.1:0"}, settings));
  const std::string where = address();
  std::vector<std::unique_ptr<Program>> clients;
  for (int i = 0; i < kClients; ++i)
    clients.push_back(join(i, where, {"--set", "federated.local_epochs=20"}));
  std::mt19937 random(7);
  const auto done = [&] { return rows(slurp(run() / "metrics.jsonl")).size(); };
  for (int kill = 0; kill < kills; ++kill) {
    const std::size_t before = done();
    ASSERT_TRUE(testing::eventually([&] { return done() > before; })) << server->err();
    // sleeps: any moment of a round is as good as another
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
    server->signal(SIGKILL);
    ASSERT_EQ(server->wait().signal, SIGKILL) << "it has done all rounds before";
    server = serve(with({"--listen", where, "--run", run().string()}, settings));
  }
  const Finished result = server->wait(std::chrono::seconds(300));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (auto& client : clients)
    EXPECT_EQ(client->wait().exit_code, 0);
  EXPECT_EQ(slurp(run() / "model.safetensors"), simulated(settings));
  expect_whole_rows(static_cast<std::uint64_t>(wanted));
}

// A client's samples are its own to protect: it stops at its budget, whatever the server asks for.
TEST_F(FederatedServer, AClientStopsAtTheBudgetOfItsSamplesAlsoWhenItWasStartedAgain) {
  const std::vector<std::string> settings{"--set", "federated.sample_clip=1",    "--set", "federated.sample_noise=2",
                                          "--set", "federated.sample_epsilon=3", "--set", "federated.rounds=1000",
                                          "--set", "federated.clients=4",        "--set", "federated.wait_for=1"};
  auto server = serve(with({"--listen", "127.0.0.1:0"}, settings));
  const std::string where = address();
  std::vector<std::unique_ptr<Program>> clients;
  for (int i = 0; i < kClients; ++i)
    clients.push_back(join(i, where));
  for (auto& client : clients) {
    const Finished ended = client->wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("the privacy budget of its samples is spent"));
    EXPECT_THAT(ended.out, HasSubstr("epsilon of its samples"));
  }
  // One may still come, so that the server is there: what was spent is spent.
  const Finished again = join(0, where, {"--wait", "5"})->wait();
  EXPECT_THAT(again.out, ::testing::AllOf(HasSubstr("the privacy budget of its samples is spent"),
                                          ::testing::Not(HasSubstr("trained on"))));
}

// Clients that have spent their budgets say so, and the server ends with what was reached; where nothing was, that is
// an error.
TEST_F(FederatedServer, WhenAllBudgetsAreSpentTheServerSaysSoAndEnds) {
  const std::vector<std::string> settings{"--set", "federated.sample_clip=1",    "--set", "federated.sample_noise=2",
                                          "--set", "federated.sample_epsilon=3", "--set", "federated.rounds=1000"};
  auto server = serve(with({"--listen", "127.0.0.1:0"}, settings));
  const std::string where = address();
  std::vector<std::unique_ptr<Program>> clients;
  for (int i = 0; i < kClients; ++i)
    clients.push_back(join(i, where));
  for (auto& client : clients)
    EXPECT_EQ(client->wait().exit_code, 0);
  const Finished ended = server->wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  const Json last = rows(ended.out).back();
  EXPECT_EQ(last.at("event"), "finished");
  EXPECT_THAT(last.at("reason").get<std::string>(), HasSubstr("privacy budget of its samples is spent"));
  EXPECT_GT(last.at("rounds").get<int>(), 1);
  EXPECT_FALSE(rows(ended.out).front().contains("client_loss"));
  EXPECT_TRUE(std::filesystem::exists(run() / "model.safetensors"));
  EXPECT_THAT(run_program(folder_.path(), {"federated", "status", run().string()}).out,
              HasSubstr("3 enrolled, 0 there, 3 have left for good"));
  // The same clients with the same --state have nothing left for another run.
  std::filesystem::remove_all(folder_.path() / "server/runs");
  auto second = serve(with({"--listen", where}, settings));
  address();
  for (int i = 0; i < kClients; ++i)
    clients[static_cast<std::size_t>(i)] = join(i, where);
  const Finished nothing = second->wait();
  EXPECT_EQ(nothing.exit_code, 2) << nothing.out;
  EXPECT_THAT(nothing.err, HasSubstr("federated.sample_epsilon"));
}

TEST_F(FederatedServer, ABudgetThatAllowsNothingIsTheClientsMistake) {
  auto server = serve({"--listen", "127.0.0.1:0"});
  const std::string where = address();
  std::vector<std::unique_ptr<Program>> clients;
  for (int i = 0; i < kClients; ++i)
    clients.push_back(join(i, where,
                           {"--set", "federated.sample_clip=1", "--set", "federated.sample_noise=0.5", "--set",
                            "federated.sample_epsilon=0.01"}));
  EXPECT_EQ(server->wait().exit_code, 2);
  int refused = 0;
  for (auto& client : clients) {
    const Finished ended = client->wait();
    refused += ended.exit_code == 2 && ended.err.find("allows not a single round") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(refused, kClients);
}

// Two processes of one name would spend one budget twice, and write over what the other keeps.
TEST_F(FederatedServer, ASecondProcessOfAClientIsRefusedAtOnce) {
  auto server = serve({"--listen", "127.0.0.1:0"});
  const std::string where = address();
  auto first = join(0, where);
  ASSERT_TRUE(testing::eventually([&] { return first->out().find("is client 0") != std::string::npos; }));
  const Finished second = join(0, where)->wait();
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.err, ::testing::AllOf(HasSubstr("another process is the client client-0"), HasSubstr("--state")));
  first->signal(SIGKILL);
  first->wait();
  auto third = join(0, where);
  EXPECT_TRUE(testing::eventually([&] { return third->out().find("is client 0") != std::string::npos; }));
}

// --- Secure aggregation.

std::vector<std::string> securely(int clients, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words;
  const std::string count = std::to_string(clients);
  for (const std::string& setting :
       {std::string("secure=true"), std::string("clip=0.5"), std::string("most_samples=150"), "clients=" + count,
        "per_round=" + count, "wait_for=" + count, std::string("rounds=2")})
    words.insert(words.end(), {"--set", "federated." + setting});
  for (const std::string& setting : more)
    words.insert(words.end(), {"--set", "federated." + setting});
  return words;
}

TEST_F(FederatedServer, SecureAggregationSurvivesItsServerAtEveryStageAndGivesTheBitsOfTheSimulation) {
  const std::string certs = (folder_.path() / "certs").string();
  ASSERT_EQ(run_program(folder_.path(), {"certs", "create", certs}).exit_code, 0);
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(run_program(folder_.path(), {"certs", "add", certs, "client", "site-" + std::to_string(i)}).exit_code, 0);
  // Of a round's journal: 4 keys, their end, 4 shares, their end, the end of masked updates, 4 agreements, their end,
  // 4 shares to unmask, the end. Each server dies somewhere in the next stage.
  const std::vector<std::string> points{
      "federated.secure.after_it_is_kept=kill@call=2",  "federated.secure.before_it_is_kept=kill@call=3",
      "federated.secure.after_it_is_kept=kill@call=3",  "federated.update.before_it_is_acknowledged=kill@call=1",
      "federated.secure.before_it_is_kept=kill@call=2", "federated.secure.after_it_is_kept=kill@call=4",
      "federated.round.before_commit=kill@call=0",      ""};
  std::vector<std::unique_ptr<Program>> clients;
  std::string where = "127.0.0.1:0";
  for (const std::string& point : points) {
    ::setenv("MUSTER_FAILPOINTS", point.c_str(), 1);
    std::vector<std::string> words = with({"--listen", where, "--certs", certs + "/coordinator"}, securely(4));
    if (!clients.empty()) words = with(words, {"--run", run().string()});
    auto server = serve(words);
    ::unsetenv("MUSTER_FAILPOINTS");
    if (clients.empty()) {
      where = address();
      for (int i = 0; i < 4; ++i)
        clients.push_back(join(i, where, {"--secure", "--certs", certs + "/client-site-" + std::to_string(i)}));
    }
    const Finished result = server->wait();
    EXPECT_EQ(result.signal, point.empty() ? 0 : SIGKILL) << point << "\n" << result.err;
  }
  for (auto& client : clients)
    EXPECT_THAT(client->wait().out, HasSubstr("2 updates counted, 0 refused, 0 late"));
  EXPECT_EQ(slurp(run() / "model.safetensors"), simulated(securely(4)));
}

TEST_F(FederatedServer, ClientsOfSecureAggregationThatAreKilledAtAStageLeaveAnExactSum) {
  // Five, of whom two die in the first round: three are enough. Then they come back.
  auto server = serve(with({"--listen", "127.0.0.1:0"}, securely(5, {"secure_threshold=3", "silence_seconds=8"})));
  const std::string where = address();
  std::vector<std::unique_ptr<Program>> clients;
  for (int i = 0; i < 5; ++i) {
    const char* const point = i == 0   ? "federated.client.before_masked=kill@call=0"
                              : i == 1 ? "federated.client.before_unmask=kill@call=0"
                                       : "";
    ::setenv("MUSTER_FAILPOINTS", point, 1);
    clients.push_back(join(i, where));
    ::unsetenv("MUSTER_FAILPOINTS");
  }
  ASSERT_TRUE(testing::eventually([&] { return !rows(server->out()).empty(); }));
  EXPECT_EQ(rows(server->out()).front().at("counted"), 4);
  EXPECT_EQ(clients[0]->wait().signal, SIGKILL);
  EXPECT_EQ(clients[1]->wait().signal, SIGKILL);
  clients[0] = join(0, where);
  clients[1] = join(1, where);
  const Finished result = server->wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(rows(result.out)[1].at("counted"), 5);
  for (auto& client : clients)
    EXPECT_EQ(client->wait().exit_code, 0);
}

TEST_F(FederatedServer, AClientThatWantsSecureAggregationSendsNothingElse) {
  auto server = serve({"--listen", "127.0.0.1:0", "--set", "federated.per_round=3"});
  const std::string where = address();
  auto other = join(1, where);
  auto third = join(2, where);
  const Finished refused = join(0, where, {"--secure"})->wait();
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("asks for an update as it is"));
  const auto job = [&](const std::vector<std::string>& words) {
    return run_program(folder("server"), with({"federated", "simulate", "job.toml"}, words)).err;
  };
  EXPECT_THAT(job(securely(4, {"aggregate=median"})), HasSubstr("needs single updates"));
  EXPECT_THAT(job(securely(4, {"most_norm=1"})), HasSubstr("looks at single updates"));
  EXPECT_THAT(job(securely(4, {"algorithm=scaffold"})), HasSubstr("have no bound"));
  EXPECT_THAT(job({"--set", "federated.secure=true"}), HasSubstr("federated.clip"));
  EXPECT_THAT(job({"--set", "federated.secure_threshold=3"}), HasSubstr("no effect without secure"));
}

// Rows "a,b,kind": which of both is large tells the kind.
void write_table(const std::filesystem::path& path, int rows, const std::string& kinds) {
  std::ofstream table(path);
  table << "a,b,kind\n";
  for (int i = 0; i < rows; ++i) {
    const char kind = kinds[static_cast<std::size_t>(i) % kinds.size()];
    const double wobble = 0.1 * (i % 7);
    table << (kind == 'x' ? 10 : 0) + wobble << "," << (kind == 'y' ? 5 : 0) - wobble << "," << kind << "\n";
  }
}

TEST_F(FederatedServer, ClientsTrainOnFilesOfTheirOwnAndKindsThatOneLacksKeepTheirNumbers) {
  job_ =
      "[data]\nsource = \"csv\"\npath = \"all.csv\"\ntarget = \"kind\"\ntest_fraction = 0.5\nbatch = 10\n"
      "[model]\nname = \"mlp\"\nhidden = [8]\n[optimizer]\nlr = 0.2\n"
      "[federated]\nclients = 2\nper_round = 2\nrounds = 5\nlocal_epochs = 10\n";
  write_table(folder("server") / "all.csv", 60, "xyz");
  write_table(folder_.path() / "yz.csv", 60, "yz");
  write_table(folder_.path() / "xy.csv", 90, "xy");
  auto server = serve({"--listen", "127.0.0.1:0"});
  const std::string where = address();
  std::vector<std::unique_ptr<Program>> clients;
  for (const std::string name : {"yz", "xy"})
    clients.push_back(std::make_unique<Program>(
        folder(name), std::vector<std::string>{"federated", "client", "--join", where, "--name", name, "--data",
                                               (folder_.path() / (name + ".csv")).string()}));
  const Finished result = server->wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (auto& client : clients)
    EXPECT_THAT(client->wait().out, HasSubstr("5 updates counted"));
  // A client alone cannot know a third of the kinds.
  EXPECT_GT(rows(result.out).back().at("accuracy").get<double>(), 0.9);
}

TEST_F(FederatedServer, AClientThatIsKilledComesBackUnderItsNumber) {
  auto server = serve({"--listen", "127.0.0.1:0", "--set", "federated.rounds=6"});
  const std::string where = address();
  std::vector<std::unique_ptr<Program>> clients;
  for (int i = 0; i < kClients; ++i)
    clients.push_back(join(i, where));
  ASSERT_TRUE(testing::eventually([&] { return !rows(server->out()).empty(); }));
  clients[1].reset();  // kill -9
  clients[1] = join(1, where);
  const Finished result = server->wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (auto& client : clients)
    EXPECT_EQ(client->wait().exit_code, 0);
  EXPECT_EQ(slurp(run() / "model.safetensors"), simulated({"--set", "federated.rounds=6"}));
  const Finished status = run_program(folder_.path(), {"federated", "status", run().string()});
  EXPECT_THAT(status.out,
              ::testing::AllOf(HasSubstr("6 of 6 done"), HasSubstr("3 enrolled"), HasSubstr("does not run")));
}

// examples/federated_client.cpp, of which this program knows nothing but the wire, beside one of this program.
TEST_F(FederatedServer, AClientWithATrainingOfItsOwnTakesPart) {
  job_ =
      "[data]\nsource = \"synthetic\"\nshape = [6]\nclasses = 3\nsamples = 60\ntest_samples = 30\nbatch = 10\n"
      "[model]\nname = \"mlp\"\nhidden = [0]\n"
      "[federated]\nclients = 2\nper_round = 2\nrounds = 3\nwait_for = 2\n";
  auto server = serve({"--listen", "127.0.0.1:0"});
  const std::string where = address();
  const auto ours = join(1, where);
  const testing::CommandResult own = testing::run_command({MUSTER_FEDERATED_CLIENT, where, "in-cpp"});
  EXPECT_EQ(own.exit_code, 0) << own.out;
  EXPECT_THAT(own.out, HasSubstr("3 updates counted"));
  EXPECT_EQ(server->wait().exit_code, 0);
  EXPECT_EQ(ours->wait().exit_code, 0);
  expect_whole_rows(3);
}

// A buffer, heads that stay where they are, and what is held out at clients, over the wire.
TEST_F(FederatedServer, BuffersPartsAndFiguresOfClientsGoOverTheWire) {
  const std::vector<std::string> settings{
      "--set", "federated.algorithm=fedbuff", "--set", "federated.keep=[\"head\"]",
      "--set", "federated.client_test=0.2",   "--set", "federated.compress=topk:0.2",
      "--set", "federated.rounds=6"};
  auto server = serve(with({"--listen", "127.0.0.1:0"}, settings));
  const std::string where = address();
  std::vector<std::unique_ptr<Program>> clients;
  for (int i = 0; i < kClients; ++i)
    clients.push_back(join(i, where));
  const Finished result = server->wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (auto& client : clients)
    EXPECT_EQ(client->wait().exit_code, 0);
  const std::vector<Json> all = rows(result.out);
  ASSERT_EQ(all.size(), 7U);
  EXPECT_TRUE(all[5].contains("clients_accuracy"));
  EXPECT_GT(all[5].at("update_bytes").get<int>(), 0);
  expect_whole_rows(6);
}

// Two models at one address: one client has room for both, one only for the small one, and a third is told to train
// one.
TEST_F(FederatedServer, ClientsDecideWhichModelsTheyTrain) {
  std::string wide = job_;
  wide.replace(wide.find("hidden = [16]"), 13, "hidden = [64]");
  job_ += "[job]\nname = \"small\"\n";
  const std::filesystem::path server_folder = folder("server");
  std::ofstream(server_folder / "large.toml") << wide << "[job]\nname = \"large\"\n";
  auto server = std::make_unique<Program>(
      server_folder, std::vector<std::string>{"federated", "server", "job.toml", "large.toml", "--json", "--listen",
                                              "127.0.0.1:0", "--set", "federated.wait_for=2"});
  const std::string where = address();
  std::vector<std::unique_ptr<Program>> clients;
  clients.push_back(join(0, where));
  clients.push_back(join(1, where, {"--most-parameters", "1000"}));
  clients.push_back(join(2, where, {"--model", "large"}));
  const Finished result = server->wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::vector<std::string> out;
  for (auto& client : clients) {
    const Finished ended = client->wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    out.push_back(ended.out);
  }
  EXPECT_THAT(out[0], ::testing::AllOf(HasSubstr("small: finished"), HasSubstr("large: finished")));
  EXPECT_THAT(out[1], HasSubstr("--most-parameters is 1000"));
  EXPECT_THAT(out[2], HasSubstr("does not train small: --model names others"));
  std::map<std::string, int> rounds;
  for (const Json& row : rows(result.out)) {
    if (row.at("event") == "round") ++rounds[row.at("model").get<std::string>()];
  }
  EXPECT_EQ(rounds["small"], 4);
  EXPECT_EQ(rounds["large"], 4);
  const Finished none =
      run_program(folder("none"), {"federated", "client", "--join", where, "--as", "0", "--wait", "0.1"});
  EXPECT_EQ(none.exit_code, 1) << "the server has ended";
}

// A budget that allows nothing of one model ends that one alone. Where it allows none it is the client's mistake.
TEST_F(FederatedServer, AModelThatTheBudgetDoesNotAllowLeavesTheOthersToTrain) {
  const std::size_t wait = job_.find("wait_for = 3");
  std::string much_noise = job_;
  much_noise.replace(wait, 12, "wait_for = 2\nsample_clip = 1\nsample_noise = 1000");
  job_.replace(wait, 12, "wait_for = 1\nsample_clip = 1\nsample_noise = 0.5");
  job_ += "[job]\nname = \"small\"\n";
  const std::filesystem::path server_folder = folder("server");
  std::ofstream(server_folder / "large.toml") << much_noise << "[job]\nname = \"large\"\n";
  const Program server(server_folder, {"federated", "server", "job.toml", "large.toml", "--listen", "127.0.0.1:0"});
  const std::string where = address();
  auto one = join(0, where, {"--set", "federated.sample_epsilon=0.5"});
  // `large` waits for a second one meanwhile, so that nothing of the budget is spent.
  ASSERT_TRUE(testing::eventually([&] { return one->out().find("does not train small") != std::string::npos; }))
      << one->out() << one->err();
  const Finished refused = join(1, where, {"--set", "federated.sample_epsilon=0.0001"})->wait();
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.out, ::testing::AllOf(HasSubstr("does not train small"), HasSubstr("does not train large")));
  EXPECT_THAT(refused.err, HasSubstr("allows not a single round"));
  const auto other = join(2, where, {"--model", "large"});
  const Finished trained = one->wait();
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, ::testing::AllOf(HasSubstr("allows not a single round"),
                                            HasSubstr("large: round 4: trained on"), HasSubstr("large: finished")));
}

// A client with little room trains the largest part of the model that fits, and one with less than that nothing.
TEST_F(FederatedServer, AClientWithLittleRoomTrainsANarrowerModel) {
  auto server = serve({"--listen", "127.0.0.1:0", "--set", "federated.wait_for=2", "--set",
                       "federated.submodels=[\"model.hidden=[4]\", \"model.hidden=[8]\"]"});
  const std::string where = address();
  auto whole = join(0, where);
  auto narrower = join(1, where, {"--most-parameters", "200"});  // the models have 288, 96 and 160
  const Finished none = join(2, where, {"--most-parameters", "50"})->wait();
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("--most-parameters is 50"));
  EXPECT_EQ(server->wait().exit_code, 0);
  EXPECT_THAT(whole->wait().out, ::testing::Not(HasSubstr("narrower")));
  const Finished ended = narrower->wait();
  EXPECT_THAT(ended.out, ::testing::AllOf(HasSubstr("trains narrower model 2"), HasSubstr("4 updates counted")));
}

TEST_F(FederatedServer, WhoIsNoClientIsRefusedAndSoIsAnOpenDoor) {
  const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
    const Finished result = run_program(folder("server"), words);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  refused({"federated", "server", "job.toml", "--listen", "0.0.0.0:0"}, "--insecure");
  refused({"federated", "server", "job.toml", "--set", "federated.drop=0.1"}, "is for simulations");
  refused({"federated", "client", "--join", "10.1.2.3:7420", "--as", "0"}, "--insecure");
  refused({"federated", "client", "--join", "127.0.0.1:1"}, "--data");
  refused({"federated", "client", "--join", "127.0.0.1:1", "--data", "x.csv"}, "--name");
  ASSERT_EQ(run_program(folder_.path(), {"certs", "create", "certs"}).exit_code, 0);
  ASSERT_EQ(run_program(folder_.path(), {"certs", "add", "certs", "client", "a"}).exit_code, 0);
  ASSERT_EQ(run_program(folder_.path(), {"certs", "create", "foreign"}).exit_code, 0);
  ASSERT_EQ(run_program(folder_.path(), {"certs", "add", "foreign", "client", "a"}).exit_code, 0);
  const std::string certs = (folder_.path() / "certs").string();
  refused({"federated", "client", "--join", "127.0.0.1:1", "--as", "0", "--certs", certs + "/agent"},
          "no certificate of a client");
  auto server = serve({"--listen", "127.0.0.1:0", "--certs", certs + "/coordinator"});
  const std::string where = address();
  // It does not trust the server, nor the server it.
  const Finished foreign =
      join(0, where, {"--certs", (folder_.path() / "foreign/client-a").string(), "--wait", "1"})->wait();
  EXPECT_EQ(foreign.exit_code, 1) << foreign.err;
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait().exit_code, 143);
  EXPECT_EQ(slurp(run() / "clients.txt"), "");
}

}  // namespace
}  // namespace muster
