// A loop: look who there is, plan anew if that has changed, fetch a portion. A piece that is there already is read
// once, so that one which the disk has spoiled is fetched again while others have it.
#include "muster/data/copy_keeper.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "muster/base/text.h"

namespace muster::data {
namespace {

constexpr std::chrono::seconds kOpenTurn{5};               // of one attempt to find the data
constexpr std::chrono::seconds kPieceTime{30};             // for a piece to come
constexpr std::chrono::milliseconds kLookAgain{200};       // when there is nothing to do
constexpr std::chrono::milliseconds kAfterTrouble{1'000};  // when a piece was not to be had, or could not be kept

// What workers are about to read comes first, and where that never ends, a portion now and then.
constexpr std::chrono::milliseconds kYield{5};
constexpr int kMostYields = 10;

}  // namespace

bool all_have_their_part(const CopyView& view, const std::string& plan) {
  return !view.hosts.empty() &&
         std::ranges::all_of(view.hosts, [&](const CopyHost& host) { return host.whole || host.held == plan; });
}

CopyKeeper::CopyKeeper(Depot& depot, CopyKeeperOptions options)
    : depot_(depot), options_(std::move(options)), thread_([this] { run(); }) {
}

CopyKeeper::~CopyKeeper() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  depot_.end();  // it may wait for a host that never comes
  thread_.join();
}

void CopyKeeper::prefer_holders() const {
  depot_.prefer([plan = plan_, portions = depot_.portions(), hosts = view_.hosts](const PieceId& piece,
                                                                                  std::vector<ShardSource>& sources) {
    if (piece.piece == 0) return;
    const std::vector<std::uint32_t>& holders = plan->holders[portions.of(piece)];
    const auto rank = [&](const ShardSource& source) {
      const auto host = std::ranges::find(hosts, source.name, &CopyHost::source);
      if (host == hosts.end()) return 2;
      const auto place = static_cast<std::uint32_t>(host - hosts.begin());
      if (std::ranges::find(holders, place) != holders.end()) return 0;
      return host->whole ? 1 : 2;
    };
    std::ranges::stable_sort(sources, {}, rank);
  });
}

bool CopyKeeper::plan_anew() {
  const CopyView view = options_.look();
  const std::shared_ptr<const LanePortions> lanes = depot_.lane_portions();
  const auto self = std::ranges::find(view.hosts, view.self, [](const CopyHost& host) { return host.member.number; });
  if (self == view.hosts.end()) return false;
  std::vector<CopyMember> members;
  for (const CopyHost& host : view.hosts)
    members.push_back(host.member);
  std::vector<CopyMember> before;
  for (const CopyHost& host : view_.hosts)
    before.push_back(host.member);
  // Which lanes a host computes matters only where lanes have samples of their own.
  if (!lanes)
    for (std::vector<CopyMember>* all : {&members, &before})
      for (CopyMember& member : *all)
        member.first_lane = member.last_lane = 0;
  const bool same = plan_ && members == before && lanes == lanes_;
  const bool news = view != view_;
  view_ = view;
  if (same) {
    if (news) prefer_holders();
    return true;
  }
  lanes_ = lanes;
  const Portions portions = depot_.portions();
  auto plan = std::make_shared<CopyPlan>(
      plan_copies(depot_.catalog().print, portions.count(), options_.copies, members, lanes ? *lanes : LanePortions{}));
  own_ = plan->portions_of(static_cast<std::uint32_t>(self - view.hosts.begin()));
  next_ = 0;
  complete_ = settled_ = false;
  kept_.resize(portions.count());
  checked_.resize(portions.count());
  for (const std::uint64_t portion : own_)
    kept_[portion] = true;
  depot_.keep(kept_);
  options_.tell(fmt::format("data: {}; {} of them here", plan->reason, own_.size()));
  if (members.size() < options_.copies)
    options_.tell(fmt::format("data: data.copies is {}, and {} host{}: a loss may lose data", options_.copies,
                              members.size(), members.size() == 1 ? " is here" : "s are here"));
  plan_ = std::move(plan);
  prefer_holders();
  return true;
}

bool CopyKeeper::fetch_one() {
  if (next_ == own_.size()) return false;
  const std::uint64_t portion = own_[next_];
  if (!checked_[portion] || !depot_.has(portion)) {
    const PieceRun run = depot_.portions().pieces(portion);
    for (std::uint64_t piece = run.first; piece < run.first + run.count; ++piece)
      depot_.fetch({run.shard, piece}, Deadline::after(kPieceTime));
    if (!depot_.has(portion))
      throw Error(ErrorKind::kResource, "what is fetched cannot be kept", {},
                  "Make room for it, or name another place in data.cache.");
    checked_[portion] = true;
  }
  ++next_;
  return true;
}

// All hosts have their part: what this one has kept of plans before may go.
void CopyKeeper::settle() {
  if (!complete_) {
    complete_ = true;
    trouble_.clear();
    options_.held(plan_->id);
    options_.tell(fmt::format("data: this host has its part, {}", human_bytes(depot_.kept_bytes())));
  }
  if (settled_ || !all_have_their_part(view_, plan_->id)) return;
  settled_ = true;
  kept_.assign(kept_.size(), false);
  for (const std::uint64_t portion : own_)
    kept_[portion] = true;
  depot_.keep(kept_);
  options_.tell(fmt::format("data: all {} hosts have their part", view_.hosts.size()));
}

void CopyKeeper::run() {
  for (;;) {
    std::chrono::milliseconds pause = kLookAgain;
    try {
      if (!open_) {
        depot_.open(Deadline::after(kOpenTurn));
        open_ = true;
      }
      if (plan_anew()) {
        if (!depot_.idle() && ++yielded_ < kMostYields) {
          pause = kYield;
        } else if (fetch_one()) {
          yielded_ = 0;
          pause = std::chrono::milliseconds(0);
        } else {
          settle();
        }
      }
    } catch (const Error& error) {
      const bool quiet = !open_ || error.kind() == ErrorKind::kInterrupted;
      if (!quiet && std::exchange(trouble_, error.message()) != error.message())
        options_.tell(
            fmt::format("data: this host lacks a part of what it is to keep, and goes on trying: {}", error.message()));
      pause = kAfterTrouble;
    }
    const MutexLock lock(mutex_);
    if (!ends_ && pause.count() > 0) changed_.wait_for(mutex_, pause);
    if (ends_) return;
  }
}

}  // namespace muster::data
