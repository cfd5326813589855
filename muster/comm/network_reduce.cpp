// The reductions of the network backend.
//
// Very short arrays go along with the calls. Short ones: everyone sends everything to everyone and combines all of it.
// Long ones: every rank owns a slice. It gets that slice from all ranks and combines them in rank order, all at once,
// so that the bits are the ones of every other backend (combine.h); for all_reduce it then sends the result to all.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "muster/comm/combine.h"
#include "muster/comm/network_backend.h"

namespace muster::comm {

// A segment is the part of a long array that is reduced at once. In one of all_reduce each rank owns a slice; in one of
// reduce_scatter each rank's slice is that segment of its own part of the input.
struct NetworkBackend::Plan {
  Plan(const Call& call, int ranks_of_group, bool parts)
      : count(call.count), width(size_of(call.type)), ranks(static_cast<std::size_t>(ranks_of_group)), in_parts(parts) {
    const std::size_t most = kScratchBytes / 2 / width / ranks * (in_parts ? 1 : ranks);
    segments = (count + most - 1) / most;
    segment = segments == 0 ? 0 : (count + segments - 1) / segments;
    longest_slice = in_parts ? segment : (segment + ranks - 1) / ranks;
  }

  struct Slice {
    std::size_t offset;  // bytes, in the input, and in all_reduce's output
    std::size_t count;
    std::size_t bytes;
  };
  Slice slice(std::size_t which, std::size_t rank) const {
    const std::size_t first = std::min(count, which * segment);
    const std::size_t length = std::min(count - first, segment);
    if (in_parts) return {(rank * count + first) * width, length, length * width};
    const std::size_t share = (length + ranks - 1) / ranks;
    const std::size_t begin = std::min(length, rank * share);
    const std::size_t end = std::min(length, begin + share);
    return {(first + begin) * width, end - begin, (end - begin) * width};
  }

  std::size_t count;
  std::size_t width;  // bytes of an element
  std::size_t ranks;
  bool in_parts;
  std::size_t segments = 0;
  std::size_t segment = 0;        // elements
  std::size_t longest_slice = 0;  // elements
};

void NetworkBackend::all_reduce(const Call& call, const void* input, void* output, const Deadline& deadline) {
  const auto* const in = static_cast<const std::byte*>(input);
  auto* const out = static_cast<std::byte*>(output);
  if (call.count <= kAttachedBytes / size_of(call.type))
    return explain_errors(call, [&] { reduce_attached(call, in, out, deadline); });
  run(call, deadline, [&] {
    if (call.count * size_of(call.type) <= kDirectBytes)
      reduce_directly(call, in, out, deadline);
    else
      reduce_in_segments(call, Plan(call, size(), false), in, out, deadline);
  });
}

void NetworkBackend::reduce_scatter(const Call& call, const void* input, void* output, const Deadline& deadline) {
  run(call, deadline, [&] {
    reduce_in_segments(call, Plan(call, size(), true), static_cast<const std::byte*>(input),
                       static_cast<std::byte*>(output), deadline);
  });
}

void NetworkBackend::reduce_attached(const Call& call, const std::byte* input, std::byte* output,
                                     const Deadline& deadline) {
  Frame mine;
  mine.call = call;
  if (call.count > 0) std::memcpy(mine.attached, input, call.count * size_of(call.type));
  const std::vector<Frame> frames = agree(mine, deadline);
  if (call.count == 0) return;
  std::array<const void*, kMaxRanks> inputs{};
  for (std::size_t place = 0; place < frames.size(); ++place)
    inputs[place] = frames[place].attached;
  combine(call.type, call.reduction, std::span(inputs).first(frames.size()), output, call.count);
}

void NetworkBackend::reduce_directly(const Call& call, const std::byte* input, std::byte* output,
                                     const Deadline& deadline) {
  const std::size_t bytes = call.count * size_of(call.type);
  std::array<const void*, kMaxRanks> inputs{};
  inputs[static_cast<std::size_t>(rank())] = input;
  std::byte* place = scratch(static_cast<std::size_t>(size()) * bytes);
  Batch batch(*transport_);
  for (const int peer : peers()) {
    batch.receive(peer, place, bytes);
    inputs[static_cast<std::size_t>(peer)] = place;
    place += bytes;
  }
  for (const int peer : peers())
    batch.send(peer, input, bytes);
  batch.wait(deadline);
  combine(call.type, call.reduction, std::span(inputs).first(static_cast<std::size_t>(size())), output, call.count);
}

void NetworkBackend::reduce_in_segments(const Call& call, const Plan& plan, const std::byte* input, std::byte* output,
                                        const Deadline& deadline) {
  const auto me = static_cast<std::size_t>(rank());
  const std::vector<int> others = peers();
  std::byte* const memory = scratch(2 * plan.longest_slice * plan.width * plan.ranks);
  const auto received = [&](std::size_t which, std::size_t number) {
    return memory + ((which % 2) * plan.ranks + number) * plan.longest_slice * plan.width;
  };
  const auto start = [&](std::size_t which) {
    Batch batch(*transport_);
    for (std::size_t i = 0; i < others.size(); ++i)
      batch.receive(others[i], received(which, i), plan.slice(which, me).bytes);
    for (const int peer : others) {
      const Plan::Slice slice = plan.slice(which, static_cast<std::size_t>(peer));
      batch.send(peer, input + slice.offset, slice.bytes);
    }
    return batch;
  };
  const auto combine_own = [&](std::size_t which) {
    const Plan::Slice own = plan.slice(which, me);
    if (own.count == 0) return;
    std::array<const void*, kMaxRanks> inputs{};
    inputs[me] = input + own.offset;
    for (std::size_t i = 0; i < others.size(); ++i)
      inputs[static_cast<std::size_t>(others[i])] = received(which, i);
    combine(call.type, call.reduction, std::span(inputs).first(plan.ranks),
            output + own.offset - (plan.in_parts ? me * plan.count * plan.width : 0), own.count);
  };
  const auto share = [&](std::size_t which) {
    Batch batch(*transport_);
    if (plan.in_parts) return batch;
    const Plan::Slice own = plan.slice(which, me);
    for (const int peer : others) {
      const Plan::Slice slice = plan.slice(which, static_cast<std::size_t>(peer));
      batch.receive(peer, output + slice.offset, slice.bytes);
    }
    for (const int peer : others)
      batch.send(peer, output + own.offset, own.bytes);
    return batch;
  };

  // Every rank starts its messages in this order, which is what matches them.
  Batch arriving(*transport_);
  Batch leaving(*transport_);
  if (plan.segments > 0) arriving = start(0);
  for (std::size_t which = 0; which < plan.segments; ++which) {
    // What was sent from the output's memory is on its way before results of others come there: both may be one array.
    arriving.wait(deadline);
    Batch next(*transport_);
    if (which + 1 < plan.segments) next = start(which + 1);
    combine_own(which);
    Batch results = share(which);
    leaving.wait(deadline);
    leaving = std::move(results);
    arriving = std::move(next);
  }
  leaving.wait(deadline);
}

std::byte* NetworkBackend::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_.reset();
    scratch_bytes_ = 0;
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

}  // namespace muster::comm
