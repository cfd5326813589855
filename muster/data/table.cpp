// Records come in once and go into columns. Until enough rows were seen to tell numbers from categories they are kept
// as they came; from then on every field goes straight to its column.
#include "muster/data/table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <map>
#include <new>
#include <numeric>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/csv_reader.h"
#include "muster/data/latin1.h"
#include "muster/data/number.h"

namespace muster::data {
namespace {

constexpr std::size_t kInferenceRows = 4096;
constexpr std::size_t kMostClasses = 1000000;
constexpr std::size_t kExcerpt = 40;
constexpr std::size_t kExamples = 5;
constexpr std::size_t kNoField = std::numeric_limits<std::size_t>::max();
constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

// The categories of a column, numbered in the order in which they came.
class Codes {
 public:
  std::optional<std::size_t> find(std::string_view text) {
    // Most columns have few categories: one look at the place where this one was last time spares the hash.
    Recent& recent = recent_[place(text)];
    if (recent.text != nullptr && *recent.text == text) return recent.code;
    const auto found = codes_.find(text);
    if (found == codes_.end()) return std::nullopt;
    recent = {&found->first, found->second};
    return found->second;
  }
  void add(std::string_view text) { codes_.emplace(text, codes_.size()); }
  // The first of several that are called alike keeps the name.
  void add(std::string_view text, std::size_t code) { codes_.emplace(text, code); }
  std::size_t size() const { return codes_.size(); }
  std::vector<std::pair<std::string, std::size_t>> all() const { return {codes_.begin(), codes_.end()}; }

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct Recent {
    const std::string* text = nullptr;  // keys of the map never move
    std::size_t code = 0;
  };
  static std::size_t place(std::string_view text) {
    if (text.empty()) return 0;
    const auto byte = [](char c) { return static_cast<std::size_t>(static_cast<unsigned char>(c)); };
    return (text.size() + 5 * byte(text.front()) + 19 * byte(text.back())) % 64;
  }

