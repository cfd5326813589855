// Huge pages are taken where they can be had and never required: each way of getting them may fail at the next step
// because somebody was faster, and small pages do as well.
#include "muster/comm/region.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::comm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr unsigned kHugePageFlag = 21U << 26;  // MFD_HUGE_2MB: two to the 21, where memfd_create expects it
constexpr const char* kHugePagePool = "/sys/kernel/mm/hugepages/hugepages-2048kB";
constexpr const char* kSharedHugePages = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
#if !defined(MADV_COLLAPSE)
#define MADV_COLLAPSE 25  // Linux 6.1; older headers do not know it, older kernels say EINVAL
#endif
constexpr std::size_t kMostBytes = std::size_t{1} << 46;
constexpr const char* kPlace = "shared memory";

std::size_t small_page() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Huge pages of the pool that are free and not promised to anybody.
std::uint64_t free_huge_pages() {
  std::uint64_t free = 0;
  std::uint64_t promised = 0;
  std::ifstream(std::string(kHugePagePool) + "/free_hugepages") >> free;
  std::ifstream(std::string(kHugePagePool) + "/resv_hugepages") >> promised;
  return free - std::min(free, promised);
}

// The setting in force stands in brackets: "always within_size [advise] never deny force".
std::string shared_huge_page_setting() {
  std::ifstream file(kSharedHugePages);
  for (std::string word; file >> word;) {
    if (word.size() > 2 && word.front() == '[') return word.substr(1, word.size() - 2);
  }
  return "unknown";
}

void check_memory(std::size_t bytes, const Memory& memory) {
  if (bytes <= memory.usable_bytes) return;
  throw Error(ErrorKind::kResource,
              fmt::format("{} of shared memory are needed and {}", human_bytes(bytes), memory.reason), kPlace,
              "Use fewer lanes, a smaller model, or a machine or cgroup with more memory.");
}

