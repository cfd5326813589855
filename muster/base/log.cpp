// spdlog behind our own face, flushed with every line:
// there are few lines, and somebody may be waiting for each.
#include "muster/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <filesystem>
#include <system_error>

#include "muster/base/error.h"

namespace muster {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

}  // namespace

struct Log::Sinks {
  std::shared_ptr<spdlog::sinks::dist_sink_mt> all = std::make_shared<spdlog::sinks::dist_sink_mt>();
  spdlog::logger logger{"muster", all};
};

Log::Log(LogLevel console_level) : sinks_(std::make_unique<Sinks>()) {
  auto console = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  console->set_level(to_spdlog(console_level));
  console->set_pattern("muster: %^%l%$: %v");
  sinks_->all->add_sink(std::move(console));
  sinks_->logger.set_level(spdlog::level::debug);
  // There are few lines, and somebody may be waiting for each.
  sinks_->logger.flush_on(spdlog::level::debug);
}

Log::~Log() = default;

void Log::open_file(const std::filesystem::path& path) {
  // A pipe would hold the program up until somebody reads it.
  std::error_code unknown;
  const std::filesystem::file_type type = std::filesystem::status(path, unknown).type();
  if (type == std::filesystem::file_type::fifo || type == std::filesystem::file_type::socket)
    throw Error(ErrorKind::kInvalidInput, "is a pipe or a socket, and a log is a file", path.string(), "Remove it.");
  try {
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string());
    file->set_pattern("%Y-%m-%dT%H:%M:%S.%e %P %l: %v");
    sinks_->all->add_sink(std::move(file));
  } catch (const spdlog::spdlog_ex& error) {
    throw Error(ErrorKind::kIo, error.what(), path.string());
  }
}

void Log::debug(std::string_view message) {
  sinks_->logger.debug(message);
}
void Log::info(std::string_view message) {
  sinks_->logger.info(message);
}
void Log::warning(std::string_view message) {
  sinks_->logger.warn(message);
}
void Log::error(std::string_view message) {
  sinks_->logger.error(message);
}

}  // namespace muster
