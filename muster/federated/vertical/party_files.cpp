// Checkpoints go before an alignment is replaced: a death in between leaves none, which is the beginning. Files are
// safetensors, since any tool that reads the format can look into them. What the file system refuses is an Error with
// the path, and never taken for a file that is not there: that would be to begin anew.
#include "muster/federated/vertical/party_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/hash.h"
#include "muster/base/json.h"
#include "muster/federated/vertical/checked_tensors.h"
#include "muster/federated/vertical/set_intersection.h"
#include "muster/model/checkpoint_folder.h"

namespace muster::federated {
namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kEnding = ".safetensors";
constexpr std::uint64_t kMostFinishedBytes = 4096;

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

[[noreturn]] void throw_refused(const std::error_code& code, std::string_view action,
                                const std::filesystem::path& path) {
  errno = code.value();
  throw_system_error(action, path);
}

bool is_there(const std::filesystem::path& path) {
  std::error_code code;
  const bool there = std::filesystem::exists(path, code);
  if (code) throw_refused(code, "cannot be examined", path);
  return there;
}

void remove_file(const std::filesystem::path& path) {
  std::error_code code;
  std::filesystem::remove(path, code);
  if (code) throw_refused(code, "cannot be removed", path);
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(folder, code); !code && entry != std::filesystem::directory_iterator();
       entry.increment(code))
    names.push_back(entry->path().filename().string());
  if (code) throw_refused(code, "cannot be listed", folder);
  return names;
}

// The start of a digest: enough to tell two apart at sight.
std::string_view first_digits(const std::string& digest) {
  return std::string_view(digest).substr(0, 8);
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

std::string to_string(const TableMark& table) {
  return fmt::format("{} rows, {} columns, ids {}, values {}", table.rows, table.columns, first_digits(table.ids),
                     first_digits(table.content));
}

void make_private_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::is_directory(folder, ignored)) return;
  if (folder.has_parent_path() && folder.parent_path() != folder) make_private_folder(folder.parent_path());
  if (::mkdir(folder.c_str(), 0700) == 0) return;
  if (errno == EEXIST && std::filesystem::is_directory(folder, ignored)) return;
  if (errno == EEXIST) errno = ENOTDIR;
  throw_system_error("cannot be created", folder);
}

PartyFiles::PartyFiles(std::filesystem::path folder) : folder_(std::move(folder)) {
  make_private_folder(folder_);
  for (const std::string& name : names_in(folder_)) {
    if (name.starts_with('.') && name.ends_with(".tmp")) model::remove_draft_if_abandoned(folder_ / name);
  }
}

std::optional<Alignment> PartyFiles::alignment(const TableMark& table) const {
  const std::filesystem::path path = folder_ / "alignment.safetensors";
  if (!is_there(path)) return std::nullopt;
  const auto damaged = [&](const std::string& what) {
    return Error(
        ErrorKind::kDamaged, what, path.string(),
        fmt::format("Bring it back from a copy, or remove {}: then all parties begin anew, if the label holder has "
                    "--begin-anew.",
                    folder_.string()));
  };
  const auto file = [&] {
    try {
      return open_checked(path);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kDamaged) throw;
      throw damaged(error.message());
    }
  }();
  const model::Metadata& metadata = file.header().metadata;
  std::vector<std::uint64_t> numbers;
  for (const char* key : {"train_rows", "table_rows", "table_columns"}) {
    const auto number = metadata.contains(key) ? number_in(metadata.at(key)) : std::nullopt;
    if (!number) throw damaged("is no alignment of this version");
    numbers.push_back(*number);
  }
  for (const char* key : {"name", "ids", "content"})
    if (!metadata.contains(key)) throw damaged("is no alignment of this version");
  const model::TensorEntry* const entry = file.header().find("rows");
  if (entry == nullptr || entry->dtype != model::Dtype::kI64) throw damaged("is no alignment of this version");
  Alignment kept{.name = metadata.at("name"),
                 .table = {.rows = numbers[1],
                           .columns = numbers[2],
                           .ids = metadata.at("ids"),
                           .content = metadata.at("content")},
                 .train_rows = numbers[0]};
  if (kept.table != table)
    throw Error(ErrorKind::kMismatch,
                fmt::format("the table is another one than when training began: {} now, and {} then", to_string(table),
                            to_string(kept.table)),
                path.string(),
                fmt::format("Train with the table of then; or begin a new run, or remove {}: then all parties begin "
                            "anew, if the label holder has --begin-anew.",
                            folder_.string()));
  kept.rows.resize(entry->bytes() / sizeof(std::uint64_t));
  file.read("rows", std::as_writable_bytes(std::span(kept.rows)));
  if (kept.train_rows > kept.rows.size() || std::ranges::any_of(kept.rows, [&](auto row) { return row >= table.rows; }))
    throw damaged("has rows that the table does not have");
  return kept;
}

