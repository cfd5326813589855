// A state machine: requests in, answers and events out, no clock and no processes. What is leased lives beside the
// saved state on purpose: after a move or a loss all leases are void, and lanes are leased anew.
#include "muster/strategies/parameter_server/book.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace muster::strategies {
namespace {

constexpr std::uint64_t kMostChange = std::uint64_t{1} << 53;

// Whether it is one that a lane can have: a change that nobody can have asked for would keep all later ones from
// counting.
bool is_possible(const LaneEntry& entry) {
  return entry.stop <= 1 && entry.change < kMostChange;
}

}  // namespace

Book::Book(const ServerPlan& plan) : plan_(plan), buffers_(plan.buffers.bytes) {
}

LeaseReply Book::answer(Grant grant) const {
  return {.grant = grant, .updates = counts_.updates, .floor = done_.floor()};
}

void Book::event(const char* what, std::uint32_t worker, std::uint64_t step, std::uint32_t lane, std::uint64_t number) {
  if (plan_.event_log.empty()) return;
  events_ += fmt::format("{{\"event\":\"{}\",\"worker\":{},\"step\":{},\"lane\":{},\"floor\":{},\"number\":{}}}\n",
                         what, worker, step, lane, done_.floor(), number);
}

std::string Book::take_events() {
  return std::exchange(events_, {});
}

std::optional<LeaseReply> Book::lease(std::uint32_t worker, const LeaseRequest& request) {
  if (request.workers_generation > generation_) {
    // Those who held something are gone, or have let it go.
    generation_ = request.workers_generation;
    leases_.clear();
    finishing_.reset();
  }
  // Nothing is given to one that may have left since it asked: it would be nobody's until the workers change again. One
  // that has not left learns of the new generation while it waits.
  if (request.workers_generation < generation_) return std::nullopt;
  highest_ = std::max(highest_, request.step);
  switch (request.want) {
    case Want::kLane:
    case Want::kOwnLane:
      return lease_lane(worker, request);
    case Want::kCommitted:
      return commit_step(worker, request);
    case Want::kSettled:
      if (done_.floor() < request.step) return std::nullopt;
      return answer(Grant::kClosed);
  }
  return std::nullopt;
}

bool Book::may_begin(std::uint64_t step) const {
  switch (plan_.consistency_at(step)) {
    case Consistency::kAsp:
      break;
    case Consistency::kSsp:
      return step <= done_.floor() + plan_.bound;
    case Consistency::kBsp:
    case Consistency::kBackup:
      return step <= done_.floor();
  }
  // A synchronous step before this one has to be over.
  return !is_synchronous(plan_.consistency_at(done_.floor())) || step <= done_.floor();
}

bool Book::is_free(std::uint64_t step, std::uint32_t lane) const {
  if (done_.contains(step, lane) || leases_.count({step, lane}) > 0) return false;
  return step != done_.floor() || kept_.count(lane) == 0;
}

// A worker's own lanes first: it has read them ahead. Then those of others, from the back (shared_sync.cpp says why).
std::optional<std::uint32_t> Book::free_lane(const LeaseRequest& request) const {
  for (std::uint64_t lane = request.place; lane < request.lanes && request.workers > 0; lane += request.workers) {
    if (is_free(request.step, static_cast<std::uint32_t>(lane))) return static_cast<std::uint32_t>(lane);
  }
  if (request.want == Want::kOwnLane) return std::nullopt;
  for (std::uint32_t lane = request.lanes; lane-- > 0;) {
    if (is_free(request.step, lane)) return lane;
  }
  return std::nullopt;
}

std::optional<LeaseReply> Book::lease_lane(std::uint32_t worker, const LeaseRequest& request) {
  if (request.lanes == 0 || request.lanes > plan_.lanes || request.step >= done_.floor() + AppliedSet::kFarthest)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("step {} of {} lanes is none of this job", request.step, request.lanes));
  std::erase_if(leases_, [&](const auto& lease) { return lease.second == worker; });
  if (request.step < done_.floor() || (accepted_ != 0 && request.step == done_.floor()))
    return answer(Grant::kNothingLeft);
  if (!may_begin(request.step)) return std::nullopt;
  const std::optional<std::uint32_t> lane = free_lane(request);
  if (!lane) return answer(Grant::kNothingLeft);
  leases_[{request.step, *lane}] = worker;
  LeaseReply granted = answer(Grant::kLane);
  granted.lane = *lane;
  event("lease", worker, request.step, *lane, counts_.updates);
  return granted;
}

std::uint32_t Book::needed(std::uint32_t lanes) const {
  return lanes > plan_.backups ? lanes - plan_.backups : 1;
}

