#include "muster/data/inspect.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/byte_reader.h"
#include "muster/data/csv_reader.h"
#include "muster/data/number.h"
#include "muster/data/table.h"

namespace muster::data {
namespace {

constexpr std::size_t kFront = std::size_t{64} << 10;
constexpr std::size_t kRows = 4096;

using Rows = std::vector<std::vector<std::string>>;

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The ending of a name, that of its compression aside: "a.csv.gz" is ".csv".
std::string ending(std::filesystem::path path) {
  if (path.extension() == ".gz" || path.extension() == ".zst") path.replace_extension();
  return lower_case(path.extension().string());
}

std::string front_of(const std::filesystem::path& path) {
  const auto reader = ByteReader::open(path);
  std::string front(kFront, '\0');
  front.resize(reader->read(std::as_writable_bytes(std::span(front))));
  return front;
}

Rows read_rows(const std::filesystem::path& path, char delimiter, std::size_t most) {
  CsvReader reader(ByteReader::open(path), path.string(), delimiter);
  std::vector<std::string_view> fields;
  Rows rows;
  while (rows.size() < most && reader.next(fields))
    rows.emplace_back(fields.begin(), fields.end());
  return rows;
}

// How many fields most rows have. The first may be something else than a row.
std::size_t usual_fields(const Rows& rows) {
  std::map<std::size_t, std::size_t> counts;
  for (const auto& row : rows)
    ++counts[row.size()];
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

// The delimiter that gives the most fields, the same number in nearly every row; none if no row has two. Spaces are
// between the words of any text, so they count only in a file that is called a table.
std::optional<char> find_delimiter(const std::filesystem::path& path, bool called_table) {
  std::optional<char> best;
  std::size_t most = 1;
  for (const char delimiter : {',', '\t', ';', '|', ' '}) {
    if (delimiter == ' ' && (best || !called_table)) continue;
    Rows rows;
    try {
      rows = read_rows(path, delimiter, 100);
    } catch (const Error&) {
      continue;  // not quoted as a table of this delimiter would be
    }
    if (rows.size() < 2) continue;
    const std::size_t fields = usual_fields(rows);
    const auto same = static_cast<std::size_t>(
        std::count_if(rows.begin(), rows.end(), [&](const auto& row) { return row.size() == fields; }));
    if (fields > most && 10 * same >= 9 * rows.size()) {
      most = fields;
      best = delimiter;
    }
  }
  return best;
}

// A header is words above a column that holds numbers, or a first row of words that are all different and do not come
// again.
bool has_header(const Rows& rows) {
  const auto& first = rows.front();
  for (const std::string& name : first) {
    if (parse_float(name) || is_missing(name)) return false;
  }
  for (std::size_t c = 0; c < first.size(); ++c) {
    for (std::size_t r = 1; r < rows.size(); ++r) {
      if (c >= rows[r].size()) continue;
      if (parse_float(rows[r][c])) return true;
      if (rows[r][c] == first[c]) return false;
    }
  }
  return std::set<std::string>(first.begin(), first.end()).size() == first.size();
}

std::size_t find_target(const std::vector<std::string>& names) {
  constexpr std::array<std::string_view, 8> kUsual{"target",  "label",   "class", "y",
                                                   "outcome", "species", "price", "value"};
  for (const std::string_view usual : kUsual) {
    for (std::size_t c = 0; c < names.size(); ++c) {
      if (lower_case(names[c]) == usual) return c;
    }
  }
  return names.size() - 1;
}

// Whether a column's values are numbers to predict rather than names of classes.
bool is_quantity(const Rows& rows, std::size_t first_row, std::size_t column) {
  constexpr std::size_t kMostClasses = 20;
  std::set<std::string> different;
  for (std::size_t r = first_row; r < rows.size(); ++r) {
    if (column >= rows[r].size() || is_missing(rows[r][column])) continue;
    const auto value = parse_float(rows[r][column]);
    if (!value) return false;
    different.insert(rows[r][column]);
  }
  return different.size() > kMostClasses;
}

Finding inspect_table(const std::filesystem::path& path, char delimiter) {
  Finding finding;
  finding.options.source = "csv";
  finding.options.path = path;
  TableOptions& table = finding.options.table;
  table.delimiter = delimiter;
  const Rows rows = read_rows(path, delimiter, kRows);
  if (const std::size_t usual = usual_fields(rows); rows.front().size() != usual) {
    throw Error(
        ErrorKind::kInvalidInput, fmt::format("has {} fields where most lines have {}", rows.front().size(), usual),
        fmt::format("{}:1", path.string()), "Take the first line out of the file, or make it name every column.");
  }
  table.header = has_header(rows);
  std::vector<std::string> names = rows.front();
  for (std::size_t c = 0; !table.header && c < names.size(); ++c)
    names[c] = fmt::format("{}", c);
  const std::size_t target = find_target(names);
  table.target = names[target];
  table.regression = is_quantity(rows, table.header ? 1 : 0, target);
  // Numbers that count rows or name things, all of them different, say nothing about rows to come.
  for (std::size_t c = 0; c < names.size(); ++c) {
    const std::string name = lower_case(names[c]);
    if (c != target && (name == "id" || name.ends_with("_id") || name == "index")) table.ignore.push_back(names[c]);
  }
  finding.reasons.push_back(fmt::format("a table of {} columns separated by {}, {}", names.size(),
                                        delimiter == '\t' ? "tabs" : fmt::format("\"{}\"", delimiter),
                                        table.header ? "with a header" : "without a header"));
  finding.reasons.push_back(fmt::format("the column to predict: \"{}\", {}", excerpt(table.target, 60),
                                        table.regression ? "a number" : "whose values are classes"));
  return finding;
}

Finding found(const char* source, const std::filesystem::path& path, std::string reason) {
  Finding finding;
  finding.options.source = source;
  finding.options.path = path;
  finding.reasons.push_back(std::move(reason));
  return finding;
}

// Whether a folder of the folder, or one below that, holds pictures: CLASS/FILE, or train/CLASS/FILE.
bool has_pictures(const std::filesystem::path& path, int depth = 2) {
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (!entry.is_directory()) continue;
    for (const auto& file : std::filesystem::directory_iterator(entry.path())) {
      const std::string name = lower_case(file.path().extension().string());
      if (name == ".jpg" || name == ".jpeg" || name == ".png") return true;
    }
    if (depth > 1 && has_pictures(entry.path(), depth - 1)) return true;
  }
  return false;
}

Finding inspect_folder(const std::filesystem::path& path) {
  const auto has = [&](const char* name) { return std::filesystem::exists(path / name); };
  if (has("train-images-idx3-ubyte") || has("train-images-idx3-ubyte.gz"))
    return found("idx", path, "a folder with MNIST's file names");
  if (has("data_batch_1.bin")) return found("cifar10", path, "a folder with CIFAR-10's file names");
  if (has("x.npy") || has("x_train.npy")) return found("numpy", path, "a folder with NumPy arrays");
  std::vector<std::filesystem::path> tables;
  bool packed = false;
  bool text = false;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    packed |= entry.path().extension() == ".pack";
    text |= ending(entry.path()) == ".txt";
    if (ending(entry.path()) == ".csv") tables.push_back(entry.path());
  }
  if (packed) return found("packed", path, "a folder of packed shards");
  if (text) return found("text", path, "a folder of text files");
  if (tables.size() == 1) return inspect(tables.front());
  if (has_pictures(path)) {
    Finding finding = found("pictures", path, "folders of pictures, one for each class");
    finding.options.shape = {3, 224, 224};
    return finding;
  }
  throw Error(ErrorKind::kInvalidInput, "holds nothing that a source reads", path.string(),
              "muster data lists the sources and what they read.");
}

}  // namespace

Finding inspect(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) return inspect_folder(path);
  const std::string front = front_of(path);
  const std::string name = ending(path);
  if (std::string_view(front).starts_with("PK\x03\x04")) return found("numpy", path, "an archive of NumPy arrays");
  const bool is_text = valid_utf8_prefix(front) + 4 > front.size() && front.find('\0') == std::string::npos;
  if (!front.empty() && is_text) {
    const bool called_table = name == ".csv" || name == ".tsv";
    const std::optional<char> delimiter = name == ".txt" ? std::nullopt : find_delimiter(path, called_table);
    if (delimiter) return inspect_table(path, *delimiter);
    if (called_table)
      throw Error(ErrorKind::kInvalidInput, "is called a table and has no columns: nothing cuts its lines alike",
                  path.string(), "Columns are separated by a comma, a tab, a semicolon, a bar or a space.");
    return found("text", path, "text");
  }
  throw Error(ErrorKind::kInvalidInput, front.empty() ? "is empty" : "is nothing that a source reads", path.string(),
              "muster data lists the sources and what they read.");
}

}  // namespace muster::data
