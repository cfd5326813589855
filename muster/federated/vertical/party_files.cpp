// Checkpoints go before an alignment is replaced: a death in between leaves none, which is the beginning. Files are
// safetensors, since any tool that reads the format can look into them.
#include "muster/federated/vertical/party_files.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/hash.h"
#include "muster/federated/vertical/set_intersection.h"
#include "muster/model/safetensors.h"

namespace muster::federated {
namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kEnding = ".safetensors";
constexpr std::size_t kKept = 2;

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::string digest_of_ids(std::span<const std::string> ids) {
  Sha256 hash;
  for (const std::string& id : ids) {
    const std::uint64_t length = id.size();
    hash.update(std::as_bytes(std::span(&length, 1)));
    hash.update(std::as_bytes(std::span(id)));
  }
  return hash.finish();
}

PartyFiles::PartyFiles(std::filesystem::path folder) : folder_(std::move(folder)) {
  make_folder(folder_);
}

std::optional<Alignment> PartyFiles::alignment(const std::string& ids_digest, std::uint64_t rows) const {
  const std::filesystem::path path = folder_ / "alignment.safetensors";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  const model::SafetensorsFile file(path);
  const auto damaged = [&] {
    return Error(ErrorKind::kDamaged, "is no alignment of this version", path.string(),
                 "Remove its folder: training begins again.");
  };
  const model::Metadata& metadata = file.header().metadata;
  for (const char* key : {"name", "ids", "train_rows"})
    if (!metadata.contains(key)) throw damaged();
  const auto train_rows = number_in(metadata.at("train_rows"));
  const model::TensorEntry* const entry = file.header().find("rows");
  if (!train_rows || entry == nullptr || entry->dtype != model::Dtype::kI64) throw damaged();
  if (metadata.at("ids") != ids_digest)
    throw Error(ErrorKind::kMismatch, "the table has other ids, or in another order, than when training began",
                path.string(), "Train with the table of then, or begin a new run.");
  Alignment kept{.name = metadata.at("name"), .ids_digest = ids_digest, .train_rows = *train_rows};
  kept.rows.resize(entry->bytes() / sizeof(std::uint64_t));
  file.read("rows", std::as_writable_bytes(std::span(kept.rows)));
  if (kept.train_rows > kept.rows.size() || std::ranges::any_of(kept.rows, [&](auto row) { return row >= rows; }))
    throw damaged();
  return kept;
}

void PartyFiles::keep(const Alignment& alignment) const {
  for (const std::uint64_t step : checkpoints())
    std::filesystem::remove(checkpoint(step));
  sync_folder(folder_);
  const model::TensorView rows{.name = "rows",
                               .dtype = model::Dtype::kI64,
                               .shape = {static_cast<std::int64_t>(alignment.rows.size())},
                               .data = std::as_bytes(std::span(alignment.rows))};
  model::write_safetensors(
      folder_ / "alignment.safetensors", std::span(&rows, 1),
      {{"name", alignment.name}, {"ids", alignment.ids_digest}, {"train_rows", std::to_string(alignment.train_rows)}});
}

std::filesystem::path PartyFiles::checkpoint(std::uint64_t step) const {
  return folder_ / fmt::format("{}{}{}", kStep, step, kEnding);
}

std::vector<std::uint64_t> PartyFiles::checkpoints() const {
  std::vector<std::uint64_t> steps;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kStep) || !name.ends_with(kEnding)) continue;
    const std::string_view number =
        std::string_view(name).substr(kStep.size(), name.size() - kStep.size() - kEnding.size());
    if (const auto step = number_in(number)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

void PartyFiles::prune() const {
  const std::vector<std::uint64_t> steps = checkpoints();
  for (std::size_t i = 0; i + kKept < steps.size(); ++i)
    std::filesystem::remove(checkpoint(steps[i]));
}

}  // namespace muster::federated
