// One loop runs the rounds of every collective, and each algorithm only says what it fills in and takes out. Round c is
// filled before round c - 1 is waited for, so that ranks a little apart do not stop each other.
#include "muster/comm/shm_backend.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/comm/board.h"
#include "muster/comm/combine.h"
#include "muster/comm/copy.h"
#include "muster/comm/shm_layout.h"
#include "muster/comm/shm_messages.h"

namespace muster::comm {
namespace {

// A slot is half of a core's second-level cache in most machines: what a rank writes is still there when it is read.
constexpr std::size_t kSlotBytes = std::size_t{128} << 10;
constexpr std::size_t kChannelBytes = std::size_t{64} << 10;
// From here on three and more ranks reduce a slice each and share the results instead of each reducing everything.
constexpr std::size_t kSliceThreshold = std::size_t{16} << 10;
constexpr std::size_t kLine = 64;
constexpr std::size_t kPage = 4096;
// The tag by which split() tells members where their new region is.
constexpr std::uint32_t kSplitTag = 0xfffffff0U;

// A region's address, as ranks tell it to each other.
using Address = std::array<std::uint8_t, 128>;
Address to_address(const std::string& text) {
  Address address{};
  MUSTER_CHECK(text.size() < address.size(), "an address fits its message");
  std::copy(text.begin(), text.end(), address.begin());
  return address;
}
std::string to_text(const Address& address) {
  return {address.begin(), std::find(address.begin(), address.end(), 0)};
}

std::size_t ceil_divide(std::size_t value, std::size_t by) {
  return (value + by - 1) / by;
}

// A shared array: one part for each rank, all in one region.
struct SharedParts {
  SharedRegion region;
  std::size_t stride;  // from part to part
  int rank;
  std::uint8_t number;  // of the group's shared arrays, from 1

  std::byte* part(std::size_t peer) const { return region.bytes().data() + peer * stride; }
  bool holds(const std::byte* data) const {
    const std::byte* const own = part(static_cast<std::size_t>(rank));
    return data >= own && data < own + stride;
  }
};

class ShmBackend final : public Backend {
 public:
  ShmBackend(SharedRegion region, int rank, std::function<void()> interruption)
      : region_(std::move(region)),
        layout_(region_.bytes()),
        board_(layout_.board(), layout_.sizes().ranks, rank),
        rank_(rank),
        size_(layout_.sizes().ranks),
        messages_(std::make_shared<ShmMessages>(layout_, board_)) {
    board_.set_interruption(std::move(interruption));
    board_.sit();
  }
  ~ShmBackend() override { board_.leave(); }

