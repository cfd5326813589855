// FetchedDataset: the samples of packed shards that other hosts have. As PackedDataset, bit by bit, but that a record
// is read from a piece in the host's cache; a piece that is not there is asked for and waited for.
//
// A record whose checksum is wrong in the cache is read again from what the door gives; if it is wrong there too, it is
// damaged where it came from, as it would be for a host that has the shards.
// Immutable after construction. Thread safety: as Dataset.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/packed_dataset.h"
#include "muster/data/piece_door.h"

namespace muster::data {

class FetchedDataset final : public Dataset {
 public:
  // Reads the headers of the set. Throws as PieceDoor; kNotFound (the hosts have no such set), kDamaged, kMismatch.
  FetchedDataset(std::shared_ptr<PieceDoor> door, const DepotView& view, const std::string& set);
  static bool exists(const DepotView& view, const std::string& set);

  std::uint64_t size() const override { return chain_.samples(); }
  const SampleSpec& spec() const override { return chain_.layout().spec; }
  // Throw kDamaged, naming shard and record; as PieceDoor::fetch.
  std::int64_t read(std::uint64_t id, std::span<float> features) const override;
  void read_sample(std::uint64_t id, const SampleRoom& room) const override;
  void will_read(std::span<const std::uint64_t> ids) const override;
  void expect(std::span<const std::uint64_t> ids) const override { will_read(ids); }
  std::string name(std::uint64_t id) const override;

  // All pieces that have one of these samples, each once. REQUIRES: every id below size().
  std::vector<PieceRun> pieces_of(std::span<const std::uint64_t> ids) const;

  std::uint64_t shards() const { return shards_.size(); }
  std::uint64_t bytes() const { return size() * chain_.layout().record_bytes(); }

 private:
  struct Shard {
    std::size_t place = 0;  // in the catalog
    std::string name;
    ShardPieces pieces;
  };
  struct Spot {
    PieceId piece;
    ByteRange within;
  };
  Spot spot_of(std::uint64_t id) const;

  const std::shared_ptr<PieceDoor> door_;
  const std::filesystem::path cache_;
  std::vector<Shard> shards_;
  PackedChain chain_;
};

}  // namespace muster::data
