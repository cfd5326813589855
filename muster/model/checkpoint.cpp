// Which checkpoints are there, which one is taken and which are removed; the writing itself is in
// checkpoint_folder.cpp. A checkpoint is moved out of sight before it is removed, so that half of one never bears its
// name.
#include "muster/model/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cmath>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/hash.h"
#include "muster/model/checkpoint_folder.h"

namespace muster::model {
namespace {

constexpr std::string_view kManifestFile = "manifest.json";
constexpr std::string_view kBestFile = "best.json";
constexpr std::uint64_t kMostBestBytes = std::uint64_t{64} * 1024;

// Names in `folder`; none if it is not there.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::error_code code;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entries(folder, code);
  if (code == std::errc::no_such_file_or_directory) return names;
  while (!code && entries != std::filesystem::directory_iterator()) {
    names.push_back(entries->path().filename().string());
    entries.increment(code);
  }
  if (code) {
    errno = code.value();
    throw_system_error("cannot be listed", folder);
  }
  return names;
}

// Whether `name` is a temporary file that AtomicFile made for best.json.
bool is_draft_of_best(std::string_view name) {
  const std::string prefix = fmt::format(".{}.", kBestFile);
  constexpr std::string_view kSuffix = ".tmp";
  if (!name.starts_with(prefix) || !name.ends_with(kSuffix) || name.size() <= prefix.size() + kSuffix.size())
    return false;
  const std::string_view digits = name.substr(prefix.size(), name.size() - prefix.size() - kSuffix.size());
  return std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string hash_of(const OpenFile& file, const std::filesystem::path& path) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  std::vector<std::byte> piece(std::min(kPiece, file.size));
  Sha256 hash;
  for (std::uint64_t at = 0; at < file.size; at += kPiece) {
    const std::span<std::byte> part = std::span(piece).first(std::min(kPiece, file.size - at));
    read_exactly(file, at, part, path);
    hash.update(part);
  }
  return hash.finish();
}

// One listed file, verified: length, then hash, then header. It is read piece by piece, so that a disk that fails is an
// error, and then looked at where the kernel has it: whoever loads it may have no room for all of it.
TensorSet load_file(const std::filesystem::path& folder, const ManifestFile& listed) {
  const std::filesystem::path path = folder / listed.name;
  const OpenFile file = open_for_reading(path);
  if (file.size != listed.bytes) {
    throw Error(ErrorKind::kDamaged, fmt::format("has {} bytes; the manifest says {}", file.size, listed.bytes),
                path.string());
  }
  if (hash_of(file, path) != listed.sha256) {
    throw Error(ErrorKind::kDamaged, "is not what was written: its sha256 is not the manifest's", path.string());
  }
  return TensorSet(FileMapping(file, path), path.string());
}

}  // namespace

