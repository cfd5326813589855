// The two clocks.
// FakeClock is one atomic number, so that several threads may sleep on it and move it.
#include "muster/base/clock.h"

#include <fmt/chrono.h>

#include <thread>

namespace muster {
namespace {

class SystemClock final : public Clock {
 public:
  Instant now() const override { return std::chrono::steady_clock::now(); }
  std::chrono::system_clock::time_point wall() const override { return std::chrono::system_clock::now(); }
  void sleep_for(std::chrono::nanoseconds duration) const override { std::this_thread::sleep_for(duration); }
};

}  // namespace

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

Clock::Instant FakeClock::now() const {
  return Instant{std::chrono::nanoseconds{elapsed_ns_.load()}};
}

std::chrono::system_clock::time_point FakeClock::wall() const {
  return std::chrono::system_clock::time_point{
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::nanoseconds{elapsed_ns_.load()})};
}

void FakeClock::sleep_for(std::chrono::nanoseconds duration) const {
  elapsed_ns_ += duration.count();
}

std::string time_stamp(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y%m%d-%H%M%S}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

}  // namespace muster