  std::unordered_map<std::string, std::size_t, TextHash, std::equal_to<>> codes_;
  std::array<Recent, 64> recent_{};
};

// A record that must outlive the reader's buffer.
struct StoredRecord {
  std::vector<std::string> fields;
  std::uint64_t line = 0;
};

std::vector<std::string> trimmed(const std::vector<std::string>& names) {
  std::vector<std::string> result;
  for (const std::string& name : names)
    result.emplace_back(data::trimmed(name));
  return result;
}

// The options with names as columns have them.
TableOptions with_trimmed_names(TableOptions options) {
  options.target = data::trimmed(options.target);
  options.id = data::trimmed(options.id);
  for (auto* names : {&options.numeric, &options.categorical, &options.ignore, &options.targets})
    *names = trimmed(*names);
  return options;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Fills the columns of a table from records.
class TableBuilder {
 public:
  TableBuilder(const TableOptions& options, BadSamples& bad, const Table* like, std::string file)
      : options_(with_trimmed_names(options)), bad_(bad), like_(like), file_(std::move(file)) {
    table_.file = file_;
  }

  void name_columns(const std::vector<std::string>& names) {
    fields_ = names.size();
    refuse_twins(trimmed(names));
    if (like_ != nullptr) {
      find_columns(*like_, trimmed(names));
      if (!options_.id.empty()) id_column_ = id_field(trimmed(names));
      return;
    }
    for (const std::string& name : names)
      table_.columns.push_back({.name = std::string(data::trimmed(name))});
    field_of_.resize(names.size());
    std::iota(field_of_.begin(), field_of_.end(), std::size_t{0});
    require_columns(options_.numeric, "numeric");
    require_columns(options_.categorical, "categorical");
    require_columns(options_.ignore, "ignore");
    for (const std::string& name : options_.targets)
      table_.targets.push_back(position(name, "targets"));
    if (!options_.id.empty()) id_column_ = id_field(trimmed(names));
    if (table_.targets.empty() && !options_.unlabelled)
      table_.targets = {options_.target.empty() ? names.size() - 1 : position(options_.target, "target")};
    if (table_.targets.size() > 1 && !options_.regression)
      throw Error(ErrorKind::kInvalidInput, "several targets have to be numbers", file_,
                  "Set loss.task = \"regression\", or name one column with data.target.");
    for (const std::size_t target : table_.targets) {
      const std::string& name = table_.columns[target].name;
      if (contains(options_.ignore, name))
        throw Error(ErrorKind::kInvalidInput, fmt::format("column \"{}\" is the target and is to be ignored", name),
                    file_);
      if (target == id_column_)
        throw Error(ErrorKind::kInvalidInput, fmt::format("column \"{}\" is the target and the rows' id", name), file_,
                    "Name the column to predict with data.target.");
      if (std::count(table_.targets.begin(), table_.targets.end(), target) > 1)
        throw Error(ErrorKind::kInvalidInput, fmt::format("column \"{}\" is twice in data.targets", name), file_);
    }
  }

  void choose_kinds(const std::vector<StoredRecord>& head) {
    for (const std::size_t target : table_.targets)
      if (like_ == nullptr && options_.regression && !looks_numeric(head, target)) throw no_number(head, target);
    for (std::size_t c = 0; like_ == nullptr && c < table_.columns.size(); ++c) {
      Column& column = table_.columns[c];
      if (contains(options_.ignore, column.name) || c == id_column_) {
        column.kind = ColumnKind::kIgnored;
      } else if (table_.is_target(c)) {
        column.kind = options_.regression ? ColumnKind::kNumeric : ColumnKind::kCategorical;
      } else if (contains(options_.categorical, column.name)) {
        column.kind = ColumnKind::kCategorical;
      } else if (!contains(options_.numeric, column.name) && !looks_numeric(head, c)) {
        column.kind = ColumnKind::kCategorical;
      }
    }
    codes_.resize(table_.columns.size());
    target_.resize(table_.columns.size());
    for (std::size_t c = 0; c < table_.columns.size(); ++c) {
      target_[c] = table_.is_target(c);
      for (std::size_t i = 0; i < table_.columns[c].categories.size(); ++i)
        codes_[c].add(data::trimmed(table_.columns[c].categories[i]), i);
    }
    row_.resize(table_.columns.size());
  }

  template <typename Fields>
  void add(const Fields& fields, std::uint64_t line) {
    const auto refuse = [&](Refusal refusal) {
      bad_.report(Error(ErrorKind::kDamaged, std::move(refusal.message), fmt::format("{}:{}", file_, line),
                        std::move(refusal.remedy)));
    };
    if (fields.size() != fields_)
      return refuse({fmt::format("has {} fields where {} are expected", fields.size(), fields_),
                     options_.decimal == options_.delimiter
                         ? "Where the delimiter stands in numbers too, these have to stand in quotes."
                         : ""});
    for (std::size_t c = 0; c < row_.size(); ++c) {
      const ColumnKind kind = table_.columns[c].kind;
      if (kind == ColumnKind::kIgnored) continue;
      const std::string_view field = fields[field_of_[c]];
      const bool taken = kind == ColumnKind::kNumeric ? take_number(c, field) : take_category(c, field);
      if (!taken) return refuse(refusal_of(c, field));
    }
    for (std::size_t c = 0; c < row_.size(); ++c) {
      Column& column = table_.columns[c];
      if (column.kind == ColumnKind::kIgnored) continue;
      column.values.push_back(row_[c]);
      if (column.kind == ColumnKind::kCategorical && row_[c] < 0) count_unknown(column, fields[field_of_[c]]);
    }
    if (id_column_ != kNoField) table_.ids.emplace_back(data::trimmed(fields[id_column_]));
    const std::vector<Table::Run>& runs = table_.runs;
    if (runs.empty() || line - runs.back().line != table_.rows - runs.back().row)
      table_.runs.push_back({table_.rows, line});
    ++table_.rows;
  }

  Table finish() {
    if (table_.rows == 0) throw Error(ErrorKind::kDamaged, "has no row that can be used", file_);
    for (Column& column : table_.columns)
      column.values.shrink_to_fit();
    if (like_ == nullptr) {
      for (std::size_t c = 0; c < table_.columns.size(); ++c)
        sort_categories(table_.columns[c], codes_[c]);
      if (table_.targets.empty()) return std::move(table_);
      const Column& target = table_.columns[table_.targets.front()];
      if (!options_.regression && target.categories.size() < 2) {
        throw Error(ErrorKind::kDamaged,
                    fmt::format("the target \"{}\" is \"{}\" in every row: there is nothing to learn", target.name,
                                excerpt(target.categories.front(), kExcerpt)),
                    file_, "Name another column with data.target.");
      }
    }
    return std::move(table_);
  }

 private:
  struct Refusal {
    std::string message;
    std::string remedy;
  };

  // Both put the field into row_, or return false.
  bool take_number(std::size_t c, std::string_view field) {
    if (const auto value = parse_number(field, options_)) {
      row_[c] = *value;
      return true;
    }
    row_[c] = kMissing;
    return !target_[c] && is_missing(field);
  }
  bool take_category(std::size_t c, std::string_view field) {
    field = data::trimmed(field);
    // What is known is a category; only of what is not it has to be asked whether it is missing.
    std::optional<std::size_t> code = codes_[c].find(field);
    if (!code) {
      const bool missing = is_missing(field);
      if (missing && target_[c]) return false;
      code = code_of(c, missing ? std::string_view() : field);
    }
    row_[c] = code ? static_cast<float>(*code) : -1.0F;
    return code || !target_[c];
  }
  // Why they did.
  Refusal refusal_of(std::size_t c, std::string_view field) const {
    const Column& column = table_.columns[c];
    if (is_missing(field)) return {fmt::format("column \"{}\" is the target and is missing here", column.name), {}};
    const std::string text = excerpt(field, kExcerpt);
    if (column.kind == ColumnKind::kCategorical) {
      return {fmt::format("column \"{}\" has the class \"{}\", which the training rows do not have", column.name, text),
              {}};
    }
    return {fmt::format("column \"{}\" has \"{}\", which is not a finite number", column.name, text),
            target_[c] ? "" : "Repair it, set data.on_bad_sample = \"skip\", or add the column to data.categorical."};
  }

  std::size_t position(const std::string& name, const char* what) const {
    std::vector<std::string> names;
    for (const Column& column : table_.columns)
      names.push_back(column.name);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      if (names.size() > 50) names.resize(50);
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("has no column \"{}\", which data.{} names{}", name, what, did_you_mean(name, names)),
                  file_, fmt::format("Columns are {}.", excerpt(join_words(names), 1000)));
    }
    return static_cast<std::size_t>(found - names.begin());
  }
  // Of the rows' ids, which have no key of [data]: it is the parties of vertical training that need them.
  std::size_t id_field(std::vector<std::string> names) const {
    const auto found = std::find(names.begin(), names.end(), options_.id);
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
    if (names.size() > 50) names.resize(50);
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} has no column \"{}\"{}", file_, options_.id, did_you_mean(options_.id, names)),
                "vertical.id", fmt::format("Columns are {}.", excerpt(join_words(names), 1000)));
  }
  void require_columns(const std::vector<std::string>& names, const char* what) const {
    for (const std::string& name : names)
      position(name, what);
  }

  // Of two columns that are called alike nobody can say which is meant. One that is not used may have a twin.
  void refuse_twins(const std::vector<std::string>& names) const {
    if (!options_.header) return;
    std::map<std::string_view, std::vector<std::size_t>> places;
    for (std::size_t i = 0; i < names.size(); ++i)
      places[names[i]].push_back(i + 1);
    for (const auto& [name, columns] : places) {
      if (columns.size() < 2 || !is_used(name, columns.size())) continue;
      throw Error(
          ErrorKind::kInvalidInput,
          fmt::format("columns {} and {} are both called \"{}\"", columns[0], columns[1], excerpt(name, kExcerpt)),
          fmt::format("{}:1", file_),
          like_ == nullptr ? "Give each a name of its own, or add the name to data.ignore."
                           : "Give each a name of its own.");
    }
  }
  // Whether columns of this name are read, so often.
  bool is_used(std::string_view name, std::size_t times) const {
    if (like_ == nullptr) return !contains(options_.ignore, std::string(name));
    const auto known =
        static_cast<std::size_t>(std::count_if(like_->columns.begin(), like_->columns.end(), [&](const Column& column) {
          return column.kind != ColumnKind::kIgnored && data::trimmed(column.name) == name;
        }));
    return known > 0 && known < times;
  }

  Error no_number(const std::vector<StoredRecord>& head, std::size_t c) const {
    std::string example;
    for (const StoredRecord& record : head) {
      if (c >= record.fields.size() || is_missing(record.fields[c]) || parse_number(record.fields[c], options_))
        continue;
      example = excerpt(data::trimmed(record.fields[c]), kExcerpt);
      break;
    }
    return {ErrorKind::kInvalidInput,
            fmt::format("regression predicts numbers, and column \"{}\" of {} has none: \"{}\"", table_.columns[c].name,
                        file_, example),
            "loss.task", "Set loss.task = \"classification\" for a column of words, or name a column of numbers."};
  }

  bool looks_numeric(const std::vector<StoredRecord>& head, std::size_t c) const {
    std::size_t numbers = 0;
    std::size_t present = 0;
    for (const StoredRecord& record : head) {
      if (c >= record.fields.size() || is_missing(record.fields[c])) continue;
      ++present;
      numbers += parse_number(record.fields[c], options_).has_value();
    }
    return 10 * numbers >= 9 * present;
  }

  // Which field of a record each column of `like` is.
  void find_columns(const Table& like, const std::vector<std::string>& names) {
    for (const Column& column : like.columns)
      table_.columns.push_back({.name = column.name, .kind = column.kind, .categories = column.categories});
    table_.targets = like.targets;
    field_of_.assign(like.columns.size(), kNoField);
    if (!options_.header) {
      if (names.size() != like.columns.size()) {
        throw Error(ErrorKind::kMismatch,
                    fmt::format("has {} columns and the training table {}", names.size(), like.columns.size()), file_);
      }
      std::iota(field_of_.begin(), field_of_.end(), std::size_t{0});
      return;
    }
    std::vector<bool> taken(names.size());
    std::vector<std::string> missing;
    for (std::size_t c = 0; c < field_of_.size(); ++c) {
      const std::string_view name = data::trimmed(like.columns[c].name);
      for (std::size_t i = 0; i < names.size() && field_of_[c] == kNoField; ++i) {
        if (!taken[i] && names[i] == name) field_of_[c] = i;
      }
      if (field_of_[c] != kNoField) {
        taken[field_of_[c]] = true;
      } else if (like.columns[c].kind != ColumnKind::kIgnored) {
        missing.push_back(fmt::format("\"{}\"", excerpt(name, kExcerpt)));
      }
    }
    if (!missing.empty()) {
      throw Error(ErrorKind::kMismatch,
                  fmt::format("has no column {}, which the training table has", excerpt(join_words(missing), 1000)),
                  file_, fmt::format("Its columns are {}.{}", excerpt(join_words(names), 1000), how_read(taken)));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!taken[i]) table_.extra_columns.push_back(names[i]);
    }
  }

  // Where no column was found, or only letters beyond English ones are at fault, the file is likely cut or encoded
  // otherwise: how it was read.
  std::string how_read(const std::vector<bool>& taken) const {
    const bool none = std::find(taken.begin(), taken.end(), true) == taken.end();
    bool foreign = false;
    for (std::size_t c = 0; c < field_of_.size(); ++c) {
      const std::string& name = table_.columns[c].name;
      foreign |= field_of_[c] == kNoField && std::any_of(name.begin(), name.end(), [](char letter) {
                   return static_cast<unsigned char>(letter) >= 0x80;
                 });
    }
    if (!none && !foreign) return {};
    return fmt::format(
        " It was read as the training table was: in {}, with {} between columns. Bring it into this form.",
        options_.latin1 ? "Latin-1" : "UTF-8",
        options_.delimiter == '\t' ? "tabs" : fmt::format("\"{}\"", options_.delimiter));
  }

  static void count_unknown(Column& column, std::string_view field) {
    ++column.unknown;
    const std::string text(is_missing(field) ? std::string_view() : data::trimmed(field));
    if (column.unknown_examples.size() < kExamples && !contains(column.unknown_examples, text))
      column.unknown_examples.push_back(text);
  }

  std::optional<std::size_t> code_of(std::size_t c, std::string_view category) {
    Codes& codes = codes_[c];
    if (const auto code = codes.find(category)) return code;
    if (like_ != nullptr) return std::nullopt;
    const std::size_t most = target_[c] ? kMostClasses : kMostCategories;
    if (codes.size() >= most) {
      throw Error(ErrorKind::kDamaged,
                  fmt::format("column \"{}\" has more than {} different values, too many for categories",
                              table_.columns[c].name, most),
                  file_, "Add it to data.ignore, or to data.numeric if they are numbers.");
    }
    codes.add(category);
    return codes.size() - 1;
  }

  static void sort_categories(Column& column, Codes& codes) {
    if (column.kind != ColumnKind::kCategorical) return;
    for (const auto& [name, code] : codes.all())
      column.categories.push_back(name);
    sort_as_categories(column.categories);
    std::vector<float> renamed(column.categories.size());
    for (std::size_t i = 0; i < column.categories.size(); ++i)
      renamed[*codes.find(column.categories[i])] = static_cast<float>(i);
    for (float& value : column.values)
      value = renamed[static_cast<std::size_t>(value)];
  }

  const TableOptions options_;
  BadSamples& bad_;
  const Table* const like_;
  const std::string file_;
  Table table_;
  std::size_t fields_ = 0;  // of a record
  std::size_t id_column_ = kNoField;
  std::vector<std::size_t> field_of_;  // by column, as the next ones
  std::vector<bool> target_;
  std::vector<Codes> codes_;
  std::vector<float> row_;  // what add() has of the row so far
};

