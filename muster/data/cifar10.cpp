// The files of a set in a fixed order, which is the order of its samples. Sizes are looked at before the first byte is
// read: a missing or cut file costs no time.
#include "muster/data/cifar10.h"

#include <new>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/data/read_file.h"

namespace muster::data {
namespace {

constexpr std::size_t kPixels = std::size_t{3} * 32 * 32;
constexpr std::size_t kRecord = 1 + kPixels;
constexpr std::int64_t kClasses = 10;

void require_whole_records(std::uint64_t size, const std::string& where) {
  if (size == 0 || size % kRecord != 0) {
    throw Error(ErrorKind::kDamaged,
                fmt::format("has {} bytes; a CIFAR-10 file is a positive multiple of {} bytes", size, kRecord), where);
  }
}

std::size_t records(std::uint64_t size) {
  return static_cast<std::size_t>(size / kRecord);
}

Images read_files(const std::vector<std::filesystem::path>& paths) {
  // All sizes are known before the first byte is read: room is made once, and a missing or cut file costs no time.
  std::vector<OpenFile> files;
  std::size_t count = 0;
  for (const auto& path : paths) {
    files.push_back(open_for_reading(path));
    require_whole_records(files.back().size, path.string());
    count += records(files.back().size);
  }
  Images images;
  try {
    images.labels.reserve(count);
    images.pixels.reserve(count * kPixels);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kResource, fmt::format("{} of images do not fit into memory", human_bytes(count * kPixels)),
                paths.front().string());
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    append_cifar10(images, read_file(files[i], paths[i]), paths[i].string());
  }
  return images;
}

}  // namespace

void append_cifar10(Images& images, std::span<const std::byte> file, const std::string& where) {
  require_whole_records(file.size(), where);
  const std::size_t count = records(file.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto label = std::to_integer<std::int64_t>(file[i * kRecord]);
    if (label >= kClasses) {
      throw Error(ErrorKind::kDamaged, fmt::format("record {} has the label {}; labels are 0 to 9", i, label), where);
    }
  }
  images.channels = 3;
  images.height = 32;
  images.width = 32;
  images.classes = kClasses;
  for (std::size_t i = 0; i < count; ++i) {
    const auto record = file.subspan(i * kRecord, kRecord);
    images.labels.push_back(std::to_integer<std::int64_t>(record[0]));
    const auto* pixels = reinterpret_cast<const std::uint8_t*>(record.data() + 1);
    images.pixels.insert(images.pixels.end(), pixels, pixels + kPixels);
  }
}

Images read_cifar10_train(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (int i = 1; i <= 5; ++i)
    paths.push_back(folder / fmt::format("data_batch_{}.bin", i));
  return read_files(paths);
}

Images read_cifar10_test(const std::filesystem::path& folder) {
  return read_files({folder / "test_batch.bin"});
}

}  // namespace muster::data
