// Federated training with virtual clients in one process tree: who takes part, their updates, one model after another.
//
// The same bits for any number of workers: clients of a round stand in the order in which they were asked, consecutive
// ones are summed by one worker (a piece), and pieces are added by the tree over their numbers (compute/reduce.h).
// Where every update is needed (medians, krum) each has its own memory. A round that was broken off is done again; the
// state after every round is written down by who listens (State), and a simulation goes on from one.
//
// Thread safety: one thread; REQUIRES, as worker_pool.h: no LibTorch in this process. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/comm/region.h"
#include "muster/federated/client_split.h"
#include "muster/federated/local_training.h"
#include "muster/federated/options.h"
#include "muster/federated/planned_rounds.h"
#include "muster/federated/round_plan.h"
#include "muster/federated/server_optimizer.h"
#include "muster/federated/worker_pool.h"

namespace muster::federated {

struct RoundReport {
  std::uint64_t round = 0;  // counted from 1
  RoundPlan plan{};
  std::uint64_t refused = 0;  // updates that were not finite, or too long
  std::optional<std::uint64_t> refused_client{};
  std::uint64_t repeated = 0;      // of a server: updates that came again, and counted once
  std::uint64_t late_updates = 0;  // of a server: that came after their round
  std::uint64_t spent = 0;         // of a simulation: clients whose own budget allows no training any more
  // Mean over the samples of the clients that took part; nothing when none did, or none said it.
  std::optional<double> client_loss{};
  double change_norm = 0;
  double unmask_seconds = 0;  // of a server with federated.secure: taking masks away from the sum
  std::optional<Figures> test{};
  std::optional<Figures> on_clients{};  // mean over the samples that clients hold out, of the models they were given
  std::uint64_t update_bytes = 0;       // that clients sent
  std::optional<double> epsilon{};      // spent so far
  // Of a simulation with DP-SGD: the most that any client has spent of the budget of its samples.
  std::optional<double> sample_epsilon{};
  double seconds = 0;                  // of the round, on the clock
  double virtual_seconds = 0;          // since the first round
  std::uint64_t workers_replaced = 0;  // since the beginning
  // Of a simulation: the most that each of its processes has held so far, added up; what they share counts for each.
  std::uint64_t peak_memory = 0;
};

// What a simulation goes on from.
struct State {
  std::uint64_t rounds = 0;  // that are done
  double virtual_seconds = 0;
  std::vector<float> model{};
  std::vector<float> momentum{};
  std::vector<float> squares{};
  std::vector<float> control{};  // scaffold's c
  std::vector<float> past{};     // fedbuff: the models of rounds before, the newest first
  // With real clients that keep something, or whose updates may come in a later round: rounds up to their last that
  // counted.
  std::map<std::uint64_t, std::uint64_t> counted{};
  std::string row{};  // of metrics.jsonl, of the last round: a run that is killed before it stands there adds it later
};

struct SimulationOptions {
  Options federated;
  std::uint64_t seed = 0;
  int workers = 1;
  std::filesystem::path client_states{};  // a folder for what clients keep
  // How a worker trains; called in each.
  std::function<std::unique_ptr<LocalTraining>()> make_training;
  // The same for federated.submodels[index].
  std::function<std::unique_ptr<LocalTraining>(std::size_t index)> make_submodel{};
};

class Simulation {
 public:
  // `split` must outlive it. Throws Error{kResource} when the updates of a round do not fit into memory, and what the
  // first worker throws when it makes its model.
  Simulation(SimulationOptions options, const ClientSplit& split, const std::function<bool()>& keep_on);
  ~Simulation();

  // From the first values of the job, or from a state. Throws Error{kMismatch} for a state of another model.
  void restore(const State& state);
  State state();

  // Why a budget of privacy allows no round more; nothing when all do.
  std::optional<std::string> ending();
  // The most that any client has spent of the budget of its samples, with DP-SGD.
  std::optional<double> sample_epsilon();
  // One round more. Throws Error{kInterrupted} when keep_on() says no: the state is that of before the round.
  RoundReport round(const std::function<bool()>& keep_on);
  std::uint64_t rounds() const { return rounds_; }
  // Numbers of the model that are trained.
  std::uint64_t parameter_count() const;

  // How good the model is on the test set. Throws as round().
  Figures evaluate(const std::function<bool()>& keep_on);
  // The model as a file. Throws Error.
  void save(const std::filesystem::path& path, const std::function<bool()>& keep_on);

 private:
  struct Memory;  // what all processes share
  class Worker;   // one of them, at work

  // The mean change of the round's clients, in the first piece's memory; nothing when there was none.
  std::optional<std::span<float>> aggregate(RoundReport& report, const std::vector<Answer>& answers);
  // Of narrower models: every number by the weights of those who have it.
  void divide_by_weights(const std::vector<Answer>& answers, std::span<float> change);
  std::optional<std::span<float>> mean_of_pieces(const std::vector<Answer>& answers);
  std::optional<std::span<float>> secure_change(RoundReport& report, const std::vector<Answer>& answers);
  std::optional<std::span<float>> robust_change(RoundReport& report, const std::vector<Answer>& answers);
  // What the clients of a round that changes nothing have written down of it.
  void forget(const RoundPlan& plan);

  const SimulationOptions options_;
  const ClientSplit& split_;
  std::unique_ptr<Memory> memory_;
  WorkerPool pool_;
  std::optional<ServerOptimizer> server_;
  PlannedRounds plans_;
  std::uint64_t rounds_ = 0;
  double virtual_seconds_ = 0;
};

}  // namespace muster::federated
