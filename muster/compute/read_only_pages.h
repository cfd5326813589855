// Memory of this process that can be written inside of write() only: elsewhere a write ends the process, as one to the
// memory that workers share does (write_guard.h says why it ended).
//
// Thread safety: one thread at a time; nobody reads during write(). No torch here.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace muster::compute {

class ReadOnlyPages {
 public:
  // Zeros. Throws Error{kResource}. REQUIRES: bytes > 0.
  explicit ReadOnlyPages(std::size_t bytes);
  ReadOnlyPages(const ReadOnlyPages&) = delete;
  ReadOnlyPages& operator=(const ReadOnlyPages&) = delete;
  ~ReadOnlyPages();

  std::span<const std::byte> bytes() const { return bytes_; }
  void write(const std::function<void()>& change);

 private:
  std::span<std::byte> bytes_;
};

}  // namespace muster::compute
