// What a coordinator asks about the training of a job file (coordinator/training.h): its keys, its samples, and the
// files of its run.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "muster/coordinator/training.h"
#include "muster/trainer/job.h"

namespace muster::cli {

class JobTraining final : public coordinator::Training {
 public:
  explicit JobTraining(trainer::ResolvedJob resolved) : resolved_(std::move(resolved)) {}

  bool ours() const override { return true; }
  std::string describe_lane(std::uint64_t step, int lane, const control::LeaderNote& leader) const override;
  void check_change(const std::vector<std::string>& earlier, const std::string& assignment) const override;
  void ask_for(const std::filesystem::path& run, const std::vector<control::Change>& changes) const override;
  std::vector<control::Change> asked(const std::filesystem::path& run) const override;
  std::vector<control::Change> applied(const std::filesystem::path& run) const override;
  std::filesystem::path local_run(const std::filesystem::path& run) const override;
  bool has_results(const std::filesystem::path& run) const override;
  void write_failure(const std::filesystem::path& run, std::uint64_t step, const std::string& reason) const override;

 private:
  const trainer::ResolvedJob resolved_;
};

}  // namespace muster::cli
