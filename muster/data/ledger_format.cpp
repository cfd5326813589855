// Records are read one by one with the CRC chained from record to record, so that one which is missing or moved shows
// at the next. A cut end is no damage: the process was killed.
#include "muster/data/ledger_format.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::data {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie in memory");

constexpr char kMagic[8] = {'M', 'U', 'S', 'T', 'L', 'E', 'D', 'G'};
constexpr std::uint32_t kVersion = 1;

template <typename T>
void put(std::vector<std::byte>& bytes, const T& value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

// Takes numbers one after the other from bytes of a known length.
class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

std::vector<std::byte> encode_ids(std::span<const std::uint64_t> ids, std::uint16_t id_bytes) {
  std::vector<std::byte> bytes;
  bytes.reserve(ids.size() * id_bytes);
  for (const std::uint64_t id : ids) {
    if (id_bytes == 4)
      put(bytes, static_cast<std::uint32_t>(id));
    else
      put(bytes, id);
  }
  return bytes;
}

std::vector<std::byte> read_bytes(const LedgerFile& file, std::uint64_t offset, std::size_t size) {
  std::vector<std::byte> bytes(size);
  read_exactly(file.file, offset, bytes, file.path);
  return bytes;
}

// Reads the file's header; gives the first link of the chain. Nothing when it is damaged.
std::optional<std::uint32_t> read_header(LedgerFile& file) {
  const std::vector<std::byte> bytes = read_bytes(file, 0, kLedgerFileHeader);
  if (std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    file.damage = "is not a ledger";
    return std::nullopt;
  }
  const std::span<const std::byte> fields = std::span(bytes).subspan(sizeof kMagic);
  RecordReader reader(fields);
  const auto version = reader.take<std::uint32_t>();
  file.worker = reader.take<std::uint32_t>();
  file.epoch_samples = reader.take<std::uint64_t>();
  reader.take<std::uint64_t>();
  const auto checksum = reader.take<std::uint32_t>();
  const auto zero = reader.take<std::uint32_t>();
  if (checksum != ledger_checksum(0, std::span(bytes).first(32)) || zero != 0) {
    file.damage = "the file's header was altered";
    return std::nullopt;
  }
  if (version != kVersion) {
    file.damage = fmt::format("has version {}; this Muster knows {}", version, kVersion);
    return std::nullopt;
  }
  return checksum;
}

// The record at `offset`. Damage and a cut end are noted in `file`, and nothing is given.
std::optional<LedgerRecord> read_record(LedgerFile& file, std::uint64_t offset, std::uint32_t& chain) {
  if (file.file.size - offset < kLedgerRecordHeader) {
    file.torn = true;
    return std::nullopt;
  }
  const std::vector<std::byte> header = read_bytes(file, offset, kLedgerRecordHeader);
  RecordReader reader(header);
  LedgerRecord record;
  const auto kind = reader.take<std::uint16_t>();
  record.id_bytes = reader.take<std::uint16_t>();
  record.ids = reader.take<std::uint32_t>();
  record.generation = reader.take<std::uint64_t>();
  record.epoch = reader.take<std::uint64_t>();
  record.step = reader.take<std::uint64_t>();
  record.lane = reader.take<std::uint64_t>();
  record.number = reader.take<std::uint64_t>();
  const auto ids_checksum = reader.take<std::uint32_t>();
  const auto found_chain = reader.take<std::uint32_t>();
  record.kind = static_cast<LedgerKind>(kind);
  record.offset = offset + kLedgerRecordHeader;
  const std::uint64_t number = file.records.size();
  const auto damaged = [&](const std::string& what) {
    file.damage = fmt::format("record {}: {}", number, what);
    return std::nullopt;
  };
  if (found_chain != ledger_checksum(chain, std::span(header).first(52)))
    return damaged("was altered, or is not the one that was written here");
  // From here on the header is what a writer wrote; what follows guards against a writer that was not ours.
  const bool known = kind >= 1 && kind <= 6 && (record.id_bytes == 4 || record.id_bytes == 8);
  const bool endless = record.step == UINT64_MAX || record.lane == UINT64_MAX;
  if (!known || endless || record.number != number || record.ids > kMostLedgerIds)
    return damaged("says what no writer writes");
  const std::uint64_t size = std::uint64_t{record.ids} * record.id_bytes;
  if (size > file.file.size - record.offset) {
    file.torn = true;
    return std::nullopt;
  }
  if (ids_checksum != ledger_checksum(0, read_bytes(file, record.offset, size))) return damaged("its ids were altered");
  chain = found_chain;
  return record;
}

}  // namespace

