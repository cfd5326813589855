// A flight is a chunk on its way: started (what this worker gives is sent, what it gets is expected), finished (its sum
// is there), landed (what it sends on has left). They are started in the same order of chunks on every worker; chunks
// that are reduced here are finished in this order, and so are those that are reduced elsewhere. A passage is all of a
// step's flights.
#include "muster/strategies/shared_sync/host_exchange.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <thread>
#include <utility>

#include "muster/base/check.h"
#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/mutex.h"

namespace muster::strategies {
namespace {

// Chunks whose sums are on their way, and as many whose result is: as a rule all. Gloo sends nothing before it was told
// that the other side waits for it, and that word stands in line behind all that goes the same way.
constexpr std::size_t kFlights = 64;

// How often what is under way is looked at while nobody waits for it. Asking Gloo wakes a thread.
constexpr std::chrono::milliseconds kLook{1};
constexpr std::chrono::milliseconds kStandstill{100};

enum ExchangeTag : std::uint32_t { kHeadsTag = 1, kSumsTag = 2, kResultTag = 3, kRecordsTag = 4 };

// In front of a host's heads: also one that computes no lane of a step says that it has come to it.
struct HeadsHeader {
  std::uint64_t generation = 0;
  std::uint64_t lanes = 0;
  std::uint64_t records = 0;  // bytes of a message that follows; 0: none does
};

// Of what a host writes down in one step: more makes no sense, and is not made room for.
constexpr std::uint64_t kMostRecords = std::uint64_t{1} << 30;

std::size_t head_bytes(const HostLane& lane) {
  return lane.area.present.size() + sizeof(LaneResult) + lane.area.buffers.size();
}

void pack_head(const HostLane& lane, std::uint8_t*& to) {
  const auto put = [&](const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    to += bytes;
  };
  put(lane.area.present.data(), lane.area.present.size());
  put(lane.result, sizeof(LaneResult));
  put(lane.area.buffers.data(), lane.area.buffers.size());
}

void unpack_head(const std::uint8_t*& from, const HostLane& lane) {
  const auto take = [&](void* to, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    from += bytes;
  };
  take(lane.area.present.data(), lane.area.present.size());
  take(lane.result, sizeof(LaneResult));
  take(lane.area.buffers.data(), lane.area.buffers.size());
}

}  // namespace

// A part of the lane tree that is summed on one host, and which tensors it has a gradient of.
struct HostExchange::Step {
  struct Part {
    compute::Subtree lanes;
    std::size_t host = 0;
    std::vector<std::uint8_t> marks;
  };

  Step(const Members& members, std::span<const HostLane> all, std::span<float> where, Presence marked)
      : lanes(all), sums(where), present(std::move(marked)) {
    const std::size_t tensors = present[0].size();
    marks.assign(tensors, 0);
    for (std::size_t host = 0; host < members.job.hosts.size(); ++host) {
      const control::LaneRange own = members.job.lanes_of(host, all.size());
      for (const compute::Subtree& subtree : compute::subtrees_of(all.size(), own.first, own.last)) {
        Part& part = parts.emplace_back(Part{subtree, host, std::vector<std::uint8_t>(tensors, 0)});
        for (std::size_t lane = subtree.first; lane < subtree.last; ++lane) {
          for (std::size_t tensor = 0; tensor < tensors; ++tensor)
            part.marks[tensor] |= present[lane][tensor];
        }
        for (std::size_t tensor = 0; tensor < tensors; ++tensor)
          marks[tensor] |= part.marks[tensor];
      }
    }
  }

  std::span<const HostLane> lanes;
  std::span<float> sums;
  Presence present;
  std::vector<Part> parts;          // in lane order
  std::vector<std::uint8_t> marks;  // of all lanes
};

struct HostExchange::Flight {
  std::size_t chunk = 0;
  std::vector<float> memory{};            // sums of parts, one after the other, each as long as the chunk
  std::vector<comm::Pending> arriving{};  // what this worker waits for
  std::vector<comm::Pending> leaving{};   // what it sends; cancelled before the memory goes
};

struct HostExchange::Passage {
  // Of those that are flying, the first that is reduced on this host, or elsewhere.
  std::deque<Flight>::iterator first(const HostExchange& exchange, bool reduced_here) {
    return std::ranges::find_if(flying,
                                [&](const Flight& flight) { return exchange.reduces(flight.chunk) == reduced_here; });
  }

