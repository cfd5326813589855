// muster bench secure-aggregation: a round of federated.secure with all clients in this process, one after another, of
// whom a part drops out at a stage: whether the sum is exact, what a client sends and computes, and what the server.
// There is no wire and there are no certificates in it: a client's time is its masks, and the server's the unmasking.
#include "muster/cli/bench/secure.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/cli/bench/bench.h"
#include "muster/federated/secure/secure_client.h"
#include "muster/federated/secure/secure_server.h"

namespace muster::cli {
namespace {

using federated::SecureClient;
using federated::SecureServer;
using federated::SecureStage;
using Words = std::vector<std::uint32_t>;

struct SecureBench {
  std::uint64_t clients = 100;
  std::uint64_t words = 1'000'000;
  double drop = 0.3;
  std::vector<std::string> stages{"none", "keys", "shares", "masked", "unmask", "every"};
  bool json = false;
};

class SecureRoundBench {
 public:
  SecureRoundBench(const SecureBench& options, std::string stage, std::uint64_t threshold)
      : options_(options),
        stage_(std::move(stage)),
        setup_({.run = "bench", .words = options.words, .most_clients = options.clients, .threshold = threshold}),
        server_(setup_, everybody(options.clients)) {}

  Json run() {
    for (const std::uint64_t client : left("keys")) {
      clients_[client] = std::make_unique<SecureClient>(setup_, client);
      const federated::KeyAdvert& advert = clients_[client]->advert();
      server_.take_keys(advert);
      sent_[client] += advert.seal_key.size() + advert.mask_key.size() + advert.commitment.size();
    }
    server_.close_stage();
    for (const std::uint64_t client : left("shares")) {
      const auto shares = clients_.at(client)->share_out(server_.keys());
      for (const federated::SealedShare& share : shares)
        sent_[client] += share.sealed.size() + sizeof share.client;
      server_.take_shares(client, shares);
    }
    server_.close_stage();
    for (const std::uint64_t client : left("masked"))
      send_masked(client);
    server_.close_stage();
    for (const std::uint64_t client : left("unmask")) {
      clients_.at(client)->agree_on(server_.survivors());
      const auto shares = clients_.at(client)->unmask({});
      sent_[client] += shares.size() * sizeof(federated::UnmaskShare);
      server_.take_unmasking(client, shares);
    }
    server_.close_stage();
    return row();
  }

 private:
  static std::vector<std::uint64_t> everybody(std::uint64_t clients) {
    std::vector<std::uint64_t> all(clients);
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    return all;
  }
  // Who is there in a stage, without those that drop out in it; they are random ones, the same in every run.
  std::vector<std::uint64_t> left(const std::string& stage) {
    std::vector<std::uint64_t> there = server_.awaited();
    std::erase_if(there, [&](std::uint64_t one) { return gone_.contains(one); });
    if (stage_ != stage && stage_ != "every") return there;
    std::ranges::shuffle(there, draw_);
    const auto stay = there.size() - static_cast<std::size_t>(options_.drop * static_cast<double>(there.size()));
    gone_.insert(there.begin() + static_cast<std::ptrdiff_t>(stay), there.end());
    there.resize(stay);
    std::ranges::sort(there);
    return there;
  }
  void send_masked(std::uint64_t client) {
    Words words(options_.words);
    std::mt19937 values(static_cast<std::mt19937::result_type>(client));
    std::ranges::generate(words, [&] { return static_cast<std::uint32_t>(values()); });
    add(words, expected_);
    clients_.at(client)->take_shares(server_.shares_for(client));
    const double before = cpu_seconds();
    clients_.at(client)->mask(words);
    client_seconds_.push_back(cpu_seconds() - before);
    add(words, sum_);
    sent_[client] += words.size() * sizeof words[0];
    server_.take_masked(client);
  }
  static void add(const Words& words, Words& sum) {
    sum.resize(words.size());
    for (std::size_t i = 0; i < words.size(); ++i)
      sum[i] += words[i];
  }

  Json row() {
    if (server_.failed()) throw Error(ErrorKind::kInvalidInput, server_.failure(), "--drop", "Let fewer drop out.");
    const double before = cpu_seconds();
    const auto start = system_clock().now();
    const bool whole = server_.unmask(sum_);
    const double cpu = cpu_seconds() - before;
    if (!whole || sum_ != expected_)
      throw Error(ErrorKind::kCompute, "the sum is not that of the survivors' updates", stage_);
    std::uint64_t most = 0;
    for (const auto& [client, bytes] : sent_)
      most = std::max(most, bytes);
    return {{"drop_at", stage_},
            {"clients", options_.clients},
            {"words", options_.words},
            {"threshold", server_.keys().threshold},
            {"survivors", server_.survivors().size()},
            {"exact", true},
            {"client_mask_s", median(client_seconds_)},
            {"server_unmask_s", microseconds_since(start) / 1e6},
            {"server_unmask_cpu_s", cpu},
            {"client_sends_bytes", most},
            {"of_plain", static_cast<double>(most) / static_cast<double>(options_.words * sizeof(float))}};
  }

  const SecureBench& options_;
  const std::string stage_;
  const federated::SecureSetup setup_;
  SecureServer server_;
  std::map<std::uint64_t, std::unique_ptr<SecureClient>> clients_;
  std::map<std::uint64_t, std::uint64_t> sent_;
  std::set<std::uint64_t> gone_;
  std::mt19937 draw_{7};
  Words sum_;
  Words expected_;
  std::vector<double> client_seconds_;
};

void bench_secure(const SecureBench& options) {
  for (const std::string& stage : options.stages) {
    // With losses at every stage two thirds are not left: as many as are, then.
    const double stay = std::pow(1 - options.drop, 4) * static_cast<double>(options.clients);
    const std::uint64_t threshold =
        stage == "every" ? std::max<std::uint64_t>(federated::kLeastThreshold, static_cast<std::uint64_t>(stay)) : 0;
    print_row(SecureRoundBench(options, stage, threshold).run(), options.json);
  }
}

}  // namespace

void add_secure_bench(CLI::App& bench) {
  CLI::App* secure = bench.add_subcommand("secure-aggregation", "A round of federated.secure, and who drops out.");
  const auto o = std::make_shared<SecureBench>();
  secure->add_option("--clients", o->clients, "Clients of the round")
      ->capture_default_str()
      ->check(CLI::Range(3, 1000));
  secure->add_option("--words", o->words, "Numbers of an update")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000'000));
  secure->add_option("--drop", o->drop, "Part of those there that drops out")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.9));
  secure->add_option("--stages", o->stages, "At which: none, keys, shares, masked, unmask, every")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"none", "keys", "shares", "masked", "unmask", "every"}));
  secure->add_flag("--json", o->json, "One JSON object a line");
  secure->footer(
      "Each row is a round whose sum is compared with that of the survivors' updates, word by word.\n"
      "\nExample:\n  muster bench secure-aggregation --clients 100 --words 1000000 --stages masked --json");
  secure->callback([o] { bench_secure(*o); });
}

}  // namespace muster::cli
