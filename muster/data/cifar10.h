// CIFAR-10, binary version: files of records, each one label byte (0 to 9) and 3072 pixel bytes (red, green and blue
// plane, 32 rows of 32). No header: the size and the labels are all that can be checked, and both are.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "muster/data/images.h"

namespace muster::data {

// Appends the records of one file to `images` (whose extents and classes it sets); `where` names the file in errors.
// Throws kDamaged if the size is not a positive multiple of 3073 or a label is above 9; `images` is then unchanged.
void append_cifar10(Images& images, std::span<const std::byte> file, const std::string& where);

// The five training files data_batch_1.bin to data_batch_5.bin in `folder`, in this order. Throws as append_cifar10,
// and kNotFound, kInvalidInput (not a regular file), kIo or kResource (out of memory).
Images read_cifar10_train(const std::filesystem::path& folder);

// test_batch.bin in `folder`. Throws as read_cifar10_train.
Images read_cifar10_test(const std::filesystem::path& folder);

}  // namespace muster::data
