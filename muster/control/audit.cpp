// A bucket of lines for each kind: refusals, which strangers cause, can never crowd out the commands. What is left out
// is counted, and said by the next line that is written.
#include "muster/control/audit.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/text.h"

namespace muster::control {
namespace {

constexpr double kLinesAtOnce = 20;
constexpr double kLinesASecond = 1;
constexpr std::size_t kLongestWord = 100;

std::string audit_words(const AuditEntry& entry) {
  std::string words = entry.what.empty() ? "a connection" : excerpt(entry.what, kLongestWord);
  if (!entry.who.empty()) words += fmt::format(" by {}", excerpt(entry.who, kLongestWord));
  return words + fmt::format(" from {}", entry.from.empty() ? "an unknown place" : excerpt(entry.from, kLongestWord));
}

}  // namespace

Audit::Audit(Write write, const Clock& clock)
    : write_(std::move(write)),
      clock_(clock),
      refusals_{kLinesAtOnce, clock.now()},
      commands_{kLinesAtOnce, clock.now()} {
}

Audit::Audit(Log& log, const Clock& clock)
    : Audit([&log](const std::string& line, bool refusal) { refusal ? log.warning(line) : log.info(line); }, clock) {
}

bool Audit::may_write(Allowance& allowance, std::string& left_out) {
  const Clock::Instant now = clock_.now();
  const double seconds = std::chrono::duration<double>(now - allowance.at).count();
  allowance.lines = std::min(kLinesAtOnce, allowance.lines + seconds * kLinesASecond);
  allowance.at = now;
  if (allowance.lines < 1) {
    ++allowance.left_out;
    return false;
  }
  allowance.lines -= 1;
  if (allowance.left_out > 0) left_out = fmt::format(" ({} more before it were not written)", allowance.left_out);
  allowance.left_out = 0;
  return true;
}

void Audit::refused(const AuditEntry& entry, std::string_view reason) {
  const MutexLock lock(mutex_);
  std::string left_out;
  if (!may_write(refusals_, left_out)) return;
  write_(fmt::format("audit: refused {}: {}{}", audit_words(entry), excerpt(reason, 200), left_out), /*refusal=*/true);
}

void Audit::taken(const AuditEntry& entry) {
  const MutexLock lock(mutex_);
  std::string left_out;
  if (!may_write(commands_, left_out)) return;
  write_(fmt::format("audit: took {}{}", audit_words(entry), left_out), /*refusal=*/false);
}

}  // namespace muster::control
