// A small job in an arena: every rank does its slices of words that only the serial result satisfies, and the rarer
// stores on the way.
#include "unit/comm/arena_job.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/hash.h"

namespace muster::comm::testing {
namespace {

constexpr std::uint64_t kNonsense = 0xdeaddeaddeaddead;

std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15;
  return x ^ (x >> 29);
}
std::uint64_t initial_word(std::size_t i) {
  return scramble(i + 1);
}
std::uint64_t gradient(std::uint64_t word, std::uint64_t step, int lane) {
  return scramble(word + step * 1000003 + static_cast<std::uint64_t>(lane) * 7919);
}
std::uint64_t updated(std::uint64_t word, std::uint64_t sum) {
  return scramble(word * 3 + sum);
}
bool is_skipped(std::uint64_t step) {
  return step % 5 == 4;
}
// Steps in which workers also pin, release and take back: every kind of store happens in them, at every rank but the
// first.
bool is_contended(std::uint64_t step) {
  return step % 8 == 3;
}

}  // namespace

SerialReference::SerialReference(std::uint64_t first_step) : step_(first_step) {
  for (std::size_t i = 0; i < kJobWords; ++i)
    words_.push_back(initial_word(i));
}

const std::vector<std::uint64_t>& SerialReference::at(std::uint64_t step) {
  for (; step_ < step; ++step_) {
    if (is_skipped(step_)) continue;
    for (std::uint64_t& word : words_) {
      std::uint64_t sum = 0;
      for (int lane = 0; lane < kJobLanes; ++lane)
        sum += gradient(word, step_, lane);
      word = updated(word, sum);
    }
  }
  return words_;
}

std::string SerialReference::hash_at(std::uint64_t step) {
  return sha256(std::as_bytes(std::span(at(step))));
}

ArenaOptions job_options(int ranks, std::uint64_t first_step) {
  ArenaOptions options;
  options.ranks = ranks;
  options.lanes = kJobLanes;
  options.version_bytes = kJobWords * 8;
  options.lane_bytes = kJobWords * 8;
  options.nonce = kJobNonce;
  options.step = first_step;
  return options;
}

Words as_words(std::span<std::byte> bytes) {
  return {reinterpret_cast<std::uint64_t*>(bytes.data()), bytes.size() / 8};
}

std::string note_of(std::uint64_t step) {
  return std::to_string(step) + std::string(100 + step % 3000, static_cast<char>('a' + step % 26));
}

bool is_note(const std::string& text) {
  return text.empty() || text == note_of(std::stoull(text));
}

void fill_first_version(const Arena& arena) {
  const Words words = as_words(arena.version(0));
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = initial_word(i);
}

