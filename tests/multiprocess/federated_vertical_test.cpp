// muster federated vertical as processes: two and three parties, certificates, parties that are killed anywhere,
// garbage on the socket, and rows in another order at each.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::slurp;

// What is true of person `id`: a coordinate that each party knows, and which side of a curve they are on together.
struct Person {
  explicit Person(int id)
      : x(((id * 37) % 101) / 50.0 - 1), y(((id * 53) % 103) / 51.0 - 1), z(((id * 71) % 107) / 53.0 - 1) {}
  const char* kind() const { return x * y + z > 0 ? "above" : "below"; }
  double x;
  double y;
  double z;
};

class FederatedVertical : public ::testing::Test {
 protected:
  std::filesystem::path folder(const std::string& name) const {
    std::filesystem::create_directories(folder_ / name);
    return folder_ / name;
  }

  // Tables and jobs of all parties, in a folder. Each has people that the others do not know, in an order of its own.
  std::filesystem::path make_jobs(const std::string& name, const std::vector<std::string>& parties, int people,
                                  int shift, const std::string& nets = "bottom = [16]\nwidth = 8\n") const {
    const std::filesystem::path where = folder(name);
    write(where / "labels.csv", "person,x,kind", people, shift,
          [](int id, const Person& p) { return fmt::format("{},{:.4f},{}", id, p.x, p.kind()); });
    write(where / "bank.csv", "y,person,odd", people + 20, shift * 3,
          [](int id, const Person& p) { return fmt::format("{:.4f},{},{}", p.y, id, id % 2 == 1 ? "yes" : "no"); });
    write(where / "shop.csv", "person,z", people + 10, shift * 7,
          [](int id, const Person& p) { return fmt::format("{},{:.4f}", id, p.z); });
    std::string names;
    for (const std::string& party : parties)
      names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", party);
    std::ofstream(where / "labels.toml") << job_of("labels", "batch = 20\ntarget = \"kind\"\ntest_fraction = 0.3\n",
                                                   fmt::format("parties = [{}]\ncheckpoint_steps = 5\n{}", names, nets))
                                         << "[job]\nepochs = 3\n[model]\nhidden = [16]\n";
    for (const char* party : {"bank", "shop"})
      std::ofstream(where / fmt::format("{}.toml", party)) << job_of(party, "", nets);
    return where;
  }
  static std::string job_of(const std::string& name, const std::string& data, const std::string& vertical) {
    return fmt::format(
        "[data]\nsource = \"csv\"\npath = \"{}.csv\"\npartition = \"vertical\"\n{}[vertical]\nid = \"person\"\n"
        "{}[optimizer]\nname = \"adam\"\nlr = 0.01\n",
        name, data, vertical);
  }
  template <typename Row>
  static void write(const std::filesystem::path& path, const std::string& header, int people, int shift,
                    const Row& row) {
    std::ofstream file(path);
    file << header << "\n";
    for (int i = 0; i < people; ++i) {
      const int id = (i + shift) % people;
      file << row(id, Person(id)) << "\n";
    }
  }

  // Where the label holder's run is, once it listens; there is one in a folder.
  static std::filesystem::path run_in(const std::filesystem::path& where) {
    EXPECT_TRUE(testing::eventually([&] { return !find_run(where).empty(); }));
    return find_run(where);
  }
  static std::filesystem::path find_run(const std::filesystem::path& where) {
    std::error_code none;
    for (const auto& run : std::filesystem::directory_iterator(where / "runs", none)) {
      if (std::filesystem::exists(run.path() / "address")) return run.path();
    }
    return {};
  }
  static std::string address_in(const std::filesystem::path& where) {
    const std::string text = slurp(run_in(where) / "address");
    return text.substr(0, text.find('\n'));
  }

