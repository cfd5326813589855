// Store: the coordinator's durable state, as keys and values with revisions.
//
// Two implementations: one file (make_sqlite_store) and etcd (make_etcd_store). So it has what both have: a revision
// that counts changes of the whole store, prefixes, and transactions that look at revisions before they write. There
// are no watches, which would be hints at most: whoever wants to know reads; revision() tells cheaply whether there is
// news.
//
// Keys are words of letters, digits, '.', '_' and '-' joined by '/', at most 200 bytes; a value has at most 1 MiB.
// Thread safety: every method from any thread, and from any process that has the same store open.
// Errors of every method: kTimeout (another process held the file past the time-out: nothing was changed; or no quorum
// of the etcd has answered: a commit may have been made all the same), kDamaged, kResource (disk full, etcd's space
// used up: the old state stands), kIo (read-only, refused by the system), kInvalidInput (refused by the etcd).
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
    bool of_session = false;           // the entry goes when this object's session does. REQUIRES: has_sessions()
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
  // The new revision, durable (it survives a power cut) when this returns; nothing when a condition did not hold. No
  // key is written twice in one.
  virtual std::optional<std::uint64_t> commit(const Transaction& transaction) = 0;

  // Whether entries can be bound to the life of whoever wrote them, as leases of an etcd do it: such a session ends
  // when this object does, or has not been heard of for its length.
  virtual bool has_sessions() const { return false; }
  // For how long what was written `of_session` is certain to be there still, unless somebody removes it; 0: it may be
  // gone.
  virtual std::chrono::nanoseconds session_left() const { return std::chrono::nanoseconds(0); }

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

struct EtcdOptions;  // etcd_options.h

// The keys below `options.prefix` of an etcd. Nothing is asked of it before the first call; it must not be carried
// through a fork. Throws kInvalidInput for options that do not fit together, and as trust_files.h for their files.
std::unique_ptr<Store> make_etcd_store(const EtcdOptions& options);

}  // namespace muster::control
