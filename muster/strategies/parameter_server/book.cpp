#include "muster/strategies/parameter_server/book.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace muster::strategies {
namespace {

constexpr std::size_t kClosedSteps = 256;  // of closed steps, for workers that ask late
constexpr double kMostChange = 0x1.0p53;   // from there on doubles skip whole numbers

// Whether it is one that a lane can have: a double that is no number of a change must not be made one.
bool is_possible(const LaneEntry& entry) {
  return entry.report.change >= 0 && entry.report.change < kMostChange;
}

}  // namespace

Book::Book(const ServerPlan& plan) : plan_(plan), buffers_(plan.buffers.bytes) {
}

Book::Answer Book::answer(Grant grant) const {
  Answer answer;
  answer.header.flags = static_cast<std::uint32_t>(grant);
  answer.header.version = counts_.updates;
  answer.header.id = done_.floor();
  return answer;
}

void Book::event(const char* what, const Header& header, std::uint64_t number) {
  if (plan_.event_log.empty()) return;
  events_ += fmt::format("{{\"event\":\"{}\",\"worker\":{},\"step\":{},\"lane\":{},\"floor\":{},\"number\":{}}}\n",
                         what, header.client, header.step, header.lane, done_.floor(), number);
}

std::string Book::take_events() {
  return std::exchange(events_, {});
}