// An empty descriptor if the kernel cannot: then errno tells why.
FileDescriptor make_memfd(std::size_t bytes, unsigned flags) {
  FileDescriptor descriptor(::memfd_create("muster-region", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (!descriptor.valid()) return descriptor;
  if (::ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(descriptor.get(), F_ADD_SEALS, kSeals) != 0)
    return {};
  return descriptor;
}

// At an address where a huge page of the file can be one of the mapping: both have the same place inside a huge page.
void* map_shared(int descriptor, std::size_t offset, std::size_t size, int protection) {
  const std::size_t room = size + kHugePage;
  void* const reserved = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  std::byte* const first = static_cast<std::byte*>(reserved);
  const std::size_t place = reinterpret_cast<std::uintptr_t>(first) % kHugePage;
  const std::size_t skipped = (offset % kHugePage + kHugePage - place) % kHugePage;
  void* const base =
      ::mmap(first + skipped, size, protection, MAP_SHARED | MAP_FIXED, descriptor, static_cast<off_t>(offset));
  const int error = errno;
  const std::size_t used = base == MAP_FAILED ? 0 : round_up(size, small_page());
  if (used == 0) {
    ::munmap(first, room);
  } else {
    if (skipped > 0) ::munmap(first, skipped);
    if (room > skipped + used) ::munmap(first + skipped + used, room - skipped - used);
  }
  errno = error;
  return base == MAP_FAILED ? nullptr : base;
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)) {
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (base_ != nullptr) ::munmap(base_, size_);
}

SharedRegion SharedRegion::create(std::size_t bytes, const RegionOptions& options) {
  MUSTER_CHECK(bytes > 0, "a region of no bytes");
  if (bytes > kMostBytes)
    check_memory(bytes, {kMostBytes, "no address space holds more than " + human_bytes(kMostBytes)});
  if (!options.shared) return create_private(bytes, options);
  SharedRegion region;
  const std::uint64_t needed = round_up(bytes, kHugePage) / kHugePage;
  const std::uint64_t free = options.huge_pages ? free_huge_pages() : 0;
  if (free >= needed) {
    region.descriptor_ = make_memfd(needed * kHugePage, MFD_HUGETLB | kHugePageFlag);
    region.granularity_ = kHugePage;
    // Mapping takes the pages out of the pool, so it fails if somebody was faster: ordinary pages do as well.
    if (region.descriptor_.valid() && region.try_map(needed * kHugePage)) {
      region.pages_ = Pages::kHuge;
      region.pages_reason_ = fmt::format("{} of {} free huge pages", needed, free);
      return region;
    }
  }
  check_memory(bytes, options.memory ? *options.memory : usable_memory());
  region.descriptor_ = make_memfd(bytes, 0);
  if (!region.descriptor_.valid() && errno == EFBIG)
    throw Error(ErrorKind::kResource,
                fmt::format("{} of shared memory are more than this process's file-size limit", human_bytes(bytes)),
                kPlace, "Raise the limit: ulimit -f unlimited.");
  if (!region.descriptor_.valid()) throw_system_error("cannot be created", kPlace);
  region.granularity_ = small_page();
  if (!region.try_map(bytes)) throw_system_error(fmt::format("{} cannot be mapped", human_bytes(bytes)), kPlace);
  if (options.huge_pages) {
    region.ask_for_huge_pages();
    if (options.make_now && region.pages_ == Pages::kSmall) region.join_pages();
    region.pages_reason_ = fmt::format("{} huge pages needed, {} free; {}", needed, free, region.pages_reason_);
  } else {
    region.pages_reason_ = "huge pages were not asked for";
  }
  return region;
}

SharedRegion SharedRegion::create_private(std::size_t bytes, const RegionOptions& options) {
  check_memory(bytes, options.memory ? *options.memory : usable_memory());
  SharedRegion region;
  region.granularity_ = small_page();
  const std::size_t size = round_up(bytes, region.granularity_);
  void* const base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw_system_error(fmt::format("{} cannot be mapped", human_bytes(bytes)), kPlace);
  region.mapping_ = Mapping(base, size);
  region.bytes_ = bytes;
  const bool asked = options.huge_pages && ::madvise(base, size, MADV_HUGEPAGE) == 0;
  region.pages_ = asked ? Pages::kTransparent : Pages::kSmall;
  region.pages_reason_ = asked ? "asked for, for memory of this process alone" : "the kernel does not join pages";
  return region;
}

SharedRegion SharedRegion::attach(FileDescriptor descriptor, std::size_t at_least) {
  struct stat status {};
  struct statfs system {};
  if (::fstat(descriptor.get(), &status) != 0 || ::fstatfs(descriptor.get(), &system) != 0)
    throw_system_error("the descriptor cannot be examined", kPlace);
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (!S_ISREG(status.st_mode) || seals < 0)
    throw Error(ErrorKind::kMismatch, "the descriptor is not that of a memfd, so not a region of Muster's", kPlace);
  if ((seals & kSeals) != kSeals) {
    throw Error(ErrorKind::kMismatch,
                "the memfd is not sealed: whoever has it could cut it while it is in use, so it is not Muster's",
                kPlace);
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < std::max<std::size_t>(at_least, 1)) {
    throw Error(ErrorKind::kDamaged,
                fmt::format("the region has {} bytes, and at least {} were expected", size, at_least), kPlace);
  }
  SharedRegion region;
  region.descriptor_ = std::move(descriptor);
  const bool huge = system.f_type == HUGETLBFS_MAGIC;
  region.granularity_ = huge ? static_cast<std::size_t>(system.f_bsize) : small_page();
  if (!region.try_map(size)) {
    if (errno != EPERM && errno != EACCES)
      throw_system_error(fmt::format("{} cannot be mapped", human_bytes(size)), kPlace);
    throw Error(ErrorKind::kMismatch, "the region was sealed or opened against writing, so it is not Muster's", kPlace);
  }
  if (huge) {
    region.pages_ = Pages::kHuge;
    region.pages_reason_ = "whoever made the region got huge pages";
  } else {
    region.ask_for_huge_pages();
  }
  return region;
}

bool SharedRegion::try_map(std::size_t bytes) {
  const std::size_t size = round_up(bytes, granularity_);
  void* const base = map_shared(descriptor_.get(), 0, size, PROT_READ | PROT_WRITE);
  if (base == nullptr) return false;
  mapping_ = Mapping(base, size);
  bytes_ = bytes;
  return true;
}

void SharedRegion::ask_for_huge_pages() {
  const std::string setting = shared_huge_page_setting();
  pages_reason_ = fmt::format("shmem_enabled is \"{}\"", setting);
  if (setting == "never" || setting == "deny" || setting == "unknown") return;
  if (::madvise(mapping_.base(), mapping_.size(), MADV_HUGEPAGE) == 0) pages_ = Pages::kTransparent;
}

void SharedRegion::join_pages() {
  const std::size_t whole = bytes_ / kHugePage;
  std::size_t joined = 0;
  for (; joined < whole; ++joined) {
    std::byte* const begin = mapping_.base() + joined * kHugePage;
    // One small page has to be there; the others are made with the huge one. Nobody else has the region yet.
    *const_cast<volatile std::byte*>(begin) = std::byte{0};
    if (::madvise(begin, kHugePage, MADV_COLLAPSE) != 0) break;
  }
  if (joined > 0) pages_ = Pages::kJoined;
  pages_reason_ += joined == whole ? fmt::format("; {} joined", joined)
                                   : fmt::format("; {} of {} joined: {}", joined, whole, std::strerror(errno));
}

ReadOnlyMapping SharedRegion::map_read_only(std::size_t offset, std::size_t size) const {
  MUSTER_CHECK(offset <= bytes_ && size <= bytes_ - offset, "a mapping outside its region");
  ReadOnlyMapping part;
  if (size == 0) return part;
  if (!descriptor_.valid()) {
    part.bytes_ = bytes().subspan(offset, size);
    return part;
  }
  const std::size_t begin = offset / granularity_ * granularity_;
  const std::size_t length = round_up(offset + size, granularity_) - begin;
  void* const base = map_shared(descriptor_.get(), begin, length, PROT_READ);
  if (base == nullptr) throw_system_error(fmt::format("{} cannot be mapped a second time", human_bytes(size)), kPlace);
  part.mapping_ = Mapping(base, length);
  part.bytes_ = {part.mapping_.base() + (offset - begin), size};
  if (pages_ == Pages::kTransparent) ::madvise(base, length, MADV_HUGEPAGE);
  return part;
}

}  // namespace muster::comm
