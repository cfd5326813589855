// Makes faults between and on the hosts of a job, undoes them when their time is over, and keeps track of what came of
// each: the next commit, whether a part that was cut off went on, and when all hosts trained again.
//
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/cli/chaos/checks.h"
#include "muster/cli/chaos/host_job.h"
#include "muster/cli/chaos/host_plan.h"
#include "muster/cli/chaos/look.h"

namespace muster::cli {

struct HostFaultOptions {
  double detection = 5;                                                      // seconds: parallel.host_seconds
  bool ledger = false;                                                       // the job keeps one
  std::function<void(const std::string&)> tell = [](const std::string&) {};  // what happened, for people
};

class HostFaultMaker {
 public:
  // `job` outlives it.
  HostFaultMaker(HostJob& job, HostFaultOptions options);

  // To be called with every look at the job, whose time is as ChaosSample::at.
  void look(const Look& look);
  // To be called again and again: undoes what is over. `now` as ChaosSample::at.
  void tend(double now);
  // Whether that fault may be made now.
  bool ready(const PlannedFault& planned, double now) const;
  // REQUIRES: ready().
  void make(const PlannedFault& planned, double now);
  // Whether everything is undone and all hosts train.
  bool settled() const { return open_.empty(); }
  // No more faults: undoes all of them.
  void end(double now);

  const std::vector<MadeFault>& faults() const { return faults_; }
  int parts() const { return parts_; }
  const std::vector<std::string>& went_on() const { return went_on_; }

 private:
  struct Open {
    std::size_t fault = 0;
    Disturbance what{};
    double undo = 0;                                 // when
    std::uint64_t step = 0;                          // the last one before or at the fault
    std::optional<std::uint64_t> undone_step{};      // the first one that was seen after it was undone
    std::map<int, std::uintmax_t> ledgers{};         // bytes of hosts that are apart, since they were given up
    std::map<std::string, std::uint64_t> numbers{};  // of the hosts at the fault
  };

  void disturb(const Disturbance& what, const PlannedFault& planned);
  void undo(Open& open, double now);
  bool back(const Open& open, const Look& look) const;
  MadeFault& made(const Open& open) { return faults_[open.fault]; }

  HostJob& job_;
  const HostFaultOptions options_;
  Look newest_;
  double settled_at_ = 0;
  std::vector<MadeFault> faults_;
  std::vector<Open> open_;
  int parts_ = 0;
  std::vector<std::string> went_on_;
};

}  // namespace muster::cli
