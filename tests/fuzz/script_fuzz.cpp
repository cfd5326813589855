// Any bytes are a TorchScript archive that check_script() lets pass, or a muster::Error; the same for the pickles and
// the source of an archive with right checksums. The first byte says which of these the others are.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/zip_writer.h"
#include "muster/model/script_check.h"

namespace {

void check(std::span<const std::byte> bytes) {
  muster::model::AlignedBytes archive(bytes.size(), "fuzz");
  if (!bytes.empty()) std::memcpy(archive.span().data(), bytes.data(), bytes.size());
  try {
    muster::model::check_script(std::move(archive), "fuzz");
  } catch (const muster::Error& error) {
    if (error.message().empty()) std::abort();
  }
}

using Bytes = std::span<const std::byte>;

constexpr std::array<std::byte, 4> kNone{std::byte{0x80}, std::byte{2}, std::byte{'N'}, std::byte{'.'}};  // as a pickle

std::vector<std::byte> script_archive(Bytes values, Bytes constants, Bytes source) {
  static const std::vector<std::byte> storage(256);
  std::vector<std::byte> archive;
  muster::ZipWriter zip([&](Bytes part) { archive.insert(archive.end(), part.begin(), part.end()); });
  zip.add("a/data.pkl", values);
  zip.add("a/constants.pkl", constants);
  zip.add("a/data/0", storage);
  zip.add("a/code/__torch__.py", source);
  zip.finish();
  return archive;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 3) {
    case 0:
      check(bytes);
      break;
    case 1:
      check(script_archive(bytes, kNone, bytes));
      break;
    default:
      check(script_archive(kNone, bytes, bytes));
  }
  return 0;
}