std::uint32_t ledger_checksum(std::uint32_t begin, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(crc32_z(begin, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::vector<std::byte> encode_ledger_header(std::uint32_t worker, std::uint64_t epoch_samples, std::uint64_t random) {
  std::vector<std::byte> bytes;
  put(bytes, kMagic);
  put(bytes, kVersion);
  put(bytes, worker);
  put(bytes, epoch_samples);
  put(bytes, random);
  put(bytes, ledger_checksum(0, bytes));
  put(bytes, std::uint32_t{0});
  return bytes;
}

std::vector<std::byte> encode_ledger_record(const LedgerRecord& record, std::span<const std::uint64_t> ids,
                                            std::uint32_t& chain) {
  const bool narrow = std::all_of(ids.begin(), ids.end(), [](std::uint64_t id) { return id <= UINT32_MAX; });
  const std::uint16_t id_bytes = narrow ? 4 : 8;
  const std::vector<std::byte> payload = encode_ids(ids, id_bytes);
  std::vector<std::byte> bytes;
  bytes.reserve(kLedgerRecordHeader + payload.size());
  put(bytes, static_cast<std::uint16_t>(record.kind));
  put(bytes, id_bytes);
  put(bytes, static_cast<std::uint32_t>(ids.size()));
  put(bytes, record.generation);
  put(bytes, record.epoch);
  put(bytes, record.step);
  put(bytes, record.lane);
  put(bytes, record.number);
  put(bytes, ledger_checksum(0, payload));
  chain = ledger_checksum(chain, bytes);
  put(bytes, chain);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

LedgerFile read_ledger_file(const std::filesystem::path& path) {
  LedgerFile file{.path = path, .file = open_for_reading(path)};
  if (file.file.size < kLedgerFileHeader) {
    file.torn = true;  // killed before it had written anything
    return file;
  }
  std::optional<std::uint32_t> chain = read_header(file);
  std::uint64_t offset = kLedgerFileHeader;
  while (chain && offset < file.file.size) {
    const std::optional<LedgerRecord> record = read_record(file, offset, *chain);
    if (!record) break;
    if (file.closed) {
      file.damage = fmt::format("record {}: stands behind the record that closes the file", record->number);
      break;
    }
    file.closed = record->kind == LedgerKind::kClose;
    file.records.push_back(*record);
    offset = record->offset + std::uint64_t{record->ids} * record->id_bytes;
  }
  if (file.closed && file.torn) file.damage = "has bytes behind the record that closes it";
  return file;
}

std::vector<std::uint64_t> read_ledger_ids(const LedgerFile& file, const LedgerRecord& record) {
  const std::vector<std::byte> bytes = read_bytes(file, record.offset, std::size_t{record.ids} * record.id_bytes);
  std::vector<std::uint64_t> ids;
  ids.reserve(record.ids);
  RecordReader reader(bytes);
  for (std::uint32_t i = 0; i < record.ids; ++i)
    ids.push_back(record.id_bytes == 4 ? reader.take<std::uint32_t>() : reader.take<std::uint64_t>());
  return ids;
}

std::vector<std::filesystem::path> ledger_files(const std::filesystem::path& folder) {
  std::error_code code;
  std::vector<std::filesystem::path> files;
  std::filesystem::directory_iterator entries(folder, code);
  if (code)
    throw Error(ErrorKind::kNotFound, "has no ledger", folder.string(), "Train with [job] ledger = true to have one.");
  for (const auto& entry : entries)
    if (entry.path().extension() == ".ledger") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace muster::data
