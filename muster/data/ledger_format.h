// The ledger's file: worker-RANK-NUMBER.ledger, one for each process. All numbers are little-endian.
//
//   file header, 40 bytes     magic "MUSTLEDG", u32 version (1), u32 worker, u64 samples of an epoch, u64 random
//   number,
//                             u32 CRC-32 of the 32 bytes before it, u32 zero
//   record header, 56 bytes   u16 kind (1 lane, 2 commit, 3 resume, 4 close, 5 lane of a worker whose steps do not
//                             wait for the others, 6 skipped: those ids of the lane whose record comes next that are
//                             bad, and others stand in their place), u16 bytes an id has (4 or 8), u32 ids, u64
//                             generation, u64 epoch, u64 step, u64 lane (commit: number of lanes), u64 number of the
//                             record from 0, u32 CRC-32 of the ids, u32 chain
//   ids                       ids x (4 or 8) bytes
//
// The chain is the CRC-32 of the 52 bytes before it, begun with the chain of the record before (of the first record:
// the checksum of the file header). So a record that was altered, dropped, doubled, moved or taken from another file
// breaks it. What a file cannot tell by itself is that its end is missing: a worker that was killed leaves such a file,
// and a last record that is cut short. The check of the whole ledger notices when something is lost that way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/files.h"

namespace muster::data {

enum class LedgerKind : std::uint16_t { kLane = 1, kCommit = 2, kResume = 3, kClose = 4, kApartLane = 5, kSkipped = 6 };

struct LedgerRecord {
  LedgerKind kind = LedgerKind::kLane;
  std::uint16_t id_bytes = 4;
  std::uint32_t ids = 0;
  std::uint64_t generation = 0;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint64_t lane = 0;
  std::uint64_t number = 0;
  std::uint64_t offset = 0;  // where the ids begin in the file
};

constexpr std::size_t kLedgerFileHeader = 40;
constexpr std::size_t kLedgerRecordHeader = 56;
constexpr std::uint32_t kMostLedgerIds = 1u << 28;

std::uint32_t ledger_checksum(std::uint32_t begin, std::span<const std::byte> bytes);

// The two headers as bytes. encode_record gives the new chain in `chain`.
std::vector<std::byte> encode_ledger_header(std::uint32_t worker, std::uint64_t epoch_samples, std::uint64_t random);
std::vector<std::byte> encode_ledger_record(const LedgerRecord& record, std::span<const std::uint64_t> ids,
                                            std::uint32_t& chain);

struct LedgerFile {
  std::filesystem::path path;
  OpenFile file;
  std::uint32_t worker = 0;
  std::uint64_t epoch_samples = 0;
  std::vector<LedgerRecord> records = {};
  bool closed = false;
  bool torn = false;  // the last record is cut short
  // The first thing that is wrong with its bytes, with the record's number; records before it are good.
  std::optional<std::string> damage = {};
};

// Reads every record and verifies it; keeps the ids on disk. Throws kIo, kNotFound, kInvalidInput (not a file).
LedgerFile read_ledger_file(const std::filesystem::path& path);
std::vector<std::uint64_t> read_ledger_ids(const LedgerFile& file, const LedgerRecord& record);

// The ledger's files in `folder`, sorted by name. Throws kNotFound.
std::vector<std::filesystem::path> ledger_files(const std::filesystem::path& folder);

}  // namespace muster::data
