// A tiny training job on an arena: whole steps as workers do them, and a serial reference that knows nothing of arenas.
//
// Lanes and slices are written in two passes, the first of which leaves nonsense: two writers at once, or a reader of
// something half written, cannot give the reference's numbers. Every fifth step is skipped; in every eighth, workers
// also pin, release and take back, so that every kind of store happens at every rank but the first; the last member
// leaves a note then.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/comm/arena.h"

namespace muster::comm::testing {

constexpr int kJobLanes = 5;
constexpr std::size_t kJobWords = 96;
constexpr std::uint64_t kJobNonce = 0x1234567890abcdef;

using Words = std::span<std::uint64_t>;
Words as_words(std::span<std::byte> bytes);

// The same job by one loop over plain memory.
class SerialReference {
 public:
  explicit SerialReference(std::uint64_t first_step = 0);

  // REQUIRES: steps are asked for in order.
  const std::vector<std::uint64_t>& at(std::uint64_t step);
  std::string hash_at(std::uint64_t step);

 private:
  std::uint64_t step_;
  std::vector<std::uint64_t> words_;
};

ArenaOptions job_options(int ranks, std::uint64_t first_step = 0);
void fill_first_version(const Arena& arena);

// The note that is left in a step; an empty one stands for none.
std::string note_of(std::uint64_t step);
bool is_note(const std::string& text);

// One step of one rank.
void do_step(Arena& arena, int rank, const Deadline& deadline);

// A fresh host's part of a generation, before its steps: the members take up the serial program's state of `ahead`,
// each its slice, in both versions.
void take_up(Arena& arena, int rank, std::uint64_t ahead, const Deadline& deadline);
constexpr std::uint64_t kJobAhead = 8;  // where the others are whom a fresh host joins

// A worker's life: enters `generation`, takes up the state of kJobAhead if its host is fresh, and does steps up to
// `target`; after a lost peer it waits for the next generation and goes on.
void work(Arena& arena, int rank, std::uint64_t generation, std::uint64_t target, std::chrono::milliseconds patience);

}  // namespace muster::comm::testing
