// The collectives of HierarchicalBackend that move data along rows: reductions, all_gather and broadcast. Long arrays
// go in segments, so that the network carries one while the hosts reduce the next.
#include <array>
#include <utility>

#include "muster/comm/combine.h"
#include "muster/comm/hierarchical_parts.h"

namespace muster::comm {
namespace {

// An owner's slice of a segment: long enough to fill a network, and small beside the arrays that are cut.
constexpr std::size_t kSliceBytes = std::size_t{256} << 10;
// Columns of all parts that are in memory at a time.
constexpr std::size_t kColumnBytes = std::size_t{1} << 20;
// Up to here an owner sends its whole slice to all its peers: one step instead of two, for more bytes.
constexpr std::size_t kDirectBytes = std::size_t{16} << 10;

std::size_t ceil_divide(std::size_t value, std::size_t by) {
  return (value + by - 1) / by;
}

}  // namespace

// A piece of an array on its way through an all-reduce.
struct HierarchicalBackend::Segment {
  explicit Segment(HierarchicalBackend& backend) : exchange(backend) {}

  std::size_t begin = 0;
  std::size_t count = 0;
  std::size_t slice = 0;          // elements an owner has; owners * slice >= count, the rest is padding
  std::vector<std::byte> whole;   // all slices: partial results first, final ones at the end
  std::vector<std::byte> mine;    // this owner's slice of partial results
  std::vector<std::byte> theirs;  // the same from the other hosts, in their order
  bool direct = true;             // whole slices are exchanged, not parts of them
  Exchange exchange;
};

void HierarchicalBackend::all_reduce(const Call& call, const void* input, void* output, const Deadline& deadline) {
  Times times(deadline);
  compare(call, times);
  const std::size_t width = size_of(call.type);
  auto* const out = static_cast<std::byte*>(output);
  reduce_segments(call, static_cast<const std::byte*>(input), call.count, times,
                  [&](std::size_t begin, std::size_t count, const std::byte* result) {
                    copy_bytes(out + begin * width, result, count * width);
                  });
}

void HierarchicalBackend::reduce_segments(const Call& call, const std::byte* input, std::size_t total,
                                          const Times& times, const Sink& sink) {
  const std::size_t length = kSliceBytes / size_of(partial_type(call.type, call.reduction)) * layout_.owners;
  std::array<Segment, 2> segments{Segment(*this), Segment(*this)};
  for (std::size_t begin = 0; begin < total; begin += length) {
    Segment& segment = segments[begin / length % 2];
    segment.begin = begin;
    segment.count = std::min(length, total - begin);
    segment.slice = ceil_divide(segment.count, layout_.owners);
    reduce_on_host(call, input, segment, times);
    if (owns()) start_row(call, segment);
    if (begin > 0) finish_segment(call, segments[(begin / length + 1) % 2], times, sink);
  }
  if (total > 0) finish_segment(call, segments[(total - 1) / length % 2], times, sink);
}

void HierarchicalBackend::reduce_on_host(const Call& call, const std::byte* input, Segment& segment,
                                         const Times& times) {
  const ElementType partial = partial_type(call.type, call.reduction);
  const std::size_t width = size_of(partial);
  const std::size_t padded = layout_.owners * segment.slice;
  const std::byte* source = input + segment.begin * size_of(call.type);
  segment.whole.resize(padded * width);
  segment.mine.resize(segment.slice * width);
  if (partial != call.type || padded != segment.count) {
    widen(call.type, call.reduction, source, segment.whole.data(), segment.count);
    std::fill(segment.whole.begin() + static_cast<std::ptrdiff_t>(segment.count * width), segment.whole.end(),
              std::byte{0});
    source = segment.whole.data();
  }
  const bool all_own = local_ranks() == layout_.owners;
  Call reduce =
      host_call(all_own ? Operation::kReduceScatter : Operation::kAllReduce, partial, all_own ? segment.slice : padded);
  reduce.reduction = partial_reduction(call.reduction);
  on_host([&] {
    if (all_own) {
      local_->reduce_scatter(reduce, source, segment.mine.data(), times.host);
    } else {
      local_->all_reduce(reduce, source, segment.whole.data(), times.host);
      if (owns()) copy_bytes(segment.mine.data(), &segment.whole[index_ * segment.mine.size()], segment.mine.size());
    }
  });
}

// Sends whole slices or, of long ones between more than two hosts, to every host the part that it will combine.
void HierarchicalBackend::start_row(const Call& call, Segment& segment) {
  const std::size_t width = size_of(partial_type(call.type, call.reduction));
  segment.direct = hosts() == 2 || segment.slice * width <= kDirectBytes;
  const std::size_t part = segment.direct ? segment.slice : ceil_divide(segment.slice, hosts());
  const auto begin_of = [&](std::size_t host) { return std::min(segment.slice, segment.direct ? 0 : host * part); };
  const auto bytes_of = [&](std::size_t host) { return std::min(part, segment.slice - begin_of(host)) * width; };
  segment.theirs.resize(hosts() * part * width);
  for (std::size_t host = 0; host < hosts(); ++host) {
    if (host == host_) continue;
    segment.exchange.receive(row_peer(host), kDataTag, &segment.theirs[host * part * width], bytes_of(host_));
    segment.exchange.send(row_peer(host), kDataTag, segment.mine.data() + begin_of(host) * width, bytes_of(host));
  }
}

void HierarchicalBackend::finish_row(const Call& call, Segment& segment, const Times& times) {
  segment.exchange.wait(times.network);
  const ElementType partial = partial_type(call.type, call.reduction);
  const std::size_t width = size_of(partial);
  const std::size_t part = segment.direct ? segment.slice : ceil_divide(segment.slice, hosts());
  const auto begin_of = [&](std::size_t host) { return std::min(segment.slice, segment.direct ? 0 : host * part); };
  const auto count_of = [&](std::size_t host) { return std::min(part, segment.slice - begin_of(host)); };
  std::byte* const own = segment.mine.data() + begin_of(host_) * width;
  std::vector<const void*> inputs;
  for (std::size_t host = 0; host < hosts(); ++host)
    inputs.push_back(host == host_ ? own : &segment.theirs[host * part * width]);
  combine(partial, partial_reduction(call.reduction), inputs, own, count_of(host_));
  if (segment.direct) return;
  for (std::size_t host = 0; host < hosts(); ++host) {
    if (host == host_) continue;
    segment.exchange.receive(row_peer(host), kResultTag, segment.mine.data() + begin_of(host) * width,
                             count_of(host) * width);
    segment.exchange.send(row_peer(host), kResultTag, own, count_of(host_) * width);
  }
  segment.exchange.wait(times.network);
}

void HierarchicalBackend::finish_segment(const Call& call, Segment& segment, const Times& times, const Sink& sink) {
  const std::size_t bytes = segment.slice * size_of(call.type);  // of a slice that is finished
  std::vector<std::byte> finished(bytes);
  if (owns()) {
    finish_row(call, segment, times);
    finish(call.type, call.reduction, segment.mine.data(), finished.data(), segment.slice, layout_.host_of.size());
  }
  segment.whole.resize(std::max(segment.whole.size(), layout_.owners * bytes));
  on_host([&] {
    if (local_ranks() == layout_.owners) {
      local_->all_gather(host_call(Operation::kAllGather, call.type, segment.slice), finished.data(),
                         segment.whole.data(), times.host);
      return;
    }
    if (owns()) copy_bytes(&segment.whole[index_ * bytes], finished.data(), bytes);
    for (std::size_t owner = 0; owner < layout_.owners; ++owner)
      local_->broadcast(host_call(Operation::kBroadcast, call.type, segment.slice, static_cast<int>(owner)),
                        &segment.whole[owner * bytes], times.host);
  });
  sink(segment.begin, segment.count, segment.whole.data());
}

void HierarchicalBackend::reduce_scatter(const Call& call, const void* input, void* output, const Deadline& deadline) {
  Times times(deadline);
  compare(call, times);
  const auto* const in = static_cast<const std::byte*>(input);
  auto* const out = static_cast<std::byte*>(output);
  if (layout_.even) {
    reduce_scatter_rows(call, in, out, times);
    return;
  }
  // Some rows are shorter than others: everything is reduced, and everyone keeps its part.
  const std::size_t width = size_of(call.type);
  const std::size_t part = static_cast<std::size_t>(rank_) * call.count;
  reduce_segments(call, in, call.count * layout_.host_of.size(), times,
                  [&](std::size_t begin, std::size_t count, const std::byte* result) {
                    const std::size_t from = std::max(begin, part);
                    const std::size_t to = std::min(begin + count, part + call.count);
                    if (from < to)
                      copy_bytes(out + (from - part) * width, result + (from - begin) * width, (to - from) * width);
                  });
}

void HierarchicalBackend::reduce_scatter_rows(const Call& call, const std::byte* input, std::byte* output,
                                              const Times& times) {
  const ElementType partial = partial_type(call.type, call.reduction);
  const std::size_t width = size_of(partial);
  const std::size_t ranks = layout_.host_of.size();
  const std::size_t columns = std::max<std::size_t>(1, kColumnBytes / (ranks * width));
  std::vector<std::byte> parts(std::min(columns, call.count) * ranks * width);
  std::vector<std::byte> mine(parts.size() / local_ranks());
  std::vector<std::byte> theirs(mine.size());
  for (std::size_t begin = 0; begin < call.count; begin += columns) {
    const std::size_t count = std::min(columns, call.count - begin);
    // Row by row, so that the host's reduce-scatter gives every rank what its row needs.
    std::byte* place = parts.data();
    for (std::size_t index = 0; index < local_ranks(); ++index) {
      for (const std::vector<int>& members : layout_.hosts) {
        const std::size_t part = static_cast<std::size_t>(members[index]) * call.count + begin;
        widen(call.type, call.reduction, input + part * size_of(call.type), place, count);
        place += count * width;
      }
    }
    Call reduce = host_call(Operation::kReduceScatter, partial, hosts() * count);
    reduce.reduction = partial_reduction(call.reduction);
    on_host([&] { local_->reduce_scatter(reduce, parts.data(), mine.data(), times.host); });
    Exchange exchange(*this);
    std::vector<const void*> inputs;
    for (std::size_t host = 0; host < hosts(); ++host) {
      const std::size_t at = host * count * width;
      inputs.push_back(host == host_ ? &mine[at] : &theirs[at]);
      if (host == host_) continue;
      exchange.receive(row_peer(host), kDataTag, &theirs[at], count * width);
      exchange.send(row_peer(host), kDataTag, &mine[at], count * width);
    }
    exchange.wait(times.network);
    std::byte* const own = &mine[host_ * count * width];
    combine(partial, reduce.reduction, inputs, own, count);
    finish(call.type, call.reduction, own, output + begin * size_of(call.type), count, ranks);
  }
}

// This rank's row, then all rows of the host: `all` is row by row.
void HierarchicalBackend::gather_by_rows(const std::byte* input, std::size_t bytes, std::byte* all,
                                         const Times& times) {
  std::vector<std::byte> row(hosts() * bytes);
  copy_bytes(&row[host_ * bytes], input, bytes);
  Exchange exchange(*this);
  for (std::size_t host = 0; host < hosts(); ++host) {
    if (host == host_) continue;
    exchange.receive(row_peer(host), kDataTag, &row[host * bytes], bytes);
    exchange.send(row_peer(host), kDataTag, input, bytes);
  }
  exchange.wait(times.network);
  on_host([&] {
    local_->all_gather(host_call(Operation::kAllGather, ElementType::kUint8, row.size()), row.data(), all, times.host);
  });
}

// Leaders exchange what the ranks of their hosts have: `all` is host by host.
void HierarchicalBackend::gather_by_leaders(const std::byte* input, std::size_t bytes, std::byte* all,
                                            const Times& times) {
  std::size_t before = 0;  // ranks of the hosts before this one
  for (std::size_t host = 0; host < host_; ++host)
    before += layout_.hosts[host].size();
  std::byte* const mine = all + before * bytes;
  on_host([&] {
    local_->all_gather(host_call(Operation::kAllGather, ElementType::kUint8, bytes), input, mine, times.host);
  });
  Exchange exchange(*this);
  std::byte* place = all;
  for (std::size_t host = 0; host < hosts(); ++host) {
    const std::size_t length = layout_.hosts[host].size() * bytes;
    if (index_ == 0 && host != host_) {
      exchange.receive(row_peer(host), kDataTag, place, length);
      exchange.send(row_peer(host), kDataTag, mine, local_ranks() * bytes);
    }
    place += length;
  }
  exchange.wait(times.network);
  const std::size_t total = layout_.host_of.size() * bytes;
  on_host([&] { local_->broadcast(host_call(Operation::kBroadcast, ElementType::kUint8, total, 0), all, times.host); });
}

void HierarchicalBackend::all_gather(const Call& call, const void* input, void* output, const Deadline& deadline) {
  Times times(deadline);
  compare(call, times);
  const auto* const in = static_cast<const std::byte*>(input);
  auto* const out = static_cast<std::byte*>(output);
  const std::size_t bytes = call.count * size_of(call.type);
  const std::size_t ranks = layout_.host_of.size();
  const std::size_t columns = std::max<std::size_t>(1, kColumnBytes / ranks);
  std::vector<std::byte> all(std::min(columns, bytes) * ranks);
  for (std::size_t begin = 0; begin < bytes; begin += columns) {
    const std::size_t count = std::min(columns, bytes - begin);
    if (layout_.even)
      gather_by_rows(in + begin, count, all.data(), times);
    else
      gather_by_leaders(in + begin, count, all.data(), times);
    std::size_t place = 0;  // host by host
    for (std::size_t host = 0; host < hosts(); ++host) {
      for (std::size_t index = 0; index < layout_.hosts[host].size(); ++index, ++place) {
        const std::size_t at = layout_.even ? index * hosts() + host : place;
        const auto part = static_cast<std::size_t>(layout_.hosts[host][index]);
        copy_bytes(out + part * bytes + begin, &all[at * count], count);
      }
    }
  }
}

void HierarchicalBackend::broadcast(const Call& call, void* data, const Deadline& deadline) {
  Times times(deadline);
  compare(call, times);
  const std::size_t bytes = call.count * size_of(call.type);
  const auto root = static_cast<std::size_t>(call.root);
  const auto root_host = static_cast<std::size_t>(layout_.host_of[root]);
  const std::size_t length = kSliceBytes * layout_.owners;
  for (std::size_t begin = 0; begin < bytes; begin += length) {
    std::byte* const segment = static_cast<std::byte*>(data) + begin;
    const std::size_t count = std::min(length, bytes - begin);
    const std::size_t slice = ceil_divide(count, layout_.owners);
    const auto begin_of = [&](std::size_t owner) { return std::min(count, owner * slice); };
    const auto bytes_of = [&](std::size_t owner) { return std::min(slice, count - begin_of(owner)); };
    Exchange exchange(*this);
    if (host_ == root_host) {
      on_host([&] {
        local_->broadcast(host_call(Operation::kBroadcast, ElementType::kUint8, count, layout_.index_of[root]), segment,
                          times.host);
      });
      for (std::size_t host = 0; owns() && host < hosts(); ++host) {
        if (host != host_) exchange.send(row_peer(host), kDataTag, segment + begin_of(index_), bytes_of(index_));
      }
      exchange.wait(times.network);
      continue;
    }
    if (owns()) exchange.receive(row_peer(root_host), kDataTag, segment + begin_of(index_), bytes_of(index_));
    exchange.wait(times.network);
    for (std::size_t owner = 0; owner < layout_.owners; ++owner) {
      on_host([&] {
        local_->broadcast(
            host_call(Operation::kBroadcast, ElementType::kUint8, bytes_of(owner), static_cast<int>(owner)),
            segment + begin_of(owner), times.host);
      });
    }
  }
}

}  // namespace muster::comm
