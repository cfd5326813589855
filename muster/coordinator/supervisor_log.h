// The log of a job's supervisor, in the run's folder: who coordinates, who was lost and why, how the job ended. What
// happens before the folder is known is kept for it. Thread safety: note() from any thread; open() once.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "muster/base/log.h"
#include "muster/base/mutex.h"

namespace muster::coordinator {

class SupervisorLog {
 public:
  SupervisorLog() : log_(LogLevel::kOff) {}

  // `first_line` goes before what was kept. Throws as Log::open_file.
  void open(const std::filesystem::path& run, const std::string& first_line);
  // `expected`: nothing to be worried about.
  void note(const std::string& line, bool expected = false);
  Log& log() { return log_; }

 private:
  Log log_;
  Mutex mutex_;
  bool open_ MUSTER_GUARDED_BY(mutex_) = false;
  std::vector<std::string> early_lines_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::coordinator
