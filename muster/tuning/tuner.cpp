// Rounds: everything that is decided in one goes to disk in one commit, and what is begun, stopped and told follows it.
// A round that came second is played again: news is kept until it is on disk, and acts come after that.
#include "muster/tuning/tuner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/text.h"

namespace muster::tuning {
namespace {

constexpr std::chrono::milliseconds kLook{100};          // longest wait for news of own trials
constexpr std::chrono::milliseconds kInterval{1000};     // between looks for orphans, and what watchers are told
constexpr std::chrono::milliseconds kLookAtOthers{250};  // longest wait while others work and this process has nothing

// Of one objective there is a best; of two there is a front, and all of it stays.
std::optional<std::uint64_t> best_of(const StudyLog& log) {
  if (log.plan().objectives.size() != 1) return std::nullopt;
  return best_trial(log.history(), 0, log.plan().objectives.front().goal);
}

}  // namespace

// What follows from one round once it is on disk.
struct Tuner::Round {
  struct Told {
    enum class What { kBegun, kReported, kRested, kLost } what;
    std::uint64_t number = 0;
    std::string reason{};
  };
  std::vector<Start> starts{};
  std::vector<std::uint64_t> gone{};   // do not run here any more
  std::vector<std::uint64_t> stops{};  // run, and are not wanted
  std::vector<std::uint64_t> ended{};
  std::vector<TrialNews> carried{};  // parts of trials that go on
  std::vector<Told> told{};
  std::size_t running = 0;  // here, after all that
  std::string over{};
  bool stop_all = false;
};

Tuner::Tuner(StudyLog& log, TrialExecutor& executor, TunerObserver& observer, TunerOptions options)
    : log_(log),
      executor_(executor),
      observer_(observer),
      options_(std::move(options)),
      member_(log.join()),
      searcher_(log.plan().searcher.make(log.plan().search_problem())),
      scheduler_(log.plan().scheduler.make(log.plan().schedule_problem())),
      best_(best_of(log)),
      others_seconds_(log.others_seconds()),
      begun_at_(options_.clock->now()),
      beaten_at_(begun_at_),
      looked_at_(begun_at_ - kInterval),
      orphans_at_(begun_at_ - kInterval) {
}

TunerResult Tuner::run() {
  // A tuner that was killed may have written down an end that it did not act on.
  keep_best(log_.history().ended());
  for (;;) {
    if (options_.stop_requested() && !interrupted_) {
      interrupted_ = true;
      over_ = "a stop was asked for";
    }
    if (interrupted_ && !stopping_) {
      stopping_ = true;
      for (const auto& [number, until] : running_)
        executor_.stop(number);
    }
    if (!play_round()) continue;
    if (running_.empty() && news_.empty() && !over_.empty()) break;
    beat();
    const auto longest = running_.empty() ? kLookAtOthers : kLook;
    for (TrialNews& news : executor_.wait(longest))
      news_.push_back(std::move(news));
  }
  finish();
  observer_.looked(log_, spent());
  return {interrupted_, over_};
}

// The last words. All of the study is on disk: that somebody holds the store now takes nothing from it.
void Tuner::finish() {
  try {
    log_.beat(options_.clock->now() - begun_at_);
    // Where two processes end at once, the one that links last has read what the other one has found.
    do {
      link_best();
      read_others();
    } while (best_ != linked_);
    keep_best(log_.history().ended());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
    observer_.waits(error.what());
  }
}

void Tuner::read_others() {
  if (log_.catch_up()) best_ = best_of(log_);
}

// What is read, decided and written in a round; it is done again when another process was first.
bool Tuner::decide_round(Round& round) {
  read_others();
  // What others took from this process runs here for nothing.
  for (const auto& [number, until] : running_) {
    if (!is_mine(number)) round.stops.push_back(number);
  }
  round.running = running();
  for (const TrialNews& news : news_)
    take_in(news, round);
  if (options_.clock->now() - orphans_at_ >= kInterval) free_orphans(round);
  if (over_.empty()) fill_slots(round);
  MUSTER_FAILPOINT("tuning.round.before_commit");
  return log_.commit();
}

// Each try has waited for the store already.
void Tuner::wait_for_store(const Error& error) {
  log_.forget();
  const Clock::Instant now = options_.clock->now();
  if (error.kind() != ErrorKind::kTimeout || (held_since_ && now - *held_since_ > options_.patience))
    throw Error(error);
  if (held_since_) return;
  held_since_ = now;
  observer_.waits(error.what());
}

// False: what was decided does not count, and is decided again.
bool Tuner::play_round() {
  const Clock::Instant now = options_.clock->now();
  Round round;
  try {
    if (!decide_round(round)) return false;
  } catch (const Error& error) {
    wait_for_store(error);
    return false;
  }
  held_since_.reset();
  MUSTER_FAILPOINT("tuning.round.after_commit");
  news_.clear();
  if (now - orphans_at_ >= kInterval) orphans_at_ = now;
  act(round);
  if (now - looked_at_ >= kInterval) {
    looked_at_ = now;
    if (log_.plan().budget.seconds > 0) others_seconds_ = log_.others_seconds();
    observer_.looked(log_, spent());
  }
  return true;
}

void Tuner::take_in(const TrialNews& news, Round& round) {
  using enum TrialNews::What;
  const bool is_end = news.what != kReport;
  // Of a trial that others have taken for lost, or that was ended meanwhile, nothing counts any more.
  if (!is_mine(news.number)) {
    if (is_end && running_.contains(news.number)) {
      round.gone.push_back(news.number);
      --round.running;
    }
    return;
  }
  switch (news.what) {
    case kReport:
      take_report(news, round);
      return;
    case kPaused:
      decide(news.number, news, round);
      return;
    case kFinished:
    case kFailed:
    case kStopped:
    case kDied:
      take_death(news, round);
      return;
  }
}

StudyEvent Tuner::event_of(EventKind kind, std::uint64_t number) const {
  StudyEvent event;
  event.kind = kind;
  event.number = number;
  return event;
}

// What it took since it was begun, with the parts between which the scheduler let it go on.
void Tuner::add_time(StudyEvent& event, const TrialNews& news) const {
  const auto found = carried_.find(event.number);
  const TrialNews carried = found != carried_.end() ? found->second : TrialNews{};
  event.seconds = news.seconds + carried.seconds;
  event.processor_seconds = news.processor_seconds + carried.processor_seconds;
  event.start_seconds = news.start_seconds + carried.start_seconds;
}

void Tuner::take_report(const TrialNews& news, Round& round) {
  const Trial& trial = log_.history().at(news.number);
  if (news.report.resource <= trial.resource()) return;  // of a part that was computed again
  for (std::size_t i = 0; i < news.report.values.size(); ++i) {
    if (std::isfinite(news.report.values[i])) continue;
    StudyEvent fail = event_of(EventKind::kFail, news.number);
    fail.reason =
        fmt::format("{} is not a number after epoch {}", log_.plan().objectives.at(i).metric, news.report.resource);
    log_.stage(std::move(fail));
    round.stops.push_back(news.number);
    round.ended.push_back(news.number);
    round.told.push_back({Round::Told::What::kRested, news.number});
    return;
  }
  StudyEvent event = event_of(EventKind::kReport, news.number);
  event.resource = news.report.resource;
  event.objectives = news.report.values;
  log_.stage(std::move(event));
  round.told.push_back({Round::Told::What::kReported, news.number});
}

// The trial has come to where the scheduler has something to say, and nothing of it runs.
void Tuner::decide(std::uint64_t number, const TrialNews& news, Round& round) {
  const Decision decision = scheduler_->after_report(log_.history(), number);
  if (decision.action == Action::kContinue) {
    if (stopping_)
      return take_death(
          {number, TrialNews::What::kStopped, {}, {}, news.seconds, news.processor_seconds, news.start_seconds}, round);
    round.starts.push_back({number, until_of(log_.history().at(number))});
    round.carried.push_back(news);
    return;
  }
  const bool pauses = decision.action == Action::kPause;
  StudyEvent event = event_of(pauses ? EventKind::kPause : EventKind::kStop, number);
  event.reason = decision.reason;
  add_time(event, news);
  const std::uint64_t group = log_.history().at(number).group;
  log_.stage(std::move(event));
  round.gone.push_back(number);
  --round.running;
  if (!pauses) round.ended.push_back(number);
  round.told.push_back({Round::Told::What::kRested, number});
  if (decision.action != Action::kExploit) return;
  StudyEvent add = event_of(EventKind::kAdd, log_.history().size());
  add.values = decision.exploit->values;
  add.lineage = decision.exploit->from;
  add.group = group;
  add.reason = decision.reason;
  log_.stage(std::move(add));
}

// It does not run any more, for whatever reason.
void Tuner::take_death(const TrialNews& news, Round& round) {
  using enum TrialNews::What;
  const Trial& trial = log_.history().at(news.number);
  StudyEvent event = event_of(EventKind::kFail, news.number);
  add_time(event, news);
  event.reason = news.reason;
  const std::uint64_t deaths = log_.notes(news.number).deaths + 1;
  if (news.what == kFinished && !trial.reports.empty()) {
    event.kind = EventKind::kFinish;
    event.objectives = trial.reports.back().values;
    event.reason.clear();
  } else if (news.what == kFinished) {
    std::vector<std::string> names;
    for (const Objective& objective : log_.plan().objectives)
      names.push_back(objective.metric);
    event.reason = fmt::format("it ended without telling {}", join_words(names));
  } else if (news.what == kStopped || (news.what == kDied && deaths <= log_.plan().retries)) {
    event.kind = EventKind::kLose;
    event.resource = trial.resource();
    event.died = news.what == kDied;
  } else if (news.what == kDied) {
    event.reason = fmt::format("it died {} times, the last time: {}", deaths, news.reason);
  }
  const bool lost = event.kind == EventKind::kLose;
  log_.stage(std::move(event));
  round.gone.push_back(news.number);
  --round.running;
  if (!lost) round.ended.push_back(news.number);
  round.told.push_back({lost ? Round::Told::What::kLost : Round::Told::What::kRested, news.number, news.reason});
}

void Tuner::free_orphans(Round& round) {
  for (const std::uint64_t number : log_.orphans()) {
    StudyEvent event = event_of(EventKind::kLose, number);
    event.resource = log_.history().at(number).resource();
    event.reason = "who ran it is gone";
    log_.stage(std::move(event));
    round.told.push_back({Round::Told::What::kLost, number, "who ran it is gone"});
  }
}

void Tuner::fill_slots(Round& round) {
  const BudgetVerdict verdict = judge(log_.plan().budget, spent());
  if (verdict.over &&
      (verdict.at_once || log_.plan().budget.trials == 0 || log_.history().originals() < log_.plan().budget.trials)) {
    round.over = verdict.reason;
    round.stop_all = verdict.at_once;
    return;
  }
  while (round.running < options_.slots + options_.ahead && round.over.empty() && fill_one(round)) {
  }
}

// Whether there may be more to do.
bool Tuner::fill_one(Round& round) {
  const Next next = scheduler_->next(log_.history());
  switch (next.turn) {
    case Turn::kNew:
      add_new(next, round);
      return true;
    case Turn::kRun:
      run_trial(next.number, round);
      return true;
    case Turn::kEnd: {
      StudyEvent event = event_of(EventKind::kStop, next.number);
      event.reason = next.reason;
      log_.stage(std::move(event));
      round.ended.push_back(next.number);
      // One that was paused a moment ago, in this round, is told of once: as what it is now.
      std::erase_if(round.told, [&](const Round::Told& told) {
        return told.number == next.number && told.what == Round::Told::What::kRested;
      });
      round.told.push_back({Round::Told::What::kRested, next.number});
      return true;
    }
    case Turn::kDone:
      round.over = next.reason.empty() ? "the study is over" : next.reason;
      return false;
    case Turn::kWait:
      break;
  }
  if (round.running == 0 && log_.history().running().empty())
    round.over = fmt::format("nothing is left to do ({})", next.reason);
  return false;
}

void Tuner::add_new(const Next& next, Round& round) {
  const std::uint64_t number = log_.history().size();
  if (log_.plan().budget.trials > 0 && log_.history().originals() >= log_.plan().budget.trials) {
    round.over = fmt::format("all {} trials were begun", log_.plan().budget.trials);
    return;
  }
  const Proposal proposal = searcher_->ask(log_.history(), number);
  if (proposal.exhausted) {
    round.over = proposal.reason.empty() ? "nothing is left to try" : proposal.reason;
    return;
  }
  StudyEvent event = event_of(EventKind::kAdd, number);
  event.values = proposal.values;
  event.group = next.group;
  event.reason = proposal.reason;
  log_.stage(std::move(event));
  run_trial(number, round);
}

void Tuner::run_trial(std::uint64_t number, Round& round) {
  StudyEvent event = event_of(EventKind::kRun, number);
  event.owner = member_;
  log_.stage(std::move(event));
  // Others took it for lost and gave it back: it never stopped here.
  if (running_.contains(number) && std::ranges::find(round.gone, number) == round.gone.end()) return;
  round.starts.push_back({number, until_of(log_.history().at(number))});
  round.told.push_back({Round::Told::What::kBegun, number});
  ++round.running;
}

std::uint64_t Tuner::until_of(const Trial& trial) const {
  const std::uint64_t next = scheduler_->next_decision(trial);
  return next >= log_.plan().max_resource ? 0 : next;
}

bool Tuner::is_mine(std::uint64_t number) const {
  return log_.history().at(number).state == State::kRunning && log_.notes(number).owner == member_;
}

void Tuner::act(const Round& round) {
  for (const std::uint64_t number : round.gone) {
    running_.erase(number);
    carried_.erase(number);
    unwanted_.erase(number);
  }
  for (const TrialNews& part : round.carried) {
    TrialNews& sum = carried_[part.number];
    sum.seconds += part.seconds;
    sum.processor_seconds += part.processor_seconds;
    sum.start_seconds += part.start_seconds;
  }
  for (const Round::Told& told : round.told) {
    const Trial& trial = log_.history().at(told.number);
    if (told.what == Round::Told::What::kBegun) observer_.begun(trial);
    if (told.what == Round::Told::What::kReported) observer_.reported(trial);
    if (told.what == Round::Told::What::kRested) observer_.rested(trial);
    if (told.what == Round::Told::What::kLost) observer_.lost(trial, told.reason);
  }
  for (const std::uint64_t number : round.stops) {
    if (unwanted_.insert(number).second) executor_.stop(number);
  }
  keep_best(round.ended);
  for (const Start& start : round.starts) {
    if (stopping_) continue;
    running_[start.number] = start.until;
    executor_.start(log_.history().at(start.number), start.until);
  }
  if (!round.over.empty()) over_ = round.over;
  if (round.stop_all && !stopping_) {
    stopping_ = true;
    for (const auto& [number, until] : running_)
      executor_.stop(number);
  }
}

void Tuner::keep_best(const std::vector<std::uint64_t>& ended) {
  if (log_.plan().objectives.size() != 1) return;
  const Goal goal = log_.plan().objectives.front().goal;
  std::vector<std::uint64_t> not_needed;
  for (const std::uint64_t number : ended) {
    if (number == best_) continue;
    const Trial& trial = log_.history().at(number);
    const std::vector<double>* outcome = trial.outcome();
    const std::vector<double>* before = best_ ? log_.history().at(*best_).outcome() : nullptr;
    const bool better =
        outcome != nullptr && (before == nullptr || loss(outcome->front(), goal) < loss(before->front(), goal));
    const std::optional<std::uint64_t> worse = better ? std::exchange(best_, number) : number;
    if (worse) not_needed.push_back(*worse);
  }
  link_best();
  for (const std::uint64_t number : not_needed)
    executor_.ended(log_.history().at(number));
}

// Whoever found it: where two processes link, the one that comes late with a worse one reads so and links again.
void Tuner::link_best() {
  if (best_ == linked_) return;
  executor_.best(log_.history().at(*best_));
  linked_ = best_;
}

void Tuner::beat() {
  const Clock::Instant now = options_.clock->now();
  if (now - beaten_at_ < log_.lease() / 3) return;
  try {
    log_.beat(now - begun_at_);
    beaten_at_ = now;
  } catch (const Error& error) {
    wait_for_store(error);
  }
}

Spent Tuner::spent() {
  Spent spent = log_.spent();
  spent.seconds = others_seconds_ + std::chrono::duration<double>(options_.clock->now() - begun_at_).count();
  return spent;
}

}  // namespace muster::tuning
