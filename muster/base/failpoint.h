// Failpoints: named places where a test lets a process die, stop, dawdle or fail, again and again at the same moment.
//
//   MUSTER_FAILPOINT("arena.commit.before_flip");
//
// Compiled in always, dormant: the program that is tested is the program that ships. When nothing is armed a point
// costs one relaxed load and a branch. Which hit of a point acts is told by rank, step, attempt (the FailpointScope of
// the thread) and call (how many hits of this name came before in that rank, step and attempt), so a failure that was
// seen once can be had again.
//
// Armed by a text of rules separated by ';', each  name=action  or  name=action@condition,condition...
//   actions      kill (SIGKILL to this process), stop (SIGSTOP), spin (for ever), delay=MILLISECONDS, error (throws
//                Error{kIo})
//   conditions   rank=N, step=N, call=N, attempt=N; what is not named may have any value
//   example      arena.commit.before_flip=kill@rank=1,step=3,call=0
//
// Thread safety: everything may be called from any thread; a scope belongs to the thread that made it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Tells the failpoints hit by this thread in this scope whose they are. Scopes nest; the innermost counts. A thread
// without one has rank, step and attempt -1.
class FailpointScope {
 public:
  struct Key {
    int rank = -1;
    std::int64_t step = -1;
    int attempt = -1;
    bool operator==(const Key&) const = default;
  };

  explicit FailpointScope(const Key& key);
  FailpointScope(int rank, std::int64_t step, int attempt = 0) : FailpointScope(Key{rank, step, attempt}) {}
  FailpointScope(const FailpointScope&) = delete;
  FailpointScope& operator=(const FailpointScope&) = delete;
  ~FailpointScope();

  // This thread's, for one that it starts.
  static Key current();

 private:
  Key outer_;
};

// Adds the rules of `rules`. Throws kInvalidInput naming the place in the text (then none is armed).
void arm_failpoints(std::string_view rules);
// Forgets all rules and counts.
void disarm_failpoints();

// Every name compiled into this program, hit or not, sorted.
std::vector<std::string> failpoint_names();
// Hits of a name since the first rule was armed, by whatever thread; 0 while nothing is armed.
std::uint64_t failpoint_hits(std::string_view name);

// What MUSTER_FAILPOINT is made of: not to be used by itself.
namespace failpoint {

struct Site {
  const char* name;
};
// The justified exception to "no globals": a failpoint has to be reachable from every line of the program without an
// argument, and its state says what the test does to this process, never what the program computes.
extern std::atomic<bool> armed;
void hit(const Site& site);

}  // namespace failpoint
}  // namespace muster

// REQUIRES: not in a template or an inline function, whose copies the linker would have to merge. The pointers of all
// points lie side by side in one section, which is how their names are known before any is hit.
#define MUSTER_FAILPOINT(point)                                                  \
  do {                                                                           \
    static const ::muster::failpoint::Site muster_site{point};                   \
    static const ::muster::failpoint::Site* volatile muster_entry                \
        __attribute__((section("muster_failpoints"), used)) = &muster_site;      \
    if (::muster::failpoint::armed.load(std::memory_order_relaxed)) [[unlikely]] \
      ::muster::failpoint::hit(*muster_entry);                                   \
  } while (false)
