// Who lets a supervisor begin generations. A job on one host needs nobody's leave; on several hosts the coordinator of
// all of them has to name the members first (coordinator/host_reporter.h).
//
// Called by the supervisor's thread alone, at every look: it must not wait.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "muster/comm/store.h"

namespace muster::launch {

// What a supervisor would do; bit s stands for seat s.
struct MembersWanted {
  std::uint64_t wanted = 0;    // members that it wants: those there are, unless `changed`
  bool changed = false;        // it wants a generation, with these
  std::uint64_t present = 0;   // that live and belong to the generation there is
  std::uint64_t possible = 0;  // that could be members at this moment
  bool finishing = false;      // a worker has finished the job: the others need it no more, and end as well
  bool fixed = false;          // nobody comes or goes once these have begun; wanted is 0 until all are ready

  // Whether a generation with these can begin: all of them live, and no member is left behind.
  bool fits(std::uint64_t members) const { return (members & ~possible) == 0 && (present & ~members) == 0; }
};

class GenerationGate {
 public:
  virtual ~GenerationGate() = default;

  // The members with which a generation begins now; nothing: none does. REQUIRES: members that fit.
  virtual std::optional<std::uint64_t> admit(const MembersWanted& wanted) = 0;
  // Right before generation `generation` of the arena begins with what admit() gave: `store` is that of the host's
  // workers. False: the number cannot be used, another one is tried.
  virtual bool prepare(std::uint64_t generation, comm::Store& store) = 0;
  // It has begun.
  virtual void begun() = 0;
  // Workers of a supervisor that is gone were taken over, in generation `generation` of the arena; 0: in none yet.
  virtual void adopted(std::uint64_t generation, comm::Store& store) = 0;
  // What a worker that is started now is told in its environment.
  virtual std::map<std::string, std::string> environment() const = 0;
};

// Of a job on one host: what is wanted is done.
std::shared_ptr<GenerationGate> make_open_gate();

}  // namespace muster::launch
