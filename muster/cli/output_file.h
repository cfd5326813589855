// OutputFile: what a command writes where the user said: whole, or as it was before.
//
// A regular file appears under its name only by commit(), and a link to one stays a link; a pipe or a device is written
// straight into, as there is nothing to keep; "-" is standard output. A process that Ctrl-C or SIGTERM ends before
// commit() leaves nothing behind.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/files.h"
#include "muster/base/mutex.h"
#include "muster/cli/signals.h"

namespace muster::cli {

// Throws kInvalidInput if writing to `out` would overwrite what the command reads: one of `inputs`, or in one that is a
// folder a file that is there already, unless it is called as `out` files are (`ending`).
void refuse_overwriting(const std::filesystem::path& out, std::span<const std::filesystem::path> inputs,
                        std::string_view ending);

// Thread safety: one thread. One object at a time, and no SignalWatch beside it.
class OutputFile {
 public:
  // Throws Error{kNotFound} (no such folder), kInvalidInput (it is a folder), kIo, kResource.
  explicit OutputFile(const std::filesystem::path& path);

  // Both throw kIo, kResource.
  void write(std::string_view text);
  void commit();

 private:
  void flush();
  [[noreturn]] void end_process(const std::string& signal);

  std::filesystem::path path_;
  Mutex mutex_;
  std::unique_ptr<AtomicFile> file_ MUSTER_GUARDED_BY(mutex_);  // empty: into stream_, or standard output
  std::ofstream stream_;
  std::string pending_;
  std::unique_ptr<SignalWatch> watch_;  // last: it uses the others
};

}  // namespace muster::cli
