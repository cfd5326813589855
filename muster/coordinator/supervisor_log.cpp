// Lines from before the run's folder is known are kept, up to a number that no sound start comes to, and written when
// it is opened.
#include "muster/coordinator/supervisor_log.h"

namespace muster::coordinator {
namespace {

constexpr std::size_t kMostEarlyLines = 1000;

}  // namespace

void SupervisorLog::open(const std::filesystem::path& run, const std::string& first_line) {
  log_.open_file(run / "log.supervisor.txt");
  log_.info(first_line);
  const MutexLock lock(mutex_);
  for (const std::string& line : early_lines_)
    log_.warning(line);
  early_lines_.clear();
  open_ = true;
}

void SupervisorLog::note(const std::string& line, bool expected) {
  const MutexLock lock(mutex_);
  if (open_)
    expected ? log_.info(line) : log_.warning(line);
  else if (early_lines_.size() < kMostEarlyLines)
    early_lines_.push_back(line);
}

}  // namespace muster::coordinator
