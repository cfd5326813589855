// Any text places every shard on a member, or is a muster::Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/partition/manual_placement.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::data;
  const std::vector<Member> members{{"a"}, {"bc"}, {"d:e"}};
  const std::uint64_t shards = size % 7;
  try {
    const auto placement = parse_manual_placement({reinterpret_cast<const char*>(data), size}, shards, members, "fuzz");
    if (placement.member_of.size() != shards) std::abort();
    for (const std::uint32_t member : placement.member_of) {
      if (member >= members.size()) std::abort();
    }
  } catch (const muster::Error&) {
  }
  return 0;
}
