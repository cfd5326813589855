// The models that a server offers, so that a client can decide which of them it trains. No torch here.
#pragma once

#include <cstdint>
#include <string>

#include "muster/federated/federated_calls.h"

namespace muster::federated {

struct Offer {
  std::string name{};  // of the job
  std::uint64_t model_floats = 0;
  std::string source{};  // of its data
  std::string task{};
};

struct OfferedModel {
  Offer offer{};
  FederatedCalls* calls = nullptr;  // who answers for it
};

}  // namespace muster::federated
