// The audit: a line for each call or connection that was refused, and for each command that was taken. Who, what, from
// where, and why not.
//
// What strangers can cause is limited: of each kind 20 lines at once and then one a second; the next line says how many
// were left out. What callers say of themselves is cut and cleaned before it is written.
// Thread safety: every method from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/base/mutex.h"

namespace muster::control {

struct AuditEntry {
  std::string_view who;   // "agent host-1"; empty: nobody knows
  std::string_view what;  // the call; empty: only a connection
  std::string_view from;  // address
};

class Audit {
 public:
  // Takes a line; `refusal`: of something that was refused. One call at a time, from any thread.
  using Write = std::function<void(const std::string& line, bool refusal)>;

  // The clock outlives it.
  explicit Audit(Write write, const Clock& clock = system_clock());
  // Into a log, which outlives it: refusals are warnings.
  explicit Audit(Log& log, const Clock& clock = system_clock());

  void refused(const AuditEntry& entry, std::string_view reason);
  void taken(const AuditEntry& entry);

 private:
  // Lines that may still be written, and when that was so.
  struct Allowance {
    double lines = 0;
    Clock::Instant at;
    std::uint64_t left_out = 0;
  };
  // Whether a line may be written; what is to be said of those that were not.
  bool may_write(Allowance& allowance, std::string& left_out) MUSTER_REQUIRES(mutex_);

  const Write write_;
  const Clock& clock_;
  Mutex mutex_;
  Allowance refusals_ MUSTER_GUARDED_BY(mutex_);
  Allowance commands_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::control
