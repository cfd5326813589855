// A log that is not there yet, or cannot be read, has no lines: workers come one after the other, and what they print
// is in the file whatever happens here.
#include "muster/cli/worker_lines.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/trainer/run_folder.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kMostAtOnce = 1 << 20;
constexpr std::size_t kLongestLine = 16 << 20;  // what is longer, or has no end, is printed in pieces

}  // namespace

WorkerLines::WorkerLines(std::filesystem::path run, int workers, std::FILE* out) : out_(out) {
  for (int rank = 0; rank < workers; ++rank)
    logs_.push_back({run / trainer::RunFolder::log_name(rank)});
}

void WorkerLines::read_more(Log& log) const {
  std::error_code code;
  if (!std::filesystem::exists(log.path, code)) return;
  try {
    const OpenFile file = open_for_reading(log.path);
    if (file.size <= log.offset) return;
    std::string text(std::min(file.size - log.offset, kMostAtOnce), '\0');
    read_exactly(file, log.offset, std::as_writable_bytes(std::span(text)), log.path);
    log.offset += text.size();
    log.rest += text;
  } catch (const Error&) {
  }
}

void WorkerLines::print(bool last) {
  for (std::size_t rank = 0; rank < logs_.size(); ++rank) {
    Log& log = logs_[rank];
    for (std::uint64_t before = log.offset + 1; before != log.offset;) {
      before = log.offset;
      read_more(log);
      std::size_t begin = 0;
      for (std::size_t end = 0; (end = log.rest.find_first_of("\r\n", begin)) != std::string::npos; begin = end + 1)
        fmt::print(out_, "[{}] {}\n", rank, std::string_view(log.rest).substr(begin, end - begin));
      log.rest.erase(0, begin);
      if (log.rest.size() > kLongestLine) fmt::print(out_, "[{}] {}\n", rank, std::exchange(log.rest, {}));
    }
    if (last && !log.rest.empty()) fmt::print(out_, "[{}] {}\n", rank, std::exchange(log.rest, {}));
  }
  std::fflush(out_);
}

}  // namespace muster::cli