std::vector<std::string> owned(const std::vector<std::string_view>& fields) {
  return {fields.begin(), fields.end()};
}

}  // namespace

void sort_as_categories(std::vector<std::string>& names) {
  const auto integer = [](const std::string& text) -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
    return value;
  };
  const bool integers = std::all_of(names.begin(), names.end(), [&](const auto& name) { return integer(name); });
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    if (integers && *integer(a) != *integer(b)) return *integer(a) < *integer(b);
    return a < b;
  });
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && blank(text.back()))
    text.remove_suffix(1);
  return text;
}

std::optional<float> parse_number(std::string_view field, const TableOptions& options) {
  if (options.decimal == '.') return parse_float(field);
  std::string text(field);
  if (text.find('.') != std::string::npos) return std::nullopt;
  std::replace(text.begin(), text.end(), options.decimal, '.');
  return parse_float(text);
}

bool is_missing(std::string_view field) {
  field = trimmed(field);
  if (field.empty()) return true;
  if (field.size() > 4) return false;
  constexpr std::array<std::string_view, 6> kWords{"NA", "N/A", "null", "NULL", "None", "?"};
  return std::find(kWords.begin(), kWords.end(), field) != kWords.end();
}

bool Table::is_target(std::size_t column) const {
  return std::find(targets.begin(), targets.end(), column) != targets.end();
}

