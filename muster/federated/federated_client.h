// A client of federated training: asks for tasks, trains on its own samples, sends updates, until the server says that
// it is over.
//
// A server that is away is tried again, for `patience` at most; a chunk that was lost is sent again; an update whose
// round is over is dropped. What it keeps from round to round (own_state.h) lies in a folder of the client's, and what
// did not count at the server is forgotten. Thread safety: one thread; another one of its own tells the server that it
// lives while it trains. No torch here.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/federated/federated_calls.h"
#include "muster/federated/kept_parts.h"
#include "muster/federated/local_training.h"
#include "muster/federated/own_state.h"
#include "muster/federated/secure/secure_client.h"
#include "muster/federated/update_codec.h"

namespace muster::federated {

struct ClientOptions {
  std::string name{};
  std::filesystem::path states{};   // a folder of this client's and this run's, for what it keeps
  std::vector<std::string> keep{};  // of federated: parts of the model that stay here
  bool error_feedback = true;
  std::chrono::nanoseconds patience = std::chrono::minutes(10);
  std::function<void(const std::string& line)> tell = [](const std::string&) {};
  ClientIdentity identity{};    // secure aggregation: what its keys are signed with, and others' checked by
  bool require_secure = false;  // sends nothing but masked updates
  // DP-SGD. What was spent of the budget is kept in the file `ledger`, before anything of it leaves: it ends before the
  // round that would exceed it, and says so to the server. Runs add up: it is the client's and not a run's.
  SamplePrivacy privacy{};
  std::filesystem::path ledger{};
};

struct ClientSummary {
  std::uint64_t trained = 0;   // tasks
  std::uint64_t accepted = 0;  // of their updates
  std::uint64_t refused = 0;
  std::uint64_t late = 0;
  std::string ending{};  // what the server said last
};

class FederatedClient {
 public:
  // `calls` outlives it.
  FederatedClient(FederatedCalls& calls, ClientOptions options, const Clock& clock = system_clock());

  Enrolled enrol(const EnrolWish& wish, const std::function<bool()>& keep_on);
  // Until the server has finished, or its own budget is spent. `samples` are numbers of the training set of `training`;
  // on `tests`, where there are any, it measures each model that it gets. Throws Error{kInterrupted}
  // when keep_on() says no, kMismatch when the server's model is another one, kPeerLost or kTimeout when patience is at
  // its end, kInvalidInput when its budget allows not a single round.
  ClientSummary run(const Enrolled& enrolled, LocalTraining& training, const std::vector<std::uint64_t>& samples,
                    const std::function<bool()>& keep_on, const std::vector<std::uint64_t>& tests = {});
  // The same in steps, for who trains several models in turn: begin(), then step() until it is false. A step asks once,
  // waiting for `wait` at most, and carries out the task, if there is one.
  void begin(const Enrolled& enrolled, LocalTraining& training, const std::vector<std::uint64_t>& samples,
             const std::vector<std::uint64_t>& tests);
  bool step(const std::function<bool()>& keep_on, std::chrono::milliseconds wait);
  const ClientSummary& summary() const { return summary_; }

 private:
  class Heartbeat;

  template <typename Call>
  auto patiently(const std::function<bool()>& keep_on, const Call& call);
  // False when the round is over before all has come.
  bool read(const RoundTask& task, ModelPart part, std::span<float> floats, const std::function<bool()>& keep_on);
  void carry_out(const RoundTask& task, const std::function<bool()>& keep_on);
  void leave(const std::function<bool()>& keep_on);
  std::string words_of_round(const RoundTask& task, double loss) const;
  void open_state(const RoundTask& task);
  // False when the budget does not allow the task; else it is spent.
  bool spend(const RoundTask& task);
  void add_control_change(const LocalResult& result);
  // True when it was taken.
  bool send(const RoundTask& task, std::span<const std::byte> bytes, std::uint64_t samples, double loss,
            const std::function<bool()>& keep_on, const UpdateTest& test = {});
  // The stages of secure aggregation, from the trained update on.
  void send_securely(const RoundTask& task, double loss, const std::function<bool()>& keep_on);
  std::vector<std::uint32_t> words_of_update(const RoundTask& task, double loss);
  // Nothing when the round is over for it.
  std::optional<SecureAnswer> step(SecureMessage message, const std::function<bool()>& keep_on);

  FederatedCalls& calls_;
  const ClientOptions options_;
  const Clock& clock_;
  // Of the run.
  Enrolled enrolled_;
  LocalTraining* training_ = nullptr;
  std::vector<std::uint64_t> samples_;
  std::vector<std::uint64_t> tests_;
  Compression compression_;
  KeptParts kept_;
  std::optional<OwnState> own_;
  std::vector<float> model_;
  std::vector<float> control_;
  std::vector<float> update_;              // and behind it, with controls, what the client's has changed by
  std::optional<std::uint64_t> unmasked_;  // the last round in which it told shares
  ClientSummary summary_;
  bool spent_ = false;           // the budget: it takes part in nothing more
  bool allows_nothing_ = false;  // the budget, and never has
};

}  // namespace muster::federated
