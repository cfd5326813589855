// One file for all parts: they change together, and a round that did not count takes all of them back. Who keeps
// nothing touches no disk.
#include "muster/federated/own_state.h"

namespace muster::federated {

OwnState::OwnState(const OwnSizes& sizes, const std::filesystem::path& folder) : sizes_(sizes), values_(sizes.all()) {
  if (sizes.all() > 0) states_.emplace(folder);
}

void OwnState::load(std::uint64_t client, std::uint64_t round) {
  if (states_) states_->read(client, round, values_);
}

void OwnState::save(std::uint64_t client, std::uint64_t round) const {
  if (states_) states_->write(client, round, values_);
}

void OwnState::forget_from(std::uint64_t client, std::uint64_t round) const {
  if (states_) states_->forget_from(client, round);
}

}  // namespace muster::federated
