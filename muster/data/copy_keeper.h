// CopyKeeper: sees to it that a host keeps its part of a job's data (data.access = "copy"). It makes the plan
// (copy_plan.h) of the hosts there are, fetches what this host is to hold and has not got, and says when it has all.
//
// What another plan gives to others is kept until every host of the newest plan has its part: so at no moment are there
// fewer copies than before because of a plan. What workers are about to read comes before what is only kept.
// Thread safety: it works on a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/mutex.h"
#include "muster/data/copy_plan.h"
#include "muster/data/depot.h"

namespace muster::data {

// A host that gives data, as the coordinator tells of it.
struct CopyHost {
  CopyMember member{};
  std::string source{};  // as ShardSource::name
  bool whole = false;    // it has the shards themselves
  std::string held{};    // the plan of which it has its part
  bool operator==(const CopyHost&) const = default;
};

struct CopyView {
  std::vector<CopyHost> hosts{};  // by number
  std::uint64_t self = 0;         // the number of this one
  bool operator==(const CopyView&) const = default;
};

// Whether every host has its part of the plan.
bool all_have_their_part(const CopyView& view, const std::string& plan);

struct CopyKeeperOptions {
  std::uint32_t copies = 2;
  std::function<CopyView()> look;                                          // who there is now
  std::function<void(const std::string& plan)> held = [](const auto&) {};  // this host has its part of that plan
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

class CopyKeeper {
 public:
  // `depot` keeps a part, and outlives it.
  CopyKeeper(Depot& depot, CopyKeeperOptions options);
  CopyKeeper(const CopyKeeper&) = delete;
  CopyKeeper& operator=(const CopyKeeper&) = delete;
  // Ends the depot (Depot::end), and waits for the read that is under way.
  ~CopyKeeper();

 private:
  void run();
  // Makes the plan of what there is now, if it is another one. False: there is none yet.
  bool plan_anew();
  // Who is asked first for a piece: its holders by the newest plan, then hosts that have the shards.
  void prefer_holders() const;
  // One more portion, if one is missing. True: there may be more to do at once.
  bool fetch_one();
  void settle();

  // constant after construction
  Depot& depot_;
  const CopyKeeperOptions options_;
  // of the thread alone
  bool open_ = false;
  std::shared_ptr<const LanePortions> lanes_;
  std::vector<std::uint64_t> own_;  // portions of the newest plan, in the order in which they are fetched
  std::size_t next_ = 0;            // of these
  std::vector<bool> kept_;          // portions, of all plans since all hosts had their part
  std::vector<bool> checked_;       // portions that were read since this began
  bool complete_ = false;
  bool settled_ = false;
  int yielded_ = 0;  // times in a row that workers came first
  std::string trouble_;
  CopyView view_;
  std::shared_ptr<const CopyPlan> plan_;
  // guarded by mutex_
  Mutex mutex_;
  Condition changed_;
  bool ends_ MUSTER_GUARDED_BY(mutex_) = false;
  // after what it uses
  std::thread thread_;
};

}  // namespace muster::data
