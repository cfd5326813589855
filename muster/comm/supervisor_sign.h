// How processes of a job know whether somebody watches over them before there is an arena to tell: every supervisor
// leaves its process in the job's store. Whoever is watched waits as long as the watcher lives, which sees by itself
// who gets on and who does not; without one, waits have a time of their own.
#pragma once

#include <chrono>
#include <filesystem>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/comm/store.h"

namespace muster::comm {

// Of this process. `liveness`: for how long a worker may be silent (launch/worker_watch.h).
void leave_supervisor_sign(Store& store, std::chrono::nanoseconds liveness);

// Whether one of those who left a sign in the store of this folder lives. No folder: nobody does.
bool supervisor_lives(const std::filesystem::path& store_folder);

// What the supervisors of this store call silent; the default where there was none.
std::chrono::nanoseconds supervisor_liveness(const std::filesystem::path& store_folder);

// Gives what `wait(deadline)` gives, which throws kTimeout. It is called again and again, as long as a supervisor
// lives; when none does, for `patience`.
template <typename Wait>
auto wait_while_supervised(const std::filesystem::path& store_folder, std::chrono::nanoseconds patience,
                           const Wait& wait) {
  constexpr std::chrono::seconds kLook{1};
  for (Deadline deadline = Deadline::after(patience);;) {
    try {
      return wait(Deadline::after(std::min<std::chrono::nanoseconds>(kLook, deadline.remaining())));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
      if (supervisor_lives(store_folder))
        deadline = Deadline::after(patience);
      else if (deadline.passed())
        throw;
    }
  }
}

}  // namespace muster::comm
