// The files of a ledger that lie on several disks: the workers of each host write theirs, and every host keeps copies
// of the others', so that each of them can prove the whole run by itself.
//
// A file is known by the random number in its header. A copy is the beginning of the file, byte by byte, and has the
// number in its name: worker-000-0000.1f0c6a2b3d4e5f60.ledger. Where hosts see one folder nothing is copied: what is
// there already is left as it is. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace muster::data {

struct LedgerPart {
  std::uint64_t id = 0;
  std::string name{};  // of the file that its worker writes
  std::uint64_t bytes = 0;
  bool copy = false;  // of a file that another host has

  bool operator==(const LedgerPart&) const = default;
};

class LedgerParts {
 public:
  // `folder` need not exist.
  explicit LedgerParts(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // All that have a whole header, by name. Throws kIo.
  std::vector<LedgerPart> list();
  // Bytes [from, to) of one of them. Throws kIo, kDamaged. REQUIRES: it has so many.
  std::vector<std::uint8_t> read(const LedgerPart& part, std::uint64_t from, std::uint64_t to) const;
  // Bytes from `at` on, of a file that another host has: what is here already, or is the file itself, stays. Throws
  // kMismatch (a gap before `at`, a name that no ledger has), kIo, kResource.
  void append(const LedgerPart& part, std::uint64_t at, std::span<const std::uint8_t> bytes);

 private:
  struct Known {
    std::uint64_t id = 0;
    std::string name;
    bool copy = false;
  };
  std::filesystem::path path_of(const LedgerPart& part) const;

  const std::filesystem::path folder_;
  std::map<std::string, Known> known_;  // by the name of the file here
};

}  // namespace muster::data
