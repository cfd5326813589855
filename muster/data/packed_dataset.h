// PackedDataset: the samples of packed shards, read from the disk one by one. For sets larger than memory.
//
// Memory: the headers, and one record for each thread that reads. A sample is one pread at a computed place, so the
// epoch's permutation over all samples needs no buffer to shuffle in and any cursor can be resumed at once. What the
// kernel keeps of the files is page cache, which it gives back. will_read() starts the requests of a whole batch at
// once, so that a disk works on many of them whatever the number of threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/data/dataset.h"
#include "muster/data/packed_format.h"

namespace muster::data {

// Everything before the records of a shard. Throws as packed_json_bytes, kIo.
std::vector<std::byte> read_packed_front(const OpenFile& file, const std::filesystem::path& path);

// That the shards of a set belong together, one after the other. A value.
class PackedChain {
 public:
  // The next one of `shards`. Throws kMismatch with `where` when it is of another packing.
  void add(const PackedHeader& header, std::uint64_t shards, const std::string& where);
  const PackedLayout& layout() const { return layout_; }
  std::uint64_t samples() const { return samples_; }
  // Which shard has a sample. REQUIRES: id < samples(); all were added.
  std::size_t shard_of(std::uint64_t id) const;
  std::uint64_t first(std::size_t shard) const { return firsts_[shard]; }

 private:
  PackedLayout layout_;
  std::uint64_t samples_ = 0;
  std::uint64_t next_ = 0;               // sample, of the shard to come
  std::vector<std::uint64_t> firsts_{};  // of each shard
};

// Immutable after construction. Thread safety: as Dataset.
class PackedDataset final : public Dataset {
 public:
  // Opens the shards of the set (set-00000-of-00004.pack ...) in `folder`. Throws kNotFound (no shard, or one is
  // missing), kDamaged, kMismatch (shards of different sets), kUnsupported, kIo, kResource (too many open files).
  PackedDataset(const std::filesystem::path& folder, const std::string& set);
  // Whether the folder holds any shard of the set. Throws kMismatch if it holds shards of two of that name.
  static bool exists(const std::filesystem::path& folder, const std::string& set);

  std::uint64_t size() const override { return chain_.samples(); }
  const SampleSpec& spec() const override { return layout().spec; }
  // Throw kDamaged, naming shard and record, when a checksum does not fit; kIo.
  std::int64_t read(std::uint64_t id, std::span<float> features) const override;
  void read_sample(std::uint64_t id, const SampleRoom& room) const override;
  void will_read(std::span<const std::uint64_t> ids) const override;
  // Shard and record.
  std::string name(std::uint64_t id) const override;

  const PackedLayout& layout() const { return chain_.layout(); }
  std::uint64_t shards() const { return shards_.size(); }
  std::uint64_t bytes() const { return size() * record_bytes_; }

 private:
  struct Shard {
    std::filesystem::path path;
    OpenFile file;
    std::uint64_t first = 0;
    std::uint64_t data_offset = 0;
  };
  const Shard& shard_of(std::uint64_t id) const;
  std::uint64_t offset_of(const Shard& shard, std::uint64_t id) const;
  void read_record(const Shard& shard, std::uint64_t id, const SampleRoom& room) const;

  std::vector<Shard> shards_;
  PackedChain chain_;
  std::uint64_t record_bytes_ = 0;
};

}  // namespace muster::data
