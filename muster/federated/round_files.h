// The round that is under way, on disk: who was asked, and what came of whom. So that a server that was killed goes on
// with it: what it has acknowledged is there, once; what was half sent goes on where it was.
//
//   plan.json          the round and the clients that were asked, in their order; written first
//   C.part             what has come of client C's update; C.digest what it is to be
//   C.facts            what C says of its update; then C.update appears, whole: from then on it counts
//   C.refused          why nothing is taken of C in this round
//
// A round is over when the server's state says so; files of another round are removed. Thread safety: one thread at a
// time. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/federated/federated_calls.h"

namespace muster::federated {

struct UpdateFacts {
  std::uint64_t samples = 0;
  double loss = 0;  // not a number: it says none
  std::string digest{};
  std::uint64_t base = 0;  // the round whose model it began from
  UpdateTest test{};
};

class RoundFiles {
 public:
  // Throws Error{kIo | kResource}.
  explicit RoundFiles(std::filesystem::path folder);

  // The clients that were asked, if `round` is under way here; what is of other rounds is removed. Throws
  // Error{kDamaged | kIo}.
  std::optional<std::vector<std::uint64_t>> open(std::uint64_t round);
  // Whether it is under way here; nothing is removed. Throws as open().
  bool is_under_way(std::uint64_t round) const;
  // Removes all, and begins. Durable when it returns.
  void begin(std::uint64_t round, std::span<const std::uint64_t> asked);

  // One client more, of those that came while the round was under way. Durable when it returns.
  void add(std::uint64_t round, std::span<const std::uint64_t> asked);

  // Bytes of the update of that digest that are there.
  std::uint64_t received(std::uint64_t client, const std::string& digest) const;
  // Adds what comes next. REQUIRES: received() bytes are there.
  void append(std::uint64_t client, const std::string& digest, std::span<const std::byte> bytes);
  // What has come so far. REQUIRES: received() == bytes.size().
  void read_part(std::uint64_t client, std::span<std::byte> bytes) const;
  void drop_part(std::uint64_t client);
  // The whole of it counts from now on: durable when it returns.
  void accept(std::uint64_t client, const UpdateFacts& facts);
  void refuse(std::uint64_t client, const std::string& reason);

  std::optional<UpdateFacts> accepted(std::uint64_t client) const;
  std::optional<std::string> refused(std::uint64_t client) const;
  // REQUIRES: accepted.
  void read(std::uint64_t client, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path file(std::uint64_t client, const char* ending) const;
  void clear() const;

  const std::filesystem::path folder_;
};

}  // namespace muster::federated
