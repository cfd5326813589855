// How many lanes a worker of a host computes in a second, from what the host's supervisor sees of its workers now and
// then. In a step all hosts wait for the slowest, so it is not steps that tell who is fast: time in which a worker
// computes counts, and not that in which it waits. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/base/clock.h"

namespace muster::coordinator {

class HostSpeed {
 public:
  // At one moment: of a generation in which the host computes `lanes` lanes of every step, `computing` of its workers
  // do so, after `step` steps.
  struct Moment {
    Clock::Instant now{};
    std::uint64_t generation = 0;
    std::uint64_t step = 0;
    std::size_t lanes = 0;
    int computing = 0;
  };
  void see(const Moment& moment);

  // 0: not known yet.
  double lanes_per_second() const;

 private:
  std::optional<Moment> last_;
  double lanes_ = 0;    // computed
  double seconds_ = 0;  // of workers, in which they were
};

}  // namespace muster::coordinator
