// The face over the log: each call reads, decides, commits, and does it again if another process was first. A thread
// tells other machines that this one lives, for trials that take longer than a lease.
#include "muster/tuning/study.h"

#include <cmath>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/control/write_ahead.h"
#include "muster/tuning/budget.h"
#include "muster/tuning/pareto.h"
#include "muster/tuning/study_log.h"

namespace muster::tuning {
namespace {

constexpr std::chrono::milliseconds kRetry{50};        // between looks while all depends on others
constexpr std::chrono::milliseconds kPatience{60000};  // for others that hold the store

const Value& value_of(const Suggestion& trial, std::string_view name) {
  const Value* value = trial.values.find(name);
  if (value == nullptr)
    throw Error(ErrorKind::kNotFound, fmt::format("trial {} has no \"{}\"", trial.number, name), {},
                fmt::format("It has {}.", trial.values.text()));
  return *value;
}

template <typename T>
const T& typed(const Suggestion& trial, std::string_view name) {
  const Value& value = value_of(trial, name);
  if (const T* found = std::get_if<T>(&value)) return *found;
  throw Error(ErrorKind::kMismatch, fmt::format("\"{}\" of trial {} is {}", name, trial.number, to_toml(value)), {},
              "Ask for it by its own type.");
}

StudyEvent event_about(EventKind kind, std::uint64_t number, std::string reason = {}) {
  StudyEvent event;
  event.kind = kind;
  event.number = number;
  event.reason = std::move(reason);
  return event;
}

}  // namespace

double Suggestion::real(std::string_view name) const {
  if (const auto* whole = std::get_if<std::int64_t>(&value_of(*this, name))) return static_cast<double>(*whole);
  return typed<double>(*this, name);
}
std::int64_t Suggestion::integer(std::string_view name) const {
  return typed<std::int64_t>(*this, name);
}
const std::string& Suggestion::text(std::string_view name) const {
  return typed<std::string>(*this, name);
}
bool Suggestion::flag(std::string_view name) const {
  return typed<bool>(*this, name);
}

class Study::Body {
 public:
  explicit Body(StudyLog log)
      : log_(std::move(log)),
        searcher_(log_.plan().searcher.make(log_.plan().search_problem())),
        scheduler_(log_.plan().scheduler.make(log_.plan().schedule_problem())) {}
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  ~Body() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    wake_.notify_all();
    if (beats_.joinable()) beats_.join();
    try {
      if (beats_began_) log_.beat(system_clock().now() - begun_at_);
      log_.leave();
    } catch (const Error&) {
      // The process ends some day, and then it is seen to be gone.
    }
  }

