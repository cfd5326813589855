// Any bytes are CIFAR-10 records that make consistent images, or a muster::Error{kDamaged}.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "muster/base/error.h"
#include "muster/data/cifar10.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::data::Images images;
  try {
    muster::data::append_cifar10(images, std::as_bytes(std::span(data, size)), "fuzz");
  } catch (const muster::Error& error) {
    if (error.kind() != muster::ErrorKind::kDamaged || images.count() != 0) std::abort();
    return 0;
  }
  if (images.count() * 3073 != size) std::abort();
  muster::data::validate(images);
  return 0;
}