std::uint64_t Table::line_of(std::uint64_t row) const {
  const auto after = std::upper_bound(runs.begin(), runs.end(), row,
                                      [](std::uint64_t wanted, const Run& run) { return wanted < run.row; });
  const Run& run = *std::prev(after);
  return run.line + (row - run.row);
}

std::vector<std::string> notes_on(const Table& table) {
  std::vector<std::string> notes;
  const auto quoted = [](const std::vector<std::string>& words) {
    std::vector<std::string> list;
    for (const std::string& word : words)
      list.push_back(word.empty() ? "a missing value" : fmt::format("\"{}\"", excerpt(word, kExcerpt)));
    return excerpt(join_words(list), 500);
  };
  if (!table.extra_columns.empty()) {
    notes.push_back(
        fmt::format("{}: the training table has no column {}: not used", table.file, quoted(table.extra_columns)));
  }
  for (const Column& column : table.columns) {
    if (column.unknown == 0) continue;
    notes.push_back(fmt::format(
        "{}: {} of {} rows have a value in column \"{}\" that training never saw ({}{}); it counts as none of the "
        "known ones",
        table.file, grouped(column.unknown), grouped(table.rows), excerpt(column.name, kExcerpt),
        column.unknown_examples.size() == kExamples ? "such as " : "", quoted(column.unknown_examples)));
  }
  return notes;
}

