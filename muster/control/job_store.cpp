// The pointer is written before the first write to the etcd and removed after the copy is whole: who looks in between
// finds the one that is newer.
#include "muster/control/job_store.h"

#include <algorithm>
#include <system_error>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/process.h"
#include "muster/control/access_token.h"
#include "muster/control/job_json.h"

namespace muster::control {
namespace {

constexpr std::uint64_t kMostPointerBytes = 64 << 10;

std::filesystem::path pointer_file(const std::filesystem::path& folder) {
  return folder / "control.store";
}

std::filesystem::path leader_file(const std::filesystem::path& folder) {
  return folder / "control.leader";
}

}  // namespace

EtcdOptions etcd_of_run(const EtcdOptions& etcd, const std::filesystem::path& run) {
  EtcdOptions options = etcd;
  const std::filesystem::path whole = std::filesystem::absolute(run).lexically_normal();
  options.prefix += "/" + (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  return options;
}

bool has_record(const std::filesystem::path& folder) {
  std::error_code code;
  return std::filesystem::is_regular_file(store_file(folder), code) ||
         std::filesystem::is_regular_file(pointer_file(folder), code);
}

std::optional<EtcdOptions> etcd_in(const std::filesystem::path& folder) {
  std::error_code code;
  const std::filesystem::path pointer = pointer_file(folder);
  if (!std::filesystem::is_regular_file(pointer, code)) return std::nullopt;
  return etcd_from(parse_json(read_text(pointer, kMostPointerBytes), pointer.string()), pointer.string());
}

std::unique_ptr<Store> open_record_store(const std::filesystem::path& folder) {
  if (const std::optional<EtcdOptions> etcd = etcd_in(folder)) return make_etcd_store(*etcd);
  return make_sqlite_store(store_file(folder), {.create = false});
}

void note_leader(const std::filesystem::path& folder, const NotedLeader& leader) {
  write_atomically(leader_file(folder), Json{{"lease", to_json(leader.lease)}, {"address", leader.address}}.dump());
}

std::optional<NotedLeader> noted_leader(const std::filesystem::path& folder) {
  std::error_code code;
  const std::filesystem::path file = leader_file(folder);
  if (!std::filesystem::is_regular_file(file, code)) return std::nullopt;
  const Json json = parse_json(read_text(file, kMostPointerBytes), file.string());
  NotedLeader leader{lease_from(json_get<Json>(json, "lease", file.string()), file.string()),
                     json_get<std::string>(json, "address", file.string())};
  if (leader.lease.space != process_space()) return std::nullopt;
  return leader;
}

void keep_record_in(const std::filesystem::path& folder, const EtcdOptions& of_run) {
  EtcdOptions known = of_run;
  // Whoever reads it may be started elsewhere.
  for (std::filesystem::path* file : {&known.authority, &known.certificate, &known.key, &known.password})
    if (!file->empty()) *file = std::filesystem::absolute(*file);
  write_atomically(pointer_file(folder), to_json(known).dump(2) + "\n");
}

void bring_record_back(const std::filesystem::path& folder, Store& store) {
  const std::vector<Entry> entries = store.list("");
  const std::unique_ptr<Store> file = make_sqlite_store(store_file(folder));
  Transaction all;
  for (const Entry& old : file->list(""))
    if (std::none_of(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == old.key; }))
      all.writes.push_back({old.key, std::nullopt});
  for (const Entry& entry : entries)
    all.writes.push_back({entry.key, entry.value});
  file->commit(all);
  std::error_code ignored;
  std::filesystem::remove(pointer_file(folder), ignored);
  std::filesystem::remove(leader_file(folder), ignored);
}

}  // namespace muster::control
