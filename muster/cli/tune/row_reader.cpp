// Reads what is new and keeps what has no end yet. A line without an end is given up at 1 MiB: it is no row.
// The file is opened anew for each look: who writes it may have replaced it.
#include "muster/cli/tune/row_reader.h"

#include <array>
#include <fstream>

#include "muster/base/error.h"

namespace muster::cli {
namespace {

constexpr std::size_t kLongestRow = 1 << 20;

}  // namespace

std::vector<Json> RowReader::read() {
  std::vector<Json> rows;
  std::ifstream file(file_, std::ios::binary);
  if (!file || !file.seekg(static_cast<std::streamoff>(offset_))) return rows;
  std::array<char, 1 << 16> piece{};
  while (file.read(piece.data(), piece.size()), file.gcount() > 0) {
    offset_ += static_cast<std::uint64_t>(file.gcount());
    rest_.append(piece.data(), static_cast<std::size_t>(file.gcount()));
    std::size_t begin = 0;
    for (std::size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
      const std::string line = rest_.substr(begin, end - begin);
      begin = end + 1;
      if (line.empty() || line.front() != '{') continue;
      try {
        rows.push_back(parse_json(line, file_.string()));
      } catch (const Error&) {
        // Not a row.
      }
    }
    rest_.erase(0, begin);
    if (rest_.size() > kLongestRow) rest_.clear();
  }
  return rows;
}

}  // namespace muster::cli
