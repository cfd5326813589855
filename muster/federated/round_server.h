// The server of federated training: rounds with real clients. It answers their calls and makes one model after another.
//
// Durable: an update that was acknowledged is on disk (round_files.h), the state after a round is written by who
// listens
// (`commit`) before the next one begins, names keep their numbers (enrolments.h). So a server that is killed at any
// moment and started again goes on with the round that was under way, and an update counts once. With the same clients
// and seed it makes the bits of Simulation (round_change.h).
//
// Thread safety: the calls of clients from any thread; the rest from one thread, the one that computes. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/mutex.h"
#include "muster/federated/enrolments.h"
#include "muster/federated/federated_calls.h"
#include "muster/federated/kept_parts.h"
#include "muster/federated/left_clients.h"
#include "muster/federated/live_round.h"
#include "muster/federated/local_training.h"
#include "muster/federated/options.h"
#include "muster/federated/round_files.h"
#include "muster/federated/secure_round.h"
#include "muster/federated/server_optimizer.h"
#include "muster/federated/simulation.h"
#include "muster/federated/submodel.h"
#include "muster/federated/update_codec.h"

namespace muster::federated {

struct RoundServerOptions {
  Options federated;
  std::uint64_t seed = 0;
  std::filesystem::path folder;  // of the run
  std::string job{};             // for clients, as are the next two
  std::string data_form{};
  std::string run{};
  std::function<std::unique_ptr<LocalTraining>(std::size_t index)> make_submodel{};  // of federated.submodels
  std::uint64_t chunk_bytes = 1 << 20;
  std::string authorities{};  // secure: PEM that clients' certificates are checked by; empty: they have none
  // What people should know: who was refused and why. From any thread.
  std::function<void(const std::string& line)> tell = [](const std::string&) {};
};

// For people who look.
struct ServerStanding {
  std::uint64_t rounds = 0;  // that are done
  std::uint64_t enrolled = 0;
  std::uint64_t present = 0;
  std::uint64_t left = 0;  // take part in nothing more
  std::uint64_t asked = 0;
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;
  std::string doing{};
};

class RoundServer final : public FederatedCalls {
 public:
  // `training` outlives it. Throws Error as enrolments.h and round_files.h.
  RoundServer(RoundServerOptions options, LocalTraining& training, const Clock& clock = system_clock());

  // As Simulation. REQUIRES: before the first call of a client.
  void restore(const State& state);
  std::uint64_t rounds() const;
  // Why there can be no round more: a budget of privacy, or all clients have left; nothing when there can be. REQUIRES:
  // as round().
  std::optional<std::string> ending() const;
  // One round more. `commit` is given the state after it and has to keep it: when it returns the round is done, and
  // when it throws it is not. Throws Error{kInterrupted} when keep_on() says no, and the round can be gone on with; and
  // when clients leave before it has begun, so that there is an ending().
  RoundReport round(const std::function<bool()>& keep_on,
                    const std::function<void(State&, const RoundReport&)>& commit);
  // From now on clients are told that it is over; waits until those that are there know, `longest` at most.
  void finish(const std::string& reason, std::chrono::nanoseconds longest);
  // How good the model is on the test set.
  Figures evaluate();
  void save(const std::filesystem::path& path);
  ServerStanding standing() const;
  // Numbers of each of federated.submodels.
  std::vector<std::uint64_t> narrower_floats() const;

  Enrolled enrol(const std::string& name, const EnrolWish& wish) override;
  TaskAnswer next_task(const std::string& name, std::uint64_t samples, std::chrono::milliseconds wait) override;
  void leave(const std::string& name, const std::string& reason) override;
  ModelChunk read_model(const std::string& name, std::uint64_t round, ModelPart part, std::uint64_t offset,
                        std::uint64_t bytes) override;
  UpdateAnswer send_update(const std::string& name, const UpdateChunk& chunk) override;
  SecureAnswer secure_step(const std::string& name, const SecureMessage& message,
                           std::chrono::milliseconds wait) override;

 private:
  using Floats = std::shared_ptr<const std::vector<float>>;
  struct Seen {
    std::uint64_t samples = 0;
    Clock::Instant at;
  };
  // What a round is made of, once it is over.
  struct Sum {
    double weight = 0;
    double loss = 0;
    double samples = 0;  // of those that say their loss
    std::uint64_t count = 0;
    std::vector<double> weights{};  // of the whole model and of narrower ones
    Figures tests{};                // sums over samples
  };

