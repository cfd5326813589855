// The log of one process: lines to standard error and, once a run has a folder, to its log file.
//
// Passed by reference to whoever logs; there is no global one. Thread safety: every method from any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

namespace muster {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

class Log {
 public:
  // Lines of `console_level` and above go to standard error; the file, if one is opened, gets all.
  explicit Log(LogLevel console_level = LogLevel::kInfo);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Appends to `path` from now on. Throws Error{kIo}.
  void open_file(const std::filesystem::path& path);

  void debug(std::string_view message);
  void info(std::string_view message);
  void warning(std::string_view message);
  void error(std::string_view message);

 private:
  struct Sinks;
  std::unique_ptr<Sinks> sinks_;
};

}  // namespace muster
