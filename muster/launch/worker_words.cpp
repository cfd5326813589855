// The note is a file that is replaced whole. Reasons are values of the job's store, which are written once: of several
// workers that fail for the same reason one says it.
#include "muster/launch/worker_words.h"

#include <fstream>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/hash.h"
#include "muster/base/text.h"
#include "muster/comm/store.h"

namespace muster::launch {
namespace {

constexpr const char* kNoteFile = "note.json";
constexpr const char* kReasons = "failure";
constexpr const char* kTold = "told";
constexpr const char* kServerReasons = "server-failure";
constexpr std::uint64_t kLongestNote = 1 << 16;
constexpr std::size_t kLongestReason = 2000;

std::string value_of(const std::filesystem::path& store, const char* prefix, const std::string& who) {
  try {
    const auto values = comm::values_in_file_store(store, prefix);
    const auto own = values.find(fmt::format("{}/{}", prefix, who));
    return own == values.end() ? "" : own->second;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

void leave_note(const std::filesystem::path& store, const std::string& note) {
  const std::filesystem::path file = store / kNoteFile;
  const std::filesystem::path temporary = file.string() + ".new";
  std::ofstream(temporary, std::ios::binary) << note;
  std::error_code ignored;
  std::filesystem::rename(temporary, file, ignored);
}

std::string read_note(const std::filesystem::path& store) {
  try {
    return read_text(store / kNoteFile, kLongestNote);
  } catch (const Error&) {
    return {};
  }
}

bool leave_reason(const std::filesystem::path& store, int rank, int attempt, const std::string& reason) {
  const std::string self = fmt::format("{}-{}", rank, attempt);
  try {
    const std::shared_ptr<comm::Store> words = comm::make_file_store(store);
    words->set(fmt::format("{}/{}", kReasons, self), excerpt(reason, kLongestReason));
    // A value is written once: of several who say the same one is the first.
    words->set(fmt::format("{}/{}", kTold, sha256(std::as_bytes(std::span(reason)))), self);
    return true;
  } catch (const Error& error) {
    return error.kind() != ErrorKind::kMismatch;
  }
}

std::string read_reason(const std::filesystem::path& store) {
  try {
    const auto reasons = comm::values_in_file_store(store, kReasons);
    return reasons.empty() ? "" : reasons.begin()->second;
  } catch (const Error&) {
    return {};
  }
}

std::string read_reason(const std::filesystem::path& store, int rank, int attempt) {
  return value_of(store, kReasons, fmt::format("{}-{}", rank, attempt));
}

void leave_server_reason(const std::filesystem::path& store, std::uint32_t number, std::uint32_t attempt,
                         const std::string& reason) {
  try {
    comm::make_file_store(store)->set(fmt::format("{}/{}-{}", kServerReasons, number, attempt),
                                      excerpt(reason, kLongestReason));
  } catch (const Error&) {  // its exit code is left
  }
}

std::string read_server_reason(const std::filesystem::path& store, std::uint32_t number, std::uint32_t attempt) {
  return value_of(store, kServerReasons, fmt::format("{}-{}", number, attempt));
}

}  // namespace muster::launch
