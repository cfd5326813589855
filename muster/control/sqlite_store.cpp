// The store in one SQLite file. Tables: entries(key, value, revision, checksum) and counter(revision), which has one
// row. SQLite notices a broken structure but not a flipped bit inside a value, so each entry carries the CRC-32 of its
// key, revision and value.
#include <fcntl.h>
#include <linux/magic.h>
#include <sqlite3.h>
#include <sys/vfs.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/files.h"
#include "muster/base/mutex.h"
#include "muster/base/store_key.h"
#include "muster/base/text.h"
#include "muster/control/store.h"
#include "muster/control/write_ahead.h"

namespace muster::control {
namespace {

constexpr std::size_t kMostValueBytes = 1 << 20;
constexpr int kApplication = 0x4d535452;  // "MSTR", in the file's header
constexpr int kSchemaVersion = 1;

std::int64_t checksum_of(std::string_view key, std::uint64_t revision, std::string_view value) {
  const auto add = [](uLong sum, std::string_view bytes) {
    return crc32_z(sum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  };
  uLong sum = add(0, key);
  sum = add(sum, {reinterpret_cast<const char*>(&revision), sizeof revision});
  return static_cast<std::int64_t>(add(sum, value));
}

// Whether only this machine can have the file system: there its processes may share memory beside the file.
bool is_local(const std::filesystem::path& folder) {
  struct statfs found {};
  if (::statfs(folder.empty() ? "." : folder.c_str(), &found) != 0) return false;
  constexpr std::uint32_t kLocal[]{EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                                   F2FS_SUPER_MAGIC, TMPFS_MAGIC,     OVERLAYFS_SUPER_MAGIC};
  return std::find(std::begin(kLocal), std::end(kLocal), static_cast<std::uint32_t>(found.f_type)) != std::end(kLocal);
}

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct FinishStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using DatabaseHandle = std::unique_ptr<sqlite3, CloseDatabase>;
using StatementHandle = std::unique_ptr<sqlite3_stmt, FinishStatement>;

// What SQLite says, in our words.
[[noreturn]] void throw_sqlite(sqlite3* database, int code, const std::filesystem::path& path) {
  const int last = errno;
  const std::string detail = database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  // SQLite keeps the system's reason for some failures only; of a refused write it is then still in errno.
  int system = database != nullptr ? sqlite3_system_errno(database) : 0;
  if (system == 0 && (code & 0xff) == SQLITE_IOERR) system = last;
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw Error(ErrorKind::kTimeout, "another process holds the store", path.string(),
                  "Try again; if it lasts, look who has the file open (fuser).");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      throw Error(ErrorKind::kDamaged, fmt::format("is not a whole store ({})", detail), path.string(),
                  "Resume the run from its checkpoint; the store is then made anew if you move this file away.");
    case SQLITE_FULL:
      throw Error(ErrorKind::kResource, "the disk is full; what was stored before stands", path.string(),
                  "Free some disk space.");
    case SQLITE_READONLY:
      if (sqlite3_extended_errcode(database) == SQLITE_READONLY_DBMOVED)
        throw Error(ErrorKind::kIo, "was removed or moved while it was in use", path.string(),
                    "Leave a run's folder alone until its job has ended.");
      throw Error(ErrorKind::kIo, "cannot be written: it is read-only for this user", path.string(),
                  "Use the account that started the run.");
    case SQLITE_NOMEM:
      throw Error(ErrorKind::kResource, "out of memory", path.string());
    default:
      if (system != 0) {
        errno = system;
        throw_system_error("the store cannot be used", path);
      }
      throw Error(ErrorKind::kIo, fmt::format("the store cannot be used ({})", detail), path.string());
  }
}

// One prepared statement. Texts given to bind must outlive the steps.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql, const std::filesystem::path& path) : database_(database), path_(path) {
    sqlite3_stmt* handle = nullptr;
    const int code = sqlite3_prepare_v2(database, sql, -1, &handle, nullptr);
    handle_.reset(handle);
    if (code != SQLITE_OK) throw_sqlite(database, code, path);
  }

