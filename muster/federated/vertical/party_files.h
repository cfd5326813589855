// What a party keeps on its disk, so that it goes on after a death: which of its rows are the common ones, and where it
// was in training.
//
//   alignment.safetensors   rows of its table, in the common order; of which alignment, and of which table
//   step-N.safetensors      its net when N batches were done (those of test rows count here); this one and the one
//                           before stay, since another party may not have the newest
//   model.safetensors       its net, when all is done
//   finished.json           that all is done, of what model.safetensors is, and whether the label holder has said so
//
// Each is there whole or not at all, and finished.json only while the net beside it is the one it tells of; the first
// two have checksums (checked_tensors.h). Thread safety: one thread at a time. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace muster::federated {

// By what a party's table is known again.
struct TableMark {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;  // that are read: without the ids, and without those that are ignored
  std::string ids{};          // digest of all ids, in their order
  std::string content{};      // digest of all else
  bool operator==(const TableMark&) const = default;
};
std::string digest_of_ids(std::span<const std::string> ids);
// "48842 rows, 7 columns, ids 01234567, values 89abcdef".
std::string to_string(const TableMark& table);

struct Alignment {
  std::string name{};                 // drawn by the label holder: equal names are the same rows in the same order
  TableMark table{};                  // of the party
  std::uint64_t train_rows = 0;       // of `rows`, the first
  std::vector<std::uint64_t> rows{};  // of the party's table
  bool operator==(const Alignment&) const = default;
};

struct FinishedRun {
  std::uint64_t epochs = 0;
  bool told = false;        // a party with columns: the label holder has said that all is done
  std::string alignment{};  // of the net
  bool operator==(const FinishedRun&) const = default;
};

// With those above it that are not there, for their owner alone. Throws Error{kNotFound | kIo | kResource}.
void make_private_folder(const std::filesystem::path& folder);

class PartyFiles {
 public:
  using Tell = std::function<void(const std::string&)>;

  // Makes the folder, and removes what a writer that was killed has left. Throws Error{kIo | kResource}.
  explicit PartyFiles(std::filesystem::path folder);

  // What was kept for this table. Throws Error{kMismatch} if it was kept for another, kDamaged, kIo.
  std::optional<Alignment> alignment(const TableMark& table) const;
  // With it checkpoints, the net and the end of another one go.
  void keep(const Alignment& alignment) const;

  std::filesystem::path checkpoint(std::uint64_t step) const;
  std::vector<std::uint64_t> checkpoints() const;  // rising, by their names
  // Those that are whole; tells of others. Throws Error{kDamaged} when there are some and none is whole.
  std::vector<std::uint64_t> whole_checkpoints(const Tell& tell) const;
  // Removes all but the two, of which one may not be there.
  void keep_only(std::uint64_t newest, std::uint64_t before) const;

  std::filesystem::path model() const { return folder_ / "model.safetensors"; }
  std::optional<FinishedRun> finished() const;
  void finish(const FinishedRun& run) const;
  // Training goes on.
  void unfinish() const;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  const std::filesystem::path folder_;
};

}  // namespace muster::federated
