// The mapping is private, so that nobody can write through it. It outlives the descriptor and the file's name: a
// checkpoint that is removed meanwhile stays readable.
#include "muster/base/file_mapping.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster {

FileMapping::FileMapping(const OpenFile& file, const std::filesystem::path& path) {
  if (file.size == 0) return;
  void* const base = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
  if (base == MAP_FAILED)
    throw Error(ErrorKind::kResource,
                fmt::format("{} cannot be mapped: {}", human_bytes(file.size), std::generic_category().message(errno)),
                path.string());
  bytes_ = {static_cast<const std::byte*>(base), file.size};
}

FileMapping& FileMapping::operator=(FileMapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

FileMapping::~FileMapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace muster