std::optional<Book::Answer> Book::lease(const Header& request) {
  if (request.version > generation_) {
    // Those who held something are gone, or have let it go.
    generation_ = request.version;
    leases_.clear();
    finishing_.reset();
  }
  highest_ = std::max(highest_, request.step);
  switch (static_cast<Want>(request.flags)) {
    case Want::kLane:
    case Want::kOwnLane:
      return lease_lane(request);
    case Want::kCommitted:
      return commit_step(request);
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
std::optional<std::uint32_t> Book::free_lane(const Header& request) const {
  const auto lanes = static_cast<std::uint32_t>(request.first);
  const auto place = static_cast<std::uint32_t>(request.second);
  const auto workers = static_cast<std::uint32_t>(request.second >> 32);
  for (std::uint64_t lane = place; lane < lanes && workers > 0; lane += workers) {
    if (is_free(request.step, static_cast<std::uint32_t>(lane))) return static_cast<std::uint32_t>(lane);
  }
  if (static_cast<Want>(request.flags) == Want::kOwnLane) return std::nullopt;
  for (std::uint32_t lane = lanes; lane-- > 0;) {
    if (is_free(request.step, lane)) return lane;
  }
  return std::nullopt;
}

std::optional<Book::Answer> Book::lease_lane(const Header& request) {
  const auto lanes = static_cast<std::uint32_t>(request.first);
  if (lanes == 0 || lanes > plan_.lanes || request.step >= done_.floor() + AppliedSet::kFarthest) {
    Answer refused;
    refused.header.status = Status::kRefused;
    return refused;
  }
  std::erase_if(leases_, [&](const auto& lease) { return lease.second == request.client; });
  if (request.step < done_.floor() || (accepted_ != 0 && request.step == done_.floor()))
    return answer(Grant::kNothingLeft);
  if (!may_begin(request.step)) return std::nullopt;
  const std::optional<std::uint32_t> lane = free_lane(request);
  if (!lane) return answer(Grant::kNothingLeft);
  leases_[{request.step, *lane}] = request.client;
  Answer granted = answer(Grant::kLane);
  granted.header.lane = *lane;
  Header told = request;
  told.lane = *lane;
  event("lease", told, counts_.updates);
  return granted;
}

std::uint32_t Book::needed(std::uint32_t lanes) const {
  return lanes > plan_.backups ? lanes - plan_.backups : 1;
}

// That the step is over; or that this worker ends it.
std::optional<Book::Answer> Book::commit_step(const Header& request) {
  if (!is_synchronous(plan_.consistency_at(request.step))) {
    Answer over = answer(Grant::kClosed);
    over.result = with_wishes(total_, request.step);
    return over;
  }
  if (request.step < done_.floor()) {
    Answer over = answer(Grant::kClosed);
    const auto closed = closed_.find(request.step);
    over.result = closed != closed_.end() ? closed->second.result : StepResult{};
    return over;
  }
  if (accepted_ == 0 || (finishing_ && *finishing_ != request.client)) return std::nullopt;
  finishing_ = request.client;
  Answer last = answer(Grant::kFinish);
  last.header.second = accepted_;
  for (const auto& [lane, kept] : kept_) {
    if ((accepted_ >> lane & 1) != 0) last.header.first += kept.entry.samples;
  }
  return last;
}

// What one worker asks for counts from the same step on for all of them.
void Book::note_wishes(const compute::LaneReport& report) {
  const auto change = static_cast<std::uint64_t>(report.change);
  const bool news = (report.stop > 0 && !agreed_.stop) || change > agreed_.change;
  if (!news) return;
  agreed_.stop = agreed_.stop || report.stop > 0;
  agreed_.change = std::max(agreed_.change, change);
  agreed_.step = std::max(agreed_.step, highest_);
}

StepResult Book::with_wishes(StepResult result, std::uint64_t step) const {
  if (step < agreed_.step) return result;
  result.stop = agreed_.stop ? 1 : 0;
  result.change = agreed_.change;
  return result;
}

Status Book::push(const Header& header, std::span<const std::byte> body) {
  const auto lanes = static_cast<std::uint32_t>(header.first);
  if (lanes == 0 || lanes > plan_.lanes || header.lane >= lanes ||
      body.size() != sizeof(LaneEntry) + plan_.buffers.bytes || header.step >= done_.floor() + AppliedSet::kFarthest)
    return Status::kRefused;
  LaneEntry entry;
  std::memcpy(&entry, body.data(), sizeof entry);
  if (!is_possible(entry)) return Status::kRefused;
  const auto lease = leases_.find({header.step, header.lane});
  const bool leased = lease != leases_.end() && lease->second == header.client;
  if (lease != leases_.end()) leases_.erase(lease);
  const bool synchronous = (header.flags & kKept) != 0;
  if (synchronous && header.step < done_.floor()) return late(header);
  if (done_.contains(header.step, header.lane) || (synchronous && kept_.count(header.lane) > 0)) {
    ++counts_.repeated;
    return Status::kDuplicate;
  }
  if (leases_only_ && !leased) return Status::kStale;
  const std::span<const std::byte> buffers = body.subspan(sizeof entry);
  if (synchronous) {
    if (header.step != done_.floor()) return Status::kRefused;
    if (accepted_ != 0) {
      ++counts_.dropped;
      event("late", header, 0);
      kept_.insert({header.lane, Kept{entry, {buffers.begin(), buffers.end()}}});
      return Status::kLate;
    }
    kept_.insert({header.lane, Kept{entry, {buffers.begin(), buffers.end()}}});
    event("push", header, 0);
    const bool backup = plan_.consistency_at(header.step) == Consistency::kBackup;
    if (kept_.size() >= (backup ? needed(lanes) : lanes)) {
      for (const auto& [lane, kept] : kept_)
        accepted_ |= std::uint64_t{1} << lane;
    }
    return Status::kDone;
  }
  note_wishes(entry.report);
  if ((header.flags & kSkipped) != 0) {
    ++counts_.skipped;
    done_.add(header.step, header.lane, lanes);
    event("skip", header, 0);
    return Status::kDone;
  }
  const std::uint64_t staleness = counts_.updates - std::min(header.version, counts_.updates);
  ++counts_.staleness[std::min<std::uint64_t>(staleness, BookCounts::kStaleness - 1)];
  ++counts_.updates;
  if (once_.contains(header.step, header.lane)) ++counts_.again;
  total_.loss_sum += entry.report.loss_sum;
  total_.score += entry.report.score;
  total_.samples += entry.samples;
  std::copy(buffers.begin(), buffers.end(), buffers_.begin());
  done_.add(header.step, header.lane, lanes);
  event("push", header, staleness);
  return Status::kDone;
}

// Of a step that is closed: the lane was in it, or is dropped.
Status Book::late(const Header& header) {
  const auto closed = closed_.find(header.step);
  const std::uint64_t bit = std::uint64_t{1} << header.lane;
  if (closed == closed_.end() || (closed->second.seen & bit) != 0) {
    ++counts_.repeated;
    return Status::kDuplicate;
  }
  closed->second.seen |= bit;
  ++counts_.dropped;
  event("late", header, 0);
  return Status::kLate;
}

Status Book::apply(const Header& header) {
  if (header.step < done_.floor()) return Status::kDuplicate;
  const std::uint64_t mask = header.second;
  if (header.step != done_.floor() || mask == 0 || mask != accepted_) return Status::kRefused;
  StepResult result;
  result.gradient_norm = header.scale;
  result.applied = (header.flags & kSkipped) == 0 ? 1 : 0;
  std::vector<std::span<const std::byte>> buffers;
  std::vector<double> weights;
  std::uint64_t seen = 0;
  for (const auto& [lane, kept] : kept_) {
    seen |= std::uint64_t{1} << lane;
    // A wish counts even of a lane that came too late.
    result.stop |= kept.entry.report.stop > 0 ? 1 : 0;
    result.change = std::max(result.change, static_cast<std::uint64_t>(kept.entry.report.change));
    if ((mask >> lane & 1) == 0) continue;
    result.loss_sum += kept.entry.report.loss_sum;
    result.score += kept.entry.report.score;
    result.samples += kept.entry.samples;
    buffers.emplace_back(kept.buffers);
    weights.push_back(static_cast<double>(kept.entry.samples));
  }
  for (double& weight : weights)
    weight /= static_cast<double>(result.samples);
  if (result.applied != 0) {
    compute::merge_buffers(plan_.buffers, buffers, weights, buffers_);
    ++counts_.updates;
    ++counts_.staleness[0];
  }
  closed_[header.step] = {result, seen};
  if (closed_.size() > kClosedSteps) closed_.erase(closed_.begin());
  agreed_ = {header.step, result.stop != 0, std::max(agreed_.change, result.change)};
  kept_.clear();
  accepted_ = 0;
  finishing_.reset();
  done_.close(header.step);
  event("close", header, static_cast<std::uint64_t>(std::popcount(mask)));
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
