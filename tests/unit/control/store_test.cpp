// The SQLite store: what every store has to do (store_contract.h), and full disks, flipped bytes, other processes.
#include "muster/control/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <memory>
#include <string>

#include "muster/base/error.h"
#include "support/sandbox.h"
#include "unit/control/store_contract.h"

namespace muster::control {
namespace {

using muster::testing::slurp;
using muster::testing::spill;
using muster::testing::status_of_child;
using muster::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What `call` throws, or nothing.
template <typename Call>
std::optional<Error> error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// SQL run beside the store, by SQLite itself.
void run_sql(const std::filesystem::path& path, const std::string& sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
  sqlite3_close(database);
}

// A store in a file, as the contract wants it.
class SqliteRoom final : public StoreRoom {
 public:
  std::unique_ptr<Store> open() const override { return make_sqlite_store(address()); }
  std::string address() const override { return folder_ / "job.db"; }

 private:
  const TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Sqlite, StoreContract,
                         ::testing::Values(RoomMaker{[] { return std::make_unique<SqliteRoom>(); }}));

TEST(SqliteStore, IsOneFile) {
  const TemporaryFolder folder;
  make_sqlite_store(folder / "job.db")->put("a", "first");
  EXPECT_THAT(folder.names(), ElementsAre("job.db"));
}

TEST(SqliteStore, HasNoSessions) {
  const TemporaryFolder folder;
  EXPECT_FALSE(make_sqlite_store(folder / "job.db")->has_sessions());
}

TEST(SqliteStore, IsPrivate) {
  const TemporaryFolder folder;
  make_sqlite_store(folder / "job.db");
  struct stat status {};
  ASSERT_EQ(::stat((folder / "job.db").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(SqliteStore, SaysWhenThereIsNone) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { make_sqlite_store(folder / "job.db", {.create = false}); })->kind(), ErrorKind::kNotFound);
  EXPECT_EQ(error_of([&] { make_sqlite_store(folder / "no/job.db"); })->kind(), ErrorKind::kNotFound);
  EXPECT_TRUE(folder.names().empty());
}

TEST(SqliteStore, RefusesWhatIsNotAStore) {
  const TemporaryFolder folder;
  spill(folder / "text", std::string(5000, 'x'));
  EXPECT_EQ(error_of([&] { make_sqlite_store(folder / "text"); })->kind(), ErrorKind::kDamaged);
  run_sql(folder / "other", "CREATE TABLE mine(x)");
  const auto other = error_of([&] { make_sqlite_store(folder / "other"); });
  EXPECT_EQ(other->kind(), ErrorKind::kDamaged);
  EXPECT_THAT(other->what(), HasSubstr("not a store of Muster"));
}

TEST(SqliteStore, RefusesANewerFormat) {
  const TemporaryFolder folder;
  make_sqlite_store(folder / "job.db");
  run_sql(folder / "job.db", "PRAGMA user_version = 2");
  const auto error = error_of([&] { make_sqlite_store(folder / "job.db"); });
  EXPECT_EQ(error->kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(error->what(), HasSubstr("newer Muster"));
}

TEST(SqliteStore, NoticesAlteredValues) {
  const TemporaryFolder folder;
  make_sqlite_store(folder / "job.db")->put("key", "a value that is easy to find");
  std::string bytes = slurp(folder / "job.db");
  const std::size_t at = bytes.find("easy");
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  spill(folder / "job.db", bytes);
  const auto store = make_sqlite_store(folder / "job.db");
  const auto error = error_of([&] { store->get("key"); });
  EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
  EXPECT_THAT(error->what(), HasSubstr("\"key\" was altered"));
}

// Any flipped byte is refused, or is in a part of the file that carries nothing: never a wrong value, never a crash.
TEST(SqliteStore, FlippedBytesNeverGiveAWrongValue) {
  const TemporaryFolder folder;
  const std::string value(600, 'v');
  make_sqlite_store(folder / "job.db")->put("key", value);
  const std::string whole = slurp(folder / "job.db");
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); at += 61) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
    spill(folder / "job.db", bytes);
    const auto error = error_of([&] {
      const auto store = make_sqlite_store(folder / "job.db");
      if (const auto entry = store->get("key")) {
        EXPECT_EQ(entry->value, value) << "byte " << at;
      }
    });
    refused += error.has_value();
  }
  EXPECT_GT(refused, 5);
}

TEST(SqliteStore, CutFileIsRefused) {
  const TemporaryFolder folder;
  make_sqlite_store(folder / "job.db")->put("key", std::string(20'000, 'v'));
  const std::string whole = slurp(folder / "job.db");
  spill(folder / "job.db", whole.substr(0, whole.size() / 2));
  EXPECT_EQ(error_of([&] { make_sqlite_store(folder / "job.db")->get("key"); })->kind(), ErrorKind::kDamaged);
}

TEST(SqliteStore, FullDiskLeavesTheOldState) {
  const TemporaryFolder folder;
  const std::string path = folder / "job.db";
  make_sqlite_store(path)->put("key", "old");
  const int status = status_of_child([&] {
    testing::limit_file_size(64 * 1024);
    const auto store = make_sqlite_store(path);
    const auto error = error_of([&] { store->put("key", std::string(500'000, 'x')); });
    if (!error || error->kind() != ErrorKind::kResource) return 1;
    if (store->get("key")->value != "old") return 2;
    store->put("key", "new");  // the store goes on once there is room
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(make_sqlite_store(path)->get("key")->value, "new");
}

TEST(SqliteStore, ReadOnlyFileCanBeReadAndSaysSoWhenWritten) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "job.db";
  make_sqlite_store(path)->put("key", "value");
  ::chmod(path.c_str(), 0444);
  ::chmod(folder.path().c_str(), 0755);
  const int status = status_of_child([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) return 9;  // permissions mean nothing to root
    const auto store = make_sqlite_store(path, {.create = false});
    if (store->get("key")->value != "value") return 1;
    const auto error = error_of([&] { store->put("key", "other"); });
    if (!error || error->kind() != ErrorKind::kIo) return 2;
    return error->message().find("read-only") == std::string::npos ? 3 : 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(SqliteStore, WaitsForAnotherProcessNoLongerThanAllowed) {
  const TemporaryFolder folder;
  const auto store = make_sqlite_store(folder / "job.db", {.timeout = std::chrono::milliseconds(50)});
  store->put("key", "value");
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "job.db").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_EQ(error_of([&] { store->put("key", "new"); })->kind(), ErrorKind::kTimeout);
  EXPECT_EQ(error_of([&] { store->get("key"); })->kind(), ErrorKind::kTimeout);
  ASSERT_EQ(sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  store->put("key", "new");
  EXPECT_EQ(store->get("key")->value, "new");
}

}  // namespace
}  // namespace muster::control
