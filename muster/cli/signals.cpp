// A handler can only post to a semaphore; a thread waits there and does the rest. The state that the handler reaches is
// the process's and belongs to the one watch that lives.
#include "muster/cli/signals.h"

#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <optional>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/deadline.h"

namespace muster::cli {
namespace {

// A handler gets nothing but the signal's number, so this is the one piece of state that cannot be a member. Both calls
// below are safe inside a handler.
struct Mailbox {
  std::atomic<int> last{0};
  sem_t arrived{};
};
static_assert(std::atomic<int>::is_always_lock_free);
Mailbox mailbox;

// SIGUSR1 is what batch systems send before they end a job by force.
constexpr std::array kSignals{SIGINT, SIGTERM, SIGUSR1};

const char* words_for(int signal) {
  return signal == SIGINT ? "Ctrl-C" : signal == SIGTERM ? "SIGTERM" : "SIGUSR1";
}

extern "C" void deliver(int signal) {
  const int saved = errno;
  mailbox.last = signal;
  sem_post(&mailbox.arrived);
  errno = saved;
}

void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  MUSTER_CHECK(sigaction(signal, &action, nullptr) == 0, "sigaction");
}

// Waits a little for a signal; nothing when none came.
std::optional<int> next_signal(std::chrono::nanoseconds patience) {
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);  // sem_timedwait knows no other clock; a jump of it only costs a turn
  const auto nanoseconds = until.tv_nsec + patience.count();
  until.tv_sec += nanoseconds / 1'000'000'000;
  until.tv_nsec = nanoseconds % 1'000'000'000;
  if (sem_timedwait(&mailbox.arrived, &until) != 0) return std::nullopt;
  return mailbox.last.load();
}

}  // namespace

SignalWatch::SignalWatch(std::chrono::duration<double> grace, std::function<void(const std::string&)> on_first,
                         std::chrono::milliseconds linger, Second second)
    : grace_(grace), on_first_(std::move(on_first)), linger_(linger), second_(second) {
  MUSTER_CHECK(sem_init(&mailbox.arrived, 0, 0) == 0, "sem_init");
  for (const int signal : kSignals)
    set_handler(signal, deliver);
  thread_ = std::thread([this] { watch(); });
}

SignalWatch::~SignalWatch() {
  end_ = true;
  thread_.join();
  for (const int signal : kSignals)
    set_handler(signal, SIG_DFL);
}

double SignalWatch::grace_used() const {
  if (!stop_requested()) return 0;
  const std::chrono::duration<double> since =
      system_clock().now().time_since_epoch() - std::chrono::nanoseconds(asked_at_.load());
  return since / grace_;
}

int SignalWatch::for_workers() const {
  if (insisted()) return SIGKILL;
  const int signal = signal_.load();
  // Programs of users know what SIGTERM asks of them, and may use SIGUSR1 for something else.
  return signal == SIGUSR1 ? SIGTERM : signal;
}

void SignalWatch::end_now(const char* why) {
  const std::string message = fmt::format("\nmuster: {}\n", why);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message.data(), message.size());
  insisted_ = true;
  const Deadline linger = Deadline::after(linger_);
  while (!linger.passed() && !end_)
    system_clock().sleep_for(std::chrono::milliseconds(5));
  ::_exit(128 + signal_);
}

void SignalWatch::watch() {
  constexpr std::chrono::milliseconds kTurn{50};  // how soon the end of the program or of the grace period is seen
  std::optional<Deadline> deadline;
  while (!end_) {
    if (const std::optional<int> signal = next_signal(kTurn)) {
      if (signal_ != 0 && second_ == Second::kIsTheSame) continue;
      if (signal_ != 0) end_now("stopped at once, at the second signal");
      asked_at_ = system_clock().now().time_since_epoch().count();
      signal_ = *signal;
      deadline = Deadline::after(std::chrono::duration_cast<std::chrono::nanoseconds>(grace_));
      on_first_(words_for(*signal));
    }
    if (deadline && deadline->passed()) end_now("the grace period is over; stopped without a new checkpoint");
  }
}

}  // namespace muster::cli
