// What a party keeps on its disk, so that it goes on after a death: which of its rows are the common ones, and where it
// was in training.
//
//   alignment.safetensors   rows of its table, in the common order; of which alignment, and of which ids
//   step-N.safetensors      its net before step N; the newest two stay, since another party may not have the newest
//
// Each is there whole or not at all. Thread safety: one thread at a time. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace muster::federated {

struct Alignment {
  std::string name{};                 // drawn by the label holder: equal names are the same rows in the same order
  std::string ids_digest{};           // of all ids of the table
  std::uint64_t train_rows = 0;       // of `rows`, the first
  std::vector<std::uint64_t> rows{};  // of the party's table
  bool operator==(const Alignment&) const = default;
};

std::string digest_of_ids(std::span<const std::string> ids);

class PartyFiles {
 public:
  // Makes the folder. Throws Error{kIo | kResource}.
  explicit PartyFiles(std::filesystem::path folder);

  // What was kept for a table with these ids. Throws Error{kMismatch} if it was kept for another, kDamaged, kIo.
  std::optional<Alignment> alignment(const std::string& ids_digest, std::uint64_t rows) const;
  // With it checkpoints of another one go.
  void keep(const Alignment& alignment) const;

  std::filesystem::path checkpoint(std::uint64_t step) const;
  std::vector<std::uint64_t> checkpoints() const;  // rising
  // Removes all but the newest two.
  void prune() const;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  const std::filesystem::path folder_;
};

}  // namespace muster::federated