// That the step is over; or that this worker ends it.
std::optional<LeaseReply> Book::commit_step(std::uint32_t worker, const LeaseRequest& request) {
  if (!is_synchronous(plan_.consistency_at(request.step))) {
    LeaseReply over = answer(Grant::kClosed);
    over.result = with_wishes(total_, request.step);
    return over;
  }
  if (request.step < done_.floor()) {
    LeaseReply over = answer(Grant::kClosed);
    if (const auto closed = closed_.find(request.step); closed != closed_.end()) over.result = closed->second.result;
    return over;
  }
  if (accepted_ == 0 || (finishing_ && *finishing_ != worker)) return std::nullopt;
  finishing_ = worker;
  LeaseReply last = answer(Grant::kFinish);
  last.mask = accepted_;
  for (const auto& [lane, kept] : kept_) {
    if ((accepted_ >> lane & 1) != 0) last.samples += kept.entry.samples;
  }
  return last;
}

// What one worker asks for counts from the same step on for all of them.
void Book::note_wishes(const Wishes& wishes) {
  Wishes all = agreed_.wishes();
  all |= wishes;
  if (all == agreed_.wishes()) return;
  agreed_ = {std::max(agreed_.step, highest_), all.stop ? 1U : 0U, all.change};
}

StepResult Book::with_wishes(StepResult result, std::uint64_t step) const {
  if (step < agreed_.step) return result;
  result.stop = agreed_.stop ? 1 : 0;
  result.change = agreed_.change;
  return result;
}

Status Book::push(std::uint32_t worker, const PushEntryRequest& push, std::span<const std::byte> buffers) {
  if (push.lanes == 0 || push.lanes > plan_.lanes || push.lane >= push.lanes || buffers.size() != plan_.buffers.bytes ||
      push.step >= done_.floor() + AppliedSet::kFarthest || !is_possible(push.entry))
    return Status::kRefused;
  const auto lease = leases_.find({push.step, push.lane});
  const bool leased = lease != leases_.end() && lease->second == worker;
  if (lease != leases_.end()) leases_.erase(lease);
  const bool synchronous = push.manner == LaneManner::kKept;
  if (synchronous && push.step < done_.floor()) return late(worker, push);
  if (done_.contains(push.step, push.lane) || (synchronous && kept_.count(push.lane) > 0)) {
    ++counts_.repeated;
    return Status::kDuplicate;
  }
  if (leases_only_ && !leased) return Status::kStale;
  if (synchronous) return keep(worker, push, buffers);
  note_wishes(push.entry.result().wishes);
  if (push.manner == LaneManner::kSkipped) {
    ++counts_.skipped;
    done_.add(push.step, push.lane, push.lanes);
    event("skip", worker, push.step, push.lane, 0);
    return Status::kDone;
  }
  const std::uint64_t staleness = counts_.updates - std::min(push.leased_version, counts_.updates);
  ++counts_.staleness[std::min<std::uint64_t>(staleness, BookCounts::kStaleness - 1)];
  ++counts_.updates;
  if (once_.contains(push.step, push.lane)) ++counts_.again;
  total_.loss_sum += push.entry.loss_sum;
  total_.score += push.entry.score;
  total_.samples += push.entry.samples;
  std::copy(buffers.begin(), buffers.end(), buffers_.begin());
  done_.add(push.step, push.lane, push.lanes);
  event("push", worker, push.step, push.lane, staleness);
  return Status::kDone;
}

// A lane of the synchronous step in work.
Status Book::keep(std::uint32_t worker, const PushEntryRequest& push, std::span<const std::byte> buffers) {
  if (push.step != done_.floor()) return Status::kRefused;
  kept_.insert({push.lane, Kept{push.entry, {buffers.begin(), buffers.end()}}});
  if (accepted_ != 0) {
    ++counts_.dropped;
    event("late", worker, push.step, push.lane, 0);
    return Status::kLate;
  }
  event("push", worker, push.step, push.lane, 0);
  const bool backup = plan_.consistency_at(push.step) == Consistency::kBackup;
  if (kept_.size() >= (backup ? needed(push.lanes) : push.lanes)) {
    for (const auto& [lane, kept] : kept_)
      accepted_ |= std::uint64_t{1} << lane;
  }
  return Status::kDone;
}

// Of a step that is closed: the lane was in it, or is dropped.
Status Book::late(std::uint32_t worker, const PushEntryRequest& push) {
  const auto closed = closed_.find(push.step);
  const std::uint64_t bit = std::uint64_t{1} << push.lane;
  if (closed == closed_.end() || (closed->second.seen & bit) != 0) {
    ++counts_.repeated;
    return Status::kDuplicate;
  }
  closed->second.seen |= bit;
  ++counts_.dropped;
  event("late", worker, push.step, push.lane, 0);
  return Status::kLate;
}

