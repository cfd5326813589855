// The agreement and the collectives that only move data; reductions are in network_reduce.cpp. A failed rank keeps the
// others' calls until all have them: that is why ranks that disagree wait a moment before they close.
#include "muster/comm/network_backend.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/comm/combine.h"
#include "muster/comm/network_messages.h"

namespace muster::comm {
namespace {

constexpr std::uint64_t kCallSlot = 0;
constexpr std::uint64_t kDataSlot = 1;
constexpr std::uint64_t kMismatchSlot = 2;
// How long ranks that disagree wait for each other, so that all of them have all calls before the first one closes.
constexpr std::chrono::seconds kMismatchPatience{2};

std::size_t bytes_of(const Call& call) {
  return call.count * size_of(call.type);
}

void copy(const std::byte* from, std::byte* to, std::size_t bytes) {
  if (from != to && bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

void NetworkBackend::Batch::send(int peer, const std::byte* data, std::size_t bytes) {
  if (bytes > 0) transfers_.push_back(transport_->send(peer, kDataSlot, {data, bytes}));
}

void NetworkBackend::Batch::receive(int peer, std::byte* data, std::size_t bytes) {
  if (bytes > 0) transfers_.push_back(transport_->receive(peer, kDataSlot, {data, bytes}));
}

void NetworkBackend::Batch::wait(const Deadline& deadline) {
  for (const std::unique_ptr<Transfer>& transfer : transfers_)
    transfer->wait(deadline);
  transfers_.clear();
}

NetworkBackend::NetworkBackend(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {
  if (size() > static_cast<int>(kMaxRanks))
    throw Error(ErrorKind::kUnsupported,
                fmt::format("a {} group of {} ranks; at most {} are possible", name(), size(), kMaxRanks), {},
                "Put several ranks of a host into one process group of that host (hierarchical).");
}

void NetworkBackend::run(const Call& call, const Deadline& deadline, const std::function<void()>& action) {
  explain_errors(call, [&] {
    Frame frame;
    frame.call = call;
    agree(frame, deadline);
    action();
  });
}

void NetworkBackend::explain_errors(const Call& call, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kMismatch) throw;
    throw Error(error.kind(), error.message(),
                fmt::format("rank {} of {} ({}), in {}", rank(), size(), name(), to_string(call)), error.remedy());
  }
}

std::vector<NetworkBackend::Frame> NetworkBackend::agree(const Frame& mine, const Deadline& deadline) {
  std::vector<Frame> frames(static_cast<std::size_t>(size()));
  std::vector<bool> arrived(frames.size());
  std::vector<std::unique_ptr<Transfer>> receives(frames.size());
  std::vector<std::unique_ptr<Transfer>> sends;
  for (const int peer : peers()) {
    const auto place = static_cast<std::size_t>(peer);
    receives[place] = transport_->receive(peer, kCallSlot, std::as_writable_bytes(std::span(&frames[place], 1)));
  }
  for (const int peer : peers())
    sends.push_back(transport_->send(peer, kCallSlot, std::as_bytes(std::span(&mine, 1))));

  std::optional<Error> failure;
  bool differ = false;
  for (const int peer : peers()) {
    const auto place = static_cast<std::size_t>(peer);
    try {
      receives[place]->wait(deadline);
      arrived[place] = true;
      differ = differ || frames[place].call != mine.call;
    } catch (const Error& error) {
      if (!failure) failure = error;
    }
  }
  if (differ) {
    // After a failure a receive may still be writing: only what arrived is read.
    std::vector<Call> known(frames.size());
    for (std::size_t place = 0; place < frames.size(); ++place) {
      if (arrived[place]) known[place] = frames[place].call;
    }
    known[static_cast<std::size_t>(rank())] = mine.call;
    report_mismatch(known, !failure, deadline);
  }
  if (failure) throw *failure;
  for (const std::unique_ptr<Transfer>& send : sends)
    send->wait(deadline);
  frames[static_cast<std::size_t>(rank())] = mine;
  return frames;
}

void NetworkBackend::report_mismatch(const std::vector<Call>& calls, bool complete, const Deadline& deadline) {
  const std::string text = "ranks made different calls: " + describe_mismatch(calls);
  if (complete) {
    const Deadline patience =
        Deadline::after(std::min<std::chrono::nanoseconds>(deadline.remaining(), kMismatchPatience));
    std::vector<std::byte> tokens(calls.size() + 1);
    std::vector<std::unique_ptr<Transfer>> transfers;
    try {
      for (const int peer : peers()) {
        transfers.push_back(transport_->receive(peer, kMismatchSlot, {&tokens[static_cast<std::size_t>(peer)], 1}));
        transfers.push_back(transport_->send(peer, kMismatchSlot, {&tokens.back(), 1}));
      }
      for (const std::unique_ptr<Transfer>& transfer : transfers)
        transfer->wait(patience);
    } catch (const Error&) {
      // Somebody was faster and is gone: it had all calls.
    }
  }
  transport_->abort(rank(), text);
  throw Error(ErrorKind::kMismatch, text, {}, "Make the same calls, in the same order, on all ranks.");
}

void NetworkBackend::all_gather(const Call& call, const void* input, void* output, const Deadline& deadline) {
  run(call, deadline, [&] {
    const std::size_t bytes = bytes_of(call);
    const auto* const in = static_cast<const std::byte*>(input);
    auto* const out = static_cast<std::byte*>(output);
    Batch batch(*transport_);
    for (const int peer : peers())
      batch.receive(peer, out + static_cast<std::size_t>(peer) * bytes, bytes);
    for (const int peer : peers())
      batch.send(peer, in, bytes);
    copy(in, out + static_cast<std::size_t>(rank()) * bytes, bytes);
    batch.wait(deadline);
  });
}

void NetworkBackend::all_to_all(const Call& call, const void* input, void* output, const Deadline& deadline) {
  run(call, deadline, [&] {
    const std::size_t bytes = bytes_of(call);
    const auto* const in = static_cast<const std::byte*>(input);
    auto* const out = static_cast<std::byte*>(output);
    Batch batch(*transport_);
    for (const int peer : peers())
      batch.receive(peer, out + static_cast<std::size_t>(peer) * bytes, bytes);
    for (const int peer : peers())
      batch.send(peer, in + static_cast<std::size_t>(peer) * bytes, bytes);
    const std::size_t own = static_cast<std::size_t>(rank()) * bytes;
    copy(in + own, out + own, bytes);
    batch.wait(deadline);
  });
}

void NetworkBackend::gather(const Call& call, const void* input, void* output, const Deadline& deadline) {
  run(call, deadline, [&] {
    const std::size_t bytes = bytes_of(call);
    const auto* const in = static_cast<const std::byte*>(input);
    auto* const out = static_cast<std::byte*>(output);
    Batch batch(*transport_);
    if (rank() == call.root) {
      for (const int peer : peers())
        batch.receive(peer, out + static_cast<std::size_t>(peer) * bytes, bytes);
      copy(in, out + static_cast<std::size_t>(rank()) * bytes, bytes);
    } else {
      batch.send(call.root, in, bytes);
    }
    batch.wait(deadline);
  });
}

void NetworkBackend::scatter(const Call& call, const void* input, void* output, const Deadline& deadline) {
  run(call, deadline, [&] {
    const std::size_t bytes = bytes_of(call);
    const auto* const in = static_cast<const std::byte*>(input);
    auto* const out = static_cast<std::byte*>(output);
    Batch batch(*transport_);
    if (rank() == call.root) {
      for (const int peer : peers())
        batch.send(peer, in + static_cast<std::size_t>(peer) * bytes, bytes);
      copy(in + static_cast<std::size_t>(rank()) * bytes, out, bytes);
    } else {
      batch.receive(call.root, out, bytes);
    }
    batch.wait(deadline);
  });
}

void NetworkBackend::barrier(const Call& call, const Deadline& deadline) {
  run(call, deadline, [] {});  // everybody has the call of everybody else: all are here
}

void NetworkBackend::broadcast(const Call& call, void* data, const Deadline& deadline) {
  run(call, deadline, [&] {
    auto* const bytes = static_cast<std::byte*>(data);
    if (size() > kMostDirectRanks) return broadcast_by_tree(call, bytes, deadline);
    Batch batch(*transport_);
    if (rank() == call.root) {
      for (const int peer : peers())
        batch.send(peer, bytes, bytes_of(call));
    } else {
      batch.receive(call.root, bytes, bytes_of(call));
    }
    batch.wait(deadline);
  });
}

// Ranks are counted from the root. Rank v gets its data from v without its highest bit, and gives it to v + 2^i for all
// 2^i above v. A segment is passed on while the next one arrives.
void NetworkBackend::broadcast_by_tree(const Call& call, std::byte* data, const Deadline& deadline) {
  const auto ranks = static_cast<unsigned>(size());
  const unsigned place = static_cast<unsigned>(rank() - call.root + size()) % ranks;
  const auto rank_at = [&](unsigned other) {
    return static_cast<int>((other + static_cast<unsigned>(call.root)) % ranks);
  };
  std::vector<int> children;
  for (unsigned step = place == 0 ? 1 : std::bit_floor(place) * 2; place + step < ranks; step *= 2)
    children.push_back(rank_at(place + step));
  std::reverse(children.begin(), children.end());  // the child with the longest way below it first

  struct Segment {
    std::byte* data;
    std::size_t bytes;
    std::unique_ptr<Transfer> arrival;
  };
  std::vector<Segment> segments;
  const std::size_t total = bytes_of(call);
  for (std::size_t first = 0; first < total; first += kBroadcastSegmentBytes)
    segments.push_back({data + first, std::min(kBroadcastSegmentBytes, total - first), nullptr});
  if (place > 0) {
    const int parent = rank_at(place - std::bit_floor(place));
    for (Segment& segment : segments)
      segment.arrival = transport_->receive(parent, kDataSlot, {segment.data, segment.bytes});
  }
  Batch passed_on(*transport_);
  for (const Segment& segment : segments) {
    if (segment.arrival) segment.arrival->wait(deadline);
    for (const int child : children)
      passed_on.send(child, segment.data, segment.bytes);
  }
  passed_on.wait(deadline);
}

std::unique_ptr<Transfer> NetworkBackend::send(int peer, std::uint32_t tag, ConstView data) {
  if (peer == rank()) return send_to_itself(*own_messages_, peer, tag, data);
  return send_message(transport_, peer, tag, data);
}

std::unique_ptr<Transfer> NetworkBackend::receive(int peer, std::uint32_t tag, View data) {
  if (peer == rank()) return receive_from_itself(own_messages_, peer, tag, data);
  return receive_message(transport_, peer, tag, data);
}

std::unique_ptr<Backend> NetworkBackend::split(const std::vector<int>& members, const std::string& name,
                                               const Deadline& deadline) {
  return std::make_unique<NetworkBackend>(transport_->split(members, name, deadline));
}

std::vector<int> NetworkBackend::peers() const {
  std::vector<int> peers;
  for (int distance = 1; distance < size(); ++distance)
    peers.push_back((rank() + distance) % size());
  return peers;
}

}  // namespace muster::comm
