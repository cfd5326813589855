// Everybody tells where it stands, all make the same plan of it, and the plan is carried out; a barrier of all hosts is
// the end, after which nobody takes a host for fresh that is not.
#include "muster/strategies/shared_sync/host_state.h"

#include <algorithm>
#include <array>
#include <deque>
#include <type_traits>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/strategies/shared_sync/link_time.h"

namespace muster::strategies {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr std::size_t kPiecesUnderWay = 4;
constexpr std::uint32_t kStateTag = 4;

// Which of the source's workers a worker takes its part from: they take turns over all who take.
struct Delivery {
  int from = 0;
  int to = 0;
  std::size_t index = 0;  // of the one that takes, on its host
  std::size_t workers = 1;
};

std::vector<Delivery> deliveries(const control::JobGeneration& job, const StatePlan& plan) {
  std::vector<Delivery> made;
  const int first = job.first_rank(plan.source);
  const int sources = job.hosts[plan.source].workers();
  for (std::size_t host = 0; host < job.hosts.size(); ++host) {
    if (!plan.takes[host]) continue;
    const int workers = job.hosts[host].workers();
    for (int index = 0; index < workers; ++index) {
      made.push_back({first + static_cast<int>(made.size()) % sources, job.first_rank(host) + index,
                      static_cast<std::size_t>(index), static_cast<std::size_t>(workers)});
    }
  }
  return made;
}

std::span<std::uint8_t> as_view(std::span<std::byte> bytes) {
  return {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()};
}

// Waits for the oldest transfer when there are enough under way; for all at the end.
class Transfers {
 public:
  explicit Transfers(const Deadline& deadline) : deadline_(deadline) {}
  void add(comm::Pending transfer) {
    if (under_way_.size() == kPiecesUnderWay) wait_one();
    under_way_.push_back(std::move(transfer));
  }
  void wait_all() {
    while (!under_way_.empty())
      wait_one();
  }

 private:
  void wait_one() {
    under_way_.front().wait(deadline_);
    under_way_.pop_front();
  }
  const Deadline deadline_;
  std::deque<comm::Pending> under_way_;
};

}  // namespace

bool StatePlan::anybody_takes() const {
  return std::find(takes.begin(), takes.end(), true) != takes.end();
}

StatePlan plan_state(const control::JobGeneration& job, std::span<const Standing> standings) {
  MUSTER_CHECK(standings.size() == static_cast<std::size_t>(job.workers()), "a standing for every worker");
  const auto of_host = [&](std::size_t host) -> const Standing& {
    return standings[static_cast<std::size_t>(job.first_rank(host))];
  };
  StatePlan plan;
  std::optional<std::size_t> source;
  for (std::size_t host = 0; host < job.hosts.size(); ++host) {
    if (!of_host(host).fresh && (!source || of_host(host).step > of_host(*source).step)) source = host;
  }
  if (!source) {
    throw Error(ErrorKind::kNotFound, "no host has the state of the job: those that had it are lost", {},
                "Start the job again with --resume, to go on from its last checkpoint.");
  }
  plan.source = *source;
  plan.step = of_host(*source).step;
  bool one_behind = false;
  int fresh = 0;
  int behind = 0;
  for (std::size_t host = 0; host < job.hosts.size(); ++host) {
    const Standing& standing = of_host(host);
    plan.takes.push_back(standing.fresh || standing.step < plan.step);
    fresh += standing.fresh ? 1 : 0;
    behind += !standing.fresh && standing.step < plan.step ? 1 : 0;
    one_behind = one_behind || (!standing.fresh && standing.step + 1 == plan.step);
  }
  for (std::size_t rank = 0; one_behind && !plan.narrator && rank < standings.size(); ++rank) {
    if (standings[rank].step == plan.step && standings[rank].saw_the_last) plan.narrator = static_cast<int>(rank);
  }
  plan.reason = fmt::format("step {} is on host {}; {} hosts are fresh, {} behind", plan.step,
                            job.hosts[plan.source].number, fresh, behind);
  return plan;
}

std::vector<Standing> HostState::compare(const Members& members, const std::optional<LastStep>& last,
                                         const Deadline& deadline) const {
  const bool saw = last && last->step + 1 == arena_.step();
  const std::array<std::int64_t, 3> own{static_cast<std::int64_t>(arena_.step()), arena_.fresh() ? 1 : 0, saw ? 1 : 0};
  std::vector<std::int64_t> all(own.size() * members.count());
  comm::Group group = members.group;
  group.all_gather(std::span(own), std::span(all), deadline);
  std::vector<Standing> standings;
  for (std::size_t rank = 0; rank < members.count(); ++rank)
    standings.push_back({static_cast<std::uint64_t>(all[3 * rank]), all[3 * rank + 1] != 0, all[3 * rank + 2] != 0});
  return standings;
}

