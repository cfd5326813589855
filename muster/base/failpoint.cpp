// Points find themselves in a section of the program that the linker gathers, so that their names can be listed before
// any was hit. What is armed is one state that is never destroyed: threads may hit a point while the program ends.
#include "muster/base/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/base/text.h"

// The bounds of the section in this program or library, made by the linker; weak, as there may be no point at all.
extern "C" {
extern const muster::failpoint::Site* volatile __start_muster_failpoints[]  // NOLINT: the linker chose the name
    __attribute__((weak, visibility("hidden")));
extern const muster::failpoint::Site* volatile __stop_muster_failpoints[]  // NOLINT
    __attribute__((weak, visibility("hidden")));
}

namespace muster {
namespace {

enum class Action { kKill, kStop, kSpin, kDelay, kError };

struct Rule {
  std::string name;
  Action action = Action::kError;
  std::chrono::milliseconds delay{0};
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> call;
  std::optional<std::int64_t> attempt;

  bool matches(std::string_view point, const FailpointScope::Key& key, std::int64_t calls) const {
    return name == point && rank.value_or(key.rank) == key.rank && step.value_or(key.step) == key.step &&
           attempt.value_or(key.attempt) == key.attempt && call.value_or(calls) == calls;
  }
};

// Hits of one point by one rank in its latest step and attempt.
struct Calls {
  FailpointScope::Key key;
  std::int64_t count = 0;
};

struct State {
  Mutex mutex;
  std::vector<Rule> rules MUSTER_GUARDED_BY(mutex);
  std::map<std::pair<std::string, int>, Calls> calls MUSTER_GUARDED_BY(mutex);  // by name and rank
  std::map<std::string, std::uint64_t, std::less<>> hits MUSTER_GUARDED_BY(mutex);
};

State& state() {
  // Never destroyed: threads may hit a point while the program ends.
  static State* const state = new State;
  return *state;
}

thread_local FailpointScope::Key current_key;

// The rules' text, read from left to right.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), names_(failpoint_names()) {}

  std::vector<Rule> rules() {
    std::vector<Rule> rules;
    while (at_ < text_.size()) {
      if (text_[at_] == ';')
        ++at_;
      else
        rules.push_back(rule());
    }
    return rules;
  }

 private:
  Rule rule() {
    Rule rule;
    const std::size_t begin = at_;
    rule.name = word("=@,;");
    if (!std::binary_search(names_.begin(), names_.end(), rule.name)) {
      refuse(begin, fmt::format("this program has no failpoint \"{}\"{}", excerpt(rule.name, 80),
                                did_you_mean(rule.name, names_)));
    }
    if (!skip('=')) refuse(at_, "an action is expected here: =kill, =stop, =spin, =delay=MS or =error");
    action(rule);
    if (skip('@')) {
      do
        condition(rule);
      while (skip(','));
    }
    if (at_ < text_.size() && text_[at_] != ';') refuse(at_, "the end of the rule or ';' is expected here");
    return rule;
  }

  void action(Rule& rule) {
    const std::size_t begin = at_;
    const std::string name = word("=@,;");
    if (name == "kill") {
      rule.action = Action::kKill;
    } else if (name == "stop") {
      rule.action = Action::kStop;
    } else if (name == "spin") {
      rule.action = Action::kSpin;
    } else if (name == "error") {
      rule.action = Action::kError;
    } else if (name == "delay") {
      rule.action = Action::kDelay;
      if (!skip('=')) refuse(at_, "a number of milliseconds is expected here, as in delay=20");
      rule.delay = std::chrono::milliseconds(number(3'600'000));
    } else {
      refuse(begin, fmt::format("\"{}\" is no action: kill, stop, spin, delay=MS and error are", excerpt(name, 40)));
    }
  }

