// A file for each chunk, replaced whole, with a hash in front. One that is damaged counts as none: what it would have
// held is had from elsewhere or is lost, and the server says which.
#include "muster/strategies/parameter_server/snapshots.h"

#include <charconv>
#include <cstring>
#include <span>
#include <string>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/hash.h"

namespace muster::strategies {
namespace {

constexpr std::size_t kHashBytes = 64;  // hexadecimal digits before the state
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;

std::filesystem::path folder_of(const std::filesystem::path& folder, std::uint32_t server) {
  return folder / fmt::format("server-{}", server);
}

}  // namespace

void write_snapshot(const std::filesystem::path& folder, std::uint32_t server, const Snapshot& snapshot) {
  const std::filesystem::path own = folder_of(folder, server);
  make_folder(own);
  AtomicFile file(own / fmt::format("chunk-{}", snapshot.chunk));
  file.write(sha256(snapshot.state));
  file.write(std::span<const std::byte>(snapshot.state));
  file.commit();
}

std::vector<Snapshot> read_snapshots(const std::filesystem::path& folder, std::uint32_t server) {
  std::vector<Snapshot> snapshots;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(folder, server), none)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("chunk-", 0) != 0) continue;
    Snapshot snapshot;
    const char* end = name.data() + name.size();
    if (std::from_chars(name.data() + 6, end, snapshot.chunk).ptr != end) continue;
    const std::string text = read_text(entry.path(), kMostBytes);
    if (text.size() < kHashBytes) continue;
    const auto state = std::as_bytes(std::span(text)).subspan(kHashBytes);
    if (sha256(state) != text.substr(0, kHashBytes)) continue;
    snapshot.state.assign(state.begin(), state.end());
    snapshots.push_back(std::move(snapshot));
  }
  return snapshots;
}

}  // namespace muster::strategies
