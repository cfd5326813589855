// The folder of one run: runs/NAME-TIME/ with job.toml (resolved), metrics.jsonl, log.txt, checkpoints/ and, on
// request, ledger/. No torch here.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "muster/base/clock.h"

namespace muster::trainer {

class RunFolder {
 public:
  // Of a path as JSON writes it: workers leave it to each other in a note of limited size (comm/shared_note.h). All
  // that follow throw kInvalidInput for a path that is longer, or is not UTF-8.
  static constexpr std::size_t kLongestPath = 1000;

  // A new folder that no other run has, with the resolved job in it. Throws Error{kIo | kResource}.
  static RunFolder create(const std::filesystem::path& runs, const std::string& name, const std::string& job,
                          const Clock& clock = system_clock());
  // The same without a job file: of a program that is not ours.
  static std::filesystem::path make(const std::filesystem::path& runs, const std::string& name,
                                    const Clock& clock = system_clock());
  // An existing one. Throws Error{kNotFound} when it is not there or is no run.
  static RunFolder open(const std::filesystem::path& path);
  // The run of another host, which has it at `path`: the folder there if this host sees it, else the one of the same
  // name in `runs`, which is made, with the resolved job in it, if it is not there. Throws Error{kIo | kResource}.
  static RunFolder of_other_host(const std::filesystem::path& path, const std::filesystem::path& runs,
                                 const std::string& job);
  // Whether it is the folder of a run that was begun and in which nothing was trained yet.
  static bool is_unused(const std::filesystem::path& path);
  // The newest run of `name`, if there is one.
  static std::optional<RunFolder> newest(const std::filesystem::path& runs, const std::string& name);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path job_file() const { return path_ / "job.toml"; }
  std::filesystem::path metrics_file() const { return path_ / "metrics.jsonl"; }
  // log.txt for the first worker, log.1.txt, log.2.txt, ... for others.
  std::filesystem::path log_file(int rank = 0) const { return path_ / log_name(rank); }
  static std::string log_name(int rank) { return rank == 0 ? "log.txt" : "log." + std::to_string(rank) + ".txt"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path ledger() const { return path_ / "ledger"; }
  // The job as it was resolved when the run began.
  std::string job() const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace muster::trainer
