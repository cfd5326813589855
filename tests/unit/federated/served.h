// A server with clients in one process and no wire between them, for tests of rounds.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/hash.h"
#include "muster/federated/chances.h"
#include "muster/federated/federated_client.h"
#include "muster/federated/round_server.h"
#include "muster/federated/run_state.h"
#include "unit/federated/quadratic.h"

namespace muster::federated {

constexpr std::uint64_t kSmallChunk = 40;  // bytes: an update takes several

// A server of a run in a folder, as the program has it: started again it goes on.
class Served {
 public:
  Served(const Options& options, const std::filesystem::path& folder, const Clock& clock = system_clock())
      : options_(options),
        state_(folder / "state.safetensors"),
        server_(server_options(options, folder), training_, clock) {
    if (const auto kept = state_.read()) server_.restore(*kept);
  }
  RoundReport round(const std::function<bool()>& keep_on = kOn) {
    return server_.round(keep_on, [this](State& state, const RoundReport&) { state_.write(state); });
  }
  RoundServer& server() { return server_; }
  const Options& options() const { return options_; }
  std::string told() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return told_;
  }

 private:
  RoundServerOptions server_options(const Options& options, const std::filesystem::path& folder) {
    RoundServerOptions made;
    made.federated = options;
    made.seed = 3;
    made.folder = folder;
    made.run = "run";
    made.chunk_bytes = kSmallChunk;
    made.make_submodel = [](std::size_t) { return std::make_unique<NarrowQuadratic>(); };
    made.tell = [this](const std::string& line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      told_ += line + "\n";
    };
    return made;
  }

  const Options options_;
  StateFile state_;
  Quadratic training_;
  mutable std::mutex mutex_;
  std::string told_;
  RoundServer server_;
};

// All clients of the split, each a thread.
class Clients {
 public:
  Clients(FederatedCalls& calls, const Options& options, const std::filesystem::path& states) {
    const ClientSplit split = split_of(options);
    for (std::uint64_t client = 0; client < split.clients(); ++client) {
      const std::vector<std::uint64_t> all = split.samples(client);
      const ClientSamples parts = hold_out(all, options.held_out(all.size()), 3, client);
      const std::uint64_t submodel = Chances(options, 3, 0).submodel(client);
      threads_.emplace_back([&calls, &options, client, parts, submodel, states] {
        ClientOptions client_options;
        client_options.keep = options.keep;
        client_options.error_feedback = options.error_feedback;
        client_options.name = "client-" + std::to_string(client);
        client_options.states = states / client_options.name;
        Quadratic whole;
        NarrowQuadratic narrow;
        FederatedClient one(calls, client_options);
        one.run(one.enrol({.number = client, .submodel = submodel}, kOn), submodel > 0 ? narrow : whole, parts.train,
                kOn, parts.test);
      });
    }
  }

 private:
  std::vector<std::jthread> threads_;
};

inline Options live(std::int64_t clients, std::int64_t per_round) {
  Options options = options_of(clients, per_round);
  options.wait_for = clients;
  return options;
}

inline Options secure_options(std::int64_t clients, std::int64_t per_round) {
  Options options = live(clients, per_round);
  options.secure = true;
  options.clip = 0.5;
  options.most_samples = 7;
  return options;
}

// --- By hand.

inline std::vector<float> update_of(float value, std::size_t size = kSize) {
  return std::vector<float>(size, value);
}

inline UpdateAnswer send(RoundServer& server, const std::string& name, std::uint64_t round,
                         const std::vector<float>& update, std::uint64_t samples = 5) {
  const auto bytes = std::as_bytes(std::span(update));
  UpdateChunk chunk{
      .round = round, .digest = sha256(bytes), .total_bytes = bytes.size(), .samples = samples, .loss = 1};
  UpdateAnswer answer;
  do {
    chunk.offset = answer.received;
    chunk.data = bytes.subspan(answer.received, std::min<std::size_t>(kSmallChunk, bytes.size() - answer.received));
    answer = server.send_update(name, chunk);
  } while (answer.verdict == UpdateAnswer::Verdict::kPartial);
  return answer;
}

// A round that is open: the thread that computes waits in it until `done` is called or updates end it.
class OpenRound {
 public:
  // `keep_on` is called whenever that thread looks.
  explicit OpenRound(Served& served, int clients, const std::function<bool()>& keep_on = kOn) : served_(served) {
    for (int i = 0; i < std::max(clients, 4); ++i) {
      if (i < clients || served.options().clients > i) served.server().enrol(name(i), {.number = i});
    }
    // What the server computes in has its own thread; the calls are the test's.
    thread_ = std::jthread([this, keep_on] { report_ = served_.round(keep_on); });
    while (served.server().standing().asked == 0) {
      for (int i = 0; i < clients; ++i)
        served.server().next_task(name(i), 5, std::chrono::milliseconds(0));
    }
  }
  static std::string name(int client) { return "c" + std::to_string(client); }
  RoundReport end() {
    thread_.join();
    return report_;
  }

 private:
  Served& served_;
  RoundReport report_;
  std::jthread thread_;
};

}  // namespace muster::federated
