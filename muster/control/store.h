// Store: the coordinator's durable state, as keys and values with revisions.
//
// Made for two implementations: one file (make_sqlite_store) and etcd, later. So it has what both have: a revision that
// counts every change of the whole store, prefixes, and transactions that look at revisions before they write. A watch
// is a hint at most, here as there: whoever wants to know reads again; revision() tells cheaply whether that is needed.
//
// Keys are words of letters, digits, '.', '_' and '-' joined by '/', at most 200 bytes; a value has at most 1 MiB.
// Thread safety: every method from any thread, and from any process that has the same store open.
// Errors of every method: kTimeout (another process held the store past the time-out; nothing was changed), kDamaged,
// kResource (disk full: the old state stands), kIo (read-only, refused by the system).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::control {

struct Entry {
  std::string key;
  std::string value;
  std::uint64_t revision = 0;  // the store's revision at which this value was written; never given twice
};

// All or nothing: when every condition holds every write is made, all at one new revision.
struct Transaction {
  struct Condition {
    std::string key;
    std::uint64_t revision = 0;  // that the entry has now; 0: there is no such entry
  };
  struct Write {
    std::string key;
    std::optional<std::string> value;  // nothing: the entry is removed
  };
  std::vector<Condition> conditions = {};
  std::vector<Write> writes = {};
};

class Store {
 public:
  virtual ~Store() = default;

  virtual std::optional<Entry> get(std::string_view key) = 0;
  // Every entry whose key begins with `prefix`, sorted by key, as of one moment.
  virtual std::vector<Entry> list(std::string_view prefix) = 0;
  // The revision of the newest change. Only grows.
  virtual std::uint64_t revision() = 0;
  // The new revision, durable (it survives a power cut) when this returns; nothing when a condition did not hold.
  virtual std::optional<std::uint64_t> commit(const Transaction& transaction) = 0;

  // In one call each, made of commit:
  std::uint64_t put(std::string_view key, std::string_view value);
  // Writes only if the entry still has revision `expected` (0: is not there). Nothing when it has another.
  std::optional<std::uint64_t> compare_and_put(std::string_view key, std::uint64_t expected, std::string_view value);
  // Removing what is not there is no error.
  void remove(std::string_view key);
};

struct SqliteOptions {
  bool create = true;                       // false: kNotFound when there is no such file
  std::chrono::milliseconds timeout{5000};  // longest wait for other processes, in each call
};

// One SQLite file, private (0600). Several processes may have it open; it must not be carried through a fork.
//
// Journal: the rollback journal, not WAL. WAL would let readers and the writer overlap, which nobody here needs (writes
// are a few a minute), and costs two more files beside ours, shared memory that network file systems do not have, and a
// writable folder even for readers. With the rollback journal one file is all there is between two transactions.
// synchronous is EXTRA: FULL syncs journal and file, but not the folder after the journal's removal, so a power cut
// right after a commit could bring the journal back and with it the old state.
//
// Throws kNotFound, kDamaged (no SQLite file, not Muster's, inconsistent), kUnsupported (written by a newer Muster),
// and as every method.
std::unique_ptr<Store> make_sqlite_store(const std::filesystem::path& path, const SqliteOptions& options = {});

}  // namespace muster::control