  Statement& bind(int index, std::string_view text) {
    return bound(sqlite3_bind_text(handle_.get(), index, text.data(), static_cast<int>(text.size()), SQLITE_STATIC));
  }
  Statement& bind_bytes(int index, std::string_view bytes) {
    // An empty view may have no address, which SQLite would take for NULL.
    return bound(sqlite3_bind_blob(handle_.get(), index, bytes.empty() ? "" : bytes.data(),
                                   static_cast<int>(bytes.size()), SQLITE_STATIC));
  }
  Statement& bind(int index, std::int64_t number) { return bound(sqlite3_bind_int64(handle_.get(), index, number)); }

  // Whether there is a row.
  bool step() {
    const int code = sqlite3_step(handle_.get());
    if (code != SQLITE_ROW && code != SQLITE_DONE) throw_sqlite(database_, code, path_);
    return code == SQLITE_ROW;
  }
  std::int64_t number(int column) { return sqlite3_column_int64(handle_.get(), column); }
  std::string bytes(int column) {
    const void* data = sqlite3_column_blob(handle_.get(), column);
    const int size = sqlite3_column_bytes(handle_.get(), column);
    return data == nullptr ? std::string()
                           : std::string(static_cast<const char*>(data), static_cast<std::size_t>(size));
  }

 private:
  Statement& bound(int code) {
    if (code != SQLITE_OK) throw_sqlite(database_, code, path_);
    return *this;
  }

  sqlite3* database_;
  const std::filesystem::path& path_;
  StatementHandle handle_;
};

class SqliteStore final : public WriteAheadStore {
 public:
  SqliteStore(const std::filesystem::path& path, const SqliteOptions& options, bool write_ahead = false) : path_(path) {
    create_private(options);
    sqlite3* handle = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
    database_.reset(handle);
    if (code != SQLITE_OK) throw_sqlite(handle, code, path_);
    sqlite3_extended_result_codes(handle, 1);
    sqlite3_busy_timeout(handle, static_cast<int>(options.timeout.count()));
    run("PRAGMA synchronous = EXTRA");
    run("PRAGMA trusted_schema = OFF");
    run("PRAGMA cell_size_check = ON");
    prepare_schema(write_ahead);
  }

  std::optional<Entry> get(std::string_view key) override {
    require_store_key(key);
    const MutexLock lock(mutex_);
    Statement select(database_.get(), "SELECT key, value, revision, checksum FROM entries WHERE key = ?1", path_);
    if (!select.bind(1, key).step()) return std::nullopt;
    return row(select);
  }

  std::vector<Entry> list(std::string_view prefix) override {
    const MutexLock lock(mutex_);
    // Keys are plain ASCII, so characters are bytes.
    Statement select(database_.get(),
                     "SELECT key, value, revision, checksum FROM entries WHERE key >= ?1 AND substr(key, 1, ?2) = ?1 "
                     "ORDER BY key",
                     path_);
    select.bind(1, prefix).bind(2, static_cast<std::int64_t>(prefix.size()));
    std::vector<Entry> entries;
    while (select.step())
      entries.push_back(row(select));
    return entries;
  }

  std::uint64_t revision() override {
    const MutexLock lock(mutex_);
    return current_revision();
  }

  std::optional<std::uint64_t> commit(const Transaction& transaction) override {
    require_stored(transaction);
    const MutexLock lock(mutex_);
    return commit_locked(transaction);
  }

  std::optional<std::uint64_t> commit_soon(const Transaction& transaction) override {
    require_stored(transaction);
    const MutexLock lock(mutex_);
    if (!has_log_) return commit_locked(transaction);
    // The log is synced before it is copied into the file, and whole with the next commit that waits.
    run("PRAGMA synchronous = NORMAL");
    try {
      const std::optional<std::uint64_t> revision = commit_locked(transaction);
      run("PRAGMA synchronous = EXTRA");
      return revision;
    } catch (...) {
      sqlite3_exec(database_.get(), "PRAGMA synchronous = EXTRA", nullptr, nullptr, nullptr);
      throw;
    }
  }

