// Any bytes are a TorchScript archive that check_script() lets pass, or a muster::Error; the same for the pickles and
// the source of an archive with right checksums.
#include <cstdint>
#include <cstdlib>
#include <cstring>

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check(bytes);
  const std::vector<std::byte> storage(256);
  const std::string_view nothing = "\x80\x02N.";  // a pickle of None
  const auto plain = std::as_bytes(std::span(nothing));
  for (const bool constants : {false, true}) {
    std::vector<std::byte> archive;
    muster::ZipWriter zip(
        [&](std::span<const std::byte> part) { archive.insert(archive.end(), part.begin(), part.end()); });
    zip.add("a/data.pkl", constants ? plain : bytes);
    zip.add("a/constants.pkl", constants ? bytes : plain);
    zip.add("a/data/0", storage);
    zip.add("a/code/__torch__.py", bytes);
    zip.finish();
    check(archive);
  }
  return 0;
}
