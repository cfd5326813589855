// A rank's own work: lanes, arrivals, the commit, and taking up the state of another host. Like everything here each
// change is one compare-and-swap on a word (arena_words.h); docs/arena.md has the argument, death by death.
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/comm/arena.h"
#include "muster/comm/arena_control.h"

namespace muster::comm {
namespace {

// How often somebody who waits for a pin asks the kernel whether the reader still lives.
constexpr std::chrono::milliseconds kReaderPoll{5};

}  // namespace

// --- Lanes

LaneWord Arena::lane_state(int lane) const {
  return LaneWord::unpack(lane_word(lane).load()).in_step(step_);
}

// `from` as lane_state() gave it.
bool Arena::change_lane(int lane, LaneWord from, LaneWord to) {
  std::uint64_t word = lane_word(lane).load();
  if (!(LaneWord::unpack(word).in_step(step_) == from)) return false;
  if (!lane_word(lane).compare_exchange_strong(word, to.pack())) return false;
  if (to.state != LaneState::kStarted) board().announce();
  return true;
}

bool Arena::claim(int lane) {
  throw_if_superseded();
  const LaneWord now = lane_state(lane);
  if (now.state != LaneState::kFree) return false;
  MUSTER_FAILPOINT("arena.claim.before");
  const bool won = change_lane(lane, now, {generation(), step_, LaneState::kClaimed, rank()});
  MUSTER_FAILPOINT("arena.claim.after");
  return won;
}

std::optional<int> Arena::claim_next(int lanes) {
  for (int lane = 0; lane < lanes; ++lane)
    if (claim(lane)) return lane;
  return std::nullopt;
}

bool Arena::take_back(int lane) {
  throw_if_superseded();
  const LaneWord now = lane_state(lane);
  if (now.state != LaneState::kClaimed || now.rank == rank()) return false;
  MUSTER_FAILPOINT("arena.take_back.before");
  const bool won = change_lane(lane, now, {generation(), step_, LaneState::kClaimed, rank()});
  MUSTER_FAILPOINT("arena.take_back.after");
  return won;
}

bool Arena::start(int lane) {
  throw_if_superseded();
  const LaneWord now = lane_state(lane);
  if (now.state != LaneState::kClaimed || now.rank != rank()) return false;
  MUSTER_FAILPOINT("arena.start.before");
  const bool won = change_lane(lane, now, {generation(), step_, LaneState::kStarted, rank()});
  MUSTER_FAILPOINT("arena.start.after");
  return won;
}

void Arena::release(int lane) {
  throw_if_superseded();
  const LaneWord now = lane_state(lane);
  if (now.rank != rank() || now.state == LaneState::kFree || now.state == LaneState::kDone) return;
  MUSTER_FAILPOINT("arena.release.before");
  change_lane(lane, now, {generation(), step_});
  MUSTER_FAILPOINT("arena.release.after");
}

void Arena::finish(int lane) {
  const LaneWord now = lane_state(lane);
  MUSTER_FAILPOINT("arena.finish.before");
  if (now.state != LaneState::kStarted || now.rank != rank() ||
      !change_lane(lane, now, {now.generation, step_, LaneState::kDone, rank()})) {
    throw Error(ErrorKind::kPeerLost,
                fmt::format("lane {} of step {} is not this rank's any more: it was taken for dead", lane, step_),
                fmt::format("rank {}", rank()));
  }
  MUSTER_FAILPOINT("arena.finish.after");
}

bool Arena::wait_lanes(int first, int last, AskedFor asked_for, const Deadline& deadline) {
  const auto one_is_free = [&] {
    for (int lane = first; lane < last; ++lane)
      if (lane_state(lane).state == LaneState::kFree) return true;
    return false;
  };
  for (int lane = first; lane < last;) {
    const LaneWord word = lane_state(lane);
    if (word.state == LaneState::kDone) {
      ++lane;
      continue;
    }
    throw_if_superseded();
    const bool or_free = asked_for == AskedFor::kDoneOrFree;
    if (or_free && one_is_free()) return false;
    const bool owned = word.state != LaneState::kFree;
    MUSTER_CHECK(!owned || word.rank != rank(), "a rank waits for a lane of its own");
    board().wait(
        owned ? word.rank : kAnyRank, kAnyRank,
        [&] { return !(lane_state(lane) == word) || superseded() || (or_free && one_is_free()); }, deadline,
        [&] { return fmt::format("{} lane {} of step {}", owned ? "finished" : "claimed", lane, step_); });
  }
  return true;
}

void Arena::wait_all_done(int first, int last, const Deadline& deadline) {
  wait_lanes(first, last, AskedFor::kAllDone, deadline);
}

bool Arena::wait_done_or_free(int lanes, const Deadline& deadline) {
  return wait_lanes(0, lanes, AskedFor::kDoneOrFree, deadline);
}

// --- Arrivals and the commit

void Arena::arrive(int phase) {
  MUSTER_CHECK(phase >= 1 && phase <= kMostPhase, "phases count from 1");
  throw_if_superseded();
  MUSTER_FAILPOINT("arena.arrive.before");
  arrival_word(rank()).store(ArrivalWord{generation(), step_, phase}.pack());
  MUSTER_FAILPOINT("arena.arrive.after");
  board().announce();
}

void Arena::wait_entered(const Deadline& deadline) {
  for (int other = 0; other < options_.ranks; ++other) {
    if (other == rank() || !has_member(members(), other)) continue;
    board().wait(
        other, [&] { return has_entered(other) || superseded(); }, deadline,
        [&] { return fmt::format("entered generation {}", generation()); });
    throw_if_superseded();
  }
}

void Arena::wait_member(int other, int phase, const Deadline& deadline) {
  const auto arrived = [&] {
    const ArrivalWord word = ArrivalWord::unpack(arrival_word(other).load());
    if (word.generation != generation()) return false;
    return word.step > step_ || (word.step == step_ && word.phase >= phase);
  };
  board().wait(
      other, [&] { return arrived() || superseded(); }, deadline,
      [&] {
        return phase > kMostPhase ? fmt::format("come to the commit of step {}", step_)
                                  : fmt::format("come to phase {} of step {}", phase, step_);
      });
  throw_if_superseded();
}

void Arena::wait_arrived(int phase, const Deadline& deadline) {
  for (int other = 0; other < options_.ranks; ++other)
    if (other != rank() && has_member(members(), other)) wait_member(other, phase, deadline);
}

void Arena::commit(Outcome outcome, const Deadline& deadline) {
  if (step_ >= kMostStep) {
    throw Error(ErrorKind::kUnsupported, fmt::format("step {} cannot be followed: the arena counts no further", step_),
                "arena", "Checkpoint, and resume with another count of steps.");
  }
  const CommitWord before = committed();
  if (before.step != step_ && before.generation == generation()) {
    ++step_;  // an earlier try ended in a time-out after this rank's arrival, and others have committed since
    return;
  }
  throw_if_superseded();
  const int phase = outcome == Outcome::kFlip ? kFlipPhase : kKeepPhase;
  MUSTER_FAILPOINT("arena.commit.before_arrival");
  arrival_word(rank()).store(ArrivalWord{generation(), step_, phase}.pack());
  MUSTER_FAILPOINT("arena.commit.after_arrival");
  board().announce();
  wait_arrived(kFlipPhase, deadline);
  for (int member = 0; member < options_.ranks; ++member) {
    const ArrivalWord other = ArrivalWord::unpack(arrival_word(member).load());
    // One who has gone on to the next step has seen the commit.
    if (!has_member(members(), member) || other.step != step_ || other.phase == phase) continue;
    throw Error(ErrorKind::kMismatch,
                fmt::format("rank {} {} step {}, and this rank does not", member,
                            other.phase == kKeepPhase ? "skips" : "does not skip", step_),
                fmt::format("rank {}", rank()));
  }
  const CommitWord after{generation(), step_ + 1, outcome == Outcome::kFlip ? 1 - before.buffer : before.buffer};
  std::uint64_t word = before.pack();
  MUSTER_FAILPOINT("arena.commit.before_flip");
  // Whoever comes first; the others find it done.
  if (!commit_word().compare_exchange_strong(word, after.pack()) && word != after.pack()) throw_if_superseded();
  MUSTER_FAILPOINT("arena.commit.after_flip");
  ++step_;
}

void Arena::adopt(std::uint64_t step, const Deadline& deadline) {
  MUSTER_CHECK(step >= step_ && step <= kMostStep, "a host takes up a state that is ahead of its own");
  const CommitWord before = committed();  // before this rank arrives: nobody can have flipped it
  throw_if_superseded();
  const CommitWord after{generation(), step, 1 - before.buffer, before.fresh};
  MUSTER_FAILPOINT("arena.adopt.before_arrival");
  adoption_word(rank()).store(generation());
  MUSTER_FAILPOINT("arena.adopt.after_arrival");
  board().announce();
  for (int other = 0; other < options_.ranks; ++other) {
    if (other == rank() || !has_member(members(), other)) continue;
    board().wait(
        other, [&] { return adoption_word(other).load() == generation() || superseded(); }, deadline,
        [&] { return fmt::format("taken its part of the state of step {}", step); });
    throw_if_superseded();
  }
  std::uint64_t word = before.pack();
  MUSTER_FAILPOINT("arena.adopt.before_flip");
  if (!commit_word().compare_exchange_strong(word, after.pack()) && word != after.pack()) throw_if_superseded();
  MUSTER_FAILPOINT("arena.adopt.after_flip");
  step_ = step;
}

void Arena::settle() {
  CommitWord now = committed();
  std::uint64_t word = now.pack();
  now.fresh = 0;
  MUSTER_FAILPOINT("arena.adopt.before_settle");
  if (CommitWord::unpack(word).generation != generation() ||
      (!commit_word().compare_exchange_strong(word, now.pack()) && CommitWord::unpack(word).fresh != 0))
    throw_if_superseded();
  MUSTER_FAILPOINT("arena.adopt.after_settle");
}

// --- Readers

VersionPins Arena::pins() const {
  return VersionPins(control().pins, commit_word(), observer());
}

std::span<std::byte> Arena::next_version(const Deadline& deadline) {
  throw_if_superseded();
  // A member that has not come yet may still be writing the slice that it owned in the old generation.
  if (!all_entered_) wait_entered(deadline);
  all_entered_ = true;
  const std::uint64_t buffer = 1 - committed().buffer;
  if (pins().holder(buffer, false)) {
    Clock::Instant next_look{};
    const auto ready = [&] {
      const Clock::Instant now = system_clock().now();
      const bool look = now >= next_look;
      if (look) next_look = now + kReaderPoll;
      return superseded() || !pins().holder(buffer, look);
    };
    board().wait(kAnyRank, ready, deadline, [&] {
      return fmt::format("seen {}, which the update of step {} would overwrite",
                         pins().holder(buffer, false).value_or("a reader let go of a version"), step_);
    });
    throw_if_superseded();
  }
  return version(buffer);
}

VersionPin Arena::pin() const {
  VersionPin pin = pins().pin();
  pin.region_ = region();
  pin.bytes_ = version(pin.version_.buffer);
  return pin;
}

}  // namespace muster::comm
