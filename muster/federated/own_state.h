// What a client has from earlier rounds, as one flat array in its file (client_states.h): the control of SCAFFOLD, the
// numbers it keeps to itself (kept_parts.h), and what it has not sent yet (update_codec.h).
//
// Where the job lets clients keep nothing it is empty, and no folder is made. Thread safety: one thread. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "muster/federated/client_states.h"

namespace muster::federated {

struct OwnSizes {
  std::size_t control = 0;
  std::size_t kept = 0;
  std::size_t residual = 0;

  std::size_t all() const { return control + kept + residual; }
};

class OwnState {
 public:
  // Throws as ClientStates, if there is anything to keep.
  OwnState(const OwnSizes& sizes, const std::filesystem::path& folder);

  // What the client had when `round` began. Throws, as the next two, as ClientStates.
  void load(std::uint64_t client, std::uint64_t round);
  // What it has now is what it has after `round`.
  void save(std::uint64_t client, std::uint64_t round) const;
  void forget_from(std::uint64_t client, std::uint64_t round) const;

  std::span<float> control() { return std::span(values_).first(sizes_.control); }
  std::span<float> kept() { return std::span(values_).subspan(sizes_.control, sizes_.kept); }
  std::span<float> residual() { return std::span(values_).last(sizes_.residual); }

 private:
  const OwnSizes sizes_;
  std::optional<ClientStates> states_;
  std::vector<float> values_;
};

}  // namespace muster::federated
