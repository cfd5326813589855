// Time as a parameter: code that waits, measures or stamps takes a Clock, so that tests can turn it by hand.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace muster {

// Thread safety: every method may be called from any thread.
class Clock {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  virtual ~Clock() = default;
  // Monotonic; jumps of the wall clock do not touch it. All deadlines and durations come from here.
  virtual Instant now() const = 0;
  // For people only: file names, logs. Never compared.
  virtual std::chrono::system_clock::time_point wall() const = 0;
  virtual void sleep_for(std::chrono::nanoseconds duration) const = 0;
};

// The machine's clock. Stateless: every call gives an equal one.
const Clock& system_clock();

// A clock that moves only when told to; sleep_for moves it and returns at once.
class FakeClock final : public Clock {
 public:
  Instant now() const override;
  std::chrono::system_clock::time_point wall() const override;
  void sleep_for(std::chrono::nanoseconds duration) const override;
  void advance(std::chrono::nanoseconds duration) { elapsed_ns_ += duration.count(); }

 private:
  mutable std::atomic<std::int64_t> elapsed_ns_{0};
};

// "20261115-193427" in UTC: sorts by time, safe in file names.
std::string time_stamp(std::chrono::system_clock::time_point time);

}  // namespace muster
