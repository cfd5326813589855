// What workers print, out of their logs, line by line with the worker's rank before it: `muster run --prefix`. No torch
// here.
//
// Files and not pipes: a worker that outlives this process goes on writing. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace muster::cli {

class WorkerLines {
 public:
  // `run`: the folder of the logs (trainer::RunFolder::log_name), of at most so many workers.
  WorkerLines(std::filesystem::path run, int workers, std::FILE* out);

  // Prints the whole lines that have come since the last call; `last`: the rest as well.
  void print(bool last = false);

 private:
  struct Log {
    std::filesystem::path path;
    std::uint64_t offset = 0;
    std::string rest{};  // of a line that has not ended
  };
  void read_more(Log& log) const;

  std::vector<Log> logs_;
  std::FILE* const out_;
};

}  // namespace muster::cli
