// From the sums of a round's updates to the next model: what a simulation and a server do alike, bit by bit.
//
// Pure functions over flat spans. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/federated/aggregate.h"
#include "muster/federated/kept_parts.h"
#include "muster/federated/noise.h"
#include "muster/federated/options.h"
#include "muster/federated/secure/fixed_point.h"
#include "muster/federated/server_optimizer.h"

namespace muster::federated {

// How many sums the updates of a round are added to before these are added by the tree. Client i of n adds to piece p
// with n p / pieces <= i < n (p + 1) / pieces.
std::size_t pieces_of_round(const Options& options);

// The tree sum (compute/reduce.h) of pieces [0, pieces), each made when it is needed: no more than one for each level
// of the tree is in memory. `make` gives nothing for a piece without updates. Nothing when no piece has any.
std::optional<std::vector<float>> sum_pieces(
    std::size_t pieces, const std::function<std::optional<std::vector<float>>(std::size_t piece)>& make);

// What a server takes nothing of becomes 0, before an update is measured, shortened and added: parts that stay at the
// clients, and with noise the buffers. These have no bound that noise could hide them by, and a variance with noise on
// it is none.
void leave_out(const Options& options, const KeptParts& kept, std::size_t parameters, std::span<float> update);

// Sum to mean, in place: noise where the job has some, then divided by the weights, or by the number of clients that is
// expected where there is noise: what was refused does not count, and with noise nobody learns who came.
void finish_mean(const Options& options, const NoiseKey& key, double weight, std::span<float> sum);

// The same of federated.secure, in place of the sum of words: with noise, of the server's unless the sum has that of
// the clients; else the mean. `few`: the sum is nothing, and the server's noise alone is the change. False: nothing
// changes.
bool finish_secure_mean(const Options& options, const FixedPoint& fixed, const NoiseKey& key, bool few,
                        std::span<const std::uint32_t> sum, std::span<float> change);

// Median, trimmed mean or krum, as the options say. Gives why nothing changes, when there are too few updates to tell
// true from false; else nothing.
std::optional<std::string> robust_mean(const Options& options, Updates updates, std::span<float> change, int threads);

// Why nothing changes when so few updates are left, after refusals, too; nothing when they are enough, or noise has to
// hide how many there were.
std::optional<std::string> too_few(const Options& options, std::uint64_t updates, std::uint64_t refused);

// The change of a round into the model: parameters by the server's optimizer, buffers (but with noise) as they are.
// False, and nothing has changed, when a number of model or optimizer would not be finite: no later round mends that.
bool apply_change(const Options& options, ServerOptimizer& server, std::size_t parameters,
                  std::span<const float> change, std::span<float> model);
extern const char* const kNotFinite;   // why nothing changed then
extern const char* const kNoiseAlone;  // what is said of a round of too few, after why

// Noise at clients is on their updates and not on their losses: they say none.
bool clients_say_loss(const Options& options);

// Whether the budget of privacy allows a round more after `rounds`; what was spent after so many, where there is noise.
bool budget_allows(const Options& options, std::uint64_t rounds);
std::optional<double> epsilon_after(const Options& options, std::uint64_t rounds);

// SCAFFOLD: the sum of the clients' changes into the server's control.
void add_controls(const Options& options, std::span<const float> changes, std::span<float> control);

}  // namespace muster::federated
