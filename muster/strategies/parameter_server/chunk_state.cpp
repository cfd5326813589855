// Saving and loading side by side, in one order of fields. What is loaded comes from another process or a disk, so
// every length is checked against the bytes that are there.
#include "muster/strategies/parameter_server/chunk_state.h"

namespace muster::strategies {

std::uint64_t ChunkHistory::next_update(std::uint32_t client) const {
  const auto found = own.find(client);
  return found == own.end() ? 0 : found->second.end();
}

void ChunkHistory::save(ByteWriter& to) const {
  to.put(version);
  lanes.save(to);
  to.put(static_cast<std::uint64_t>(own.size()));
  for (const auto& [client, set] : own) {
    to.put(client);
    set.save(to);
  }
}

ChunkHistory ChunkHistory::load(ByteReader& from) {
  ChunkHistory history;
  history.version = from.get<std::uint64_t>();
  history.lanes = AppliedSet::load(from);
  const auto count = from.get<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto client = from.get<std::uint32_t>();
    history.own.insert_or_assign(client, AppliedSet::load(from));
  }
  return history;
}

std::vector<std::byte> pack_chunk(const ServerChunk& chunk, const ChunkHistory& history, const FlatState& from,
                                  std::size_t slots) {
  ByteWriter bytes;
  history.save(bytes);
  bytes.put_all(
      std::span<const std::uint64_t>(from.updates.subspan(chunk.first_tensor, chunk.last_tensor - chunk.first_tensor)));
  bytes.put_all(std::span<const float>(from.parameters.subspan(chunk.begin, chunk.floats())));
  for (std::size_t slot = 0; slot < slots; ++slot)
    bytes.put_all(std::span<const float>(from.state[slot].subspan(chunk.begin, chunk.floats())));
  return bytes.take();
}

ChunkHistory unpack_chunk(const ServerChunk& chunk, std::span<const std::byte> bytes, const FlatState& to,
                          std::size_t slots) {
  ByteReader reader(bytes);
  ChunkHistory history = ChunkHistory::load(reader);
  const std::size_t tensors = chunk.last_tensor - chunk.first_tensor;
  if (reader.left() != tensors * sizeof(std::uint64_t) + (1 + slots) * chunk.floats() * sizeof(float))
    throw Error(ErrorKind::kDamaged, "the state of a chunk has the length of another one");
  reader.get_all(to.updates.subspan(chunk.first_tensor, tensors));
  reader.get_all(to.parameters.subspan(chunk.begin, chunk.floats()));
  for (std::size_t slot = 0; slot < slots; ++slot)
    reader.get_all(to.state[slot].subspan(chunk.begin, chunk.floats()));
  return history;
}

}  // namespace muster::strategies
