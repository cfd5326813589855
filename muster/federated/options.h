// What a job file says of federated training: [federated].
//
// A client's own training is what the other sections say: data.batch, [model], [loss] and [optimizer] are the client's,
// with fresh state of the optimizer in every round. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster {
class Section;  // base/config.h
class Schema;
}  // namespace muster

namespace muster::federated {

constexpr std::size_t kMostSubmodels = 7;

// DP-SGD at a client: what its updates tell of any one of its samples.
struct SamplePrivacy {
  double clip = 0;   // largest norm of a sample's gradient
  double noise = 0;  // times clip: deviation of what is added to their sum; 0: none of this
  double delta = 1e-5;
  std::optional<double> epsilon{};  // the budget of each client
};

struct Options {
  std::int64_t clients = 0;  // 0: the job is not federated
  std::int64_t per_round = 10;
  std::int64_t rounds = 50;
  std::int64_t local_epochs = 1;
  std::string split = "iid";
  std::optional<std::int64_t> client_samples;
  std::string algorithm = "fedavg";
  double prox = 0.01;
  double lr_decay = 1;
  std::string server = "average";
  double server_lr = 1;
  double server_momentum = 0.9;
  double server_beta2 = 0.99;
  double server_tau = 1e-3;
  std::string aggregate = "mean";
  double trim = 0.1;
  std::int64_t byzantine = 0;
  std::int64_t krum_keep = 1;
  std::optional<double> clip;
  std::optional<double> most_norm;
  std::optional<std::int64_t> most_samples;
  std::vector<std::string> keep;  // what stays at the client: kept_parts.h
  double client_test = 0;
  std::string compress = "none";
  bool error_feedback = true;
  std::optional<std::int64_t> concurrency;
  std::int64_t most_staleness = 10;
  std::vector<std::string> submodels;
  bool secure = false;
  std::optional<std::int64_t> secure_threshold;
  double secure_stage_seconds = 120;
  double noise = 0;
  std::string noise_at = "server";
  double delta = 1e-5;
  std::optional<double> epsilon;
  std::optional<double> sample_clip;
  double sample_noise = 0;
  std::optional<double> sample_epsilon;
  std::string sampling = "uniform";
  double over_select = 1;
  std::int64_t least = 1;
  double availability = 1;
  double speed_spread = 0;
  double drop = 0;
  std::optional<double> deadline_seconds;
  std::string attack = "none";
  double attackers = 0;
  std::int64_t evaluate_every = 1;
  std::optional<std::int64_t> wait_for;
  double silence_seconds = 60;

  bool chosen() const { return clients > 0; }
  bool controls() const { return algorithm == "scaffold"; }
  // Clients train all the time, and a round is a full buffer (buffered_plan.h).
  bool buffered() const { return algorithm == "fedbuff"; }
  bool keeps_residual() const { return compress != "none" && error_feedback; }
  // Whether clients keep something from round to round.
  bool stateful() const { return controls() || !keep.empty() || keeps_residual() || sample_noise > 0; }
  // Whether every update has to be there at once: the others are summed as they come.
  bool needs_all_updates() const { return aggregate != "mean"; }
  // With fewer updates than this a round changes nothing.
  std::uint64_t least_updates() const;
  SamplePrivacy sample_privacy() const { return {sample_clip.value_or(0), sample_noise, delta, sample_epsilon}; }
  bool clients_add_noise() const { return noise > 0 && noise_at == "clients"; }
  // What each of them adds; 0 where they do not. REQUIRES: options that passed check().
  double noise_of_client() const;
  // Of a number that a client sends: clip, and its noise.
  double secure_range() const;
  // In the mean, of a client with so many samples; 1 where noise hides who took part.
  double weight(std::uint64_t samples) const;
  // fedbuff: the weight of an update that began so many rounds ago, 1 / sqrt(1 + staleness).
  static double staleness_weight(std::uint64_t staleness);
  // What the sum of weighted updates is divided by: the weights' sum or, of a buffer, the number of updates.
  double divisor(double weight, std::uint64_t count) const;
  // fedbuff: how many clients train at a time.
  std::uint64_t in_flight() const;
  // Of a client's samples, those that it evaluates on; one at least is left to train on.
  std::uint64_t held_out(std::uint64_t samples) const;

  void add_keys(Section& section);
  // Conditions over several keys, where the job is federated; and keys that would do nothing.
  void check(const Schema& schema) const;

 private:
  void check_parts(const Schema& schema) const;
  void check_secure(const Schema& schema) const;
};

}  // namespace muster::federated