  std::string_view name() const override { return "shm"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void wait_for_everybody(const Deadline& deadline) {
    for (int peer = 0; peer < size_; ++peer)
      board_.wait(
          peer, [&] { return board_.seated(peer); }, deadline, [] { return std::string("joined the group"); });
  }

  void all_reduce(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void reduce_scatter(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void all_gather(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void broadcast(const Call& call, void* data, const Deadline& deadline) override;
  void all_to_all(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void gather(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void scatter(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void barrier(const Call& call, const Deadline& deadline) override {
    run_rounds(
        call, 1, deadline, [](std::size_t, std::byte*) {}, [](std::size_t, std::uint64_t) {});
  }

  std::unique_ptr<Transfer> send(int peer, std::uint32_t tag, ConstView data) override {
    board_.throw_if_failed();
    return messages_->send(peer, tag, data);
  }
  std::unique_ptr<Transfer> receive(int peer, std::uint32_t tag, View data) override {
    board_.throw_if_failed();
    return messages_->receive(peer, tag, data);
  }
  std::unique_ptr<Backend> split(const std::vector<int>& members, const std::string& name,
                                 const Deadline& deadline) override;
  std::shared_ptr<std::byte> share(const Call& call, const Deadline& deadline) override;
  void abort(int rank, const std::string& reason) override { board_.fail(rank, ErrorKind::kPeerLost, reason); }

 private:
  // Runs `rounds` rounds. fill(c, slot) writes what this rank gives in round c; take(c, round) uses what the others
  // gave: slot(peer, round). Round c is filled and published before round c - 1 is waited for, so that ranks that are a
  // little apart do not wait for each other.
  template <typename Fill, typename Take>
  void run_rounds(const Call& call, std::size_t rounds, const Deadline& deadline, const Fill& fill, const Take& take);
  void publish(std::uint64_t round);
  void wait_for_round(const Call& call, std::uint64_t round, const Deadline& deadline);
  void compare_calls(const Call& call, const Deadline& deadline);

  const std::byte* slot(int peer, std::uint64_t round) const { return layout_.slot(peer, round); }
  std::size_t ranks() const { return static_cast<std::size_t>(size_); }
  std::size_t me() const { return static_cast<std::size_t>(rank_); }

  std::shared_ptr<SharedParts> find_shared(const std::byte* data) const;
  void all_reduce_shared(Call call, const SharedParts& shared, const std::byte* data, const Deadline& deadline);
  void all_reduce_whole(const Call& call, const std::byte* input, std::byte* output, const Deadline& deadline);
  void all_reduce_slices(const Call& call, const std::byte* input, std::byte* output, const Deadline& deadline);

  // Constant after construction.
  SharedRegion region_;
  ShmLayout layout_;
  Board board_;
  int rank_;
  int size_;
  // Of the calling thread.
  std::shared_ptr<ShmMessages> messages_;
  std::uint64_t round_ = 0;  // the next to publish
  std::vector<std::weak_ptr<SharedParts>> shared_;
};

void ShmBackend::publish(std::uint64_t round) {
  MUSTER_FAILPOINT("shm.round.before_publish");
  layout_.line(rank_).rounds.store(round + 1);
  board_.announce();
  MUSTER_FAILPOINT("shm.round.after_publish");
}

void ShmBackend::wait_for_round(const Call& call, std::uint64_t round, const Deadline& deadline) {
  MUSTER_FAILPOINT("shm.round.before_wait");
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const std::atomic<std::uint64_t>& published = layout_.line(peer).rounds;
    if (published.load() > round) continue;
    wait_or_fail(
        board_, peer, peer, [&] { return published.load() > round; }, deadline,
        [&] { return "come to " + to_string(call); });
  }
  MUSTER_FAILPOINT("shm.round.after_wait");
}

void ShmBackend::compare_calls(const Call& call, const Deadline&) {
  bool same = true;
  for (int peer = 0; peer < size_; ++peer)
    same &= layout_.line(peer).calls[call.sequence % 2] == call;
  if (same) return;
  std::vector<Call> calls;
  for (int peer = 0; peer < size_; ++peer)
    calls.push_back(layout_.line(peer).calls[call.sequence % 2]);
  // Every rank finds it by itself; the board tells those that only send messages.
  board_.fail(rank_, ErrorKind::kMismatch, "the ranks made different calls: " + describe_mismatch(calls));
  board_.throw_if_failed();
}

template <typename Fill, typename Take>
void ShmBackend::run_rounds(const Call& call, std::size_t rounds, const Deadline& deadline, const Fill& fill,
                            const Take& take) {
  board_.throw_if_failed();
  RankLine& line = layout_.line(rank_);
  const std::uint64_t first = round_;
  line.calls[call.sequence % 2] = call;
  const auto finish_round = [&](std::size_t c) {
    wait_for_round(call, first + c, deadline);
    if (c == 0) compare_calls(call, deadline);
    take(c, first + c);
  };
  for (std::size_t c = 0; c < rounds; ++c) {
    fill(c, layout_.slot(rank_, first + c));
    publish(first + c);
    if (c > 0) finish_round(c - 1);
  }
  finish_round(rounds - 1);
  round_ = first + rounds;
}

void ShmBackend::all_reduce(const Call& call, const void* input, void* output, const Deadline& deadline) {
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  if (const std::shared_ptr<SharedParts> shared = in == out ? find_shared(out) : nullptr)
    all_reduce_shared(call, *shared, out, deadline);
  else if (size_ > 2 && call.count * size_of(call.type) > kSliceThreshold)
    all_reduce_slices(call, in, out, deadline);
  else
    all_reduce_whole(call, in, out, deadline);
}

std::shared_ptr<SharedParts> ShmBackend::find_shared(const std::byte* data) const {
  for (const std::weak_ptr<SharedParts>& candidate : shared_) {
    std::shared_ptr<SharedParts> parts = candidate.lock();
    if (parts && parts->holds(data)) return parts;
  }
  return nullptr;
}

// Everybody's data can be seen by everybody: each rank combines its slice and writes the result to all.
void ShmBackend::all_reduce_shared(Call call, const SharedParts& shared, const std::byte* data,
                                   const Deadline& deadline) {
  call.shared_array = shared.number;
  const std::size_t width = size_of(call.type);
  const auto offset = static_cast<std::size_t>(data - shared.part(me()));
  // Where the array begins is part of the call: a rank that is elsewhere would combine other elements.
  call.root = static_cast<std::int32_t>(offset / width);
  const std::size_t slice = ceil_divide(ceil_divide(call.count, ranks()), kLine) * kLine;
  const std::size_t begin = std::min(call.count, me() * slice);
  const std::size_t end = std::min(call.count, begin + slice);
  // Small enough that a combined piece is still in the first cache when it is copied to the others.
  const std::size_t piece = (std::size_t{8} << 10) / width;
  const auto nothing = [](std::size_t, std::byte*) {};
  run_rounds(call, 1, deadline, nothing, [&](std::size_t, std::uint64_t) {
    for (std::size_t at = begin; at < end; at += piece) {
      const std::size_t count = std::min(piece, end - at);
      const std::size_t place = offset + at * width;
      std::array<const void*, kMaxRanks> inputs;
      for (std::size_t peer = 0; peer < ranks(); ++peer)
        inputs[peer] = shared.part(peer) + place;
      combine(call.type, call.reduction, std::span(inputs).first(ranks()), shared.part(me()) + place, count);
      for (std::size_t peer = 0; peer < ranks(); ++peer) {
        if (peer != me()) copy_bytes(shared.part(peer) + place, shared.part(me()) + place, count * width);
      }
    }
  });
  run_rounds(call, 1, deadline, nothing, [](std::size_t, std::uint64_t) {});
}

// Every rank gives everything and combines everything: one round for each slot's worth, and for two ranks also the
// fewest bytes.
void ShmBackend::all_reduce_whole(const Call& call, const std::byte* input, std::byte* output,
                                  const Deadline& deadline) {
  const std::size_t width = size_of(call.type);
  const std::size_t chunk = layout_.sizes().slot_bytes / width;
  const std::size_t rounds = std::max<std::size_t>(1, ceil_divide(call.count, chunk));
  const auto count_of = [&](std::size_t c) { return std::min(chunk, call.count - c * chunk); };
  run_rounds(
      call, rounds, deadline,
      [&](std::size_t c, std::byte* slot) { copy_bytes(slot, input + c * chunk * width, count_of(c) * width); },
      [&](std::size_t c, std::uint64_t round) {
        std::array<const void*, kMaxRanks> inputs;
        for (int peer = 0; peer < size_; ++peer)
          inputs[static_cast<std::size_t>(peer)] = slot(peer, round);
        inputs[me()] = input + c * chunk * width;
        combine(call.type, call.reduction, std::span(inputs).first(ranks()), output + c * chunk * width, count_of(c));
      });
}

// Every rank combines its slice of each chunk and gives the result two rounds later, beside the chunk of that round.
void ShmBackend::all_reduce_slices(const Call& call, const std::byte* input, std::byte* output,
                                   const Deadline& deadline) {
  const std::size_t width = size_of(call.type);
  // A slot holds a chunk (size() slices) and one slice of results.
  const std::size_t slice = layout_.sizes().slot_bytes / (ranks() + 1) / kLine * kLine / width;
  const std::size_t chunk = slice * ranks();
  const std::size_t chunks = ceil_divide(call.count, chunk);
  struct Range {
    std::size_t begin, count;
  };
  // The part of chunk c that `peer` combines. The last chunk's slices are shorter, so that all ranks have work.
  const auto slice_of = [&](std::size_t c, std::size_t peer) {
    const std::size_t begin = c * chunk;
    const std::size_t count = std::min(chunk, call.count - begin);
    const std::size_t part = std::min(slice, ceil_divide(ceil_divide(count, ranks()), kLine) * kLine);
    const std::size_t from = std::min(count, peer * part);
    return Range{begin + from, std::min(part, count - from)};
  };
  const std::size_t results = chunk * width;  // where in a slot the slice of results begins
  run_rounds(
      call, chunks + 2, deadline,
      [&](std::size_t c, std::byte* slot) {
        for (std::size_t peer = 0; c < chunks && peer < ranks(); ++peer) {
          const Range range = slice_of(c, peer);
          if (peer != me())
            copy_bytes(slot + (range.begin - c * chunk) * width, input + range.begin * width, range.count * width);
        }
        if (c >= 2) {
          const Range own = slice_of(c - 2, me());
          copy_bytes(slot + results, output + own.begin * width, own.count * width);
        }
      },
      [&](std::size_t c, std::uint64_t round) {
        if (c < chunks) {
          const Range own = slice_of(c, me());
          std::array<const void*, kMaxRanks> inputs;
          for (std::size_t peer = 0; peer < ranks(); ++peer)
            inputs[peer] = slot(static_cast<int>(peer), round) + (own.begin - c * chunk) * width;
          inputs[me()] = input + own.begin * width;
          combine(call.type, call.reduction, std::span(inputs).first(ranks()), output + own.begin * width, own.count);
        }
        for (std::size_t peer = 0; c >= 2 && peer < ranks(); ++peer) {
          const Range range = slice_of(c - 2, peer);
          if (peer != me())
            copy_bytes(output + range.begin * width, slot(static_cast<int>(peer), round) + results,
                       range.count * width);
        }
      });
}

// One slot holds a piece for each rank.
void ShmBackend::reduce_scatter(const Call& call, const void* input, void* output, const Deadline& deadline) {
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  const std::size_t width = size_of(call.type);
  const std::size_t piece = layout_.sizes().slot_bytes / ranks() / kLine * kLine / width;
  const std::size_t rounds = std::max<std::size_t>(1, ceil_divide(call.count, piece));
  const auto count_of = [&](std::size_t c) { return std::min(piece, call.count - c * piece); };
  const auto place = [&](std::size_t part, std::size_t c) { return (part * call.count + c * piece) * width; };
  run_rounds(
      call, rounds, deadline,
      [&](std::size_t c, std::byte* slot) {
        for (std::size_t peer = 0; peer < ranks(); ++peer) {
          if (peer != me()) copy_bytes(slot + peer * piece * width, in + place(peer, c), count_of(c) * width);
        }
      },
      [&](std::size_t c, std::uint64_t round) {
        std::array<const void*, kMaxRanks> inputs;
        for (std::size_t peer = 0; peer < ranks(); ++peer)
          inputs[peer] = slot(static_cast<int>(peer), round) + me() * piece * width;
        inputs[me()] = in + place(me(), c);
        combine(call.type, call.reduction, std::span(inputs).first(ranks()), out + c * piece * width, count_of(c));
      });
}

void ShmBackend::all_to_all(const Call& call, const void* input, void* output, const Deadline& deadline) {
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  const std::size_t bytes = call.count * size_of(call.type);
  const std::size_t piece = layout_.sizes().slot_bytes / ranks() / kLine * kLine;
  const std::size_t rounds = std::max<std::size_t>(1, ceil_divide(bytes, piece));
  const auto bytes_of = [&](std::size_t c) { return std::min(piece, bytes - c * piece); };
  copy_bytes(out + me() * bytes, in + me() * bytes, bytes);
  run_rounds(
      call, rounds, deadline,
      [&](std::size_t c, std::byte* slot) {
        for (std::size_t peer = 0; peer < ranks(); ++peer) {
          if (peer != me()) copy_bytes(slot + peer * piece, in + peer * bytes + c * piece, bytes_of(c));
        }
      },
      [&](std::size_t c, std::uint64_t round) {
        for (std::size_t peer = 0; peer < ranks(); ++peer) {
          if (peer != me())
            copy_bytes(out + peer * bytes + c * piece, slot(static_cast<int>(peer), round) + me() * piece, bytes_of(c));
        }
      });
}

void ShmBackend::all_gather(const Call& call, const void* input, void* output, const Deadline& deadline) {
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  const std::size_t bytes = call.count * size_of(call.type);
  const std::size_t piece = layout_.sizes().slot_bytes;
  const std::size_t rounds = std::max<std::size_t>(1, ceil_divide(bytes, piece));
  const auto bytes_of = [&](std::size_t c) { return std::min(piece, bytes - c * piece); };
  if (in != out + me() * bytes) copy_bytes(out + me() * bytes, in, bytes);
  run_rounds(
      call, rounds, deadline, [&](std::size_t c, std::byte* slot) { copy_bytes(slot, in + c * piece, bytes_of(c)); },
      [&](std::size_t c, std::uint64_t round) {
        for (std::size_t peer = 0; peer < ranks(); ++peer) {
          if (peer != me())
            copy_bytes(out + peer * bytes + c * piece, slot(static_cast<int>(peer), round), bytes_of(c));
        }
      });
}

void ShmBackend::broadcast(const Call& call, void* data, const Deadline& deadline) {
  auto* bytes_at = static_cast<std::byte*>(data);
  const std::size_t bytes = call.count * size_of(call.type);
  const std::size_t piece = layout_.sizes().slot_bytes;
  const std::size_t rounds = std::max<std::size_t>(1, ceil_divide(bytes, piece));
  const auto bytes_of = [&](std::size_t c) { return std::min(piece, bytes - c * piece); };
  const bool root = rank_ == call.root;
  run_rounds(
      call, rounds, deadline,
      [&](std::size_t c, std::byte* slot) {
        if (root) copy_bytes(slot, bytes_at + c * piece, bytes_of(c));
      },
      [&](std::size_t c, std::uint64_t round) {
        if (!root) copy_bytes(bytes_at + c * piece, slot(call.root, round), bytes_of(c));
      });
}

void ShmBackend::gather(const Call& call, const void* input, void* output, const Deadline& deadline) {
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  const std::size_t bytes = call.count * size_of(call.type);
  const std::size_t piece = layout_.sizes().slot_bytes;
  const std::size_t rounds = std::max<std::size_t>(1, ceil_divide(bytes, piece));
  const auto bytes_of = [&](std::size_t c) { return std::min(piece, bytes - c * piece); };
  const bool root = rank_ == call.root;
  if (root && in != out + me() * bytes) copy_bytes(out + me() * bytes, in, bytes);
  run_rounds(
      call, rounds, deadline,
      [&](std::size_t c, std::byte* slot) {
        if (!root) copy_bytes(slot, in + c * piece, bytes_of(c));
      },
      [&](std::size_t c, std::uint64_t round) {
        for (std::size_t peer = 0; root && peer < ranks(); ++peer) {
          if (peer != me())
            copy_bytes(out + peer * bytes + c * piece, slot(static_cast<int>(peer), round), bytes_of(c));
        }
      });
}

void ShmBackend::scatter(const Call& call, const void* input, void* output, const Deadline& deadline) {
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  const std::size_t bytes = call.count * size_of(call.type);
  const std::size_t piece = layout_.sizes().slot_bytes / ranks() / kLine * kLine;
  const std::size_t rounds = std::max<std::size_t>(1, ceil_divide(bytes, piece));
  const auto bytes_of = [&](std::size_t c) { return std::min(piece, bytes - c * piece); };
  const bool root = rank_ == call.root;
  if (root && out != in + me() * bytes) copy_bytes(out, in + me() * bytes, bytes);
  run_rounds(
      call, rounds, deadline,
      [&](std::size_t c, std::byte* slot) {
        for (std::size_t peer = 0; root && peer < ranks(); ++peer) {
          if (peer != me()) copy_bytes(slot + peer * piece, in + peer * bytes + c * piece, bytes_of(c));
        }
      },
      [&](std::size_t c, std::uint64_t round) {
        if (!root) copy_bytes(out + c * piece, slot(call.root, round) + me() * piece, bytes_of(c));
      });
}

std::shared_ptr<std::byte> ShmBackend::share(const Call& call, const Deadline& deadline) {
  if (shared_.size() == std::numeric_limits<std::uint8_t>::max())
    throw Error(ErrorKind::kResource, "a group has at most 255 shared arrays", {}, "Use one array for many buffers.");
  const std::size_t stride = ceil_divide(call.count + 1, kPage) * kPage;
  Address address{};
  std::optional<SharedRegion> region;
  std::optional<RegionServer> server;
  if (rank_ == 0) {
    region = SharedRegion::create(stride * ranks());
    server.emplace(*region);
    address = to_address(server->address());
  }
  Call announcement = call;
  announcement.root = 0;
  announcement.type = ElementType::kUint8;
  const auto nothing = [](std::size_t, std::byte*) {};
  run_rounds(
      announcement, 1, deadline,
      [&](std::size_t, std::byte* slot) {
        if (rank_ == 0) copy_bytes(slot, address.data(), address.size());
      },
      [&](std::size_t, std::uint64_t round) { copy_bytes(address.data(), slot(0, round), address.size()); });
  if (rank_ != 0) region = fetch_region(to_text(address), deadline);
  // The server stays until everybody has come for the region.
  run_rounds(announcement, 1, deadline, nothing, [](std::size_t, std::uint64_t) {});
  const auto number = static_cast<std::uint8_t>(shared_.size() + 1);
  const auto parts = std::make_shared<SharedParts>(SharedParts{std::move(*region), stride, rank_, number});
  shared_.push_back(parts);
  return {parts, parts->part(me())};
}

std::unique_ptr<Backend> ShmBackend::split(const std::vector<int>& members, const std::string&,
                                           const Deadline& deadline) {
  const auto own = std::find(members.begin(), members.end(), rank_);
  MUSTER_CHECK(own != members.end(), "this rank is a member of its new group");
  const auto new_rank = static_cast<int>(own - members.begin());
  const int leader = members.front();
  Address address{};
  if (new_rank > 0) {
    receive(leader, kSplitTag, std::span(address))->wait(deadline);
    return join_shm_group(fetch_region(to_text(address), deadline), new_rank, deadline, board_.interruption());
  }
  SharedRegion region = create_shm_group_region(static_cast<int>(members.size()));
  const RegionServer server(region);
  address = to_address(server.address());
  for (std::size_t member = 1; member < members.size(); ++member)
    send(members[member], kSplitTag, std::span<const std::uint8_t>(address))->wait(deadline);
  return join_shm_group(std::move(region), 0, deadline, board_.interruption());
}

}  // namespace

SharedRegion create_shm_group_region(int ranks) {
  if (ranks < 1 || ranks > Board::kMaxSeats)
    throw Error(ErrorKind::kUnsupported,
                fmt::format("a group on one host has 1 to {} ranks, not {}", Board::kMaxSeats, ranks));
  const ShmSizes sizes{ranks, kSlotBytes, kChannelBytes};
  SharedRegion region = SharedRegion::create(ShmLayout::bytes(sizes));
  ShmLayout::format(region.bytes(), sizes);
  return region;
}

std::unique_ptr<Backend> join_shm_group(SharedRegion region, int rank, const Deadline& deadline,
                                        std::function<void()> interruption) {
  const int ranks = ShmLayout(region.bytes()).sizes().ranks;
  if (rank < 0 || rank >= ranks)
    throw Error(ErrorKind::kMismatch, fmt::format("rank {} does not fit a group of {}", rank, ranks));
  auto backend = std::make_unique<ShmBackend>(std::move(region), rank, std::move(interruption));
  backend->wait_for_everybody(deadline);
  return backend;
}

std::unique_ptr<Backend> make_shm_backend(int rank, int size, const std::shared_ptr<Store>& store,
                                          const Deadline& deadline, const std::function<void()>& interruption) {
  if (rank > 0)
    return join_shm_group(fetch_region(store->get("shm", deadline), deadline), rank, deadline, interruption);
  SharedRegion region = create_shm_group_region(size);
  const RegionServer server(region);
  store->set("shm", server.address());
  return join_shm_group(std::move(region), 0, deadline, interruption);
}

void report_lost_rank(SharedRegion& region, int rank, std::string_view reason) {
  const ShmLayout layout(region.bytes());
  Board(layout.board(), layout.sizes().ranks, kAnyRank).fail(rank, ErrorKind::kPeerLost, reason);
}

}  // namespace muster::comm
