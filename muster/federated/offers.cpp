// A client with little room takes what it can train: a part of a large model is of more use to the others than none of
// it.
#include "muster/federated/offers.h"

namespace muster::federated {

std::optional<std::uint64_t> largest_within(const Offer& offer, std::uint64_t most_floats) {
  if (offer.model_floats <= most_floats) return 0;
  std::optional<std::uint64_t> best;
  std::uint64_t floats = 0;
  for (std::uint64_t i = 0; i < offer.narrower_floats.size(); ++i) {
    if (offer.narrower_floats[i] > most_floats || (best && offer.narrower_floats[i] <= floats)) continue;
    best = i + 1;
    floats = offer.narrower_floats[i];
  }
  return best;
}

}  // namespace muster::federated
