// Any bytes are a .pth file whose tensors can all be read, or a muster::Error; the same for a bare pickle in both
// dialects, whose tensors must lie inside their storages.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  read_archive(bytes);
  // The same bytes as the pickle of an archive with right checksums, which mutation alone would rarely meet.
  const std::vector<std::byte> storage(256);
  for (const bool script : {false, true}) {
    std::vector<std::byte> archive;
    muster::ZipWriter zip(
        [&](std::span<const std::byte> part) { archive.insert(archive.end(), part.begin(), part.end()); });
    zip.add("a/data.pkl", bytes);
    zip.add("a/data/0", storage);
    if (script) zip.add("a/constants.pkl", {});
    zip.finish();
    read_archive(archive);
  }
  return 0;
}
