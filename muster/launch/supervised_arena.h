// The store and the roster of a job's workers (comm/roster.h), as their supervisor has them: who is told to make it,
// with the arena behind it where there is one, how it is found, handed on and observed, and what is done when the one
// that makes it dies first. No decisions about workers.
//
// The first process makes it; those that start with it find it in the store, later ones are told where it is. From the
// moment at which the supervisor has it, it outlives any worker.
// Thread safety: one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/temporary_folder.h"
#include "muster/comm/arena_address.h"
#include "muster/comm/region.h"
#include "muster/comm/roster.h"
#include "muster/comm/store.h"
#include "muster/launch/job_ending.h"

namespace muster::launch {

class SupervisedArena {
 public:
  // `folder` is removed with this object; `store` lies in it. Leaves the supervisor's sign there, with `liveness`.
  SupervisedArena(TemporaryFolder folder, std::filesystem::path store, std::chrono::nanoseconds liveness);

  // The folder by which workers find each other.
  const std::filesystem::path& store_folder() const { return store_folder_; }
  comm::Store& store() const { return *store_; }

  // Who makes the arena.
  struct Invitation {
    std::string arena;   // what a process is told by MUSTER_ARENA
    bool joins = false;  // it has to find the arena by its founder
  };
  Invitation invite(std::size_t seat);
  bool is_founder(std::size_t seat) const { return seat == founder_; }
  // The seat of the one that makes the arena, or did; nothing: nobody was told to.
  std::optional<std::size_t> founder() const;

  // Takes the arena as soon as the first worker has made it. Throws kMismatch when another process watches the workers.
  void look();
  // Takes it from whichever worker lives: every one hands it out. Throws kPeerLost when none does, and as look().
  void adopt();

  enum class Founding {
    kOpen,  // the next process makes the arena that the others wait for
    kAnew,  // in another store: those who know this one have to go
  };
  // The founder died before anybody else had its arena. What is in a store stays: it would be looked for in vain.
  Founding found_anew();
  // Nobody is started any more, and others still wait for an arena: this one makes it.
  void appoint(std::size_t seat);

  // Whether there is one; what follows needs it, or says nothing.
  bool there() const { return roster_.has_value(); }
  const comm::Board& board() const { return roster_->board(); }
  std::uint64_t step() const { return roster_ ? roster_->committed().step : 0; }  // committed
  std::uint64_t generation() const { return roster_->committed().generation; }
  std::uint64_t members() const { return roster_->present_members(); }
  void begin_generation(std::uint64_t generation, std::uint64_t members);
  // Whether the worker on that seat has said that its work is done.
  bool done(std::size_t seat) const;
  // Lanes that it has begun and not finished.
  std::vector<LaneOfStep> lanes_of(std::size_t seat) const;
  // "lane 3 of step 17", or "after step 16".
  std::string place_of(std::size_t seat) const;

  // What the leader has left, in the arena or the store; empty: nothing.
  std::string note() const;
  // Whether the workers' program has made a group that nobody can join later.
  bool fixed() const;
  // Whether that worker was refused because it would train something else.
  bool refused(std::size_t seat) const;

 private:
  void open_store(std::filesystem::path folder);
  void take(const std::shared_ptr<const comm::SharedRegion>& region);
  std::optional<std::string> stored(const char* key) const;

  const TemporaryFolder folder_;
  const std::chrono::nanoseconds liveness_;
  std::filesystem::path store_folder_;
  std::shared_ptr<comm::Store> store_;
  mutable bool fixed_ = false;  // was found in it: it stays
  int foundings_ = 0;           // attempts to make the arena that came to nothing although others had been told of it
  bool founded_ = false;        // somebody was told to make the arena:
  std::size_t founder_ = 0;
  int round_ = 0;  // of the store's arena keys (comm/arena_address.h)
  Clock::Instant looked_{};
  comm::ArenaAddress address_;
  std::optional<comm::Roster> roster_;
  std::optional<comm::RegionServer> server_;
};

}  // namespace muster::launch
