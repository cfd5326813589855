// What a signal handler may touch is little: a fixed table of ranges, written before they are published, and write(2).
// It explains and then lets whoever was there before end the process.
#include "muster/compute/write_guard.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string_view>

namespace muster::compute {
namespace {

using Ranges = std::vector<GuardedRange>;

// What a signal handler can reach has to be of the process. More models at once than places: the rest is not explained.
constexpr std::size_t kPlaces = 64;
std::array<std::atomic<const Ranges*>, kPlaces> places;
struct sigaction before;
static_assert(std::atomic<const Ranges*>::is_always_lock_free);

const GuardedRange* find(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  for (const auto& place : places) {
    const Ranges* const ranges = place.load();
    if (ranges == nullptr) continue;
    for (const GuardedRange& range : *ranges) {
      if (at >= range.memory.data() && at < range.memory.data() + range.memory.size()) return &range;
    }
  }
  return nullptr;
}

// No allocation, no locks, no stdio.
class Line {
 public:
  void add(std::string_view text) {
    const std::size_t count = std::min(text.size(), text_.size() - length_);
    std::memcpy(text_.data() + length_, text.data(), count);
    length_ += count;
  }
  void print() const {
    // A descriptor that cannot be written changes nothing: the process ends anyway.
    if (::write(STDERR_FILENO, text_.data(), length_) < 0) return;
  }

 private:
  std::array<char, 1024> text_{};
  std::size_t length_ = 0;
};

void explain(int signal, siginfo_t* info, void*) {
  // The instruction is tried again when this returns, and what was there before this handler has its turn.
  ::sigaction(SIGSEGV, &before, nullptr);
  const GuardedRange* const range = info->si_code == SEGV_ACCERR ? find(info->si_addr) : nullptr;
  if (range != nullptr) {
    Line line;
    line.add("muster: this program writes to parameter ");
    line.add(std::string_view(range->name).substr(0, 300));
    line.add(
        ", which a session holds: the workers share its memory, and only a step of the session changes it. Set "
        "parameters before synchronize(), or write to them in SessionOptions::after_commit; to go on from others, make "
        "a new session or use session.resume(). The "
        "process ends with a segmentation fault.\n");
    line.print();
  }
  // One that was sent by somebody does not come again by itself.
  if (info->si_code <= 0) ::raise(signal);
}

void install() {
  struct sigaction action {};
  action.sa_sigaction = explain;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGSEGV, &action, &before);
}

}  // namespace

WriteGuard::WriteGuard(std::vector<GuardedRange> ranges) : ranges_(std::make_unique<const Ranges>(std::move(ranges))) {
  static std::once_flag installed;
  std::call_once(installed, install);
  for (auto& place : places) {
    const Ranges* none = nullptr;
    if (place.compare_exchange_strong(none, ranges_.get())) return;
  }
}

WriteGuard::~WriteGuard() {
  for (auto& place : places) {
    const Ranges* own = ranges_.get();
    if (place.compare_exchange_strong(own, nullptr)) return;
  }
}

}  // namespace muster::compute