  std::optional<Suggestion> ask(std::chrono::nanoseconds patience, bool person) {
    const Deadline deadline = Deadline::after(patience);
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        log_.catch_up();
        const std::string owner = person ? std::string(kPerson) : member();
        Asked asked = ask_once(owner);
        // Who asks dies in a power cut, and then nobody needs the question; a person lives.
        if (!(person ? log_.commit() : log_.commit_soon())) continue;
        if (asked.given) return suggestion(*asked.given);
        if (asked.over) return std::nullopt;
      }
      if (deadline.passed())
        throw Error(ErrorKind::kTimeout, "everything that is left depends on trials that others run", {},
                    "Ask again when they have been told.");
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, kRetry);
    }
  }

  bool report(const Suggestion& trial, std::uint64_t resource, const std::vector<double>& values) {
    require_finite(values);
    const std::lock_guard lock(mutex_);
    bool goes_on = true;
    change(trial, [&] {
      const Trial& now = log_.history().at(trial.number);
      if (values.size() != log_.plan().objectives.size())
        throw Error(ErrorKind::kInvalidInput,
                    fmt::format("{} value(s) for {} objective(s)", values.size(), log_.plan().objectives.size()), {},
                    "Report one for each, in their order.");
      if (resource > log_.plan().max_resource)
        throw Error(ErrorKind::kInvalidInput,
                    fmt::format("trial {} reports at {} of {}", trial.number, resource, log_.plan().max_resource), {},
                    "A trial goes no further than that.");
      if (resource <= now.resource())
        throw Error(ErrorKind::kInvalidInput,
                    fmt::format("trial {} reports at {} after {}", trial.number, resource, now.resource()), {},
                    "Reports of a trial have growing resources.");
      StudyEvent event = event_about(EventKind::kReport, trial.number);
      event.resource = resource;
      event.objectives = values;
      log_.stage(std::move(event));
      goes_on = decide(trial.number);
    });
    return goes_on;
  }

  void tell(const Suggestion& trial, const std::vector<double>& values) {
    const std::lock_guard lock(mutex_);
    if (values.size() != log_.plan().objectives.size())
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("{} values for {} objectives", values.size(), log_.plan().objectives.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) continue;
      end(trial, EventKind::kFail, fmt::format("{} is not a number", log_.plan().objectives[i].metric));
      return;
    }
    change(trial, [&] {
      StudyEvent event = event_about(EventKind::kFinish, trial.number);
      event.objectives = values;
      log_.stage(std::move(event));
    });
    wake_.notify_all();
  }

  void end_locked(const Suggestion& trial, EventKind kind, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    end(trial, kind, reason);
  }

  std::optional<Trial> best() {
    const std::lock_guard lock(mutex_);
    if (log_.plan().objectives.size() != 1)
      throw Error(ErrorKind::kInvalidInput, "of two objectives there is no best trial", "Study::best",
                  "front() has those of which none is worse in both.");
    log_.catch_up();
    const auto number = best_trial(log_.history(), 0, log_.plan().objectives.front().goal);
    return number ? std::optional(log_.history().at(*number)) : std::nullopt;
  }

  std::vector<Trial> front() {
    const std::lock_guard lock(mutex_);
    log_.catch_up();
    std::vector<Trial> found;
    for (const std::uint64_t number : pareto_front(log_.history(), log_.plan().goals()))
      found.push_back(log_.history().at(number));
    return found;
  }

  std::vector<Trial> trials() {
    const std::lock_guard lock(mutex_);
    log_.catch_up();
    return log_.history().trials();
  }

  StudyPlan plan() {
    const std::lock_guard lock(mutex_);
    return log_.plan();
  }

 private:
  struct Asked {
    std::optional<std::uint64_t> given{};
    bool over = false;
  };

  // This process becomes a member with its first question; who only looks is none.
  const std::string& member() {
    const std::string& id = log_.join();
    if (!beats_.joinable()) {
      begun_at_ = system_clock().now();
      beats_began_ = true;
      beats_ = std::thread([this] { keep_beating(); });
    }
    return id;
  }

  void keep_beating() {
    std::unique_lock lock(mutex_);
    auto next = system_clock().now() + log_.lease() / 3;
    while (!ends_) {
      wake_.wait_until(lock, next);
      if (ends_ || system_clock().now() < next) continue;
      next = system_clock().now() + log_.lease() / 3;
      try {
        log_.beat(system_clock().now() - begun_at_);
      } catch (const Error&) {
        // The next one may come through; who asks or tells is told what is wrong with the store.
      }
    }
  }

  Asked ask_once(const std::string& owner) {
    for (const std::uint64_t number : log_.orphans()) {
      StudyEvent event = event_about(EventKind::kLose, number, "who ran it is gone");
      event.resource = log_.history().at(number).resource();
      log_.stage(std::move(event));
    }
    Spent spent = log_.spent();
    if (log_.plan().budget.seconds > 0) {
      spent.seconds = log_.others_seconds();
      if (beats_began_) spent.seconds += std::chrono::duration<double>(system_clock().now() - begun_at_).count();
    }
    for (;;) {
      const Next next = scheduler_->next(log_.history());
      if (next.turn == Turn::kDone) return {{}, true};
      if (next.turn == Turn::kWait) return {};
      if (next.turn == Turn::kEnd) {
        log_.stage(event_about(EventKind::kStop, next.number, next.reason));
        continue;
      }
      std::uint64_t number = next.number;
      if (next.turn == Turn::kNew) {
        number = log_.history().size();
        if (judge(log_.plan().budget, spent).over) return {{}, true};
        Proposal proposal = searcher_->ask(log_.history(), number);
        if (proposal.exhausted) return {{}, true};
        StudyEvent event = event_about(EventKind::kAdd, number, std::move(proposal.reason));
        event.values = std::move(proposal.values);
        event.group = next.group;
        log_.stage(std::move(event));
      }
      StudyEvent run = event_about(EventKind::kRun, number);
      run.owner = owner;
      log_.stage(std::move(run));
      return {number, false};
    }
  }

  // What the scheduler says of the trial's last report; whether the trial goes on.
  bool decide(std::uint64_t number) {
    const Trial& trial = log_.history().at(number);
    if (trial.resource() >= log_.plan().max_resource) return true;  // it comes to its own end
    const Decision decision = scheduler_->after_report(log_.history(), number);
    if (decision.action == Action::kContinue) return true;
    const std::uint64_t group = trial.group;
    const bool pauses = decision.action == Action::kPause;
    log_.stage(event_about(pauses ? EventKind::kPause : EventKind::kStop, number, decision.reason));
    if (decision.action == Action::kExploit) {
      StudyEvent add = event_about(EventKind::kAdd, log_.history().size(), decision.reason);
      add.values = decision.exploit->values;
      add.lineage = decision.exploit->from;
      add.group = group;
      log_.stage(std::move(add));
    }
    return false;
  }

  void end(const Suggestion& trial, EventKind kind, const std::string& reason) {
    change(trial, [&] {
      StudyEvent event = event_about(kind, trial.number, reason);
      if (kind == EventKind::kLose) event.resource = log_.history().at(trial.number).resource();
      log_.stage(std::move(event));
    });
    wake_.notify_all();
  }

  // Stages by `action` and commits, again and again until nobody else was first. Throws kMismatch if the trial is not
  // this process's: others have taken it for lost, or it was told before.
  void change(const Suggestion& trial, const std::function<void()>& action) {
    do {
      log_.catch_up();
      if (trial.number >= log_.history().size())
        throw Error(ErrorKind::kNotFound, fmt::format("there is no trial {}", trial.number));
      const Trial& now = log_.history().at(trial.number);
      const std::string& owner = log_.notes(trial.number).owner;
      if (now.state != State::kRunning) throw not_running(now);
      if (owner != kPerson && owner != log_.join())
        throw Error(ErrorKind::kMismatch, fmt::format("trial {} is run by another process now", trial.number), {},
                    "Ask for another one.");
      action();
    } while (!log_.commit());
  }

  // Why it was proposed, which is its reason at first, says nothing here.
  static Error not_running(const Trial& trial) {
    const bool told = trial.state == State::kFailed || trial.state == State::kStopped || trial.state == State::kPaused;
    return {ErrorKind::kMismatch,
            fmt::format("trial {} does not run: it is {}{}", trial.number, to_string(trial.state),
                        told && !trial.reason.empty() ? fmt::format(" ({})", trial.reason) : ""),
            {},
            ended(trial.state) ? "What was told first counts." : "Ask for a trial, and tell of the one that is given."};
  }

  static void require_finite(const std::vector<double>& values) {
    for (const double value : values) {
      if (!std::isfinite(value))
        throw Error(ErrorKind::kInvalidInput, "a report that is not a number", {}, "Tell the trial as failed.");
    }
  }

  Suggestion suggestion(std::uint64_t number) const {
    const Trial& trial = log_.history().at(number);
    return {number, trial.values, trial.resource(), trial.reports.empty() ? trial.lineage : std::nullopt};
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  // guarded by mutex_
  StudyLog log_;
  std::unique_ptr<Searcher> searcher_;
  std::unique_ptr<Scheduler> scheduler_;
  bool ends_ = false;
  bool beats_began_ = false;  // and so this process is a member since begun_at_
  Clock::Instant begun_at_;
  std::thread beats_;
};

