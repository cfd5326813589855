// One chunk at a turn, so that the server's clients wait for no more than one. What was lost since is known from
// clients: each says which version it has seen.
#include "muster/strategies/parameter_server/server_snapshots.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/strategies/parameter_server/snapshots.h"

namespace muster::strategies {

void ServerSnapshots::write(std::uint32_t chunk) {
  if (!kept()) return;
  try {
    write_snapshot(plan_.folder, server_, {chunk, chunks_.read(chunk)});
  } catch (const Error& error) {
    tell_(fmt::format("server {}: no snapshot of chunk {}: {}", server_, chunk, error.message()));
  }
}

void ServerSnapshots::write_next(Clock::Instant now, const control::ServerMap& map) {
  if (!kept() || now < next_) return;
  const std::uint32_t chunk = next_chunk_;
  next_chunk_ = (chunk + 1) % chunks_.count();
  if (next_chunk_ == 0)
    next_ = now +
            std::chrono::duration_cast<Clock::Instant::duration>(std::chrono::duration<double>(plan_.snapshot_seconds));
  if (chunks_.has(chunk) && map.primary(chunk) == server_) write(chunk);
}

std::vector<std::uint32_t> ServerSnapshots::restore(const control::ServerMap& map) {
  std::vector<std::uint32_t> restored;
  for (const Snapshot& snapshot : read_snapshots(plan_.folder, server_)) {
    if (snapshot.chunk >= chunks_.count() || map.primary(snapshot.chunk) != server_) continue;
    chunks_.write(snapshot.chunk, snapshot.state);
    losses_[snapshot.chunk] = {chunks_.version(snapshot.chunk), 0};
    if (chunks_.kind(snapshot.chunk) == ChunkKind::kParameters) restored.push_back(snapshot.chunk);
  }
  return restored;
}

void ServerSnapshots::count_loss(std::uint32_t chunk, std::uint64_t seen) {
  const auto loss = losses_.find(chunk);
  if (loss == losses_.end() || seen <= loss->second.restored) return;
  loss->second.most = std::max(loss->second.most, seen - loss->second.restored);
  tell_(fmt::format("server {}: {} acknowledged updates of chunk {} are lost, since version {}", server_,
                    loss->second.most, chunk, loss->second.restored));
}

std::uint64_t ServerSnapshots::lost() const {
  std::uint64_t sum = 0;
  for (const auto& [chunk, loss] : losses_)
    sum += loss.most;
  return sum;
}

std::uint64_t ServerSnapshots::lost_of(std::uint32_t chunk) const {
  const auto found = losses_.find(chunk);
  return found == losses_.end() ? 0 : found->second.most;
}

}  // namespace muster::strategies
