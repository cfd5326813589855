// The log is optimistic: number n is written on the condition that there is no number n yet, in one transaction.
// Who comes second reads and decides again. A commit that failed half-way is settled by what is on disk.
#include "muster/tuning/study_log.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/host_name.h"
#include "muster/base/process.h"

namespace muster::tuning {
namespace {

constexpr const char* kPlanKey = "plan";
constexpr const char* kKnownPrefix = "known/";
constexpr std::size_t kKnownInOne = 500;  // an entry of a store has its limit
constexpr const char* kLogPrefix = "log/";
constexpr const char* kMemberPrefix = "members/";
constexpr const char* kSpentPrefix = "spent/";
constexpr const char* kWhere = "the study's store";

std::string log_key(std::uint64_t number) {
  return fmt::format("{}{:08}", kLogPrefix, number);
}

// A plan that is to be written if there is none yet.
control::Transaction first_entries(const StudyPlan& plan) {
  Json head = plan.json();
  const Json known = std::exchange(head["known"], Json::array());
  control::Transaction transaction;
  transaction.conditions.push_back({kPlanKey, 0});
  transaction.writes.push_back({kPlanKey, head.dump()});
  for (std::size_t i = 0; i < known.size(); i += kKnownInOne) {
    const auto from = known.begin() + static_cast<std::ptrdiff_t>(i);
    const std::size_t count = std::min(kKnownInOne, known.size() - i);
    transaction.writes.push_back({fmt::format("{}{:08}", kKnownPrefix, i / kKnownInOne),
                                  Json(Json::array_t(from, from + static_cast<std::ptrdiff_t>(count))).dump()});
  }
  return transaction;
}

std::string random_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

std::int64_t seconds_since_1970(const Clock& clock) {
  return std::chrono::duration_cast<std::chrono::seconds>(clock.wall().time_since_epoch()).count();
}

Json member_json(std::uint64_t count) {
  const ProcessId process = this_process();
  return {{"host", host_name()},
          {"space", process_space()},
          {"pid", process.pid},
          {"start_time", process.start_time},
          {"count", count}};
}

}  // namespace

std::string trial_name(std::uint64_t number) {
  return fmt::format("{:04}", number);
}

StudyLog::StudyLog(std::unique_ptr<control::Store> store, const StudyPlan& plan, const StudyLogOptions& options)
    : store_(std::move(store)), options_(options) {
  // Another process may begin the same study at this moment: one of them writes the plan, and both read it.
  store_->commit(first_entries(plan));
  open();
  if (const std::optional<Error> obstacle = resume_obstacle(plan_, plan)) throw Error(*obstacle);
  if (plan_.budget == plan.budget && plan_.retries == plan.retries) return;
  plan_.budget = plan.budget;
  plan_.retries = plan.retries;
  // So that who opens the study without a plan knows it, too. Of two who change it at once one has its way.
  const std::optional<control::Entry> entry = store_->get(kPlanKey);
  Json head = parse_json(entry->value, kWhere);
  const Json now = plan.json();
  for (const char* part : {"budget", "retries"})
    head[part] = now.at(part);
  store_->compare_and_put(kPlanKey, entry->revision, head.dump());
}

StudyLog::StudyLog(std::unique_ptr<control::Store> store, const StudyLogOptions& options)
    : store_(std::move(store)), options_(options) {
  open();
}

void StudyLog::open() {
  ahead_ = dynamic_cast<control::WriteAheadStore*>(store_.get());
  const std::optional<control::Entry> entry = store_->get(kPlanKey);
  if (!entry) throw Error(ErrorKind::kNotFound, "there is no study in it", kWhere, "Begin one: muster tune STUDY.toml");
  Json plan = parse_json(entry->value, kWhere);
  for (const control::Entry& part : store_->list(kKnownPrefix)) {
    for (Json& one : parse_json(part.value, kWhere))
      plan["known"].push_back(std::move(one));
  }
  plan_ = StudyPlan::from_json(plan, kWhere);
  reload();
}

// Where the store cannot be read now, what is known stays as it is, and catch_up() tries it again.
void StudyLog::reload() {
  stale_ = true;
  staged_.clear();
  before_.clear();
  const std::uint64_t revision = store_->revision();
  const std::vector<control::Entry> entries = store_->list(kLogPrefix);
  history_ = History();
  notes_.clear();
  next_ = 0;
  for (const control::Entry& entry : entries)
    replay(entry);
  revision_ = revision;
  stale_ = false;
}

void StudyLog::replay(const control::Entry& entry) {
  if (entry.key != log_key(next_))
    throw Error(ErrorKind::kDamaged, fmt::format("has {} where {} should be", entry.key, log_key(next_)), kWhere);
  const Json events = parse_json(entry.value, kWhere);
  if (!events.is_array()) throw Error(ErrorKind::kDamaged, fmt::format("{} is no array", entry.key), kWhere);
  for (const Json& event : events)
    apply(StudyEvent::from_json(event, kWhere), history_, notes_, kWhere);
  ++next_;
}

bool StudyLog::catch_up() {
  MUSTER_CHECK(staged_.empty(), "a study is read while something is staged");
  if (stale_) {
    reload();
    unseen_ = false;
    return true;
  }
  const bool news = read_new();
  return std::exchange(unseen_, false) || news;
}

bool StudyLog::read_new() {
  const std::uint64_t now = store_->revision();
  if (now == revision_) return false;
  bool news = false;
  while (const std::optional<control::Entry> entry = store_->get(log_key(next_))) {
    replay(*entry);
    news = true;
  }
  // What came after `now` is looked for the next time.
  revision_ = now;
  return news;
}

void StudyLog::stage(StudyEvent event) {
  event.at = seconds_since_1970(*options_.clock);
  Before before;
  if (event.number < history_.size()) before = {history_.at(event.number), notes_[event.number]};
  apply(event, history_, notes_, "a decision of this process");
  before_.push_back(std::move(before));
  staged_.push_back(std::move(event));
}

// To what is on disk, without reading all of it again.
void StudyLog::take_back() {
  for (; !staged_.empty(); staged_.pop_back(), before_.pop_back()) {
    history_.take_back(before_.back().trial);
    if (before_.back().trial)
      notes_[staged_.back().number] = before_.back().notes;
    else
      notes_.pop_back();
  }
}

void StudyLog::forget() {
  stale_ = stale_ || !staged_.empty();
  staged_.clear();
  before_.clear();
}

bool StudyLog::commit(bool waits) {
  if (staged_.empty()) return true;
  Json events = Json::array();
  for (const StudyEvent& event : staged_)
    events.push_back(event.json());
  const std::string key = log_key(next_);
  control::Transaction transaction;
  transaction.conditions.push_back({key, 0});
  transaction.writes.push_back({key, events.dump()});
  std::optional<std::uint64_t> revision;
  try {
    revision = waits || ahead_ == nullptr ? store_->commit(transaction) : ahead_->commit_soon(transaction);
  } catch (...) {
    // Whether it is on disk nobody knows: what is there counts, and is read before anything else is decided.
    forget();
    throw;
  }
  if (!revision) {
    take_back();
    unseen_ = read_new();
    return false;
  }
  staged_.clear();
  before_.clear();
  ++next_;
  // Members beat in between; then the next catch_up() looks once more than it had to.
  if (*revision == revision_ + 1) revision_ = *revision;
  return true;
}

const std::string& StudyLog::join() {
  if (!member_.empty()) return member_;
  member_ = random_id();
  store_->put(kMemberPrefix + member_, member_json(0).dump());
  return member_;
}

void StudyLog::leave() {
  if (member_.empty()) return;
  store_->remove(kMemberPrefix + member_);
  member_.clear();
}

void StudyLog::beat(std::chrono::nanoseconds worked) {
  MUSTER_CHECK(!member_.empty(), "a beat of somebody who is no member");
  control::Transaction transaction;
  const auto count = static_cast<std::uint64_t>(options_.clock->now().time_since_epoch().count());
  transaction.writes.push_back({kMemberPrefix + member_, member_json(count).dump()});
  transaction.writes.push_back(
      {kSpentPrefix + member_, Json{{"seconds", std::chrono::duration<double>(worked).count()}}.dump()});
  store_->commit(transaction);
}

std::vector<std::uint64_t> StudyLog::orphans() {
  std::vector<std::uint64_t> lost;
  std::map<std::string, bool> known;
  for (const std::uint64_t number : history_.running()) {
    const std::string& owner = notes_[number].owner;
    if (owner == member_ || owner == kPerson) continue;
    const auto [place, is_new] = known.try_emplace(owner, false);
    if (is_new) place->second = is_lost(owner);
    if (place->second) lost.push_back(number);
  }
  return lost;
}

bool StudyLog::is_lost(const std::string& owner) {
  const std::optional<control::Entry> entry = owner.empty() ? std::nullopt : store_->get(kMemberPrefix + owner);
  if (!entry) return true;
  const Json member = parse_json(entry->value, kWhere);
  if (json_get<std::string>(member, "space", kWhere) == process_space()) {
    const ProcessId process{static_cast<std::int32_t>(json_get<std::int64_t>(member, "pid", kWhere)),
                            json_get<std::uint64_t>(member, "start_time", kWhere)};
    return state_of(process) == ProcessState::kGone;
  }
  const auto [place, is_new] = seen_.try_emplace(owner, Seen{entry->revision, options_.clock->now()});
  if (!is_new && place->second.revision != entry->revision) place->second = {entry->revision, options_.clock->now()};
  return options_.clock->now() - place->second.at > options_.lease;
}

double StudyLog::others_seconds() {
  double sum = 0;
  for (const control::Entry& entry : store_->list(kSpentPrefix)) {
    if (entry.key != kSpentPrefix + member_)
      sum += json_get<double>(parse_json(entry.value, kWhere), "seconds", kWhere);
  }
  return sum;
}

Spent StudyLog::spent() const {
  Spent spent;
  spent.trials = history_.originals();
  spent.ended = history_.ended().size();
  if (plan_.budget.epochs == 0 && plan_.budget.processor_seconds == 0) return spent;  // nobody asks for the rest
  for (const Trial& trial : history_.trials()) {
    spent.epochs += trial.resource() - (trial.lineage ? trial.lineage->resource : 0);
    spent.processor_seconds += notes_[trial.number].processor_seconds;
  }
  return spent;
}

}  // namespace muster::tuning