std::vector<std::span<std::byte>> HostState::pieces(const HostVersion& version, std::size_t index,
                                                    std::size_t workers) const {
  std::vector<std::span<std::byte>> cut;
  const auto add = [&](std::span<std::byte> bytes) {
    for (std::size_t begin = 0; begin < bytes.size(); begin += kPieceBytes)
      cut.push_back(bytes.subspan(begin, std::min(kPieceBytes, bytes.size() - begin)));
  };
  // Padding between tensors goes along.
  const std::vector<model::Block>& blocks = options_.layout.blocks();
  const compute::BlockRange slice = slice_of(options_.layout, index, workers);
  const auto position = [&](std::size_t block) {
    return block == blocks.size() ? options_.layout.size() : blocks[block].begin;
  };
  const std::uint64_t begin = index == 0 ? 0 : position(slice.first);
  const std::uint64_t length = position(slice.last) - begin;
  add(std::as_writable_bytes(version.state.parameters.subspan(begin, length)));
  for (const std::span<float>& slot : version.state.state) {
    if (!slot.empty()) add(std::as_writable_bytes(slot.subspan(begin, length)));
  }
  if (index == 0) {
    add(std::as_writable_bytes(version.state.updates));
    add(version.buffers);
  }
  return cut;
}

void HostState::send(const Members& members, const StatePlan& plan, const Deadline& deadline) {
  const HostVersion& version = versions_[arena_.committed().buffer];
  comm::Group group = members.group;
  for (const Delivery& delivery : deliveries(members.job, plan)) {
    if (delivery.from != group.rank()) continue;
    Transfers transfers(deadline);
    for (const std::span<std::byte>& piece : pieces(version, delivery.index, delivery.workers)) {
      MUSTER_FAILPOINT("hosts.state.sending");
      transfers.add(group.start_send(std::span<const std::uint8_t>(as_view(piece)), delivery.to, kStateTag));
    }
    transfers.wait_all();
  }
}

void HostState::receive(const Members& members, const StatePlan& plan, const Deadline& deadline) {
  const bool fresh = arena_.fresh();
  comm::Group group = members.group;
  const HostVersion& next = versions_[1 - arena_.committed().buffer];
  arena_.next_version(deadline);
  for (const Delivery& delivery : deliveries(members.job, plan)) {
    if (delivery.to != group.rank()) continue;
    Transfers transfers(deadline);
    for (const std::span<std::byte>& piece : pieces(next, delivery.index, delivery.workers)) {
      MUSTER_FAILPOINT("hosts.state.receiving");
      transfers.add(group.start_receive(as_view(piece), delivery.from, kStateTag));
    }
    transfers.wait_all();
  }
  MUSTER_FAILPOINT("hosts.state.received");
  arena_.adopt(plan.step, deadline);
  if (!fresh) return;
  // What no step ever writes must be right in either version.
  const HostVersion& other = versions_[1 - arena_.committed().buffer];
  arena_.next_version(deadline);
  const auto from = pieces(next, members.host_index(), members.host_count());
  const auto to = pieces(other, members.host_index(), members.host_count());
  for (std::size_t i = 0; i < from.size(); ++i)
    std::ranges::copy(from[i], to[i].begin());
}

void HostState::bring_up_to_date(const Members& members, const std::optional<LastStep>& last,
                                 std::optional<LastStep>& told, std::chrono::nanoseconds patience) {
  const StatePlan plan = plan_state(members.job, compare(members, last, Deadline::after(patience)));
  if (!plan.anybody_takes()) return;
  // One after the other may get it, and all wait for the last.
  const auto takers = static_cast<std::uint64_t>(std::count(plan.takes.begin(), plan.takes.end(), true));
  const Deadline deadline = Deadline::after(patience + time_on_link(takers * arena_.options().version_bytes));
  const bool fresh = arena_.fresh();
  const bool takes = plan.takes[members.host];
  comm::Group group = members.group;
  if (plan.narrator) {
    static_assert(std::is_trivially_copyable_v<LastStep>);
    LastStep step;
    if (group.rank() == *plan.narrator) step = *last;
    group.broadcast(as_view(std::as_writable_bytes(std::span(&step, 1))), *plan.narrator, deadline);
    if (takes && !fresh && arena_.step() + 1 == plan.step) told = step;
  }
  if (takes)
    receive(members, plan, deadline);
  else if (members.host == plan.source)
    send(members, plan, deadline);
  group.barrier(deadline);
  MUSTER_FAILPOINT("hosts.state.before_settle");
  if (fresh) arena_.settle();
}

}  // namespace muster::strategies