void PartyFiles::keep(const Alignment& alignment) const {
  unfinish();
  remove_file(model());  // with nets of this alignment it would predict nonsense
  for (const std::uint64_t step : checkpoints())
    remove_file(checkpoint(step));
  sync_folder(folder_);
  const model::TensorView rows{.name = "rows",
                               .dtype = model::Dtype::kI64,
                               .shape = {static_cast<std::int64_t>(alignment.rows.size())},
                               .data = std::as_bytes(std::span(alignment.rows))};
  write_checked(folder_ / "alignment.safetensors", std::span(&rows, 1),
                {{"name", alignment.name},
                 {"ids", alignment.table.ids},
                 {"content", alignment.table.content},
                 {"table_rows", std::to_string(alignment.table.rows)},
                 {"table_columns", std::to_string(alignment.table.columns)},
                 {"train_rows", std::to_string(alignment.train_rows)}});
}

std::filesystem::path PartyFiles::checkpoint(std::uint64_t step) const {
  return folder_ / fmt::format("{}{}{}", kStep, step, kEnding);
}

std::vector<std::uint64_t> PartyFiles::checkpoints() const {
  std::vector<std::uint64_t> steps;
  for (const std::string& name : names_in(folder_)) {
    if (!name.starts_with(kStep) || !name.ends_with(kEnding)) continue;
    const std::string_view number =
        std::string_view(name).substr(kStep.size(), name.size() - kStep.size() - kEnding.size());
    if (const auto step = number_in(number)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::vector<std::uint64_t> PartyFiles::whole_checkpoints(const Tell& tell) const {
  std::vector<std::uint64_t> whole;
  std::vector<std::string> damaged;
  for (const std::uint64_t step : checkpoints()) {
    try {
      open_checked(checkpoint(step));
      whole.push_back(step);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kDamaged) throw;
      damaged.push_back(fmt::format("{}: {}", error.where(), error.message()));
    }
  }
  if (!damaged.empty() && whole.empty())
    throw Error(ErrorKind::kDamaged, fmt::format("no checkpoint is whole ({})", damaged.back()), folder_.string(),
                "Bring one back from a copy, or remove this folder: then all parties begin anew, if the label holder "
                "has --begin-anew.");
  for (const std::string& what : damaged)
    tell(fmt::format("{}: left out; an older one is whole", what));
  return whole;
}

void PartyFiles::keep_only(std::uint64_t newest, std::uint64_t before) const {
  for (const std::uint64_t step : checkpoints()) {
    if (step != newest && step != before) remove_file(checkpoint(step));
  }
}

std::optional<FinishedRun> PartyFiles::finished() const {
  const std::filesystem::path path = folder_ / "finished.json";
  if (!is_there(path)) return std::nullopt;
  const Json row = parse_json(read_text(path, kMostFinishedBytes), path.string());
  return FinishedRun{.epochs = row.value("epochs", std::uint64_t{0}),
                     .told = row.value("told", false),
                     .alignment = row.value("alignment", "")};
}

void PartyFiles::finish(const FinishedRun& run) const {
  const Json row{{"epochs", run.epochs}, {"told", run.told}, {"alignment", run.alignment}};
  write_atomically(folder_ / "finished.json", row.dump() + "\n");
}

void PartyFiles::unfinish() const {
  remove_file(folder_ / "finished.json");
}

}  // namespace muster::federated
