// Memory shared by processes of one host: a sealed memfd, and a server that hands its descriptor to whoever may have
// it.
//
// It has no name in any file system, so nothing is left when everybody is killed; the seals fix its size, so that no
// one can cut it under the feet of those who have it mapped. Pages come into being where they are first touched:
// whoever uses a part touches it first, and it lies on that one's memory node.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/deadline.h"
#include "muster/base/files.h"
#include "muster/base/memory.h"

namespace muster::comm {

// A range of addresses, unmapped at the end of its scope. A value that moves; it may be empty.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* base, std::size_t size) : base_(static_cast<std::byte*>(base)), size_(size) {}
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* base() const { return base_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
};

enum class Pages {
  kSmall,        // the machine's ordinary pages
  kTransparent,  // ordinary pages that the kernel was asked to join into huge ones
  kJoined,       // ordinary pages that were joined into huge ones when the region was made
  kHuge,         // from the pool of huge pages that the administrator set aside
};

struct RegionOptions {
  // false: for this process alone. It has no descriptor, and huge pages are to be had more often: the kernel joins the
  // pages of private memory on most machines, and those of shared memory on few.
  bool shared = true;
  bool huge_pages = true;  // take them if they are to be had
  // All pages are made now, by this process, and joined into huge ones where the kernel does not do it by itself (for
  // shared memory it does on few machines). For memory that is used whole and often: it costs what touching it costs.
  bool make_now = false;
  std::optional<Memory> memory{};  // what may be taken; empty: usable_memory()
};

// A part of a region that cannot be written through this mapping: a stray store ends the program instead of corrupting
// everyone's memory. Lives independently of the region it was made from.
class ReadOnlyMapping {
 public:
  ReadOnlyMapping() = default;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  friend class SharedRegion;
  Mapping mapping_;
  std::span<const std::byte> bytes_;
};

// A value that moves; the spans stay valid until it is destroyed. Thread safety: constant after construction; what is
// in the memory is the users' own affair.
class SharedRegion {
 public:
  // At least `bytes` bytes, all zero. Throws kResource, with figures, if that is more than may be taken.
  // REQUIRES: bytes > 0.
  static SharedRegion create(std::size_t bytes, const RegionOptions& options = {});
  // Maps somebody else's region. Throws kMismatch if the descriptor is not a region (not a memfd, not sealed, not to be
  // written), kDamaged if it is smaller than `at_least` bytes.
  static SharedRegion attach(FileDescriptor descriptor, std::size_t at_least = 1);

  // The whole region, zero until somebody writes; page-aligned, so aligned for everything.
  std::span<std::byte> bytes() const { return {mapping_.base(), bytes_}; }
  int descriptor() const { return descriptor_.get(); }
  Pages pages() const { return pages_; }
  const std::string& pages_reason() const { return pages_reason_; }  // why these, in words

  // A second mapping of `size` bytes from `offset`. Throws kResource. Of a region that is not shared: the same memory,
  // not protected, and only as long as the region lives. REQUIRES: the range lies in the region.
  ReadOnlyMapping map_read_only(std::size_t offset, std::size_t size) const;

 private:
  SharedRegion() = default;
  static SharedRegion create_private(std::size_t bytes, const RegionOptions& options);
  bool try_map(std::size_t bytes);  // if not, errno tells why
  void ask_for_huge_pages();
  void join_pages();

  FileDescriptor descriptor_;
  Mapping mapping_;
  std::size_t bytes_ = 0;
  std::size_t granularity_ = 4096;  // offsets and lengths of mappings are multiples of it
  Pages pages_ = Pages::kSmall;
  std::string pages_reason_;
};

// Hands a region's descriptor to every process of one user that connects, until destroyed. The socket has a random
// abstract name: it is in no folder, is guessed by nobody, and goes away with the process.
// Thread safety: has a thread of its own; its destructor ends it and does not wait for clients.
class RegionServer {
 public:
  // Throws kIo or kResource. `allowed_user` is the only one who gets it: others are refused, with the reason.
  explicit RegionServer(const SharedRegion& region, uid_t allowed_user = ::geteuid());
  RegionServer(const RegionServer&) = delete;
  RegionServer& operator=(const RegionServer&) = delete;
  ~RegionServer();

  // What fetch_region needs: "muster-" and 32 hexadecimal digits. Knowing it is not enough to get the region.
  const std::string& address() const { return address_; }

 private:
  class Loop;
  std::string address_;
  std::unique_ptr<Loop> loop_;
};

// Gets and maps the region that a server of this user on this host offers. Throws kInvalidInput (no such kind of
// address), kPeerLost (nobody serves there), kMismatch (refused, or served by another user), kTimeout, or as attach.
SharedRegion fetch_region(std::string_view address, const Deadline& deadline);

}  // namespace muster::comm
