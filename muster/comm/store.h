// Rendezvous: where ranks that do not know each other yet leave and find small values.
//
// Thread safety: every method may be called from any thread, and from any process that has the same store.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/deadline.h"

namespace muster::comm {

class Store {
 public:
  virtual ~Store() = default;
  // Keys are words of letters, digits, '.', '_' and '-' joined by '/'. A value is written once: setting a key again to
  // another value throws kMismatch. At most 64 KiB. kTimeout: values are kept elsewhere, and nobody answers there.
  virtual void set(std::string_view key, std::string_view value) = 0;
  // Waits until the key is there. Throws kTimeout naming the key.
  virtual std::string get(std::string_view key, const Deadline& deadline) = 0;
};

// Between threads of one process.
std::shared_ptr<Store> make_memory_store();

// Between processes that see the same folder, also over a network file system. The folder is made (0700) if it is not
// there; the values are files in it, and whoever owns the folder removes it. Throws kIo, kNotFound, kResource.
std::shared_ptr<Store> make_file_store(const std::filesystem::path& folder);

// Keys and values below "prefix/" in a file store's folder: for one who comes later and does not know the keys. Empty
// where there is no such folder.
std::map<std::string, std::string> values_in_file_store(const std::filesystem::path& folder, std::string_view prefix);

// The same store. While get() waits, or set() finds nobody (kTimeout: tried again), `check` may end it by a throw.
std::shared_ptr<Store> with_interruption(std::shared_ptr<Store> store, std::function<void()> check);

// The same store seen through a prefix: "prefix/key".
std::shared_ptr<Store> with_prefix(std::shared_ptr<Store> store, std::string prefix);

}  // namespace muster::comm
