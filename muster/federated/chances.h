// What is left to chance in a simulation: who is asked, who can be asked, how fast a client is, who drops out.
//
// Draws are keyed by (seed, round, client, question), so that one answer does not depend on which others were asked
// for. A value. No torch here.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "muster/base/random.h"
#include "muster/federated/options.h"

namespace muster::federated {

constexpr double kSamplesPerSecond = 1000;  // of a client of mean speed

// What is drawn of a client: values of StreamKey::lane, never renumbered.
enum class Draw : std::uint64_t { kAsked = 1, kAvailable, kOwnSpeed, kRoundSpeed, kDrop, kFalse, kBegins, kSubmodel };

class Chances {
 public:
  Chances(const Options& options, std::uint64_t seed, std::uint64_t round)
      : options_(options), seed_(seed), round_(round) {}

  RandomStream stream(Draw what, std::uint64_t client, bool of_round = true) const {
    return RandomStream({.seed = seed_,
                         .purpose = Purpose::kFederated,
                         .epoch = of_round ? round_ + 1 : 0,
                         .lane = static_cast<std::uint64_t>(what),
                         .sample = client});
  }
  // Clients are there for unequal parts of the time, as far below the mean as above it.
  bool available(std::uint64_t client) const {
    const double mean = options_.availability;
    if (mean >= 1) return true;
    const double width = std::min(mean, 1 - mean);
    const double own = mean + width * (2 * stream(Draw::kAvailable, client, false).uniform() - 1);
    return stream(Draw::kAvailable, client).uniform() < own;
  }
  double seconds(std::uint64_t client, double samples) const {
    const double own = stream(Draw::kOwnSpeed, client, false).normal();
    const double now = stream(Draw::kRoundSpeed, client).normal();
    const double speed = kSamplesPerSecond * std::exp(options_.speed_spread * (own + 0.25 * now));
    return samples * static_cast<double>(options_.local_epochs) / speed;
  }
  bool drops(std::uint64_t client) const {
    return options_.drop > 0 && stream(Draw::kDrop, client).uniform() < options_.drop;
  }
  bool is_false(std::uint64_t client) const {
    return options_.attack != "none" && stream(Draw::kFalse, client, false).uniform() < options_.attackers;
  }
  // Which of federated.submodels it trains, from 1; 0: the whole model.
  std::uint64_t submodel(std::uint64_t client) const {
    return options_.submodels.empty() ? 0 : stream(Draw::kSubmodel, client, false).below(options_.submodels.size() + 1);
  }

 private:
  const Options& options_;
  std::uint64_t seed_;
  std::uint64_t round_;
};

}  // namespace muster::federated