 private:
  static void require_stored(const Transaction& transaction) {
    for (const Transaction::Condition& condition : transaction.conditions)
      require_store_key(condition.key);
    for (const Transaction::Write& write : transaction.writes) {
      require_store_key(write.key);
      if (write.value) require_store_value(write.key, *write.value, kMostValueBytes);
    }
  }

  std::optional<std::uint64_t> commit_locked(const Transaction& transaction) MUSTER_REQUIRES(mutex_) {
    // The write lock first: a transaction that has read and then wants to write may have to be refused.
    run("BEGIN IMMEDIATE");
    try {
      if (!hold(transaction.conditions)) {
        run("ROLLBACK");
        return std::nullopt;
      }
      const std::uint64_t next = current_revision() + 1;
      Statement count(database_.get(), "UPDATE counter SET revision = ?1", path_);
      count.bind(1, static_cast<std::int64_t>(next)).step();
      for (const Transaction::Write& write : transaction.writes)
        apply(write, next);
      MUSTER_FAILPOINT("control.store.before_commit");
      run("COMMIT");
      MUSTER_FAILPOINT("control.store.after_commit");
      return next;
    } catch (...) {
      // SQLite has rolled back by itself after some errors; then there is nothing to do.
      if (sqlite3_get_autocommit(database_.get()) == 0)
        sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
      throw;
    }
  }

  // SQLite would make the file readable for everybody. Only a file that was not there is opened here: closing a second
  // descriptor of a file drops the locks that SQLite holds on it.
  void create_private(const SqliteOptions& options) const {
    if (!options.create) {
      std::error_code code;
      if (!std::filesystem::exists(path_, code))
        throw Error(ErrorKind::kNotFound, "there is no such store", path_.string());
      return;
    }
    const FileDescriptor file(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid() && errno != EEXIST) throw_system_error("the store cannot be created", path_);
  }