  using Models = std::map<std::string, std::string>;
  static Models models_in(const std::filesystem::path& where, const std::vector<std::string>& parties,
                          const std::filesystem::path& state) {
    Models models{{"labels", slurp(run_in(where) / "model.safetensors")}};
    for (const std::string& party : parties)
      models[party] = slurp(state / run_in(where).filename() / party / "model.safetensors");
    for (const auto& [name, model] : models)
      EXPECT_GT(model.size(), 100u) << name;
    return models;
  }
  // By one command, undisturbed.
  Models undisturbed(const std::string& name, const std::vector<std::string>& parties, int people, int shift) const {
    const std::filesystem::path where = make_jobs(name, parties, people, shift);
    std::vector<std::string> words{"federated", "vertical", "labels",     "labels.toml",
                                   "--json",    "--listen", "127.0.0.1:0"};
    for (const std::string& party : parties)
      words.insert(words.end(), {"--with", party + ".toml"});
    const Finished result = run_program(where, words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(rows(result.out).size(), 4) << result.out;
    return models_in(where, parties, run_in(where) / "parties");
  }

  std::unique_ptr<Program> labels(const std::filesystem::path& where, const std::vector<std::string>& more) const {
    std::vector<std::string> words{"federated", "vertical", "labels", "labels.toml", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<Program>(where, words);
  }
  std::unique_ptr<Program> columns(const std::filesystem::path& where, const std::string& party,
                                   const std::string& address, const std::vector<std::string>& more = {}) const {
    std::filesystem::create_directories(where / party);
    std::vector<std::string> words{"federated", "vertical", "columns", "../" + party + ".toml",
                                   "--join",    address,    "--state", "../state"};
    words.insert(words.end(), more.begin(), more.end());
    if (more.empty()) words.insert(words.end(), {"--name", party});
    return std::make_unique<Program>(where / party, words);
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(FederatedVertical, WithCertificatesInAnyOrderOfRowsGivesTheSameWeights) {
  const Models expected = undisturbed("plain", {"bank"}, 100, 0);
  const std::filesystem::path where = make_jobs("mtls", {"bank"}, 100, 17);
  const std::string certs = (folder_ / "certs").string();
  ASSERT_EQ(run_program(folder_.path(), {"certs", "create", certs}).exit_code, 0);
  for (const char* name : {"bank", "mallory"})
    ASSERT_EQ(run_program(folder_.path(), {"certs", "add", certs, "client", name}).exit_code, 0);
  auto holder = labels(where, {"--listen", "127.0.0.1:0", "--certs", certs + "/coordinator"});
  const std::string address = address_in(where);
  // Its certificate is good, and the job does not name it; without one nobody gets as far.
  const Finished stranger = columns(where, "shop", address, {"--certs", certs + "/client-mallory"})->wait();
  EXPECT_EQ(stranger.exit_code, 2);
  EXPECT_THAT(stranger.err, HasSubstr("no party \"mallory\""));
  const Finished nobody = columns(where, "shop", address, {"--name", "bank", "--wait", "1"})->wait();
  EXPECT_EQ(nobody.exit_code, 1) << nobody.err;
  auto bank = columns(where, "bank", address, {"--certs", certs + "/client-bank"});
  const Finished result = holder->wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(bank->wait().exit_code, 0);
  EXPECT_EQ(models_in(where, {"bank"}, where / "state"), expected);
}

TEST_F(FederatedVertical, AThirdPartyThatIsKilledAnywhereComesBackToTheSameWeights) {
  const Models expected = undisturbed("plain", {"bank", "shop"}, 100, 0);
  const std::filesystem::path where = make_jobs("killed", {"bank", "shop"}, 100, 5);
  auto holder = labels(where, {"--listen", "127.0.0.1:0"});
  const std::string address = address_in(where);
  auto shop = columns(where, "shop", address);
  for (const std::string point :
       {"vertical.columns.before_places=kill@call=0", "vertical.columns.after_places=kill@call=0",
        "vertical.columns.before_exchange=kill@call=8", "vertical.columns.before_checkpoint=kill@call=1",
        "vertical.columns.after_checkpoint=kill@call=0", ""}) {
    ::setenv("MUSTER_FAILPOINTS", point.c_str(), 1);
    auto bank = columns(where, "bank", address);
    ::unsetenv("MUSTER_FAILPOINTS");
    const Finished result = bank->wait();
    EXPECT_EQ(result.signal, point.empty() ? 0 : SIGKILL) << point << "\n" << result.out << result.err;
    if (point.empty()) {
      EXPECT_EQ(result.exit_code, 0) << result.err;
    }
  }
  const Finished result = holder->wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(shop->wait().exit_code, 0);
  EXPECT_EQ(rows(result.out).size(), 4) << result.out;  // each epoch once, and the end
  EXPECT_EQ(models_in(where, {"bank", "shop"}, where / "state"), expected);
}

TEST_F(FederatedVertical, ALabelHolderThatIsKilledAnywhereGoesOnToTheSameWeights) {
  const Models expected = undisturbed("plain", {"bank", "shop"}, 100, 0);
  const std::filesystem::path where = make_jobs("killed", {"bank", "shop"}, 100, 31);
  std::unique_ptr<Program> bank;
  std::unique_ptr<Program> shop;
  std::string address = "127.0.0.1:0";
  for (const std::string point :
       {"vertical.labels.before_places=kill@call=0", "vertical.labels.before_gradients=kill@call=7",
        "vertical.labels.after_checkpoint=kill@call=1", ""}) {
    ::setenv("MUSTER_FAILPOINTS", point.c_str(), 1);
    std::vector<std::string> words{"--listen", address};
    if (bank) words.insert(words.end(), {"--run", run_in(where).string()});
    auto holder = labels(where, words);
    ::unsetenv("MUSTER_FAILPOINTS");
    if (!bank) {
      address = address_in(where);
      bank = columns(where, "bank", address);
      shop = columns(where, "shop", address);
    }
    const Finished result = holder->wait();
    EXPECT_EQ(result.signal, point.empty() ? 0 : SIGKILL) << point << "\n" << result.out << result.err;
    if (point.empty()) {
      EXPECT_EQ(result.exit_code, 0) << result.err;
    }
  }
  EXPECT_EQ(bank->wait().exit_code, 0);
  EXPECT_EQ(shop->wait().exit_code, 0);
  EXPECT_EQ(models_in(where, {"bank", "shop"}, where / "state"), expected);
  std::size_t epochs = 0;
  for (const Json& row : rows(slurp(run_in(where) / "metrics.jsonl"))) {
    if (row.at("event") != "epoch") continue;
    EXPECT_EQ(row.at("epoch"), ++epochs);
  }
  EXPECT_EQ(epochs, 3);
}

// Sends bytes to a port of this machine, and hangs up or stays.
int send_garbage(const std::string& address, const std::string& bytes) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  EXPECT_GE(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
  return socket;
}

TEST_F(FederatedVertical, GarbageOnTheSocketChangesNothing) {
  const Models expected = undisturbed("plain", {"bank"}, 100, 0);
  const std::filesystem::path where = make_jobs("garbage", {"bank"}, 100, 3);
  auto holder = labels(where, {"--listen", "127.0.0.1:0"});
  const std::string address = address_in(where);
  std::string noise;
  for (int i = 0; i < 100000; ++i)
    noise.push_back(static_cast<char>((i * 7919) >> 3));
  std::vector<int> open{send_garbage(address, noise), send_garbage(address, "GET / HTTP/1.1\r\n\r\n"),
                        send_garbage(address, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + noise)};
  auto bank = columns(where, "bank", address);
  open.push_back(send_garbage(address, ""));
  const Finished result = holder->wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(bank->wait().exit_code, 0);
  EXPECT_EQ(models_in(where, {"bank"}, where / "state"), expected);
  for (const int socket : open)
    ::close(socket);
}

// As the opening comments of examples/vertical_labels.toml and vertical_columns.toml say.
TEST_F(FederatedVertical, TheExamplesTrainOnATableThatIsCutInTwo) {
  const std::filesystem::path where = folder("example");
  ASSERT_EQ(run_program(where, {"data", "make-table", "table.csv", "--rows", "600"}).exit_code, 0);
  std::ifstream table(where / "table.csv");
  std::ofstream labels_csv(where / "labels.csv");
  std::ofstream columns_csv(where / "columns.csv");
  int number = 0;
  for (std::string line; std::getline(table, line); ++number) {
    const std::string id = number == 0 ? "id" : std::to_string(number);
    std::size_t cut = 0;
    for (int field = 0; field < 8; ++field)
      cut = line.find(',', cut) + 1;
    columns_csv << id << "," << line.substr(0, cut - 1) << "\n";
    labels_csv << id << "," << line.substr(cut) << "\n";
  }
  labels_csv.close();
  columns_csv.close();
  std::filesystem::copy(MUSTER_EXAMPLES "/vertical_columns.toml", where / "columns.toml");
  const Finished result =
      run_program(where, {"federated", "vertical", "labels", MUSTER_EXAMPLES "/vertical_labels.toml", "--set",
                          "data.path=labels.csv", "--listen", "127.0.0.1:0", "--with", "columns.toml"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("600 rows are common to all: 480 to train on, 120 to test with"));
  EXPECT_THAT(result.out, HasSubstr("epoch 5/5: train loss"));
}

TEST_F(FederatedVertical, ARunThatHasFinishedStaysAsItIsWhateverItIsResumedWith) {
  const Models models = undisturbed("finished", {"bank"}, 60, 0);
  const std::filesystem::path where = folder_ / "finished";
  // As one that was killed while it wrote leaves it.
  std::ofstream(run_in(where) / "metrics.jsonl", std::ios::app) << "{\"event\": \"epo";
  for (const std::string epochs : {"3", "1"}) {
    const Finished again = run_program(where, {"federated", "vertical", "labels", "labels.toml", "--resume", "--listen",
                                               "127.0.0.1:0", "--wait", "1", "--set", "job.epochs=" + epochs});
    EXPECT_EQ(again.exit_code, 0) << again.err;
    EXPECT_THAT(again.out, HasSubstr("has finished with epoch 3"));
    EXPECT_THAT(again.out, HasSubstr("all 3 epochs are done, train_loss "));
  }
  const Finished json = labels(where, {"--resume"})->wait();
  ASSERT_EQ(rows(json.out).size(), 1) << json.out;
  EXPECT_EQ(rows(json.out)[0].at("event"), "finished");
  EXPECT_GT(rows(json.out)[0].at("test_loss"), 0.0);
  EXPECT_EQ(models_in(where, {"bank"}, run_in(where) / "parties"), models);
}

TEST_F(FederatedVertical, ASecondProcessOfAPartyIsRefusedAndDisturbsNobody) {
  const Models expected = undisturbed("plain", {"bank", "shop"}, 100, 0);
  const std::filesystem::path where = make_jobs("twice", {"bank", "shop"}, 100, 5);
  auto holder = labels(where, {"--listen", "127.0.0.1:0"});
  const std::string address = address_in(where);
  auto bank = columns(where, "bank", address);
  ASSERT_TRUE(testing::eventually([&] { return bank->out().find("waits for shop") != std::string::npos; }));
  const auto second = [&](const std::string& state) {
    return run_program(folder("twice/second"), {"federated", "vertical", "columns", "../bank.toml", "--join", address,
                                                "--state", state, "--name", "bank"});
  };
  const Finished same_state = second("../state");
  EXPECT_EQ(same_state.exit_code, 2);
  EXPECT_THAT(same_state.err, HasSubstr("another process is bank with this folder already"));
  const Finished other_state = second("state");
  EXPECT_EQ(other_state.exit_code, 2);
  EXPECT_THAT(other_state.err, HasSubstr("bank takes part already"));
  auto shop = columns(where, "shop", address);
  const Finished result = holder->wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(bank->wait().exit_code, 0);
  EXPECT_EQ(shop->wait().exit_code, 0);
  EXPECT_EQ(models_in(where, {"bank", "shop"}, where / "state"), expected);
}

// The failpoint stands for a disk that is full when a checkpoint is due.
TEST_F(FederatedVertical, ALabelHolderThatFailsTellsTheOthersWhyAndAllGoOnLater) {
  const Models expected = undisturbed("plain", {"bank"}, 100, 0);
  const std::filesystem::path where = make_jobs("full", {"bank"}, 100, 5);
  ::setenv("MUSTER_FAILPOINTS", "vertical.labels.before_checkpoint=error@call=1", 1);
  auto holder = labels(where, {"--listen", "127.0.0.1:0"});
  ::unsetenv("MUSTER_FAILPOINTS");
  const std::string address = address_in(where);
  const Finished bank = columns(where, "bank", address)->wait();
  EXPECT_EQ(bank.exit_code, 1);
  EXPECT_THAT(bank.err, HasSubstr("the label holder has ended: "));
  EXPECT_THAT(bank.err, HasSubstr("vertical.labels.before_checkpoint"));
  EXPECT_EQ(holder->wait().exit_code, 1);
  holder = labels(where, {"--listen", address, "--resume"});
  auto again = columns(where, "bank", address);
  const Finished result = holder->wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(again->wait().exit_code, 0);
  EXPECT_EQ(models_in(where, {"bank"}, where / "state"), expected);
  // A party that has lost its folder is refused, and what the others have stays as it is.
  std::filesystem::remove_all(where / "state" / run_in(where).filename());
  holder = labels(where, {"--listen", address, "--resume", "--set", "job.epochs=4"});
  const Finished lost = columns(where, "bank", address)->wait();
  EXPECT_EQ(lost.exit_code, 2) << lost.err;
  EXPECT_THAT(lost.err,
              AllOf(HasSubstr("bank has nothing of the training"), HasSubstr("--state"), HasSubstr("--begin-anew")));
  holder->signal(SIGTERM);
  holder->wait();
  EXPECT_EQ(slurp(run_in(where) / "model.safetensors"), expected.at("labels"));
  // Where all begin anew rows of the epochs of before stay apart from those of now.
  holder = labels(where, {"--listen", address, "--resume", "--begin-anew", "--set", "job.epochs=4"});
  again = columns(where, "bank", address);
  EXPECT_EQ(holder->wait().exit_code, 0);
  EXPECT_EQ(again->wait().exit_code, 0);
  std::vector<int> epochs;
  std::size_t alignments = 0;
  for (const Json& row : rows(slurp(run_in(where) / "metrics.jsonl"))) {
    if (row.at("event") == "epoch") epochs.push_back(row.at("epoch"));
    if (row.at("event") != "alignment") continue;
    ++alignments;
    EXPECT_EQ(row.at("train_rows"), 70);
    if (alignments == 2) epochs.clear();
  }
  EXPECT_EQ(alignments, 2);
  EXPECT_EQ(epochs, (std::vector<int>{1, 2, 3, 4}));
}

TEST_F(FederatedVertical, WhoKnocksInVainIsNamedAndSilentConnectionsEnd) {
  const std::filesystem::path where = make_jobs("knocks", {"bank"}, 30, 0);
  auto holder = labels(where, {"--listen", "127.0.0.1:0"});
  const std::string address = address_in(where);
  const int silent = send_garbage(address, "");
  const Finished misspelt = columns(where, "bank", address, {"--name", "bnak"})->wait();
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_THAT(misspelt.err, HasSubstr("the job has no party \"bnak\": it expects bank"));
  EXPECT_TRUE(testing::eventually([&] { return holder->err().find("it expects bank") != std::string::npos; }))
      << holder->err();
  EXPECT_THAT(holder->err(), HasSubstr("every user of this machine"));
  // The end of the connection, or a reset: not a connection that stays.
  EXPECT_TRUE(testing::eventually([&] {
    char byte = 0;
    const ssize_t got = ::recv(silent, &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
  }));
  ::close(silent);
  // The port is taken: one error, nothing of gRPC's own, and no run.
  const std::filesystem::path other = make_jobs("port", {"bank"}, 30, 0);
  const Finished taken = run_program(other, {"federated", "vertical", "labels", "labels.toml", "--listen", address});
  EXPECT_EQ(taken.exit_code, 1);
  EXPECT_THAT(taken.err, HasSubstr("cannot listen for parties: Address already in use"));
  EXPECT_THAT(taken.err, ::testing::Not(HasSubstr(".cc:")));
  EXPECT_TRUE(std::filesystem::is_empty(other / "runs"));
}

// Of people in another file, whom not both know. A net that was trained with others first.
TEST_F(FederatedVertical, BothPredictForNewRowsAndTheLabelHolderHasTheAnswers) {
  undisturbed("other", {"bank"}, 60, 0);
  const std::filesystem::path other = folder_ / "other";
  const std::filesystem::path where = make_jobs("predict", {"bank"}, 300, 0);
  const Finished trained =
      run_program(where, {"federated", "vertical", "labels", "labels.toml", "--listen", "127.0.0.1:0", "--set",
                          "job.epochs=40", "--set", "vertical.checkpoint_steps=1000", "--with", "bank.toml"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  std::ofstream labels_csv(where / "new-labels.csv");
  std::ofstream bank_csv(where / "new-bank.csv");
  labels_csv << "person,x\n";
  bank_csv << "person,odd,y\n";
  for (int id = 99; id >= 0; --id) {
    const Person person(id);
    if (id >= 10) labels_csv << fmt::format("{},{:.4f}\n", id, person.x);
    if (id < 90) bank_csv << fmt::format("{},{},{:.4f}\n", id, id % 2 == 1 ? "yes" : "no", person.y);
  }
  labels_csv.close();
  bank_csv.close();
  const std::filesystem::path run = run_in(where);
  std::filesystem::remove(run / "address");
  auto holder =
      std::make_unique<Program>(where, std::vector<std::string>{"federated", "vertical", "labels", "labels.toml",
                                                                "--set", "job.epochs=40", "--listen", "127.0.0.1:0",
                                                                "--predict", "new-labels.csv", "--out", "answers.csv"});
  ASSERT_TRUE(testing::eventually([&] { return std::filesystem::exists(run / "address"); })) << holder->err();
  const auto bank = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{
        "federated",       "vertical",       "columns", "../bank.toml", "--join",
        address_in(where), "--name",         "bank",    "--state",      (run / "parties").string(),
        "--predict",       "../new-bank.csv"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(folder("predict/bank"), words);
  };
  const std::filesystem::path net_of_other = run_in(other) / "parties" / run_in(other).filename() / "bank";
  const Finished mixed = bank({"--net", net_of_other.string()});
  EXPECT_EQ(mixed.exit_code, 2) << mixed.err;
  EXPECT_THAT(mixed.err, AllOf(HasSubstr("the net of bank is of epoch 3 on alignment "),
                               HasSubstr("the label holder's is of epoch 40 on alignment "), HasSubstr("--net")));
  const Finished given = bank({});
  EXPECT_EQ(given.exit_code, 0) << given.err;
  const Finished result = holder->wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::ifstream answers(where / "answers.csv");
  std::string line;
  std::getline(answers, line);
  EXPECT_EQ(line, "person,class,probability");
  int right = 0;
  int id = 10;
  for (; std::getline(answers, line); ++id) {
    EXPECT_TRUE(line.starts_with(fmt::format("{},", id))) << line;
    right += line.find(fmt::format(",{},", Person(id).kind())) != std::string::npos;
  }
  EXPECT_EQ(id, 90);
  EXPECT_GT(right, 46);  // of 80; z, which nobody has, decides some
  for (const auto& entry : std::filesystem::directory_iterator(run))
    EXPECT_FALSE(entry.path().filename().string().starts_with("predict-")) << entry.path();
  const Finished without = run_program(where, {"federated", "vertical", "labels", "labels.toml", "--set",
                                               "job.epochs=40", "--predict", "new-labels.csv"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err, HasSubstr("--out"));
  // What cannot be written is said before anybody is waited for.
  const Finished nowhere =
      run_program(where, {"federated", "vertical", "labels", "labels.toml", "--set", "job.epochs=40", "--listen",
                          "127.0.0.1:0", "--wait", "1", "--predict", "new-labels.csv", "--out", "nowhere/answers.csv"});
  EXPECT_EQ(nowhere.exit_code, 2) << nowhere.err;
  EXPECT_THAT(nowhere.err, HasSubstr("nowhere/answers.csv"));
  // A net of which nothing says that it is that of the end.
  std::filesystem::remove(run / "finished.json");
  const Finished unfinished =
      run_program(where, {"federated", "vertical", "labels", "labels.toml", "--set", "job.epochs=40", "--listen",
                          "127.0.0.1:0", "--wait", "1", "--predict", "new-labels.csv", "--out", "answers.csv"});
  EXPECT_EQ(unfinished.exit_code, 2) << unfinished.err;
  EXPECT_THAT(unfinished.err, HasSubstr("training has not come to its end here"));
}

TEST_F(FederatedVertical, AJobOfAPartyIsCheckedAlone) {
  const std::filesystem::path where = make_jobs("check", {"bank"}, 30, 0);
  const Finished holder = run_program(where, {"check", "labels.toml"});
  EXPECT_EQ(holder.exit_code, 0) << holder.err;
  EXPECT_THAT(holder.out, HasSubstr("the label holder's job; 30 rows, 2 columns"));
  const Finished bank = run_program(where, {"check", "bank.toml"});
  EXPECT_EQ(bank.exit_code, 0) << bank.err;
  EXPECT_THAT(bank.out, HasSubstr("the job of a party with columns; 50 rows, 2 columns"));
  const Finished epochs = run_program(where, {"check", "bank.toml", "--set", "job.epochs=3"});
  EXPECT_EQ(epochs.exit_code, 2);
  EXPECT_THAT(epochs.err, HasSubstr("is for the label holder to say"));
  const Finished bare = run_program(where, {"check", "bank.toml", "--set", "data.ignore=[\"y\",\"odd\"]"});
  EXPECT_EQ(bare.exit_code, 2);
  EXPECT_THAT(bare.err, HasSubstr("has no column to learn from beside \"person\""));
}

TEST_F(FederatedVertical, MistakesInAJobOfAnotherPartyAreSaidAtTheFront) {
  const std::filesystem::path where = make_jobs("with", {"bank"}, 30, 0);
  std::ofstream(where / "wrong.toml") << job_of("bank", "", "").replace(0, 0, "[job]\nepochs = 4\n");
  const Finished wrong = run_program(
      where, {"federated", "vertical", "labels", "labels.toml", "--listen", "127.0.0.1:0", "--with", "wrong.toml"});
  EXPECT_EQ(wrong.exit_code, 2) << wrong.err;
  EXPECT_THAT(wrong.err, HasSubstr("wrong.toml:2"));
  EXPECT_THAT(wrong.err, HasSubstr("is for the label holder to say"));
  EXPECT_FALSE(std::filesystem::exists(where / "runs"));
  // What only the label holder can tell a party: its error stands at the front as well, and no dead run is left.
  std::ofstream(where / "wide.toml") << job_of("bank", "", "width = 65536\n");
  const Finished wide = run_program(where, {"federated", "vertical", "labels", "labels.toml", "--listen", "127.0.0.1:0",
                                            "--set", "data.batch=100", "--with", "wide.toml"});
  EXPECT_EQ(wide.exit_code, 2) << wide.err;
  EXPECT_THAT(wide.err, AllOf(HasSubstr("bank has ended: "), HasSubstr("too much for a step")));
  EXPECT_TRUE(std::filesystem::is_empty(where / "runs"));
}

TEST_F(FederatedVertical, MistakesAreSaidWithWhatToDo) {
  const std::filesystem::path where = make_jobs("mistakes", {"bank"}, 30, 0);
  const auto error = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all{"federated", "vertical"};
    all.insert(all.end(), words.begin(), words.end());
    const Finished result = run_program(where, all);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  };
  const std::string join = "127.0.0.1:1";
  EXPECT_THAT(error({"columns", "bank.toml", "--join", join}), HasSubstr("Give --name"));
  EXPECT_THAT(error({"columns", "bank.toml", "--join", "10.0.0.1:1", "--name", "bank"}), HasSubstr("--insecure"));
  EXPECT_THAT(error({"columns", "labels.toml", "--join", join, "--name", "bank"}),
              HasSubstr("is for the label holder to say"));
  EXPECT_THAT(error({"labels", "bank.toml"}), HasSubstr("vertical.parties"));
  EXPECT_THAT(error({"labels", "labels.toml", "--with", "bank.toml", "--with", "shop.toml"}),
              HasSubstr("--with names 2"));
  EXPECT_THAT(error({"labels", "labels.toml", "--listen", "0.0.0.0:0"}), HasSubstr("--insecure"));
  EXPECT_THAT(error({"labels", "labels.toml", "--set", "vertical.id=nobody"}),
              AllOf(HasSubstr("vertical.id"), HasSubstr("no column \"nobody\"")));
  EXPECT_THAT(error({"labels", "labels.toml", "--set", "data.partition=random"}),
              HasSubstr("has no effect without data.partition = \"vertical\""));
  EXPECT_THAT(error({"labels", "labels.toml", "--set", "parallel.workers=64"}),
              HasSubstr("has no effect on vertical training"));
  EXPECT_THAT(error({"columns", "bank.toml", "--join", join, "--name", "../bank"}), HasSubstr("is no name of a party"));
  const Finished alone = run_program(where, {"train", "labels.toml"});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("muster federated vertical"));
  const Finished away = run_program(
      where, {"federated", "vertical", "labels", "labels.toml", "--listen", "127.0.0.1:0", "--wait", "0.2"});
  EXPECT_EQ(away.exit_code, 1) << away.err;
  EXPECT_THAT(away.err, HasSubstr("nothing has come of bank"));
  EXPECT_THAT(run_program(where, {"federated", "vertical", "labels", "--help"}).out, HasSubstr("--with"));
}

}  // namespace
}  // namespace muster
