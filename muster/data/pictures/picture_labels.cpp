// Rows are read by the tables' reader, so that quoting, line ends and encodings are as everywhere. A row that cannot be
// used, because its picture is missing for one, is a bad sample and not an error of the file.
#include "muster/data/pictures/picture_labels.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/csv_reader.h"
#include "muster/data/picture_parts.h"
#include "muster/data/table.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kExcerpt = 80;
constexpr std::size_t kMostClasses = 1000000;

bool is_file(const fs::path& path) {
  std::error_code ignored;  // what cannot be looked at is not there for us
  return fs::is_regular_file(path, ignored);
}

struct Columns {
  std::size_t file = 0;
  std::size_t target = 0;
};

std::size_t position(const std::vector<std::string>& names, std::string_view wanted, const char* key,
                     const std::string& where) {
  const auto found = std::find(names.begin(), names.end(), trimmed(wanted));
  if (found == names.end()) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("has no column \"{}\", which data.{} names{}", wanted, key, did_you_mean(wanted, names)),
                where, fmt::format("Columns are {}.", excerpt(join_words(names), 1000)));
  }
  return static_cast<std::size_t>(found - names.begin());
}

Columns find_columns(const std::vector<std::string>& names, const SourceOptions& options, const std::string& where) {
  Columns columns{0, names.size() - 1};
  if (!options.labels.file_column.empty())
    columns.file = position(names, options.labels.file_column, "file_column", where);
  if (!options.table.target.empty()) columns.target = position(names, options.table.target, "target", where);
  if (columns.file == columns.target) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("column \"{}\" cannot be both the pictures' names and their classes", names[columns.file]),
                where, "Say which columns are meant with data.file_column and data.target.");
  }
  return columns;
}

struct Rows {
  std::vector<std::string> files;
  std::vector<std::size_t> codes;  // of the classes, in the order in which they came
  std::map<std::string, std::size_t, std::less<>> classes;
};

// Why a row cannot be used, or nothing: then it was added.
std::string add_row(Rows& rows, const fs::path& folder, std::string_view name, std::string_view label, bool fixed) {
  if (name.empty()) return "names no picture";
  if (is_missing(label)) return fmt::format("says no class for {}", excerpt(name, kExcerpt));
  const std::optional<std::string> file = find_picture(folder, std::string(name));
  if (!file) return fmt::format("names {}, and there is no such file in {}", excerpt(name, kExcerpt), folder.string());
  auto found = rows.classes.find(label);
  if (found == rows.classes.end()) {
    if (fixed) return fmt::format("has the class \"{}\", which training does not have", excerpt(label, kExcerpt));
    if (rows.classes.size() >= kMostClasses) return fmt::format("is of a class beyond the {}th", kMostClasses);
    found = rows.classes.emplace(std::string(label), rows.classes.size()).first;
  }
  rows.files.push_back(*file);
  rows.codes.push_back(found->second);
  return {};
}

}  // namespace

std::optional<std::string> find_picture(const fs::path& folder, const std::string& name) {
  if (is_file(folder / name)) return name;
  for (const char* ending : {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".JPG", ".JPEG", ".PNG"}) {
    if (is_file(folder / (name + ending))) return name + ending;
  }
  return std::nullopt;
}

PictureList read_picture_labels(const fs::path& file, const fs::path& folder, const SourceOptions& options,
                                BadSamples& bad, const std::vector<std::string>& classes) {
  CsvReader reader = open_csv(file, options.table);
  std::vector<std::string_view> fields;
  if (!reader.next(fields)) throw Error(ErrorKind::kDamaged, "is empty", file.string());
  std::vector<std::string> names;
  for (const std::string_view field : fields)
    names.emplace_back(trimmed(field));
  const Columns columns = find_columns(names, options, file.string());
  Rows rows;
  for (std::size_t i = 0; i < classes.size(); ++i)
    rows.classes.emplace(classes[i], i);
  while (reader.next(fields)) {
    const std::string reason =
        fields.size() != names.size()
            ? fmt::format("has {} fields where {} are expected", fields.size(), names.size())
            : add_row(rows, folder, trimmed(fields[columns.file]), trimmed(fields[columns.target]), !classes.empty());
    if (!reason.empty()) bad.report(Error(ErrorKind::kDamaged, reason, reader.where()));
  }
  if (rows.files.empty()) throw Error(ErrorKind::kDamaged, "has no row that can be used", file.string());
  if (rows.classes.size() < 2)
    throw Error(ErrorKind::kDamaged,
                fmt::format("column \"{}\" is \"{}\" in every row: there is nothing to learn", names[columns.target],
                            excerpt(rows.classes.begin()->first, kExcerpt)),
                file.string(), "Name another column with data.target.");
  std::vector<std::string> ordered = classes;
  if (ordered.empty()) {
    for (const auto& [name, code] : rows.classes)
      ordered.push_back(name);
    sort_as_categories(ordered);
  }
  std::vector<std::int64_t> label_of(ordered.size());
  for (std::size_t i = 0; i < ordered.size(); ++i)
    label_of[rows.classes.find(ordered[i])->second] = static_cast<std::int64_t>(i);
  std::vector<std::int64_t> labels;
  for (const std::size_t code : rows.codes)
    labels.push_back(label_of[code]);
  return PictureList::labelled(folder, rows.files, std::move(labels), std::move(ordered));
}

}  // namespace muster::data
