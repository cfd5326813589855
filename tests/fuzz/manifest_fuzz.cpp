// Fuzzes the manifest parser. The first byte says how: with the other bytes as they are, which tests the seal, or with
// a seal that fits, which tests what stands behind it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/model/manifest.h"

namespace {

void parse(std::string_view text) {
  using namespace muster::model;
  try {
    const Manifest manifest = parse_manifest(text, "fuzz");
    // What is accepted can be written and read again with the same result.
    const std::string again = encode_manifest(manifest);
    if (encode_manifest(parse_manifest(again, "fuzz")) != again) std::abort();
  } catch (const muster::Error& error) {
    if (error.message().empty()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 2 == 0) {
    parse(text);
    return 0;
  }
  try {
    muster::Json object = muster::parse_json(text, "fuzz");
    if (!object.is_object()) return 0;
    object.erase("sha256");
    parse(muster::model::seal(std::move(object)));
  } catch (const muster::Error&) {
  }
  return 0;
}
