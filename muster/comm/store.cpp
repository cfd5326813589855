// The stores: in memory for threads, as files for processes and hosts, and decorators that add a prefix or an
// interruption. A value is set once and whole: link(2) decides who was first, also over NFS.
#include "muster/comm/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/mutex.h"
#include "muster/base/store_key.h"

namespace muster::comm {
namespace {

constexpr std::size_t kMostValueBytes = std::size_t{64} * 1024;
constexpr std::string_view kValuePrefix = "value+";

[[noreturn]] void throw_other_value(std::string_view key) {
  throw Error(ErrorKind::kMismatch, fmt::format("\"{}\" is in the store already, with another value", key), {},
              "Give every rank its own number and every new group its own name.");
}

[[noreturn]] void throw_missing(std::string_view key) {
  throw Error(ErrorKind::kTimeout, fmt::format("nobody has put \"{}\" into the store in time", key));
}

class MemoryStore final : public Store {
 public:
  void set(std::string_view key, std::string_view value) override {
    require_store_key(key);
    require_store_value(key, value, kMostValueBytes);
    const MutexLock lock(mutex_);
    const auto [place, added] = values_.emplace(key, value);
    if (!added && place->second != value) throw_other_value(key);
    added_.notify_all();
  }

  std::string get(std::string_view key, const Deadline& deadline) override {
    require_store_key(key);
    const MutexLock lock(mutex_);
    while (true) {
      if (const auto found = values_.find(key); found != values_.end()) return found->second;
      if (deadline.passed()) throw_missing(key);
      // In steps, because a deadline may be later than a condition can wait.
      added_.wait_for(mutex_, std::min<std::chrono::nanoseconds>(deadline.remaining(), std::chrono::seconds(1)));
    }
  }

 private:
  Mutex mutex_;
  Condition added_;
  std::map<std::string, std::string, std::less<>> values_ MUSTER_GUARDED_BY(mutex_);
};

// A whole file under a name of its own, removed at the end of the scope.
class Draft {
 public:
  Draft(const std::filesystem::path& folder, std::string_view value) : path_((folder / "new+XXXXXX").string()) {
    const FileDescriptor file(::mkostemp(path_.data(), O_CLOEXEC));
    if (!file.valid()) throw_system_error("cannot be created", path_);
    try {
      write(file, value);
    } catch (...) {
      ::unlink(path_.c_str());
      throw;
    }
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() { ::unlink(path_.c_str()); }

  const std::string& path() const { return path_; }

 private:
  void write(const FileDescriptor& file, std::string_view value) const {
    while (!value.empty()) {
      const ssize_t count = ::write(file.get(), value.data(), value.size());
      if (count < 0 && errno != EINTR) throw_system_error("cannot be written", path_);
      if (count > 0) value.remove_prefix(static_cast<std::size_t>(count));
    }
    // NFS sends what it still holds when the file is closed or synced; only a sync says whether it arrived.
    if (::fsync(file.get()) != 0) throw_system_error("cannot be written", path_);
  }

  std::string path_;
};

// A value is the file "value+<key>", with '+' for the key's '/'. It is written as a draft, then linked under its
// name: link(2) is atomic between processes, over NFS as well, and fails when somebody was there before.
class FileStore final : public Store {
 public:
  explicit FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {
    if (folder_.has_parent_path()) make_folder(folder_.parent_path());
    if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) throw_system_error("cannot be created", folder_);
    struct stat status {};
    if (::stat(folder_.c_str(), &status) != 0) throw_system_error("cannot be examined", folder_);
    if (!S_ISDIR(status.st_mode)) throw Error(ErrorKind::kNotFound, "is not a folder", folder_.string());
  }

