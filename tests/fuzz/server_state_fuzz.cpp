// What a parameter server is sent: states of chunks and of the book, calls, and frames of a stream. The first byte says
// which. Whatever it is, it is refused or taken; nothing outside of it is touched, and what was taken can be worked
// with: a state is followed by a call.
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
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

// Frames of one stream: the lengths of header and body in three bytes, then both. The checksum is made right, which
// mutation alone would never find.
void join(std::string_view bytes) {
  constexpr std::size_t kChecksumAt = 16;
  FrameJoiner joiner(1 << 16);
  const auto take = [&](std::size_t count) {
    const std::string_view part = bytes.substr(0, count);
    bytes.remove_prefix(part.size());
    return part;
  };
  while (bytes.size() > 3) {
    const std::string_view lengths = take(3);
    std::string header(take(static_cast<std::uint8_t>(lengths[0])));
    const std::string_view body =
        take(static_cast<std::uint8_t>(lengths[1]) << 8 | static_cast<std::uint8_t>(lengths[2]));
    if (header.size() >= kChecksumAt + sizeof(std::uint32_t)) {
      std::memset(header.data() + kChecksumAt, 0, sizeof(std::uint32_t));
      const uLong head = ::crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size());
      const auto sum = static_cast<std::uint32_t>(
          body.empty() ? head : ::crc32_z(head, reinterpret_cast<const Bytef*>(body.data()), body.size()));
      std::memcpy(header.data() + kChecksumAt, &sum, sizeof sum);
    }
    joiner.add(header, body);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(input + 1, size - 1));
  static std::vector<std::byte> memory(Shard::memory_bytes(small_plan()) + 4096);
  auto* base = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 4095) / 4096 * 4096);
  try {
    Book book(small_plan());
    Shard shard(small_plan(), {base, Shard::memory_bytes(small_plan())});
    switch (input[0] % 5) {
      case 0:
        call(bytes, [&](Header header, std::span<const std::byte> state) {
          book.write(state);
          header.step = book.floor();
          if (const auto finish = book.lease(header)) header.second = finish->header.second;
          book.apply(header);
        });
        break;
      case 1:
        call(bytes, [&](Header header, std::span<const std::byte> state) {
          header.chunk = 0;
          shard.write(0, state);
          const auto body = state.last(std::min(state.size(), shard.chunks()[0].floats() * sizeof(float)));
          shard.push(header, std::vector<std::byte>(body.begin(), body.end()));  // aligned, as bodies are
          shard.records(header);
          shard.apply(header);
          shard.read(0);
        });
        break;
      case 2:
        call(bytes, [&](const Header& header, std::span<const std::byte> body) {
          book.lease(header);
          book.push(header, body);
          book.apply(header);
        });
        break;
      case 3:
        join({reinterpret_cast<const char*>(input + 1), size - 1});
        break;
      case 4:
        muster::control::ServerMap::from_text({reinterpret_cast<const char*>(input + 1), size - 1});
        break;
    }
  } catch (const muster::Error&) {
  }
  return 0;
}
