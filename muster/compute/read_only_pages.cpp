// Pages of an anonymous mapping whose protection is changed around each write: two calls to the kernel, whatever the
// change costs.
#include "muster/compute/read_only_pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::compute {

ReadOnlyPages::ReadOnlyPages(std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(ErrorKind::kResource,
                fmt::format("{} bytes for converted parameters cannot be had: {}", bytes, std::strerror(errno)));
  bytes_ = {static_cast<std::byte*>(memory), bytes};
}

ReadOnlyPages::~ReadOnlyPages() {
  ::munmap(bytes_.data(), bytes_.size());
}

void ReadOnlyPages::write(const std::function<void()>& change) {
  struct Closed {
    std::span<std::byte> pages;
    ~Closed() { ::mprotect(pages.data(), pages.size(), PROT_READ); }
  } const closed{bytes_};
  if (::mprotect(bytes_.data(), bytes_.size(), PROT_READ | PROT_WRITE) != 0)
    throw Error(ErrorKind::kResource, fmt::format("memory cannot be made writable: {}", std::strerror(errno)));
  change();
}

}  // namespace muster::compute