  Step step;
  std::size_t next = 0;                // the first chunk of the worker's share that was not started
  std::deque<Flight> flying{};         // started
  std::deque<Flight> landing{};        // finished: what they send on is leaving
  std::vector<std::size_t> summed{};   // landed before anybody could use them, in order
  std::size_t last_lane = 0;           // of one that was begun early: the lane that is not done
  std::vector<std::size_t> missing{};  // by chunk: tensors whose gradients that lane has still to give
};

// Moves a passage on while the worker computes. It alone uses the passage and the group until it is stopped.
class HostExchange::Driver {
 public:
  Driver(HostExchange& exchange, Passage& passage)
      : exchange_(exchange), passage_(passage), thread_([this, key = FailpointScope::current()] {
          const FailpointScope scope(key);
          run();
        }) {}
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver() { stop(); }

  void give(std::size_t tensor) {
    {
      const MutexLock lock(mutex_);
      given_.push_back(tensor);
    }
    changed_.notify_one();
  }

  // Throws what it has met.
  void finish() {
    stop();
    const MutexLock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    for (const std::size_t tensor : std::exchange(given_, {}))
      exchange_.count_gradient(passage_, tensor);
  }

 private:
  void stop() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  void run() {
    try {
      for (;;) {
        std::vector<std::size_t> given;
        {
          const MutexLock lock(mutex_);
          if (given_.empty() && !stopping_) changed_.wait_for(mutex_, kLook);
          if (stopping_) return;
          given.swap(given_);
        }
        for (const std::size_t tensor : given)
          exchange_.count_gradient(passage_, tensor);
        exchange_.advance(passage_);
      }
    } catch (...) {
      const MutexLock lock(mutex_);
      failure_ = std::current_exception();
    }
  }

