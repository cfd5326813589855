// Any bytes are a .pth file whose tensors can all be read, or a muster::Error; the same for a bare pickle in both
// dialects, whose tensors must lie inside their storages. The first byte says which of these the others are.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/zip_writer.h"
#include "muster/model/weights.h"

namespace {

using namespace muster::model;

void read_archive(std::span<const std::byte> bytes) {
  AlignedBytes archive(bytes.size(), "fuzz");
  if (!bytes.empty()) std::memcpy(archive.span().data(), bytes.data(), bytes.size());
  try {
    const Weights weights = weights_of(std::make_shared<PthFile>(std::move(archive), "fuzz"));
    unsigned sum = 0;
    for (const TensorView& tensor : weights.tensors) {
      std::uint64_t elements = 1;
      for (const std::int64_t extent : tensor.shape)
        elements *= static_cast<std::uint64_t>(extent);
      if (elements * bytes_of(tensor.dtype) != tensor.data.size()) std::abort();
      for (const std::byte byte : tensor.data)
        sum += std::to_integer<unsigned>(byte);
    }
    static_cast<void>(sum);
  } catch (const muster::Error& error) {
    if (error.message().empty()) std::abort();
  }
}

// An archive with right checksums around a pickle, which mutation alone would rarely meet.
std::vector<std::byte> pickle_archive(std::span<const std::byte> pickle, bool script) {
  static const std::vector<std::byte> storage(256);
  std::vector<std::byte> archive;
  muster::ZipWriter zip(
      [&](std::span<const std::byte> part) { archive.insert(archive.end(), part.begin(), part.end()); });
  zip.add("a/data.pkl", pickle);
  zip.add("a/data/0", storage);
  if (script) zip.add("a/constants.pkl", {});
  zip.finish();
  return archive;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 3) {
    case 0:
      read_archive(bytes);
      break;
    case 1:
      read_archive(pickle_archive(bytes, false));
      break;
    default:
      read_archive(pickle_archive(bytes, true));
  }
  return 0;
}