  void condition(Rule& rule) {
    const std::size_t begin = at_;
    const std::string name = word("=@,;");
    std::optional<std::int64_t>* const slot = name == "rank"      ? &rule.rank
                                              : name == "step"    ? &rule.step
                                              : name == "call"    ? &rule.call
                                              : name == "attempt" ? &rule.attempt
                                                                  : nullptr;
    if (slot == nullptr)
      refuse(begin, fmt::format("\"{}\" is no condition: rank, step, call and attempt are", excerpt(name, 40)));
    if (slot->has_value()) refuse(begin, fmt::format("{} stands there twice", name));
    if (!skip('=')) refuse(at_, fmt::format("a number is expected here, as in {}=1", name));
    *slot = number(INT64_MAX);
  }

  std::int64_t number(std::int64_t largest) {
    const std::size_t begin = at_;
    const std::string digits = word("=@,;");
    std::int64_t value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size() || value < 0 || value > largest)
      refuse(begin, fmt::format("\"{}\" is not a number from 0 to {}", excerpt(digits, 40), largest));
    return value;
  }

  std::string word(std::string_view ends) {
    const std::size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
    const std::size_t begin = std::exchange(at_, end);
    return std::string(text_.substr(begin, end - begin));
  }

  bool skip(char expected) {
    if (at_ >= text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }

  [[noreturn]] void refuse(std::size_t place, const std::string& what) const {
    throw Error(ErrorKind::kInvalidInput, what, fmt::format("failpoint rules, character {}", place + 1),
                "A rule looks like name=kill@rank=1,step=3,call=0.");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> names_;
};

void act(const Rule& rule, const FailpointScope::Key& key) {
  switch (rule.action) {
    case Action::kKill:
      ::kill(::getpid(), SIGKILL);
      break;
    case Action::kStop:
      ::kill(::getpid(), SIGSTOP);
      break;
    case Action::kSpin:
      for (volatile bool on = true; on;) {
      }
      break;
    case Action::kDelay:
      system_clock().sleep_for(rule.delay);
      break;
    case Action::kError:
      throw Error(ErrorKind::kIo, fmt::format("failpoint {} was told to fail here", rule.name),
                  fmt::format("rank {}, step {}", key.rank, key.step));
  }
}

}  // namespace

std::atomic<bool> failpoint::armed{false};

FailpointScope::FailpointScope(const Key& key) : outer_(std::exchange(current_key, key)) {
}

FailpointScope::Key FailpointScope::current() {
  return current_key;
}

FailpointScope::~FailpointScope() {
  current_key = outer_;
}

void arm_failpoints(std::string_view rules) {
  std::vector<Rule> added = Parser(rules).rules();
  if (added.empty()) return;
  State& shared = state();
  const MutexLock lock(shared.mutex);
  std::move(added.begin(), added.end(), std::back_inserter(shared.rules));
  failpoint::armed.store(true, std::memory_order_relaxed);
}

void disarm_failpoints() {
  State& shared = state();
  const MutexLock lock(shared.mutex);
  failpoint::armed.store(false, std::memory_order_relaxed);
  shared.rules.clear();
  shared.calls.clear();
  shared.hits.clear();
}

std::vector<std::string> failpoint_names() {
  std::set<std::string> names;  // a name may stand at several places
  for (auto entry = __start_muster_failpoints; entry != __stop_muster_failpoints; ++entry)
    names.insert((*entry)->name);
  return {names.begin(), names.end()};
}

std::uint64_t failpoint_hits(std::string_view name) {
  State& shared = state();
  const MutexLock lock(shared.mutex);
  const auto found = shared.hits.find(name);
  return found == shared.hits.end() ? 0 : found->second;
}

void failpoint::hit(const Site& site) {
  const FailpointScope::Key key = current_key;
  std::vector<Rule> due;
  {
    State& shared = state();
    const MutexLock lock(shared.mutex);
    if (!armed.load(std::memory_order_relaxed)) return;
    ++shared.hits[site.name];
    Calls& calls = shared.calls[{site.name, key.rank}];
    if (!(calls.key == key)) calls = {key, 0};
    const std::int64_t call = calls.count++;
    for (const Rule& rule : shared.rules)
      if (rule.matches(site.name, key, call)) due.push_back(rule);
  }
  for (const Rule& rule : due)
    act(rule, key);
}

}  // namespace muster
