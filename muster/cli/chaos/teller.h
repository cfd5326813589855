// What chaos says while it goes on. On a terminal the line of the summary stands last, and is cleared for what is told.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace muster::cli {

class Teller {
 public:
  // `at` in seconds, as ChaosSample::at.
  void tell(double at, const std::string& text) const {
    fmt::print(stderr, "{}{:7.1f} s  {}\n", terminal_ ? "\r\033[K" : "", at, text);
  }
  void summary(double at, const std::string& text) {
    if (!terminal_ && at < next_) return;
    next_ = at + kSummaryTime;
    fmt::print(stderr, "{}{:7.1f} s  {}{}", terminal_ ? "\r\033[K" : "", at, text, terminal_ ? "" : "\n");
  }
  void end() const {
    if (terminal_) fmt::print(stderr, "\r\033[K");
  }

 private:
  static constexpr double kSummaryTime = 30;  // seconds between summaries where there is no terminal
  const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  double next_ = 0;
};

}  // namespace muster::cli
