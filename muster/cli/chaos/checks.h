// The invariants of a disturbed job, as pure functions of what was observed of it.
//
// I1 every sample exactly once, I2 copies of the state agree, I3 the weights of an undisturbed run, I4 step, generation
// and fencing token never go back, I5 the newest checkpoint is whole and not older than one that was there, I6 nothing
// stands still for long, I7 nothing is left; of several hosts also: no part without the coordinator goes on.
// docs/chaos.md says how each is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/json.h"
#include "muster/base/process.h"
#include "muster/cli/chaos/plan.h"
#include "muster/data/ledger_check.h"

namespace muster::cli {

// Times are seconds since the job was first looked at.
struct ChaosSample {
  double at = 0;
  bool live = false;  // told by a coordinator; what the record says instead may be old
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  std::uint64_t token = 0;  // of the coordinator's lease
};

struct MadeFault {
  Fault fault = Fault::kKill;
  double at = 0;
  int rank = -1;  // of a worker
  ProcessId victim{};
  std::optional<double> continued = {};  // when a stopped one was woken
  std::optional<double> gone = {};       // when it was seen dead
  std::optional<double> replaced = {};   // when another process trained in its place
  bool hit_again = false;                // by a later fault
  // Of several hosts; `continued` is when the fault itself was over, `replaced` when all trained again.
  std::string whom = {};
  double hopeless = 0;                // seconds in which nobody could have committed, whatever was done
  std::optional<double> commit = {};  // when the next one was seen
  bool brief = false;                 // too short for anybody to be given up,
  bool given_up = false;              // and somebody was
};

struct StoredWeights {
  std::uint64_t step = 0;
  std::string hash;
};

// The newest checkpoint of a host.
struct HostCopy {
  std::string host;
  StoredWeights weights;
};

struct Observations {
  std::vector<ChaosSample> samples = {};
  std::vector<MadeFault> faults = {};
  std::vector<std::uint64_t> metric_steps = {};            // of the rows written meanwhile, in their order
  std::set<std::uint64_t> validated_steps = {};            // nothing is committed while the job validates
  double liveness = 2;                                     // seconds: parallel.liveness_seconds
  double step_seconds = 0;                                 // of a calm step
  std::optional<double> told_to_stop = {};                 // when the job was; whoever goes later was not killed
  bool over = false;                                       // the job has ended,
  bool ended_well = false;                                 // finished, or stopped on request
  std::string end = {};                                    // in words
  std::optional<std::uint64_t> acknowledged = {};          // newest checkpoint that was ever there
  std::optional<StoredWeights> newest = {};                // newest that is whole
  std::vector<std::string> rejected = {};                  // newer ones that are not, with reasons
  std::optional<data::LedgerReport> ledger = {};           // nothing: it is off
  bool reference_wanted = false;                           // then one that is missing is a failure
  std::optional<StoredWeights> reference = {};             // undisturbed, at the same step
  std::string no_reference = {};                           // why there is none
  std::optional<std::vector<std::string>> leftovers = {};  // nothing: the job still runs
  // Of a job of several hosts; `liveness` is parallel.host_seconds then.
  int hosts = 0;                          // 0: it has one
  std::vector<HostCopy> copies = {};      // of all of them in the end
  int parts = 0;                          // that were cut off from the coordinator for so long that they were given up
  std::vector<std::string> went_on = {};  // which of them went on by themselves
  std::vector<std::string> deserters = {};  // agents that ended though nobody had ended them
};

enum class Verdict { kPass, kFailed, kNotChecked };
// "pass", "FAILED", "not checked".
std::string_view to_string(Verdict verdict);

struct Finding {
  std::string name;  // "I1"
  std::string what;
  Verdict verdict = Verdict::kNotChecked;
  std::string reason;
};

Finding check_ledger_exact(const Observations& seen);
Finding check_copies(const Observations& seen);
Finding check_weights(const Observations& seen);
Finding check_monotonic(const Observations& seen);
Finding check_checkpoint(const Observations& seen);
Finding check_progress(const Observations& seen);
Finding check_leftovers(const Observations& seen);
// Of several hosts, in the place of check_progress: from every fault to the next commit, and to all hosts being back.
Finding check_recovery(const Observations& seen);
Finding check_parts(const Observations& seen);

// All of them, behind one that says how the job ended.
std::vector<Finding> check_invariants(const Observations& seen);

// Median seconds from the death of a worker to another one training in its place; nothing when there was none.
std::optional<double> median_start_up(const std::vector<MadeFault>& faults);
// Longest time without a commit that I6 accepts: liveness (a stopped worker is found) + 10 steps + 2 s, longer by as
// much as the usual step took longer than a calm one, + 2 of the longest start-ups (of workers that die one after the
// other).
double longest_pause_allowed(const Observations& seen);
// When a fault at that moment was over for the job: at the end of the longest time without a commit that had begun by
// then, or within a second, because what is seen of a job is as old. Nothing: it never was, as far as was seen.
std::optional<double> next_commit(const std::vector<ChaosSample>& samples, double at);
// Longest time from a fault of hosts to the next commit: liveness + 10 steps + 2 s, longer by as much as the usual step
// took longer than a calm one, + what was hopeless.
double commit_allowed(const Observations& seen, const MadeFault& fault);
// Seconds from faults to the next commit, rising.
std::vector<double> times_to_commit(const std::vector<MadeFault>& faults);

}  // namespace muster::cli
