// What is on the disk is looked at as what comes from another host is. One that is damaged is as none: others say what
// the data is then.
#include "muster/data/kept_catalog.h"

#include <sys/stat.h>
#include <unistd.h>

#include <span>
#include <system_error>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/hash.h"
#include "muster/base/json.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCatalogFile = "catalog.json";
constexpr const char* kFrontsFile = "fronts.bin";
constexpr std::uint64_t kMostCatalogBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kMostFrontsBytes = std::uint64_t{256} << 20;

KeptCatalog read_catalog(const fs::path& folder) {
  const std::string where = (folder / kCatalogFile).string();
  const Json json = parse_json(read_text(folder / kCatalogFile, kMostCatalogBytes), where);
  KeptCatalog kept;
  kept.name = json_get<std::string>(json, "name", where);
  kept.catalog.print = json_get<std::string>(json, "print", where);
  const std::string fronts = read_text(folder / kFrontsFile, kMostFrontsBytes);
  if (sha256(std::as_bytes(std::span(fronts))) != json_get<std::string>(json, "fronts", where))
    throw Error(ErrorKind::kDamaged, "the headers beside it have another hash", where);
  std::uint64_t at = 0;
  const auto shards = json.find("shards");
  if (shards == json.end() || !shards->is_array()) throw Error(ErrorKind::kDamaged, "it lists no shards", where);
  for (const Json& shard : *shards) {
    const auto bytes = json_get<std::uint64_t>(shard, "front", where);
    if (bytes > fronts.size() - at) throw Error(ErrorKind::kDamaged, "a header is cut short", where);
    const auto front = std::as_bytes(std::span(fronts)).subspan(at, bytes);
    at += bytes;
    kept.catalog.shards.push_back(
        {json_get<std::string>(shard, "name", where), json_get<std::uint64_t>(shard, "bytes", where)});
    kept.fronts.emplace_back(front.begin(), front.end());
  }
  check_catalog(kept.catalog, where);
  return kept;
}

bool is_own_folder(const fs::path& folder) {
  struct stat found {};
  return ::lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == ::geteuid();
}

}  // namespace

void remember_catalog(const fs::path& folder, const KeptCatalog& kept) {
  std::string fronts;
  Json shards = Json::array();
  for (std::size_t shard = 0; shard < kept.catalog.shards.size(); ++shard) {
    const std::vector<std::byte>& front = kept.fronts[shard];
    fronts.append(reinterpret_cast<const char*>(front.data()), front.size());
    shards.push_back({{"name", kept.catalog.shards[shard].name},
                      {"bytes", kept.catalog.shards[shard].bytes},
                      {"front", front.size()}});
  }
  write_atomically(folder / kFrontsFile, fronts);
  const Json json{{"name", kept.name},
                  {"print", kept.catalog.print},
                  {"fronts", sha256(std::as_bytes(std::span(fronts)))},
                  {"shards", shards}};
  write_atomically(folder / kCatalogFile, json.dump() + "\n");
}

std::optional<KeptCatalog> find_catalog(const fs::path& above, const std::string& name) {
  std::optional<KeptCatalog> newest;
  fs::file_time_type time;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(above, code)) {
    if (!is_own_folder(entry.path()) || !fs::exists(entry.path() / kCatalogFile, code)) continue;
    const fs::file_time_type written = fs::last_write_time(entry.path() / kCatalogFile, code);
    if (newest && written <= time) continue;
    try {
      KeptCatalog found = read_catalog(entry.path());
      if (found.name != name) continue;
      newest = std::move(found);
      time = written;
    } catch (const Error&) {
      // As none.
    }
  }
  return newest;
}

}  // namespace muster::data
