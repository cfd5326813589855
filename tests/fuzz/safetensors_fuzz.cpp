// Fuzzes the safetensors header parser: any bytes are a header that is sound or an Error{kDamaged}, nothing else.
#include <cstdint>
#include <cstdlib>

#include "muster/base/error.h"
#include "muster/model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::model;
  const auto head = std::as_bytes(std::span(data, size));
  try {
    const SafetensorsHeader header = parse_safetensors_header(head, size, "fuzz");
    // What is accepted must be safe to read: every tensor inside the file, of the size its shape says.
    std::uint64_t end = header.data_begin;
    for (const TensorEntry& entry : header.tensors) {
      if (header.data_begin + entry.begin != end || entry.end < entry.begin) std::abort();
      end += entry.bytes();
      if (end > size || header.find(entry.name) != &entry) std::abort();
    }
    if (end != size) std::abort();
  } catch (const muster::Error& error) {
    if (error.kind() != muster::ErrorKind::kDamaged || error.message().empty()) std::abort();
  }
  return 0;
}