  void set(std::string_view key, std::string_view value) override {
    require_store_key(key);
    require_store_value(key, value, kMostValueBytes);
    const std::filesystem::path path = path_of(key);
    const Draft draft(folder_, value);
    if (::link(draft.path().c_str(), path.c_str()) == 0) return;
    if (errno != EEXIST) throw_system_error("cannot be created", path);
    // Also where a network file system did the link, lost the answer and tried again.
    if (read_text(path, kMostValueBytes) != value) throw_other_value(key);
  }

  std::string get(std::string_view key, const Deadline& deadline) override {
    require_store_key(key);
    const std::filesystem::path path = path_of(key);
    std::chrono::nanoseconds pause = std::chrono::milliseconds(1);
    while (::access(path.c_str(), F_OK) != 0) {
      if (errno != ENOENT) throw_system_error("cannot be read", path);
      if (deadline.passed()) throw_missing(key);
      system_clock().sleep_for(std::min(pause, deadline.remaining()));
      pause = std::min<std::chrono::nanoseconds>(pause * 2, std::chrono::milliseconds(50));
    }
    return read_text(path, kMostValueBytes);
  }

 private:
  std::filesystem::path path_of(std::string_view key) const {
    std::string name(key);
    std::replace(name.begin(), name.end(), '/', '+');
    return folder_ / (std::string(kValuePrefix) + name);
  }

  const std::filesystem::path folder_;
};

class InterruptibleStore final : public Store {
 public:
  InterruptibleStore(std::shared_ptr<Store> store, std::function<void()> check)
      : store_(std::move(store)), check_(std::move(check)) {}
  void set(std::string_view key, std::string_view value) override {
    for (;;) {
      try {
        return store_->set(key, value);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kTimeout) throw;
      }
      check_();
      system_clock().sleep_for(std::chrono::milliseconds(5));
    }
  }
  std::string get(std::string_view key, const Deadline& deadline) override {
    for (;;) {
      const auto part = std::min<std::chrono::nanoseconds>(deadline.remaining(), std::chrono::milliseconds(5));
      try {
        return store_->get(key, Deadline::after(part));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kTimeout || deadline.passed()) throw;
      }
      check_();
    }
  }

 private:
  std::shared_ptr<Store> store_;
  std::function<void()> check_;
};

class PrefixStore final : public Store {
 public:
  PrefixStore(std::shared_ptr<Store> store, std::string prefix) : store_(std::move(store)), prefix_(std::move(prefix)) {
    require_store_key(prefix_);
  }
  void set(std::string_view key, std::string_view value) override { store_->set(whole(key), value); }
  std::string get(std::string_view key, const Deadline& deadline) override { return store_->get(whole(key), deadline); }

 private:
  std::string whole(std::string_view key) const { return fmt::format("{}/{}", prefix_, key); }

  std::shared_ptr<Store> store_;
  std::string prefix_;
};

}  // namespace

std::shared_ptr<Store> make_memory_store() {
  return std::make_shared<MemoryStore>();
}

std::map<std::string, std::string> values_in_file_store(const std::filesystem::path& folder, std::string_view prefix) {
  std::map<std::string, std::string> values;
  std::string before = fmt::format("{}{}+", kValuePrefix, prefix);
  std::replace(before.begin(), before.end(), '/', '+');
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(before)) continue;
    std::string key = name.substr(kValuePrefix.size());
    std::replace(key.begin(), key.end(), '+', '/');
    values.emplace(std::move(key), read_text(entry.path(), kMostValueBytes));
  }
  return values;
}

std::shared_ptr<Store> make_file_store(const std::filesystem::path& folder) {
  return std::make_shared<FileStore>(folder);
}

std::shared_ptr<Store> with_interruption(std::shared_ptr<Store> store, std::function<void()> check) {
  return std::make_shared<InterruptibleStore>(std::move(store), std::move(check));
}

std::shared_ptr<Store> with_prefix(std::shared_ptr<Store> store, std::string prefix) {
  return std::make_shared<PrefixStore>(std::move(store), std::move(prefix));
}

}  // namespace muster::comm