Study::Study(const std::filesystem::path& file, const StudyPlan& plan)
    : body_(std::make_unique<Body>(StudyLog(control::make_write_ahead_store(file, {.timeout = kPatience}), plan))) {
}
Study::Study(const std::filesystem::path& file)
    : body_(std::make_unique<Body>(
          StudyLog(control::make_write_ahead_store(file, {.create = false, .timeout = kPatience})))) {
}
Study::Study(Study&&) noexcept = default;
Study& Study::operator=(Study&&) noexcept = default;
Study::~Study() = default;

std::optional<Suggestion> Study::ask(std::chrono::nanoseconds patience) {
  return body_->ask(patience, false);
}
std::optional<Suggestion> Study::ask_for_person(std::chrono::nanoseconds patience) {
  return body_->ask(patience, true);
}
bool Study::report(const Suggestion& trial, std::uint64_t resource, double value) {
  return body_->report(trial, resource, {value});
}
bool Study::report(const Suggestion& trial, std::uint64_t resource, const std::vector<double>& values) {
  return body_->report(trial, resource, values);
}
void Study::tell(const Suggestion& trial, double value) {
  body_->tell(trial, {value});
}
void Study::tell(const Suggestion& trial, const std::vector<double>& values) {
  body_->tell(trial, values);
}
void Study::tell_failed(const Suggestion& trial, const std::string& reason) {
  body_->end_locked(trial, EventKind::kFail, reason);
}
void Study::release(const Suggestion& trial) {
  body_->end_locked(trial, EventKind::kLose, "given back");
}
std::optional<Trial> Study::best() const {
  return body_->best();
}
std::vector<Trial> Study::front() const {
  return body_->front();
}
std::vector<Trial> Study::trials() const {
  return body_->trials();
}
StudyPlan Study::plan() const {
  return body_->plan();
}

}  // namespace muster::tuning
