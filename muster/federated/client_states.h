// What clients keep from round to round (SCAFFOLD's controls), on disk: a file for each client that has something, so
// that a million clients cost what those that took part cost.
//
// A file is named by client and round and is whole or not there; a run that goes on from round r reads the newest one
// from before r, so that what a killed run wrote ahead does not count. Thread safety: different clients from different
// processes. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace muster::federated {

class ClientStates {
 public:
  // Throws Error{kIo | kResource} if the folder cannot be made.
  explicit ClientStates(std::filesystem::path folder);

  // What the client had when `round` began; zeros if it had nothing. Throws Error{kDamaged | kIo}.
  void read(std::uint64_t client, std::uint64_t round, std::span<float> state) const;
  // What it wrote in rounds from `round` on is forgotten: they did not count. Throws Error{kIo}.
  void forget_from(std::uint64_t client, std::uint64_t round) const;
  // What it has after `round`; what it had earlier than before `round` goes. Throws Error{kResource | kIo}.
  void write(std::uint64_t client, std::uint64_t round, std::span<const float> state) const;

 private:
  std::filesystem::path folder_of(std::uint64_t client) const;

  std::filesystem::path folder_;
};

}  // namespace muster::federated
