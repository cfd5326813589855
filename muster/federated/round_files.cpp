// A rename is the moment in which an update counts; everything before it can be done again. What was half sent is not
// synced: it may be damaged after a power cut, which its digest shows.
#include "muster/federated/round_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/files.h"
#include "muster/base/hash.h"
#include "muster/base/json.h"
#include "muster/federated/is_there.h"

namespace muster::federated {
namespace {

constexpr std::uint64_t kMostPlanBytes = 64 << 20;
constexpr std::uint64_t kMostFactsBytes = 64 << 10;

void remove_file(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

void read_whole(const std::filesystem::path& path, std::span<std::byte> bytes) {
  const OpenFile file = open_for_reading(path);
  if (file.size != bytes.size())
    throw Error(ErrorKind::kDamaged, fmt::format("has {} bytes instead of {}", file.size, bytes.size()), path.string(),
                "Remove the folder: its round is then done again.");
  read_exactly(file, 0, bytes, path);
}

}  // namespace

RoundFiles::RoundFiles(std::filesystem::path folder) : folder_(std::move(folder)) {
  make_folder(folder_);
  // What a client has computed says something of its data.
  std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
}

std::filesystem::path RoundFiles::file(std::uint64_t client, const char* ending) const {
  return folder_ / fmt::format("{}.{}", client, ending);
}

void RoundFiles::clear() const {
  // The plan first: what is left of a round without one is nobody's.
  remove_file(folder_ / "plan.json");
  sync_folder(folder_);
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    std::filesystem::remove_all(entry.path());
  sync_folder(folder_);
}

bool RoundFiles::is_under_way(std::uint64_t round) const {
  const std::filesystem::path path = folder_ / "plan.json";
  return is_there(path) && json_get<std::uint64_t>(parse_json(read_text(path, kMostPlanBytes), path.string()), "round",
                                                   path.string()) == round;
}

std::optional<std::vector<std::uint64_t>> RoundFiles::open(std::uint64_t round) {
  if (!is_under_way(round)) {
    clear();
    return std::nullopt;
  }
  const std::filesystem::path path = folder_ / "plan.json";
  std::vector<std::uint64_t> asked;
  const Json plan = parse_json(read_text(path, kMostPlanBytes), path.string());
  for (const Json& client : plan.at("asked")) {
    if (!client.is_number_unsigned())
      throw Error(ErrorKind::kDamaged, "asks what is no client", path.string(), "Remove it.");
    asked.push_back(client.get<std::uint64_t>());
  }
  return asked;
}

void RoundFiles::begin(std::uint64_t round, std::span<const std::uint64_t> asked) {
  clear();
  add(round, asked);
}

void RoundFiles::add(std::uint64_t round, std::span<const std::uint64_t> asked) {
  write_atomically(folder_ / "plan.json",
                   Json{{"round", round}, {"asked", std::vector<std::uint64_t>(asked.begin(), asked.end())}}.dump());
}

std::uint64_t RoundFiles::received(std::uint64_t client, const std::string& digest) const {
  std::error_code error;
  const std::filesystem::path part = file(client, "part");
  const std::uintmax_t bytes = std::filesystem::file_size(part, error);
  if (error || bytes == 0) return 0;
  return is_there(file(client, "digest")) && read_text(file(client, "digest"), kMostFactsBytes) == digest ? bytes : 0;
}

void RoundFiles::append(std::uint64_t client, const std::string& digest, std::span<const std::byte> bytes) {
  const std::filesystem::path part = file(client, "part");
  const bool first = received(client, digest) == 0;
  if (first) {
    drop_part(client);
    write_atomically(file(client, "digest"), digest);
  }
  const FileDescriptor out(::open(part.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!out.valid()) throw_system_error("cannot open", part);
  const ssize_t written = ::write(out.get(), bytes.data(), bytes.size());
  if (written == static_cast<ssize_t>(bytes.size())) return;
  // What was written of it stays: the client is told how much is there.
  if (written >= 0) errno = ENOSPC;
  throw_system_error("cannot write", part);
}

void RoundFiles::read_part(std::uint64_t client, std::span<std::byte> bytes) const {
  read_whole(file(client, "part"), bytes);
}

void RoundFiles::drop_part(std::uint64_t client) {
  remove_file(file(client, "part"));
  remove_file(file(client, "digest"));
}

void RoundFiles::accept(std::uint64_t client, const UpdateFacts& facts) {
  const std::filesystem::path part = file(client, "part");
  {
    const FileDescriptor out(::open(part.c_str(), O_WRONLY | O_CLOEXEC));
    if (!out.valid() || ::fsync(out.get()) != 0) throw_system_error("cannot keep", part);
  }
  write_atomically(file(client, "facts"), Json{{"samples", facts.samples},
                                               {"loss", facts.loss},
                                               {"digest", facts.digest},
                                               {"base", facts.base},
                                               {"tested", facts.test.samples},
                                               {"test_loss", facts.test.loss},
                                               {"test_metric", facts.test.metric},
                                               {"metric_name", facts.test.metric_name}}
                                              .dump());
  MUSTER_FAILPOINT("federated.update.before_it_counts");
  std::filesystem::rename(part, file(client, "update"));
  sync_folder(folder_);
  MUSTER_FAILPOINT("federated.update.before_it_is_acknowledged");
}

void RoundFiles::refuse(std::uint64_t client, const std::string& reason) {
  drop_part(client);
  write_atomically(file(client, "refused"), reason);
}

std::optional<UpdateFacts> RoundFiles::accepted(std::uint64_t client) const {
  if (!is_there(file(client, "update"))) return std::nullopt;
  const std::filesystem::path path = file(client, "facts");
  const Json json = parse_json(read_text(path, kMostFactsBytes), path.string());
  const auto number = [&](const char* key) {
    return json.contains(key) && json[key].is_number() ? json[key].get<double>() : std::nan("");
  };
  return UpdateFacts{.samples = json_get<std::uint64_t>(json, "samples", path.string()),
                     .loss = number("loss"),
                     .digest = json_get<std::string>(json, "digest", path.string()),
                     .base = json_get<std::uint64_t>(json, "base", path.string()),
                     .test = {.samples = json_get<std::uint64_t>(json, "tested", path.string()),
                              .loss = number("test_loss"),
                              .metric = number("test_metric"),
                              .metric_name = json_get<std::string>(json, "metric_name", path.string())}};
}

std::optional<std::string> RoundFiles::refused(std::uint64_t client) const {
  if (!is_there(file(client, "refused"))) return std::nullopt;
  return read_text(file(client, "refused"), kMostFactsBytes);
}

void RoundFiles::read(std::uint64_t client, std::span<std::byte> bytes) const {
  read_whole(file(client, "update"), bytes);
}

}  // namespace muster::federated
