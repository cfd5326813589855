// Files stay open: a folder that is changed later goes on as it was. What a catalog may say is checked here too, for
// those that come from elsewhere.
#include "muster/data/shard_files.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/text.h"
#include "muster/data/packed_dataset.h"

namespace muster::data {
namespace {

constexpr std::uint64_t kPrintedRecords = 1024;  // of each set
constexpr std::size_t kPrintDigits = 16;

void hash_number(Sha256& hash, std::uint64_t number) {
  hash.update(std::as_bytes(std::span(&number, 1)));
}

// The stored checksums of the records of one shard that are among those that count.
void add_checksums(Sha256& hash, const OpenFile& file, const PackedHeader& header, const std::filesystem::path& path) {
  const std::uint64_t record_bytes = header.layout.record_bytes();
  const std::uint64_t every = std::max<std::uint64_t>(1, header.samples / kPrintedRecords);
  const std::uint64_t begin = (header.first + every - 1) / every * every;
  std::uint32_t checksum = 0;
  for (std::uint64_t sample = begin; sample < header.first + header.count; sample += every) {
    const std::uint64_t end = header.data_offset + (sample - header.first + 1) * record_bytes;
    read_exactly(file, end - sizeof(checksum), std::as_writable_bytes(std::span(&checksum, 1)), path);
    hash_number(hash, checksum);
  }
}

bool is_shard_name(const std::string& name) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.'; };
  return name.size() < 128 && name.ends_with(".pack") && !name.starts_with('.') && std::ranges::all_of(name, plain);
}

}  // namespace

std::uint64_t ShardCatalog::bytes() const {
  std::uint64_t sum = 0;
  for (const ShardEntry& shard : shards)
    sum += shard.bytes;
  return sum;
}

void check_catalog(const ShardCatalog& catalog, const std::string& where) {
  const auto damaged = [&](const std::string& why) { return Error(ErrorKind::kDamaged, why, where); };
  if (catalog.print.size() != kPrintDigits || catalog.print.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw damaged("its fingerprint is none");
  if (catalog.shards.empty() || catalog.shards.size() > kMostCatalogShards)
    throw damaged(fmt::format("a catalog of {} shards", catalog.shards.size()));
  for (std::size_t i = 0; i < catalog.shards.size(); ++i) {
    const ShardEntry& shard = catalog.shards[i];
    if (!is_shard_name(shard.name)) throw damaged(fmt::format("\"{}\" is no shard's name", excerpt(shard.name, 80)));
    if (i > 0 && shard.name <= catalog.shards[i - 1].name) throw damaged("its shards are not in the order of names");
    // So that no sum of a catalog overflows.
    if (shard.bytes > std::numeric_limits<std::uint64_t>::max() / (2 * kMostCatalogShards))
      throw damaged(fmt::format("a shard of {} bytes", shard.bytes));
  }
}

ShardFiles::ShardFiles(const std::filesystem::path& folder) : folder_(folder) {
  std::vector<std::string> names;
  for (const char* set : {"test", "train", "validation"}) {
    if (std::string_view(set) != "train" && !PackedDataset::exists(folder, set)) continue;
    const std::uint64_t shards = PackedDataset(folder, set).shards();
    for (std::uint64_t i = 0; i < shards; ++i)
      names.push_back(shard_name(set, i, shards));
  }
  std::ranges::sort(names);
  Sha256 hash;
  for (const std::string& name : names) {
    const std::filesystem::path path = folder_ / name;
    OpenFile file = open_for_reading(path);
    const std::vector<std::byte> front = read_packed_front(file, path);
    hash.update(std::as_bytes(std::span(name)));
    hash_number(hash, file.size);
    hash.update(front);
    add_checksums(hash, file, parse_packed_front(front, file.size, path.string()), path);
    catalog_.shards.push_back({name, file.size});
    files_.push_back(std::move(file));
  }
  catalog_.print = hash.finish().substr(0, kPrintDigits);
}

ShardCatalog ShardFiles::catalog(const Deadline&) {
  return catalog_;
}

std::vector<std::byte> ShardFiles::read(const std::string& print, std::size_t shard, std::uint64_t offset,
                                        std::uint64_t bytes, const Deadline&) {
  if (print != catalog_.print)
    throw Error(ErrorKind::kMismatch, fmt::format("the data here is {}, not {}", catalog_.print, excerpt(print, 20)),
                folder_.string());
  std::uint64_t end = 0;
  if (shard >= files_.size() || bytes > kMostShardRead || __builtin_add_overflow(offset, bytes, &end) ||
      end > files_[shard].size)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("there are no {} bytes from {} of shard {}", bytes, offset, shard), folder_.string());
  std::vector<std::byte> data(bytes);
  read_exactly(files_[shard], offset, data, folder_ / catalog_.shards[shard].name);
  return data;
}

}  // namespace muster::data
