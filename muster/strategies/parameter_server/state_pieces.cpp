// A reader is given pieces of one copy, made when it asks for the first: the chunk may change meanwhile, the state it
// gets does not. Of a state that arrives no piece may be missing, or it begins again.
#include "muster/strategies/parameter_server/state_pieces.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"

namespace muster::strategies {

std::optional<StatesRead::Piece> StatesRead::piece(std::uint32_t client, const ChunkStore& chunks, std::uint32_t chunk,
                                                   std::uint64_t offset, std::size_t most) {
  Reading& reading = reading_[client];
  if (offset == 0 || reading.chunk != chunk || reading.state.empty())
    reading = {chunk, chunks.version(chunk), chunks.read(chunk)};
  if (offset > reading.state.size()) return std::nullopt;
  const std::span<const std::byte> rest = std::span(reading.state).subspan(offset);
  const std::size_t size = std::min(rest.size(), most);
  return Piece{reading.version, reading.state.size(), rest.first(size), size == rest.size()};
}

std::optional<std::vector<std::byte>> StatesArriving::add(std::uint32_t chunk, std::uint64_t offset,
                                                          std::uint64_t total, std::span<const std::byte> piece) {
  if (offset > total || piece.size() > total - offset)
    throw Error(ErrorKind::kDamaged, "a piece lies outside of its state");
  std::vector<std::byte>& state = arriving_[chunk];
  if (offset == 0) state.clear();
  if (state.size() != offset) throw Error(ErrorKind::kDamaged, "a piece of a state is missing");
  state.insert(state.end(), piece.begin(), piece.end());
  if (state.size() < total) return std::nullopt;
  std::vector<std::byte> whole = std::move(state);
  arriving_.erase(chunk);
  return whole;
}

}  // namespace muster::strategies