CheckpointStore::CheckpointStore(std::filesystem::path folder, CheckpointOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {
  remove_leftovers();
}

void CheckpointStore::at(std::string_view when, std::string_view what) const {
  if (options_.at) options_.at(fmt::format("{} {}", when, what));
}

void CheckpointStore::remove_leftovers() const {
  for (const std::string& name : names_in(folder_)) {
    if (is_hidden_name(name)) remove_if_abandoned(folder_ / name);
    if (is_draft_of_best(name)) remove_draft_if_abandoned(folder_ / name);
  }
}

std::filesystem::path CheckpointStore::path_of(std::uint64_t step) const {
  return folder_ / checkpoint_name(step);
}

std::vector<std::uint64_t> CheckpointStore::list() const {
  std::vector<std::uint64_t> steps;
  for (const std::string& name : names_in(folder_)) {
    std::error_code ignored;
    const auto step = step_of(name);
    if (step && std::filesystem::is_directory(folder_ / name, ignored)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void CheckpointStore::save(const CheckpointContent& content) {
  make_folder(folder_);
  Manifest manifest = content.manifest;
  manifest.files.clear();
  {
    HiddenFolder hidden(folder_, manifest.step,
                        [this](std::string_view when, std::string_view what) { at(when, what); });
    const auto write_tensors = [&](std::string_view name, std::span<const TensorView> tensors) {
      FileDigest digest;
      hidden.write_file(std::string(name), [&](const HiddenFolder::Sink& sink) {
        digest = encode_safetensors(tensors, {{"format", "pt"}}, sink);
      });
      MUSTER_FAILPOINT("checkpoint.tensors_written");
      manifest.files.push_back({std::string(name), digest.bytes, digest.sha256});
    };
    write_tensors(kModelFile, content.model);
    write_tensors(kOptimizerFile, content.optimizer);
    const std::string text = encode_manifest(manifest);
    hidden.write_file(std::string(kManifestFile),
                      [&](const HiddenFolder::Sink& sink) { sink(std::as_bytes(std::span(text))); });
    hidden.publish(path_of(manifest.step));
  }
  rejected_.erase(manifest.step);

  std::vector<std::uint64_t> protected_steps{manifest.step};
  try {
    if (const auto marked = best()) protected_steps.push_back(marked->step);
    prune(options_.keep, protected_steps);
  } catch (const Error&) {
    // The save itself is done. With a best.json that cannot be read nothing is removed: it might be the best.
  }
}

LoadedCheckpoint CheckpointStore::load(std::uint64_t step) const {
  const std::filesystem::path path = path_of(step);
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    throw Error(ErrorKind::kNotFound, "there is no such checkpoint", path.string());
  }
  const std::filesystem::path manifest_path = path / kManifestFile;
  if (!std::filesystem::exists(manifest_path, ignored)) {
    throw Error(ErrorKind::kDamaged, "is not complete: it has no manifest", path.string());
  }
  LoadedCheckpoint loaded;
  loaded.path = path;
  loaded.manifest = parse_manifest(read_text(manifest_path, kMostManifestBytes), manifest_path.string());
  if (loaded.manifest.step != step) {
    throw Error(ErrorKind::kDamaged, fmt::format("its manifest is of step {}", loaded.manifest.step), path.string());
  }
  for (const ManifestFile& file : loaded.manifest.files) {
    (file.name == kModelFile ? loaded.model : loaded.optimizer) = load_file(path, file);
  }
  return loaded;
}

std::optional<LoadedCheckpoint> CheckpointStore::load_newest(std::vector<RejectedCheckpoint>& rejected) {
  std::vector<std::uint64_t> steps = list();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      return load(*step);
    } catch (const Error& error) {
      // Falling back for want of memory would throw good work away.
      if (error.kind() == ErrorKind::kResource) throw;
      rejected.push_back({path_of(*step), error.what()});
      rejected_.insert(*step);
    }
  }
  return std::nullopt;
}

void CheckpointStore::remove_checkpoint(std::uint64_t step) const {
  // Out of sight first: a removal that is cut short must not leave half a checkpoint under its name.
  const std::filesystem::path hidden = hidden_path(folder_, step);
  at("before hide", "old");
  if (::rename(path_of(step).c_str(), hidden.c_str()) != 0) throw_system_error("cannot be removed", path_of(step));
  at("after hide", "old");
  std::error_code code;
  std::filesystem::remove_all(hidden, code);
  if (code) {
    errno = code.value();
    throw_system_error("cannot be removed", hidden);
  }
  at("after remove", "old");
}

void CheckpointStore::prune(std::size_t keep, std::span<const std::uint64_t> protected_steps) {
  if (keep == 0) return;
  const std::vector<std::uint64_t> steps = list();
  std::set<std::uint64_t> kept(protected_steps.begin(), protected_steps.end());
  std::uint64_t oldest = 0;
  for (auto step = steps.rbegin(); step != steps.rend() && keep > 0; ++step) {
    if (rejected_.contains(*step)) continue;
    kept.insert(*step);
    oldest = *step;
    --keep;
  }
  for (const std::uint64_t step : steps) {
    // A rejected one newer than what is kept stays: someone may want to look at it.
    if (!kept.contains(step) && step < oldest) remove_checkpoint(step);
  }
}

void CheckpointStore::remove_after(std::uint64_t step) {
  for (const std::uint64_t later : list())
    if (later > step) remove_checkpoint(later);
}

void CheckpointStore::mark_best(std::uint64_t step, double metric) {
  if (!std::isfinite(metric)) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("a metric of {} marks no best checkpoint", metric));
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(path_of(step), ignored)) {
    throw Error(ErrorKind::kNotFound, "there is no such checkpoint", path_of(step).string());
  }
  Json object;
  object["format"] = kManifestFormat;
  object["step"] = step;
  object["metric"] = metric;
  at("before write", kBestFile);
  write_atomically(folder_ / kBestFile, seal(std::move(object)));
  at("after write", kBestFile);
}

std::optional<BestCheckpoint> CheckpointStore::best() const {
  const std::filesystem::path path = folder_ / kBestFile;
  std::string text;
  try {
    text = read_text(path, kMostBestBytes);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNotFound) return std::nullopt;
    throw;
  }
  const Json object = unseal(text, path.string());
  const BestCheckpoint best{json_get<std::uint64_t>(object, "step", path.string()),
                            json_get<double>(object, "metric", path.string())};
  std::error_code ignored;
  if (!std::filesystem::is_directory(path_of(best.step), ignored)) return std::nullopt;
  return best;
}

}  // namespace muster::model
