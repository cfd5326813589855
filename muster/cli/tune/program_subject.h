// Trials of a program of a user's own, started by `muster run`. Values go into its arguments; its figures are lines of
// JSON that it prints: {"epoch": 3, "accuracy": 0.91}. A program that takes {until} and keeps its state in {folder} can
// be paused and go on.
#pragma once

#include <string>
#include <vector>

#include "muster/cli/tune/trial_subject.h"

namespace muster::cli {

class ProgramSubject final : public TrialSubject {
 public:
  ProgramSubject(std::filesystem::path study, std::vector<std::string> program,
                 std::vector<tuning::Objective> objectives, std::uint64_t workers, std::uint64_t threads,
                 std::uint64_t epochs);

  bool can_pause() const override;
  std::vector<std::string> prepare(const tuning::Trial& trial, const std::vector<tuning::Trial>& ancestors,
                                   std::uint64_t until) override;
  std::filesystem::path rows_file(std::uint64_t number) const override { return folder(number) / "output.txt"; }
  RowMeaning meaning(const Json& row) const override;
  bool ends_silently() const override { return true; }
  std::string failure(std::uint64_t) const override { return {}; }
  void drop_state(std::uint64_t) const override {}

 private:
  std::string filled(std::string word, const tuning::Trial& trial, std::uint64_t until) const;

  const std::vector<std::string> program_;
  const std::vector<tuning::Objective> objectives_;
  const std::uint64_t workers_;
  const std::uint64_t threads_;
  const std::uint64_t epochs_;
};

}  // namespace muster::cli
