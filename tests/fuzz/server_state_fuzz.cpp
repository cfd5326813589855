// What a parameter server is sent: states of chunks and of the book, calls, and frames of a stream. The first byte says
// which. Whatever it is, it is refused or taken; nothing outside of it is touched.
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/control/server_map.h"
#include "muster/strategies/parameter_server/book.h"
#include "muster/strategies/parameter_server/frames.h"
#include "muster/strategies/parameter_server/shard.h"

namespace {

using namespace muster::strategies;

const ServerPlan& small_plan() {
  static const ServerPlan plan = [] {
    ServerPlan made;
    made.layout = muster::model::FlatLayout({{"first", {40}}, {"second", {7}}});
    made.buffers.add("mean", muster::model::Dtype::kF32, {3}, 12);
    made.optimizer = muster::compute::Sgd{.lr = 0.1, .momentum = 0.9};
    made.rules.resize(2);
    made.lanes = 4;
    return made;
  }();
  return plan;
}

// A call: its header, then its body.
template <typename Take>
void call(std::span<const std::byte> bytes, const Take& take) {
  Header header;
  if (bytes.size() < sizeof header) return;
  std::memcpy(&header, bytes.data(), sizeof header);
  take(header, bytes.subspan(sizeof header));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(input + 1, size - 1));
  static std::vector<std::byte> memory(Shard::memory_bytes(small_plan()) + 4096);
  auto* base = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 4095) / 4096 * 4096);
  try {
    Book book(small_plan());
    switch (input[0] % 5) {
      case 0:
        book.write(bytes);
        break;
      case 1:
        Shard(small_plan(), {base, Shard::memory_bytes(small_plan())}).write(0, bytes);
        break;
      case 2:
        call(bytes, [&](const Header& header, std::span<const std::byte> body) {
          book.lease(header);
          book.push(header, body);
          book.apply(header);
        });
        break;
      case 3:
        FrameJoiner(1 << 16).add({reinterpret_cast<const char*>(input + 1), (size - 1) / 2},
                                 {reinterpret_cast<const char*>(input + 1) + (size - 1) / 2, (size - 1) / 2});
        break;
      case 4:
        muster::control::ServerMap::from_text({reinterpret_cast<const char*>(input + 1), size - 1});
        break;
    }
  } catch (const muster::Error&) {
  }
  return 0;
}
