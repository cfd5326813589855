// One place for the arithmetic of a round, so that a server with real clients gives the bits of the simulation with the
// same ones.
#include "muster/federated/round_change.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "muster/compute/reduce.h"
#include "muster/federated/accountant.h"

namespace muster::federated {
namespace {

using Piece = std::optional<std::vector<float>>;

Piece sum_range(std::size_t first, std::size_t last, const std::function<Piece(std::size_t)>& make) {
  if (last - first == 1) return make(first);
  const std::size_t middle = first + std::bit_floor(last - first - 1);
  Piece left = sum_range(first, middle, make);
  Piece right = sum_range(middle, last, make);
  if (!left) return right;
  if (right) {
    for (std::size_t i = 0; i < left->size(); ++i)
      (*left)[i] += (*right)[i];
  }
  return left;
}

}  // namespace

const char* const kNotFinite = "the sum of the updates is not finite: nothing changes";
const char* const kNoiseAlone = "; noise alone is added";

std::size_t pieces_of_round(const Options& options) {
  const auto clients = static_cast<std::size_t>(options.per_round);
  return options.needs_all_updates() ? clients : std::min(compute::kMaxLanes, clients);
}

Piece sum_pieces(std::size_t pieces, const std::function<Piece(std::size_t piece)>& make) {
  return pieces == 0 ? std::nullopt : sum_range(0, pieces, make);
}

void leave_out(const Options& options, const KeptParts& kept, std::size_t parameters, std::span<float> update) {
  kept.clear(update);
  if (options.noise > 0) std::ranges::fill(update.subspan(parameters), 0.0F);
}

void finish_mean(const Options& options, const NoiseKey& key, double weight, std::span<float> sum) {
  if (options.noise > 0) add_noise(key, options.noise * *options.clip, sum);
  const auto factor = static_cast<float>(1 / (options.noise > 0 ? static_cast<double>(options.per_round) : weight));
  for (float& value : sum)
    value *= factor;
}

bool finish_secure_mean(const Options& options, const FixedPoint& fixed, const NoiseKey& key, bool few,
                        std::span<const std::uint32_t> sum, std::span<float> change) {
  // Whose noise is the clients' own has none to add where they have not come.
  if (few && (!(options.noise > 0) || options.clients_add_noise())) return false;
  if (!(options.noise > 0)) {
    fixed.mean(sum, change);
    return true;
  }
  if (few)
    std::ranges::fill(change, 0.0F);
  else
    fixed.total(sum, change);
  if (!options.clients_add_noise()) add_noise(key, options.noise * *options.clip, change);
  for (float& value : change)
    value *= static_cast<float>(1 / static_cast<double>(options.per_round));
  return true;
}

std::optional<std::string> too_few(const Options& options, std::uint64_t updates, std::uint64_t refused) {
  if (options.noise > 0 || updates >= options.least_updates()) return std::nullopt;
  return fmt::format("{} updates are left, {} were refused, and {} are the least: nothing changes", updates, refused,
                     options.least_updates());
}

std::optional<std::string> robust_mean(const Options& options, Updates updates, std::span<float> change, int threads) {
  const auto few = [&](std::size_t needed) {
    return fmt::format("{} needs {} updates, and {} are there: nothing changes", options.aggregate, needed,
                       updates.size());
  };
  if (updates.empty()) return few(1);
  if (options.aggregate == "median") {
    coordinate_median(updates, change, threads);
  } else if (options.aggregate == "trimmed_mean") {
    // Leaving out nobody would be the plain mean, which one false client moves as far as it likes.
    if (trimmed_at_an_end(options.trim, updates.size()) == 0)
      return few(static_cast<std::size_t>(std::ceil(1 / options.trim)));
    trimmed_mean(updates, options.trim, change, threads);
  } else {
    const auto false_ones = static_cast<std::size_t>(options.byzantine);
    if (updates.size() < 2 * false_ones + 3) return few(2 * false_ones + 3);
    const std::size_t keep = options.aggregate == "krum"
                                 ? 1
                                 : std::min(static_cast<std::size_t>(options.krum_keep), updates.size() - false_ones);
    mean_of(updates, choose_by_krum(updates, false_ones, keep, threads), change);
  }
  return std::nullopt;
}

bool apply_change(const Options& options, ServerOptimizer& server, std::size_t parameters,
                  std::span<const float> change, std::span<float> model) {
  if (!all_finite(change)) return false;
  const ServerOptimizer server_before = server;
  const std::vector<float> model_before(model.begin(), model.end());
  server.apply(change.first(parameters), model.first(parameters));
  for (std::size_t i = parameters; !(options.noise > 0) && i < model.size(); ++i)
    model[i] += change[i];
  if (all_finite(model) && all_finite(server.momentum()) && all_finite(server.squares())) return true;
  server = server_before;
  std::ranges::copy(model_before, model.begin());
  return false;
}

bool clients_say_loss(const Options& options) {
  return !(options.sample_noise > 0) && !options.clients_add_noise();
}

bool budget_allows(const Options& options, std::uint64_t rounds) {
  return !options.epsilon || *epsilon_after(options, rounds + 1) <= *options.epsilon;
}

std::optional<double> epsilon_after(const Options& options, std::uint64_t rounds) {
  if (!(options.noise > 0)) return std::nullopt;
  const double part = static_cast<double>(options.per_round) / static_cast<double>(options.clients);
  return spent_after({options.noise, part}, rounds, options.delta).epsilon;
}

void add_controls(const Options& options, std::span<const float> changes, std::span<float> control) {
  const auto part = static_cast<float>(1.0 / static_cast<double>(options.clients));
  for (std::size_t i = 0; i < changes.size(); ++i)
    control[i] += part * changes[i];
}

}  // namespace muster::federated
