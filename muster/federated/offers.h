// The models that a server offers, so that a client can decide which of them it trains. No torch here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/federated/federated_calls.h"

namespace muster::federated {

struct Offer {
  std::string name{};  // of the job
  std::uint64_t model_floats = 0;
  std::string source{};  // of its data
  std::string task{};
  std::vector<std::uint64_t> narrower_floats{};  // of federated.submodels, in their order
};

// The largest of an offer's models with at most so many numbers: 0 the whole one, else a narrower one, from 1; nothing
// when all are larger.
std::optional<std::uint64_t> largest_within(const Offer& offer, std::uint64_t most_floats);

struct OfferedModel {
  Offer offer{};
  FederatedCalls* calls = nullptr;  // who answers for it
};

}  // namespace muster::federated