  std::uint64_t number_of(const std::string& name) const MUSTER_REQUIRES(mutex_);
  bool is_present(const Seen& seen) const;
  std::uint64_t present() const MUSTER_REQUIRES(mutex_);
  std::uint64_t wanted() const MUSTER_REQUIRES(mutex_);    // of those who have not left
  std::uint64_t may_come() const MUSTER_REQUIRES(mutex_);  // without those who have left
  // Why no client can come any more; empty when one can.
  std::string nobody_left() const MUSTER_REQUIRES(mutex_);
  void hear(std::uint64_t client) MUSTER_REQUIRES(mutex_);
  AskedClient* asked(std::uint64_t client) MUSTER_REQUIRES(mutex_);
  std::optional<TaskAnswer> task_for(std::uint64_t client) MUSTER_REQUIRES(mutex_);
  TaskAnswer waiting() const MUSTER_REQUIRES(mutex_);
  // Of what the client sends: it may train a narrower model.
  std::size_t floats_of(std::uint64_t client) const;
  std::uint64_t bytes_of(std::uint64_t client) const;
  std::uint64_t submodel_of(std::uint64_t client) const;
  void choose_submodel(std::uint64_t client, std::uint64_t number) MUSTER_REQUIRES(mutex_);
  // fedbuff: one that is there and trains nothing begins.
  void let_begin(std::uint64_t client) MUSTER_REQUIRES(mutex_);
  bool counts_still(std::uint64_t round) const MUSTER_REQUIRES(mutex_);
  // An accepted update as floats, shortened where the job says so.
  void read_update(std::uint64_t client, std::vector<float>& update) const;
  void add_facts(const UpdateFacts& facts, Sum& sum) const;
  UpdateAnswer refuse(std::uint64_t client, const std::string& reason) MUSTER_REQUIRES(mutex_);
  UpdateAnswer take_whole(std::uint64_t client, const UpdateChunk& chunk) MUSTER_REQUIRES(mutex_);

  void wait_for_clients(const std::function<bool()>& keep_on) MUSTER_REQUIRES(mutex_);
  void begin_round(const std::function<bool()>& keep_on);
  std::vector<std::uint64_t> choose() MUSTER_REQUIRES(mutex_);
  bool buffer_ends_early() MUSTER_REQUIRES(mutex_);
  RoundVerdict wait_for_updates(const std::function<bool()>& keep_on);
  // Into `state`; `report` gets the figures. REQUIRES: the round is closed.
  void aggregate(const std::vector<AskedClient>& answered, State& state, RoundReport& report);
  std::optional<std::vector<float>> mean_change(const std::vector<AskedClient>& answered, Sum& sum, State& state);
  void begin_secure_round(const std::vector<std::uint64_t>& chosen) MUSTER_REQUIRES(mutex_);
  SecureTask secure_task() const MUSTER_REQUIRES(mutex_);
  // Those of `awaited` that were heard of lately.
  std::uint64_t alive(const std::vector<std::uint64_t>& awaited) const MUSTER_REQUIRES(mutex_);
  RoundVerdict judge_secure_round() MUSTER_REQUIRES(mutex_);
  std::optional<std::vector<float>> secure_change(RoundReport& report);
  std::optional<std::vector<float>> robust_change(const std::vector<AskedClient>& answered, Sum& sum,
                                                  RoundReport& report);
  Figures evaluate(std::span<const float> model);

  // Constant after construction.
  const RoundServerOptions options_;
  LocalTraining& training_;
  const Clock& clock_;
  const std::size_t controls_;
  const std::size_t update_floats_;
  const Compression compression_;
  const KeptParts kept_;
  const std::vector<std::unique_ptr<Submodel>> submodels_;

  ServerOptimizer optimizer_;  // of the thread that computes

  mutable Mutex mutex_;
  Condition changed_;
  Enrolments enrolments_ MUSTER_GUARDED_BY(mutex_);
  LeftClients left_ MUSTER_GUARDED_BY(mutex_);
  RoundFiles files_;  // guarded by mutex_ while the round is open; of the thread that computes while it is not
  std::map<std::uint64_t, Seen> seen_ MUSTER_GUARDED_BY(mutex_);
  // Who trains which of submodels_, from 1; in submodels.json, too. As files_.
  std::map<std::uint64_t, std::uint64_t> chosen_submodels_;
  std::map<std::uint64_t, Floats> slices_ MUSTER_GUARDED_BY(mutex_);  // of model_, by submodel
  Floats model_ MUSTER_GUARDED_BY(mutex_);
  Floats control_ MUSTER_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::uint64_t> counted_ MUSTER_GUARDED_BY(mutex_);  // as in State
  std::vector<std::uint64_t> training_on_ MUSTER_GUARDED_BY(mutex_);  // fedbuff: since before the round that begins
  std::uint64_t rounds_ MUSTER_GUARDED_BY(mutex_) = 0;
  double seconds_ MUSTER_GUARDED_BY(mutex_) = 0;
  bool open_ MUSTER_GUARDED_BY(mutex_) = false;    // updates of the round are taken
  bool closed_ MUSTER_GUARDED_BY(mutex_) = false;  // not any more: the next model is being made of them
  std::vector<AskedClient> asked_ MUSTER_GUARDED_BY(mutex_);
  std::unique_ptr<SecureRound> secure_;  // as files_; only with federated.secure
  Clock::Instant stage_began_ MUSTER_GUARDED_BY(mutex_);
  Clock::Instant last_left_ MUSTER_GUARDED_BY(mutex_);
  Clock::Instant began_ MUSTER_GUARDED_BY(mutex_);
  std::uint64_t repeated_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::uint64_t late_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::set<std::uint64_t> spoken_of_ MUSTER_GUARDED_BY(mutex_);  // in this round: once is enough for people
  std::optional<std::string> finished_ MUSTER_GUARDED_BY(mutex_);
  std::set<std::uint64_t> told_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::federated
