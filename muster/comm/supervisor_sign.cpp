// A sign is a process with its start time: one that was left by a supervisor that is gone, or whose number somebody
// else has now, counts for nothing.
#include "muster/comm/supervisor_sign.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "muster/base/process.h"

namespace muster::comm {
namespace {

constexpr const char* kFolder = "supervisor";
constexpr std::chrono::seconds kDefaultLiveness{2};

}  // namespace

void leave_supervisor_sign(Store& store, std::chrono::nanoseconds liveness) {
  const ProcessId self = this_process();
  store.set(fmt::format("{}/{}-{}", kFolder, self.pid, self.start_time), std::to_string(liveness.count()));
}

bool supervisor_lives(const std::filesystem::path& store_folder) {
  if (store_folder.empty()) return false;
  for (const auto& [key, liveness] : values_in_file_store(store_folder, kFolder)) {
    ProcessId process;
    if (std::sscanf(key.c_str() + key.find('/'), "/%d-%lu", &process.pid, &process.start_time) == 2 &&
        state_of(process) != ProcessState::kGone)
      return true;
  }
  return false;
}

std::chrono::nanoseconds supervisor_liveness(const std::filesystem::path& store_folder) {
  std::chrono::nanoseconds liveness{0};
  if (store_folder.empty()) return kDefaultLiveness;
  for (const auto& [key, value] : values_in_file_store(store_folder, kFolder))
    liveness = std::max(liveness, std::chrono::nanoseconds(std::atoll(value.c_str())));
  return liveness.count() > 0 ? liveness : kDefaultLiveness;
}

}  // namespace muster::comm