Status Book::close(std::uint32_t worker, const CloseRequest& verdict) {
  if (verdict.step < done_.floor()) return Status::kDuplicate;
  const std::uint64_t mask = verdict.mask;
  if (verdict.step != done_.floor() || mask == 0 || mask != accepted_) return Status::kRefused;
  StepResult result;
  result.gradient_norm = verdict.gradient_norm;
  result.applied = verdict.skipped ? 0 : 1;
  std::vector<std::span<const std::byte>> buffers;
  std::vector<double> weights;
  std::uint64_t seen = 0;
  Wishes wishes;
  std::vector<LaneResult> counted;
  for (const auto& [lane, kept] : kept_) {
    seen |= std::uint64_t{1} << lane;
    // A wish counts even of a lane that came too late.
    wishes |= kept.entry.result().wishes;
    if ((mask >> lane & 1) == 0) continue;
    counted.push_back(kept.entry.result());
    result.samples += kept.entry.samples;
    buffers.emplace_back(kept.buffers);
    weights.push_back(static_cast<double>(kept.entry.samples));
  }
  const compute::LaneReport sums = fold_reports(counted).report;
  result.loss_sum = sums.loss_sum;
  result.score = sums.score;
  result.stop = wishes.stop ? 1 : 0;
  result.change = wishes.change;
  for (double& weight : weights)
    weight /= static_cast<double>(result.samples);
  if (result.applied != 0) {
    compute::merge_buffers(plan_.buffers, buffers, weights, buffers_);
    ++counts_.updates;
    ++counts_.staleness[0];
  }
  closed_[verdict.step] = {result, seen};
  if (closed_.size() > kClosedSteps) closed_.erase(closed_.begin());
  agreed_ = {verdict.step, result.stop != 0, std::max(agreed_.change, result.change)};
  kept_.clear();
  accepted_ = 0;
  finishing_.reset();
  done_.close(verdict.step);
  event("close", worker, verdict.step, 0, static_cast<std::uint64_t>(std::popcount(mask)));
  return Status::kDone;
}

Status Book::reopen(std::span<const std::byte> lanes) {
  ByteReader reader(lanes);
  const AppliedSet there = AppliedSet::load(reader);
  reader.expect_end();
  // Steps that were taken together cannot be taken again by a part of the chunks.
  if (any_synchronous(plan_.phases) || done_.end() - std::min(there.floor(), done_.end()) > AppliedSet::kFarthest)
    return Status::kRefused;
  once_.add_all(done_);
  done_.keep_common(there);
  leases_.clear();
  leases_only_ = true;
  return Status::kDone;
}

std::vector<std::byte> Book::read() const {
  ByteWriter bytes;
  done_.save(bytes);
  once_.save(bytes);
  bytes.put(counts_);
  bytes.put(total_);
  bytes.put(agreed_);
  bytes.put(accepted_);
  bytes.put_all(std::span<const std::byte>(buffers_));
  bytes.put(static_cast<std::uint64_t>(kept_.size()));
  for (const auto& [lane, kept] : kept_) {
    bytes.put(lane);
    bytes.put(kept.entry);
    bytes.put_all(std::span<const std::byte>(kept.buffers));
  }
  bytes.put(static_cast<std::uint64_t>(closed_.size()));
  for (const auto& [step, closed] : closed_) {
    bytes.put(step);
    bytes.put(closed);
  }
  return bytes.take();
}

void Book::write(std::span<const std::byte> state) {
  ByteReader reader(state);
  Book fresh(plan_);
  fresh.done_ = AppliedSet::load(reader);
  fresh.once_ = AppliedSet::load(reader);
  fresh.counts_ = reader.get<BookCounts>();
  fresh.total_ = reader.get<StepResult>();
  fresh.agreed_ = reader.get<Agreed>();
  fresh.accepted_ = reader.get<std::uint64_t>();
  reader.get_all(std::span(fresh.buffers_));
  std::uint64_t lanes = 0;
  for (auto count = reader.get<std::uint64_t>(); count > 0; --count) {
    const auto lane = reader.get<std::uint32_t>();
    Kept kept{reader.get<LaneEntry>(), std::vector<std::byte>(plan_.buffers.bytes)};
    reader.get_all(std::span(kept.buffers));
    if (lane >= plan_.lanes || !is_possible(kept.entry)) throw Error(ErrorKind::kDamaged, "a lane that cannot be one");
    lanes |= std::uint64_t{1} << lane;
    fresh.kept_.insert_or_assign(lane, std::move(kept));
  }
  if ((fresh.accepted_ & ~lanes) != 0) throw Error(ErrorKind::kDamaged, "lanes count of which nothing is there");
  for (auto count = reader.get<std::uint64_t>(); count > 0; --count) {
    const auto step = reader.get<std::uint64_t>();
    fresh.closed_[step] = reader.get<Closed>();
  }
  reader.expect_end();
  done_ = std::move(fresh.done_);
  once_ = std::move(fresh.once_);
  buffers_ = std::move(fresh.buffers_);
  counts_ = fresh.counts_;
  total_ = fresh.total_;
  agreed_ = fresh.agreed_;
  kept_ = std::move(fresh.kept_);
  accepted_ = fresh.accepted_;
  closed_ = std::move(fresh.closed_);
  leases_.clear();
  finishing_.reset();
}

std::vector<std::byte> Book::first_state(const ServerPlan& plan, std::uint64_t step,
                                         std::span<const std::byte> buffers) {
  Book book(plan);
  book.done_ = AppliedSet(step);
  std::copy(buffers.begin(), buffers.end(), book.buffers_.begin());
  return book.read();
}

}  // namespace muster::strategies
