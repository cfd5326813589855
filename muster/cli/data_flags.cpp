// Flags become lines of a job file and go through its schema:
// one description of the keys, one set of messages.
#include "muster/cli/data_flags.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/data/inspect.h"
#include "muster/trainer/job.h"

namespace muster::cli {
namespace {

constexpr const char* kLanguage = "\n[loss]\ntask = \"language\"\n";

// A TOML string: JSON's quoting is a part of TOML's.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", quoted(name));
  return fmt::format("[{}]", text);
}

std::string picture_keys(const data::SourceOptions& options) {
  std::string text;
  if (!options.labels.file.empty()) {
    text += fmt::format("labels = {}\n", quoted(options.labels.file.string()));
    text += fmt::format("file_column = {}     # names of pictures\n", quoted(options.labels.file_column));
    text += fmt::format("target = {}          # their classes\n", quoted(options.table.target));
    if (options.table.delimiter != ',')
      text += fmt::format("delimiter = {}\n", quoted(std::string(1, options.table.delimiter)));
  }
  text += fmt::format("shape = [{}]   # channels, height, width: what every picture is resized to\n",
                      fmt::join(options.shape, ", "));
  // A random window of a small picture has hardly anything of it left.
  constexpr std::int64_t kSmall = 96;
  const std::int64_t side = std::min(options.shape.at(1), options.shape.at(2));
  return text + (side < kSmall ? fmt::format("augment = [\"crop:{}\", \"flip\"]\n", std::max<std::int64_t>(1, side / 8))
                               : "augment = [\"random-resized-crop\", \"flip\"]\n");
}

}  // namespace

std::string data_section(const data::SourceOptions& options) {
  const data::TableOptions& table = options.table;
  std::string text = fmt::format("[data]\nsource = {}\n", quoted(options.source));
  if (!options.path.empty()) text += fmt::format("path = {}\n", quoted(options.path.string()));
  if (options.source == "csv") {
    if (table.targets.empty()) {
      text += fmt::format("target = {}          # the column to predict\n", quoted(table.target));
    } else {
      text += fmt::format("targets = {}          # the columns to predict\n", list(table.targets));
    }
    if (table.decimal != '.') text += fmt::format("decimal = {}\n", quoted(std::string(1, table.decimal)));
    if (table.delimiter != ',') text += fmt::format("delimiter = {}\n", quoted(std::string(1, table.delimiter)));
    if (!table.header) text += "header = false           # columns are called \"0\", \"1\", ...\n";
    if (!table.ignore.empty())
      text += fmt::format("ignore = {}          # columns that are left out\n", list(table.ignore));
  }
  if (table.latin1 || options.text.latin1) text += "encoding = \"latin-1\"\n";
  if (options.source == "pictures") text += picture_keys(options);
  const bool regression = (options.source == "csv" || options.source == "numpy") && table.regression;
  if (regression) text += "\n[loss]\ntask = \"regression\"\n";
  if (options.source == "text") text += kLanguage;
  return text;
}

data::SourceOptions chosen_data(const std::string& what, const std::string& path,
                                const std::vector<std::string>& assignments) {
  if (what.ends_with(".toml")) return trainer::source_options(trainer::load_job(what, assignments).job);
  const std::vector<std::string> names = data::source_names();
  if (std::find(names.begin(), names.end(), what) != names.end()) {
    std::string text = fmt::format("[data]\nsource = {}\npath = {}\n", quoted(what), quoted(path));
    if (what == "text") text += kLanguage;
    return trainer::source_options(trainer::parse_job(text, what, assignments).job);
  }
  if (!std::filesystem::exists(what)) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("\"{}\" is neither a source nor a file or folder{}", what, did_you_mean(what, names)), {},
                fmt::format("Sources are {}.", join_words(names)));
  }
  if (!assignments.empty()) {
    throw Error(ErrorKind::kInvalidInput, "--set goes with a job file or the name of a source, and not with files", {},
                fmt::format("For example: muster data show csv --path {} --set {}", what, assignments.front()));
  }
  return data::inspect(what).options;
}

}  // namespace muster::cli
