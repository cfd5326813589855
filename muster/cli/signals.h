// Ctrl-C, SIGTERM and SIGUSR1 as a request: the first asks for a clean stop and starts the grace period, the second or
// the end of that period ends the process at once.
//
// A thread of this class waits for what the handlers deliver. Blocking the signals instead would not do: BLAS libraries
// start threads before main, and a signal that reaches one of these ends the process.
// Thread safety: every method from any thread. One object at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace muster::cli {

class SignalWatch {
 public:
  // What a second signal is. A worker may get the first from its parent and from a batch system, which tells all
  // processes; who insists kills it.
  enum class Second { kEnds, kIsTheSame };

  // `on_first` is told what came, "Ctrl-C", "SIGTERM" or "SIGUSR1". It runs on the watching thread.
  // `linger` is how long the process lasts once it is to end at once: for one that has others to end first
  // (insisted()).
  SignalWatch(std::chrono::duration<double> grace, std::function<void(const std::string&)> on_first,
              std::chrono::milliseconds linger = {}, Second second = Second::kEnds);
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  ~SignalWatch();

  bool stop_requested() const { return signal_.load() != 0; }
  // The share of the grace period that is over; 0 while nobody has asked for a stop.
  double grace_used() const;
  // Whether it is to end at once.
  bool insisted() const { return insisted_; }
  // 128 + the signal, as shells count: 130, 143 or 138; 0 when there was none.
  int exit_code() const { return signal_.load() == 0 ? 0 : 128 + signal_.load(); }
  // What workers are to be sent: SIGKILL at once, else SIGINT or SIGTERM; 0: nothing was asked.
  int for_workers() const;

 private:
  void watch();
  void end_now(const char* why);

  const std::chrono::duration<double> grace_;
  const std::function<void(const std::string&)> on_first_;
  const std::chrono::milliseconds linger_;
  const Second second_;
  std::atomic<std::int64_t> asked_at_{0};  // of the monotonic clock, in ns; before signal_
  std::atomic<int> signal_{0};
  std::atomic<bool> insisted_{false};
  std::atomic<bool> end_{false};
  std::thread thread_;
};

}  // namespace muster::cli
