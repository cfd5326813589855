// While a file is being written signals end the process through end_process(), which removes the draft first. Links are
// followed to the file they mean, and a pipe or a device is written as it is.
#include "muster/cli/output_file.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <system_error>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStandardOutput = "-";
constexpr std::size_t kPiece = std::size_t{256} << 10;

}  // namespace

void refuse_overwriting(const fs::path& out, std::span<const fs::path> inputs, std::string_view ending) {
  std::error_code code;
  if (!fs::is_regular_file(out, code)) return;
  for (const fs::path& input : inputs) {
    if (fs::equivalent(out, input, code) && !code)
      throw Error(ErrorKind::kInvalidInput, "is read by this command and would be overwritten", out.string(),
                  "Name another file to write.");
    if (!fs::is_directory(input, code) || out.extension() == ending) continue;
    const fs::path relative = fs::relative(out, input, code);
    if (code || relative.empty() || *relative.begin() == "..") continue;
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("is a file of {}, which this command reads, and would be overwritten", input.string()),
                out.string(), "Name another file to write.");
  }
}

OutputFile::OutputFile(const fs::path& path) : path_(path) {
  if (path == kStandardOutput) return;
  std::error_code code;
  const fs::file_type type = fs::status(path, code).type();
  if (type == fs::file_type::directory)
    throw Error(ErrorKind::kInvalidInput, "is a folder", path.string(), "Name a file.");
  if (type == fs::file_type::regular || type == fs::file_type::not_found) {
    const fs::path real = fs::is_symlink(path, code) && type == fs::file_type::regular ? fs::canonical(path) : path;
    // The process ends at the first signal, so that no grace is needed.
    watch_ = std::make_unique<SignalWatch>(std::chrono::hours(1),
                                           [this](const std::string& signal) { end_process(signal); });
    const MutexLock lock(mutex_);
    file_ = std::make_unique<AtomicFile>(real);
    return;
  }
  stream_.open(path);
  if (!stream_) throw Error(ErrorKind::kIo, "cannot be written", path.string());
}

void OutputFile::write(std::string_view text) {
  pending_ += text;
  if (pending_.size() >= kPiece) flush();
}

void OutputFile::flush() {
  const MutexLock lock(mutex_);
  if (file_) {
    file_->write(pending_);
  } else if (path_ == kStandardOutput) {
    if (std::fwrite(pending_.data(), 1, pending_.size(), stdout) != pending_.size())
      throw Error(ErrorKind::kIo, "cannot be written", "standard output");
  } else if (!stream_.write(pending_.data(), static_cast<std::streamsize>(pending_.size()))) {
    throw Error(ErrorKind::kIo, "cannot be written", path_.string());
  }
  pending_.clear();
}

void OutputFile::commit() {
  flush();
  const MutexLock lock(mutex_);
  if (file_) return file_->commit();
  if (path_ == kStandardOutput) {
    if (std::fflush(stdout) != 0) throw Error(ErrorKind::kIo, "cannot be written to its end", "standard output");
    return;
  }
  stream_.close();
  if (!stream_) throw Error(ErrorKind::kIo, "cannot be written to its end", path_.string());
}

void OutputFile::end_process(const std::string& signal) {
  const MutexLock lock(mutex_);  // to the end: no file is made after this
  file_.reset();
  fmt::print(stderr, "\nmuster: stopped by {}\n", signal);
  ::_exit(128 + (signal == "Ctrl-C" ? SIGINT : SIGTERM));
}

}  // namespace muster::cli
