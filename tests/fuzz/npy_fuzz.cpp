// Any bytes are an array whose elements can all be read, or a muster::Error; the same for a zip archive of them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/zip.h"
#include "muster/data/array_dataset.h"

namespace {

void read_array(const std::vector<std::byte>& bytes) {
  using namespace muster::data;
  try {
    const NpyArray array(bytes, "fuzz");
    const NpyHeader& header = array.header();
    std::vector<std::byte> data(header.data_bytes());
    array.read(0, data);
    std::vector<float> floats(header.elements);
    npy_floats(header, data, floats);
    for (std::uint64_t i = 0; i < header.elements; ++i)
      npy_integer(header, std::span<const std::byte>(data).subspan(i * header.item_bytes, header.item_bytes));
    ArrayTargets targets;
    if (!header.shape.empty()) targets.labels.resize(static_cast<std::size_t>(header.shape[0]));
    ArrayDataset dataset(NpyArray(bytes, "fuzz"), std::move(targets), 1);
    std::vector<std::uint64_t> ids(dataset.size());
    std::iota(ids.begin(), ids.end(), 0U);
    dataset.normalize(dataset.measure(ids));
    std::vector<float> features(dataset.spec().elements());
    dataset.read(dataset.size() - 1, features);
  } catch (const muster::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  read_array({bytes.begin(), bytes.end()});
  try {
    for (const auto& member : muster::zip_members(bytes, "fuzz")) {
      if (member.size < (std::uint64_t{1} << 20)) read_array(muster::read_member(bytes, member, "fuzz"));
    }
  } catch (const muster::Error&) {
  }
  return 0;
}