  HostExchange& exchange_;
  Passage& passage_;
  Mutex mutex_;
  Condition changed_;
  std::vector<std::size_t> given_ MUSTER_GUARDED_BY(mutex_);  // tensors, not counted yet
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ MUSTER_GUARDED_BY(mutex_);
  std::thread thread_;  // the last: it uses all others
};

HostExchange::HostExchange(const model::FlatLayout& layout, const Members& members, bool early, HostRecords* records)
    : layout_(layout),
      members_(members),
      group_(members.group),
      grid_(layout),
      share_(grid_.share_of(members.host_index(), members.host_count())),
      slice_(grid_.slice_of(members.host_index(), members.host_count())),
      early_(early),
      records_(records) {
  for (std::size_t host = 0; host < members_.job.hosts.size(); ++host) {
    const auto workers = static_cast<std::size_t>(members_.job.hosts[host].workers());
    std::vector<int>& ranks = owners_.emplace_back();
    for (std::size_t index = 0; index < workers; ++index) {
      const ChunkGrid::Share share = grid_.share_of(index, workers);
      ranks.insert(ranks.end(), share.last - share.first, members_.job.first_rank(host) + static_cast<int>(index));
    }
  }
}

HostExchange::~HostExchange() = default;

double HostExchange::take_waited() {
  return std::exchange(waited_, 0);
}

void HostExchange::wait(comm::Pending& transfer, const Deadline& deadline) {
  const auto start = system_clock().now();
  transfer.wait(deadline);
  waited_ += std::chrono::duration<double>(system_clock().now() - start).count();
}

// Who only looks is not told of a loss: when nothing has moved for a while it waits for the head alone.
void HostExchange::wait_for_head(comm::Pending& transfer, const Deadline& deadline) {
  const auto start = system_clock().now();
  for (auto moved = start; passage_ && system_clock().now() - moved < kStandstill && !transfer.test();) {
    if (advance(*passage_))
      moved = system_clock().now();
    else
      std::this_thread::sleep_for(kLook);
  }
  waited_ += std::chrono::duration<double>(system_clock().now() - start).count();
  wait(transfer, deadline);
}

void HostExchange::take_back() {
  if (const std::unique_ptr<Driver> driver = std::move(driver_)) driver->finish();
}

void HostExchange::exchange_heads(std::span<const HostLane> lanes, const Deadline& deadline) {
  if (members_.host_index() != 0) return;
  take_back();
  const auto bytes_of = [&](const control::LaneRange& range) {
    return sizeof(HeadsHeader) + range.size() * head_bytes(lanes[0]);
  };
  const control::LaneRange own = members_.host_lanes(lanes.size());
  std::vector<std::uint8_t> mine(bytes_of(own));
  const std::vector<std::uint8_t> written = records_ == nullptr ? std::vector<std::uint8_t>() : records_->news();
  const HeadsHeader header{members_.job.number, own.size(), written.size()};
  std::memcpy(mine.data(), &header, sizeof(header));
  std::uint8_t* to = mine.data() + sizeof(header);
  for (std::size_t lane = own.first; lane < own.last; ++lane)
    pack_head(lanes[lane], to);
  // Declared before the transfers, which are cancelled before it goes.
  std::vector<std::vector<std::uint8_t>> theirs(members_.job.hosts.size());
  std::vector<comm::Pending> sends;
  std::vector<comm::Pending> receives(members_.job.hosts.size());
  for (std::size_t host = 0; host < theirs.size(); ++host) {
    if (host == members_.host) continue;
    theirs[host].resize(bytes_of(members_.job.lanes_of(host, lanes.size())));
    receives[host] = group_.start_receive(std::span(theirs[host]), members_.job.first_rank(host), kHeadsTag);
  }
  MUSTER_FAILPOINT("hosts.heads.before_send");
  for (std::size_t host = 0; host < theirs.size(); ++host) {
    if (host == members_.host) continue;
    const int rank = members_.job.first_rank(host);
    sends.push_back(group_.start_send(std::span<const std::uint8_t>(mine), rank, kHeadsTag));
    if (!written.empty()) sends.push_back(group_.start_send(std::span<const std::uint8_t>(written), rank, kRecordsTag));
  }
  for (std::size_t host = 0; host < theirs.size(); ++host) {
    if (host == members_.host) continue;
    wait_for_head(receives[host], deadline);
    const control::LaneRange range = members_.job.lanes_of(host, lanes.size());
    HeadsHeader found;
    std::memcpy(&found, theirs[host].data(), sizeof(found));
    if (found.generation != members_.job.number || found.lanes != range.size())
      throw Error(ErrorKind::kMismatch, "the first worker of another host sent heads of other lanes");
    if (found.records > (records_ == nullptr ? 0 : kMostRecords))
      throw Error(ErrorKind::kMismatch, "the first worker of another host sent records that nobody expects");
    if (found.records > 0) {
      std::vector<std::uint8_t> records(found.records);
      comm::Pending arriving = group_.start_receive(std::span(records), members_.job.first_rank(host), kRecordsTag);
      wait_for_head(arriving, deadline);
      records_->keep(records);
    }
    const std::uint8_t* from = theirs[host].data() + sizeof(found);
    for (std::size_t lane = range.first; lane < range.last; ++lane)
      unpack_head(from, lanes[lane]);
  }
  MUSTER_FAILPOINT("hosts.heads.received");
  for (comm::Pending& send : sends)
    wait_for_head(send, deadline);
}

bool HostExchange::reduces(std::size_t chunk) const {
  return reducing_host(chunk, members_.job.hosts.size()) == members_.host;
}

int HostExchange::owner_rank(std::size_t host, std::size_t chunk) const {
  return owners_[host][chunk];
}

std::vector<HostExchange::Run> HostExchange::runs_of(std::size_t chunk, std::span<const std::uint8_t> marks) const {
  std::vector<Run> runs;
  const compute::BlockRange& blocks = grid_.blocks(chunk);
  bool open = false;
  for (std::size_t index = blocks.first; index < blocks.last; ++index) {
    const model::Block& block = layout_.blocks()[index];
    const bool marked = marks[block.tensor] != 0;
    if (marked && !open) runs.push_back({block.begin, block.end});
    if (marked) runs.back().end = block.end;
    open = marked;
  }
  return runs;
}

void HostExchange::start(const Step& step, Flight& flight) {
  if (reduces(flight.chunk))
    start_reduction(step, flight);
  else
    start_contribution(step, flight);
}

// The sums of this host's parts go to the host that reduces the chunk; its sum comes back.
void HostExchange::start_contribution(const Step& step, Flight& flight) {
  const int reducer = owner_rank(reducing_host(flight.chunk, members_.job.hosts.size()), flight.chunk);
  const std::uint64_t begin = grid_.begin(flight.chunk);
  const std::uint64_t length = grid_.end(flight.chunk) - begin;
  for (const Run& run : runs_of(flight.chunk, step.marks))
    flight.arriving.push_back(
        group_.start_receive(step.sums.subspan(run.begin, run.end - run.begin), reducer, kResultTag));
  std::size_t own_parts = 0;
  for (const Step::Part& part : step.parts)
    own_parts += part.host == members_.host ? 1 : 0;
  if (flight.memory.size() < own_parts * length) flight.memory.resize(own_parts * length);
  std::size_t place = 0;
  for (const Step::Part& part : step.parts) {
    if (part.host != members_.host) continue;
    const std::span<float> memory = std::span(flight.memory).subspan(place++ * length, length);
    const bool single = part.lanes.last - part.lanes.first == 1;  // its gradient is the sum
    if (!single) {
      std::vector<const float*> sources(part.lanes.last - part.lanes.first);
      const compute::BlockRange& blocks = grid_.blocks(flight.chunk);
      for (std::size_t index = blocks.first; index < blocks.last; ++index) {
        const model::Block& block = layout_.blocks()[index];
        if (part.marks[block.tensor] == 0) continue;
        for (std::size_t i = 0; i < sources.size(); ++i) {
          const compute::LaneArea& area = step.lanes[part.lanes.first + i].area;
          sources[i] = step.present[part.lanes.first + i][block.tensor] != 0 ? area.gradient.data() : nullptr;
        }
        const std::span<float> target = memory.subspan(block.begin - begin, block.size());
        const std::span<const float> sum = compute::reduce_lanes(sources, block.begin, target);
        if (sum.data() != target.data()) std::ranges::copy(sum, target.begin());
      }
    }
    for (const Run& run : runs_of(flight.chunk, part.marks)) {
      const std::span<const float> all =
          single ? std::span<const float>(step.lanes[part.lanes.first].area.gradient).subspan(begin, length)
                 : std::span<const float>(memory);
      flight.leaving.push_back(
          group_.start_send(all.subspan(run.begin - begin, run.end - run.begin), reducer, kSumsTag));
    }
  }
  MUSTER_FAILPOINT("hosts.sums.sent");
}

void HostExchange::start_reduction(const Step& step, Flight& flight) {
  const std::uint64_t begin = grid_.begin(flight.chunk);
  const std::uint64_t length = grid_.end(flight.chunk) - begin;
  if (flight.memory.size() < step.parts.size() * length) flight.memory.resize(step.parts.size() * length);
  for (std::size_t place = 0; place < step.parts.size(); ++place) {
    const Step::Part& part = step.parts[place];
    if (part.host == members_.host) continue;
    const std::span<float> memory = std::span(flight.memory).subspan(place * length, length);
    for (const Run& run : runs_of(flight.chunk, part.marks))
      flight.arriving.push_back(group_.start_receive(memory.subspan(run.begin - begin, run.end - run.begin),
                                                     owner_rank(part.host, flight.chunk), kSumsTag));
  }
}

void HostExchange::finish(const Step& step, Flight& flight, const Deadline& deadline) {
  for (comm::Pending& transfer : flight.arriving)
    wait(transfer, deadline);
  flight.arriving.clear();
  if (reduces(flight.chunk)) add_and_send(step, flight);
}

// Own lanes and the other hosts' sums, by the tree.
void HostExchange::add_and_send(const Step& step, Flight& flight) {
  const std::uint64_t begin = grid_.begin(flight.chunk);
  const std::uint64_t length = grid_.end(flight.chunk) - begin;
  const compute::BlockRange& blocks = grid_.blocks(flight.chunk);
  std::vector<compute::TreePart> parts;
  for (std::size_t index = blocks.first; index < blocks.last; ++index) {
    const model::Block& block = layout_.blocks()[index];
    if (step.marks[block.tensor] == 0) continue;
    parts.clear();
    for (std::size_t place = 0; place < step.parts.size(); ++place) {
      const Step::Part& part = step.parts[place];
      if (part.host != members_.host) {
        const float* const sum = flight.memory.data() + place * length + (block.begin - begin);
        parts.push_back({part.lanes, part.marks[block.tensor] != 0 ? sum : nullptr});
        continue;
      }
      for (std::size_t lane = part.lanes.first; lane < part.lanes.last; ++lane) {
        const compute::LaneArea& area = step.lanes[lane].area;
        const bool present = step.present[lane][block.tensor] != 0;
        parts.push_back({{lane, lane + 1}, present ? area.gradient.data() + block.begin : nullptr});
      }
    }
    const std::span<float> target = step.sums.subspan(block.begin, block.size());
    const std::span<const float> sum = compute::reduce_parts(parts, step.lanes.size(), target);
    if (sum.data() != target.data()) std::ranges::copy(sum, target.begin());
  }
  MUSTER_FAILPOINT("hosts.result.before_send");
  for (std::size_t host = 0; host < members_.job.hosts.size(); ++host) {
    if (host == members_.host) continue;
    for (const Run& run : runs_of(flight.chunk, step.marks))
      flight.leaving.push_back(
          group_.start_send(std::span<const float>(step.sums.subspan(run.begin, run.end - run.begin)),
                            owner_rank(host, flight.chunk), kResultTag));
  }
  MUSTER_FAILPOINT("hosts.result.sent");
}

bool HostExchange::done(std::vector<comm::Pending>& transfers) {
  return std::ranges::all_of(transfers, [](comm::Pending& transfer) { return transfer.test(); });
}

void HostExchange::start_next(Passage& passage) {
  Flight& flight = passage.flying.emplace_back();
  flight.chunk = passage.next++;
  if (!memory_.empty()) {
    flight.memory = std::move(memory_.back());
    memory_.pop_back();
  }
  start(passage.step, flight);
}

void HostExchange::finish_first(Passage& passage, bool reduced_here, const Deadline& deadline) {
  const auto first = passage.first(*this, reduced_here);
  finish(passage.step, *first, deadline);
  // What was reduced elsewhere has nothing left to send.
  if (reduced_here)
    passage.landing.push_back(std::move(*first));
  else
    passage.landing.push_front(std::move(*first));
  passage.flying.erase(first);
}

// Gives the chunk.
std::size_t HostExchange::land_first(Passage& passage, const Deadline& deadline) {
  Flight& flight = passage.landing.front();
  for (comm::Pending& transfer : flight.leaving)
    wait(transfer, deadline);
  flight.leaving.clear();
  const std::size_t chunk = flight.chunk;
  memory_.push_back(std::move(flight.memory));
  passage.landing.pop_front();
  return chunk;
}

// Those whom others wait for come first: who waited for a result instead would keep them from sending theirs, and only
// one direction of a link would be used at a time.
void HostExchange::run(Passage& passage, const Ready& ready, const Deadline& deadline) {
  const auto land = [&] { ready(grid_.blocks(land_first(passage, deadline))); };
  const auto finish_one = [&] {
    const bool reduced_here = passage.first(*this, true) != passage.flying.end();
    finish_first(passage, reduced_here, deadline);
    if (!reduced_here) land();
    if (!passage.landing.empty() && (!reduced_here || passage.landing.size() > kFlights)) land();
  };
  for (const std::size_t chunk : std::exchange(passage.summed, {}))
    ready(grid_.blocks(chunk));
  while (passage.next < share_.last) {
    if (passage.flying.size() >= kFlights) finish_one();
    start_next(passage);
  }
  while (!passage.flying.empty())
    finish_one();
  while (!passage.landing.empty())
    land();
}

void HostExchange::exchange_sums(std::span<const HostLane> lanes, std::span<float> sums, const Ready& ready,
                                 const Deadline& deadline) {
  Presence present;
  for (const HostLane& lane : lanes)
    present.emplace_back(lane.area.present.begin(), lane.area.present.end());
  const auto passage_of = [&](const Presence& marked) {
    return std::make_unique<Passage>(Passage{Step(members_, lanes, sums, marked), share_.first});
  };
  take_back();
  // Whatever is thrown, it ends here, and its transfers with it.
  std::unique_ptr<Passage> passage = std::move(passage_);
  // Some may have begun with it, so all have to go through it.
  if (!passage && can_begin_early(lanes.size())) passage = passage_of(last_presence_);
  if (passage && passage->step.present != present) {
    run(
        *passage, [](const compute::BlockRange&) {}, deadline);
    passage.reset();
  }
  if (!passage) passage = passage_of(present);
  run(*passage, ready, deadline);
  last_presence_ = std::move(present);
}

bool HostExchange::can_begin_early(std::size_t lanes) const {
  return early_ && last_presence_.size() == lanes;
}

bool HostExchange::has_tensor(std::size_t chunk, std::size_t tensor) const {
  const compute::BlockRange& blocks = grid_.blocks(chunk);
  for (std::size_t index = blocks.first; index < blocks.last; ++index) {
    if (layout_.blocks()[index].tensor == tensor) return true;
  }
  return false;
}

void HostExchange::begin_early(std::span<const HostLane> lanes, std::span<float> sums, std::size_t last_lane) {
  MUSTER_CHECK(can_begin_early(lanes.size()) && !passage_, "a step that can be begun early, once");
  passage_ = std::make_unique<Passage>(Passage{Step(members_, lanes, sums, last_presence_), share_.first});
  passage_->last_lane = last_lane;
  passage_->missing.assign(grid_.size(), 0);
  const std::vector<std::uint8_t>& expected = last_presence_[last_lane];
  for (std::size_t chunk = share_.first; chunk < share_.last; ++chunk) {
    for (std::size_t tensor = 0; tensor < expected.size(); ++tensor)
      passage_->missing[chunk] += expected[tensor] != 0 && has_tensor(chunk, tensor) ? 1 : 0;
  }
  driver_ = std::make_unique<Driver>(*this, *passage_);
}

void HostExchange::gradient_ready(std::size_t tensor) {
  if (driver_) driver_->give(tensor);
}

void HostExchange::count_gradient(Passage& passage, std::size_t tensor) const {
  if (last_presence_[passage.last_lane][tensor] == 0) return;
  for (std::size_t chunk = share_.first; chunk < share_.last; ++chunk) {
    if (has_tensor(chunk, tensor)) --passage.missing[chunk];
  }
}

bool HostExchange::advance(Passage& passage) {
  bool moved = false;
  while (passage.next < share_.last && passage.missing[passage.next] == 0 && passage.flying.size() < kFlights &&
         passage.landing.size() < kFlights) {
    start_next(passage);
    moved = true;
  }
  for (const bool reduced_here : {true, false}) {
    for (auto first = passage.first(*this, reduced_here);
         first != passage.flying.end() && passage.landing.size() < kFlights && done(first->arriving);
         first = passage.first(*this, reduced_here)) {
      finish_first(passage, reduced_here, Deadline::after({}));
      moved = true;
    }
  }
  while (!passage.landing.empty() && done(passage.landing.front().leaving)) {
    passage.summed.push_back(land_first(passage, Deadline::after({})));
    moved = true;
  }
  return moved;
}

}  // namespace muster::strategies
