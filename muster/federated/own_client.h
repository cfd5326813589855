// A client of federated training in a C++ program of its own: with any training, and without LibTorch.
//
//   join({.address = "10.0.0.1:7420", .certs = "client-hospital-1", .name = "hospital-1", .samples = 812},
//        [&](OwnTask& task) { ...; return loss; });
//
// It enrols, and for each task of the server calls the training with the round's model, sends what has changed, and
// goes on until the server has finished; what interrupts that is as federated_client.h has it. docs/federated.md has an
// example. Thread safety: one thread; another one of its own tells the server that it lives. No torch here.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "muster/federated/federated_client.h"
#include "muster/federated/local_training.h"

namespace muster::federated {

struct OwnTask {
  std::uint64_t round = 0;                 // from 0
  std::int64_t epochs = 1;                 // that the server wants
  double rate = 1;                         // of the learning rate
  double prox = 0;                         // FedProx: add prox * (model - the round's) to each gradient
  std::span<const TensorPlace> tensors{};  // names, shapes and places in the model
  std::size_t parameters = 0;              // come first; then buffers
  std::span<float> model{};                // the round's; to be trained in place
};

struct JoinOptions {
  std::string address{};      // HOST:PORT of the server
  std::string certs{};        // a folder of `muster certs add`; empty: none, which only loopback should be
  std::string name{};         // always the same; with certs it has to be the certificate's
  std::uint64_t samples = 1;  // that it trains on: its weight
  bool secure = false;        // sends nothing but with secure aggregation, whatever the server asks for
  std::filesystem::path state = "federated-state";  // what it keeps, where updates are compressed
  std::chrono::nanoseconds patience = std::chrono::minutes(10);
  std::function<bool()> keep_on = [] { return true; };
  std::function<void(const std::string& line)> tell = [](const std::string&) {};
};

// `train` gives the mean loss over its samples. Throws Error{kInvalidInput} for an address that is not loopback without
// certificates, and for a server whose algorithm needs more of a client (scaffold); else as FederatedClient.
ClientSummary join(const JoinOptions& options, const std::function<double(OwnTask&)>& train);

}  // namespace muster::federated