namespace {

void compute_lane(const Arena& arena, int lane) {
  const Words now = as_words(arena.version(arena.committed().buffer));
  const Words area = as_words(arena.lane(lane));
  std::fill(area.begin(), area.end(), kNonsense);
  for (std::size_t i = 0; i < area.size(); ++i) {
    if (i == area.size() / 2) {
      MUSTER_FAILPOINT("arena.job.half_lane");
    }
    area[i] += gradient(now[i], arena.step(), lane);
  }
  for (std::uint64_t& word : area)
    word -= kNonsense;
}

// The slice of a member: the words are cut evenly among the members in rank order.
std::pair<std::size_t, std::size_t> slice_of(const Arena& arena, int rank) {
  const auto members = static_cast<std::size_t>(std::popcount(arena.members()));
  const auto place = static_cast<std::size_t>(std::popcount(arena.members() & ((std::uint64_t{1} << rank) - 1)));
  return {kJobWords * place / members, kJobWords * (place + 1) / members};
}

void update_slice(const Arena& arena, int rank, Words next) {
  const Words now = as_words(arena.version(arena.committed().buffer));
  const auto [begin, end] = slice_of(arena, rank);
  for (std::size_t i = begin; i < end; ++i)
    next[i] = kNonsense;
  for (std::size_t i = begin; i < end; ++i) {
    if (i == (begin + end) / 2) {
      MUSTER_FAILPOINT("arena.job.half_slice");
    }
    std::uint64_t sum = 0;
    for (int lane = 0; lane < kJobLanes; ++lane)
      sum += as_words(arena.lane(lane))[i];
    next[i] = updated(now[i], sum);
  }
}

// Claims that are given back, taken back and pinned: the rarer stores, in an order that makes each happen.
void contend(Arena& arena, int rank, const Deadline& deadline) {
  const int last = kJobLanes - 1;
  const bool first = rank == std::countr_zero(arena.members());
  const VersionPin pin = arena.pin();
  if (first) arena.claim(last);
  arena.arrive(1);
  arena.wait_arrived(1, deadline);
  if (!first && !arena.take_back(last)) arena.take_back(last - 1);
  if (const std::optional<int> lane = arena.claim_next(kJobLanes)) arena.release(*lane);
  // All have arrived: whoever wrote the note in an earlier generation has done so.
  if (rank == static_cast<int>(std::bit_width(arena.members())) - 1) arena.write_note(note_of(arena.step()));
  arena.arrive(2);
  arena.wait_arrived(2, deadline);
  // Claims of its own that it holds by now are worked off first.
  for (int lane = 0; lane < kJobLanes; ++lane) {
    if (!arena.start(lane)) continue;
    compute_lane(arena, lane);
    arena.finish(lane);
  }
}

}  // namespace

void do_step(Arena& arena, int rank, const Deadline& deadline) {
  const FailpointScope scope(rank, static_cast<std::int64_t>(arena.step()));
  if (is_contended(arena.step())) contend(arena, rank, deadline);
  for (;;) {
    const std::optional<int> lane = arena.claim_next(kJobLanes);
    if (lane && arena.start(*lane)) {
      compute_lane(arena, *lane);
      arena.finish(*lane);
    }
    if (!lane && arena.wait_done_or_free(kJobLanes, deadline)) break;
  }
  const bool skipped = is_skipped(arena.step());
  if (!skipped) update_slice(arena, rank, as_words(arena.next_version(deadline)));
  arena.commit(skipped ? Outcome::kKeep : Outcome::kFlip, deadline);
}

void take_up(Arena& arena, int rank, std::uint64_t ahead, const Deadline& deadline) {
  const FailpointScope scope(rank, static_cast<std::int64_t>(arena.step()));
  SerialReference others(arena.options().step);
  const auto [begin, end] = slice_of(arena, rank);
  for (const bool first : {true, false}) {
    const Words next = as_words(arena.next_version(deadline));
    for (std::size_t i = begin; i < end; ++i)
      next[i] = kNonsense;
    MUSTER_FAILPOINT("arena.adopt.half_slice");
    for (std::size_t i = begin; i < end; ++i)
      next[i] = others.at(ahead)[i];
    if (first) arena.adopt(ahead, deadline);
  }
  // Nobody claims a lane before; between hosts this is a barrier of all of them.
  arena.arrive(1);
  arena.wait_arrived(1, deadline);
  arena.settle();
}

void work(Arena& arena, int rank, std::uint64_t generation, std::uint64_t target, std::chrono::milliseconds patience) {
  while (true) {
    try {
      {
        const FailpointScope scope(rank, static_cast<std::int64_t>(arena.committed().step));
        arena.enter(generation, Deadline::after(patience));
      }
      if (arena.fresh()) take_up(arena, rank, kJobAhead, Deadline::after(patience));
      while (arena.step() < target)
        do_step(arena, rank, Deadline::after(patience));
      return;
    } catch (const Error& error) {
      const std::uint64_t now = arena.committed().generation;
      const bool stale = error.kind() == ErrorKind::kMismatch && now > generation;
      if (error.kind() != ErrorKind::kPeerLost && !stale) throw;
      generation = std::max(generation + 1, now);
    }
  }
}

}  // namespace muster::comm::testing
