// Looks at a job of several hosts from one of them. Sockets of a host are met from nowhere else, so a process there
// looks (muster chaos JOB --role look) and leaves what it sees, a line for each look, in a file that chaos reads.
//
// Times are those of the machine's monotonic clock, which its hosts share. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/json.h"

namespace muster::cli {

struct HostLook {
  std::string name;
  std::uint64_t number = 0;
  int workers = 0;  // that train
  std::optional<std::uint64_t> checkpoint{};
};

struct Look {
  double at = 0;
  bool live = false;  // told by a coordinator
  std::string state{};
  std::uint64_t step = 0;
  std::uint64_t total_steps = 0;
  std::uint64_t generation = 0;  // of all hosts
  std::uint64_t term = 0;        // of the coordinator
  double samples_per_second = 0;
  std::vector<HostLook> hosts{};

  // All of so many hosts train.
  bool all_train(int count) const;
};

Json to_json(const Look& look);
// Throws as Json does.
Look look_of(const Json& row);

// Seconds on the clock of the looks.
double look_clock();

// Looks for the newest run of `job` in `runs` again and again, until it is killed. One look that fails is one that is
// not live.
[[noreturn]] void keep_looking(const std::string& job, const std::filesystem::path& runs,
                               const std::filesystem::path& file);

// Reads such a file while it grows.
class LookReader {
 public:
  explicit LookReader(std::filesystem::path file) : file_(std::move(file)) {}
  // Those that have come since the last call.
  std::vector<Look> next();

 private:
  std::filesystem::path file_;
  std::uintmax_t offset_ = 0;
};

}  // namespace muster::cli