  void run(const char* sql) {
    const int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) throw_sqlite(database_.get(), code, path_);
  }
  std::int64_t pragma(const char* sql) {
    Statement statement(database_.get(), sql, path_);
    return statement.step() ? statement.number(0) : 0;
  }

  void prepare_schema(bool write_ahead) {
    const MutexLock lock(mutex_);
    const bool local = is_local(path_.parent_path());
    refuse_foreign_log(local);
    const std::int64_t tables = pragma("SELECT count(*) FROM sqlite_schema");
    if (tables == 0 && pragma("PRAGMA application_id") == 0) {
      // Where another process begins the same file at this moment, one of the two sets it.
      if (write_ahead && local) sqlite3_exec(database_.get(), "PRAGMA journal_mode = WAL", nullptr, nullptr, nullptr);
      create_schema();
    }
    if (pragma("PRAGMA application_id") != kApplication)
      throw Error(ErrorKind::kDamaged, "is an SQLite file, but not a store of Muster", path_.string());
    const std::int64_t version = pragma("PRAGMA user_version");
    if (version > kSchemaVersion)
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("was written by a newer Muster (format {}; this one knows {})", version, kSchemaVersion),
                  path_.string(), "Use the version of Muster that started the run.");
    Statement check(database_.get(), "PRAGMA quick_check(1)", path_);
    const std::string verdict = check.step() ? check.bytes(0) : "no answer";
    if (verdict != "ok")
      throw Error(ErrorKind::kDamaged, fmt::format("is not a whole store ({})", excerpt(verdict, 200)), path_.string(),
                  "Resume the run from its checkpoint; the store is then made anew if you move this file away.");
    Statement mode(database_.get(), "PRAGMA journal_mode", path_);
    has_log_ = mode.step() && mode.bytes(0) == "wal";
  }

  // The log of another machine's processes is in memory that this one does not see.
  void refuse_foreign_log(bool local) MUSTER_REQUIRES(mutex_) {
    if (local) return;
    Statement mode(database_.get(), "PRAGMA journal_mode", path_);
    if (!mode.step() || mode.bytes(0) != "wal") return;
    throw Error(ErrorKind::kUnsupported, "was begun on a local disk, and only that machine can work on it",
                path_.string(),
                "For several machines begin it in a folder that all of them have over the network, on each of them.");
  }

  void create_schema() MUSTER_REQUIRES(mutex_) {
    run("BEGIN IMMEDIATE");
    // Another process may have been faster.
    if (pragma("PRAGMA application_id") == 0) {
      run(fmt::format(
              "CREATE TABLE entries(key TEXT PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL, "
              "checksum INTEGER NOT NULL) WITHOUT ROWID;"
              "CREATE TABLE counter(only_row INTEGER PRIMARY KEY CHECK (only_row = 1), revision INTEGER NOT NULL);"
              "INSERT INTO counter VALUES (1, 0);"
              "PRAGMA user_version = {};"
              "PRAGMA application_id = {};",
              kSchemaVersion, kApplication)
              .c_str());
    }
    run("COMMIT");
  }

  std::uint64_t current_revision() MUSTER_REQUIRES(mutex_) {
    Statement select(database_.get(), "SELECT revision FROM counter", path_);
    if (!select.step()) throw Error(ErrorKind::kDamaged, "has lost its revision", path_.string());
    return static_cast<std::uint64_t>(select.number(0));
  }

  bool hold(const std::vector<Transaction::Condition>& conditions) MUSTER_REQUIRES(mutex_) {
    for (const Transaction::Condition& condition : conditions) {
      Statement select(database_.get(), "SELECT revision FROM entries WHERE key = ?1", path_);
      const bool found = select.bind(1, condition.key).step();
      const std::uint64_t revision = found ? static_cast<std::uint64_t>(select.number(0)) : 0;
      if (revision != condition.revision) return false;
    }
    return true;
  }

  void apply(const Transaction::Write& write, std::uint64_t revision) MUSTER_REQUIRES(mutex_) {
    if (!write.value) {
      Statement(database_.get(), "DELETE FROM entries WHERE key = ?1", path_).bind(1, write.key).step();
      return;
    }
    Statement(database_.get(), "INSERT OR REPLACE INTO entries VALUES (?1, ?2, ?3, ?4)", path_)
        .bind(1, write.key)
        .bind_bytes(2, *write.value)
        .bind(3, static_cast<std::int64_t>(revision))
        .bind(4, checksum_of(write.key, revision, *write.value))
        .step();
  }

  Entry row(Statement& select) MUSTER_REQUIRES(mutex_) {
    Entry entry{select.bytes(0), select.bytes(1), static_cast<std::uint64_t>(select.number(2))};
    if (select.number(3) != checksum_of(entry.key, entry.revision, entry.value))
      throw Error(ErrorKind::kDamaged, fmt::format("the value of \"{}\" was altered", excerpt(entry.key, 60)),
                  path_.string(),
                  "Resume the run from its checkpoint; the store is then made anew if you move this file away.");
    return entry;
  }

  const std::filesystem::path path_;
  bool has_log_ = false;  // constant after construction
  Mutex mutex_;           // one transaction of this process at a time
  DatabaseHandle database_;
};

}  // namespace

std::unique_ptr<Store> make_sqlite_store(const std::filesystem::path& path, const SqliteOptions& options) {
  return std::make_unique<SqliteStore>(path, options);
}

std::unique_ptr<WriteAheadStore> make_write_ahead_store(const std::filesystem::path& path,
                                                        const SqliteOptions& options) {
  return std::make_unique<SqliteStore>(path, options, true);
}

}  // namespace muster::control
