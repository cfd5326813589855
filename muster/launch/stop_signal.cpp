// One atomic number, which is all that a handler can reach. The handler takes itself back, so that a second signal does
// what it would have done without us.
#include "muster/launch/stop_signal.h"

#include <atomic>

#include "muster/base/deadline.h"

namespace muster::launch {
namespace {

constexpr std::chrono::milliseconds kPollInterval{1};

// A handler can reach nothing else.
std::atomic<int> noted{0};
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) {
  noted.store(signal);
}

}  // namespace

StopSignal::StopSignal() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction present {};
    if (::sigaction(kSignals[i], nullptr, &present) != 0) continue;
    const bool plain = (present.sa_flags & SA_SIGINFO) == 0 && present.sa_handler == SIG_DFL;
    if (!plain) continue;
    struct sigaction action {};
    action.sa_handler = note;
    action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);  // the second one has the default action again
    ::sigemptyset(&action.sa_mask);
    if (::sigaction(kSignals[i], &action, nullptr) == 0) before_[i] = present;
  }
}

StopSignal::~StopSignal() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction present {};
    if (!before_[i] || ::sigaction(kSignals[i], nullptr, &present) != 0) continue;
    if ((present.sa_flags & SA_SIGINFO) == 0 && present.sa_handler == note)
      ::sigaction(kSignals[i], &*before_[i], nullptr);
  }
}

int StopSignal::number() const {
  return noted.load();
}

int StopSignal::wait(std::chrono::nanoseconds longest) const {
  const Deadline deadline = Deadline::after(longest);
  while (number() == 0 && !deadline.passed())
    system_clock().sleep_for(kPollInterval);
  return number();
}

}  // namespace muster::launch
