// Reads by the size that the file system tells, and says so where memory does not suffice: a sparse file may claim any
// size.
#include "muster/data/read_file.h"

#include <new>
#include <stdexcept>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::data {

std::vector<std::byte> read_file(const OpenFile& file, const std::filesystem::path& path) {
  std::vector<std::byte> bytes;
  // Sparse files can be larger than any memory; both exceptions mean just that.
  const auto refuse = [&]() {
    throw Error(ErrorKind::kResource, fmt::format("its {} do not fit into memory", human_bytes(file.size)),
                path.string());
  };
  try {
    bytes.resize(file.size);
  } catch (const std::bad_alloc&) {
    refuse();
  } catch (const std::length_error&) {
    refuse();
  }
  read_exactly(file, 0, bytes, path);
  return bytes;
}

}  // namespace muster::data
