// What a parameter server is sent: heads of messages, states of chunks and of the book, calls, and frames of a stream.
// The first byte says which. Whatever it is, it is refused or taken; nothing outside of it is touched, and what was
// taken can be worked with: a state is followed by calls.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
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

// The next so many bytes, or what there is.
std::span<const std::byte> take(std::span<const std::byte>& bytes, std::size_t count) {
  const std::span<const std::byte> part = bytes.first(std::min(count, bytes.size()));
  bytes = bytes.subspan(part.size());
  return part;
}
std::size_t take_byte(std::span<const std::byte>& bytes) {
  const std::span<const std::byte> one = take(bytes, 1);
  return one.empty() ? 0 : static_cast<std::size_t>(one[0]);
}

// Up to seven requests, each with the length of its head before it; before all, how many there are. What is left of the
// bytes is a state, or a body.
std::vector<Request> take_requests(std::span<const std::byte>& bytes) {
  std::vector<Request> requests(take_byte(bytes) % 8);
  for (Request& request : requests)
    request = decode_request(take(bytes, take_byte(bytes)));
  return requests;
}

// A call of the book. Mutation would not find the step that is due, nor the lanes that count.
void call(Book& book, Verb verb, bool due, std::uint64_t& mask, std::span<const std::byte> buffers) {
  if (auto* const lease = std::get_if<LeaseRequest>(&verb)) {
    if (due) lease->step = book.floor();
    if (const auto answer = book.lease(lease->place, *lease)) mask = answer->mask;
  } else if (auto* const push = std::get_if<PushEntryRequest>(&verb)) {
    if (due) push->step = book.floor();
    book.push(0, *push, buffers);
  } else if (auto* const close = std::get_if<CloseRequest>(&verb)) {
    if (due) *close = {book.floor(), mask, close->gradient_norm, close->skipped};
    book.close(0, *close);
  }
}

void call(Shard& shard, std::uint32_t client, const Verb& verb, std::span<const std::byte> body) {
  if (const auto* const lane = std::get_if<PushLaneRequest>(&verb))
    shard.push(0, *lane, body);
  else if (const auto* const update = std::get_if<PushUpdateRequest>(&verb))
    shard.push(0, client, *update, body);
  else if (const auto* const records = std::get_if<RecordsRequest>(&verb))
    shard.records(0, *records);
  else if (const auto* const apply = std::get_if<ApplyRequest>(&verb))
    shard.apply(0, *apply);
}

void call_book(std::span<const std::byte> bytes, bool with_state) {
  Book book(small_plan());
  const std::vector<Request> requests = take_requests(bytes);
  if (with_state) book.write(bytes);
  std::uint64_t mask = 0;
  for (const Request& request : requests)
    call(book, request.verb, with_state, mask, bytes.first(std::min(bytes.size(), small_plan().buffers.bytes)));
  book.read();
}

void call_shard(std::span<const std::byte> bytes) {
  static std::vector<std::byte> memory(Shard::memory_bytes(small_plan()) + 4096);
  auto* base = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 4095) / 4096 * 4096);
  Shard shard(small_plan(), {base, Shard::memory_bytes(small_plan())});
  const std::vector<Request> requests = take_requests(bytes);
  shard.write(0, bytes);
  const auto part = bytes.last(std::min(bytes.size(), shard.chunks()[0].floats() * sizeof(float)));
  const std::vector<std::byte> body(part.begin(), part.end());  // aligned, as bodies are
  for (const Request& request : requests)
    call(shard, request.chunk, request.verb, body);
  shard.read(0);
}

// What is taken is written as it was read.
void decode(std::span<const std::byte> bytes) {
  const auto same = [&](const Head& head) {
    if (!std::ranges::equal(head.view(), bytes)) std::abort();
  };
  try {
    same(encode(decode_request(bytes)));
    return;
  } catch (const muster::Error&) {
  }
  same(encode(decode_reply(bytes)));
}

// Frames of one stream: call, part and the lengths of all, of the head and of this body in a byte or two each, then
// head and body. The checksum is made right, which mutation alone would never find.
void join(std::span<const std::byte> bytes) {
  FrameJoiner joiner(1 << 16);
  while (bytes.size() > 7) {
    Frame frame;
    frame.call = take_byte(bytes);
    frame.part = static_cast<std::uint32_t>(take_byte(bytes));
    frame.body_bytes = take_byte(bytes) << 8;
    frame.body_bytes |= take_byte(bytes);
    const std::size_t head = take_byte(bytes);
    std::size_t body = take_byte(bytes) << 8;
    body |= take_byte(bytes);
    frame.head = take(bytes, head);
    frame.body = take(bytes, body);
    frame.checksum = checksum_of(frame);
    if (const auto message = joiner.add(frame)) decode_request(message->head.view());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(input + 1, size - 1));
  try {
    switch (input[0] % 6) {
      case 0:
        call_book(bytes, true);
        break;
      case 1:
        call_shard(bytes);
        break;
      case 2:
        call_book(bytes, false);
        break;
      case 3:
        join(bytes);
        break;
      case 4:
        muster::control::ServerMap::from_text({reinterpret_cast<const char*>(input + 1), size - 1});
        break;
      case 5:
        decode(bytes);
        break;
    }
  } catch (const muster::Error&) {
  }
  return 0;
}
