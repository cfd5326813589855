// What a coordinator has to ask about the training that it coordinates, and does not know itself.
//
// This class answers for a program of a user's own, of which nobody knows more than its leader tells. A job file has
// its own answers (cli/job_training.h). Thread safety: every method from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/control/job_record.h"
#include "muster/control/leader_note.h"

namespace muster::coordinator {

class Training {
 public:
  virtual ~Training() = default;

  // Whether the workers are ours: they end together, and the run can be resumed.
  virtual bool ours() const { return false; }
  // The samples of a lane of step `step` (committed steps before it), in words; empty: not known.
  virtual std::string describe_lane(std::uint64_t step, int lane, const control::LeaderNote& leader) const;

  // Changes by `muster set`. Throws kInvalidInput or kUnsupported, saying why `assignment` ("optimizer.lr=0.1") is not
  // possible after those before it.
  virtual void check_change(const std::vector<std::string>& earlier, const std::string& assignment) const;
  // Tells the workers, by way of the run's folder, all that was asked for. Throws kIo, kResource.
  virtual void ask_for(const std::filesystem::path& run, const std::vector<control::Change>& changes) const;
  // What stands there: all that was asked for; those of which the workers have said from which step on they count.
  // Throws kDamaged, kIo.
  virtual std::vector<control::Change> asked(const std::filesystem::path& run) const;
  virtual std::vector<control::Change> applied(const std::filesystem::path& run) const;

  // The folder that this host has for the run which the host that leads keeps at `run`. Throws kIo, kResource.
  virtual std::filesystem::path local_run(const std::filesystem::path& run) const { return run; }

  // Whether the workers have left anything in the run's folder that is worth keeping.
  virtual bool has_results(const std::filesystem::path&) const { return false; }
  // That the run has failed, where people look for it; does not throw.
  virtual void write_failure(const std::filesystem::path& run, std::uint64_t step, const std::string& reason) const;
};

}  // namespace muster::coordinator