Table take_rows(const Table& table, std::span<const std::uint64_t> rows) {
  Table taken;
  taken.targets = table.targets;
  taken.rows = rows.size();
  for (const Column& column : table.columns) {
    Column& part = taken.columns.emplace_back();
    part.name = column.name;
    part.kind = column.kind;
    part.categories = column.categories;
    if (column.values.empty()) continue;
    part.values.reserve(rows.size());
    for (const std::uint64_t row : rows)
      part.values.push_back(column.values[row]);
  }
  if (table.ids.empty()) return taken;
  for (const std::uint64_t row : rows)
    taken.ids.push_back(table.ids[row]);
  return taken;
}

std::uint64_t Table::bytes_per_row() const {
  std::uint64_t bytes = 0;
  for (const Column& column : columns)
    bytes += column.kind == ColumnKind::kIgnored ? 0 : sizeof(float);
  return bytes;
}

Table read_table(CsvReader& reader, const TableOptions& options, BadSamples& bad, const Table* like) {
  const std::string& file = reader.file();
  try {
    TableBuilder builder(options, bad, like, file);
    std::vector<std::string_view> fields;
    if (!reader.next(fields)) throw Error(ErrorKind::kDamaged, "is empty", file);
    std::vector<std::string> names = owned(fields);
    std::vector<StoredRecord> head;
    if (!options.header) {
      head.push_back({names, reader.line()});
      for (std::size_t c = 0; c < names.size(); ++c)
        names[c] = fmt::format("{}", c);
    }
    builder.name_columns(names);
    while (head.size() < kInferenceRows && reader.next(fields))
      head.push_back({owned(fields), reader.line()});
    builder.choose_kinds(head);
    for (const StoredRecord& record : head)
      builder.add(record.fields, record.line);
    head.clear();
    while (reader.next(fields))
      builder.add(fields, reader.line());
    return builder.finish();
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kResource, "its rows do not fit into memory", file,
                "Leave columns out with data.ignore, or pack the data on a machine that holds it (muster data pack).");
  }
}

Table read_table(const std::filesystem::path& path, const TableOptions& options, BadSamples& bad, const Table* like) {
  CsvReader reader = open_csv(path, options);
  return read_table(reader, options, bad, like);
}

CsvReader open_csv(const std::filesystem::path& path, const TableOptions& options) {
  std::unique_ptr<ByteReader> bytes = ByteReader::open(path);
  if (options.latin1) bytes = latin1_as_utf8(std::move(bytes));
  return CsvReader(std::move(bytes), path.string(), options.delimiter);
}

}  // namespace muster::data
