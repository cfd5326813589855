#include "muster/data/table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <new>
#include <numeric>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/number.h"

namespace muster::data {
namespace {

constexpr std::size_t kInferenceRows = 4096;
constexpr std::size_t kMostCategories = 1000;
constexpr std::size_t kMostClasses = 1000000;
constexpr std::size_t kExcerpt = 40;
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
  std::string where;
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Fills the columns of a table from records.
class TableBuilder {
 public:
  TableBuilder(const TableOptions& options, BadSamples& bad, const Table* like, std::string file)
      : options_(options), bad_(bad), like_(like), file_(std::move(file)) {}

  void name_columns(const std::vector<std::string>& names) {
    for (const std::string& name : names)
      table_.columns.push_back({.name = name});
    require_columns(options_.numeric, "numeric");
    require_columns(options_.categorical, "categorical");
    require_columns(options_.ignore, "ignore");
    if (like_ != nullptr) return;  // which says what the target is
    table_.target = options_.target.empty() ? names.size() - 1 : position(options_.target, "target");
    if (contains(options_.ignore, target().name))
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("column \"{}\" is the target and is to be ignored", target().name), file_);
  }

  void choose_kinds(const std::vector<StoredRecord>& head) {
    for (std::size_t c = 0; c < table_.columns.size(); ++c) {
      Column& column = table_.columns[c];
      if (contains(options_.ignore, column.name)) {
        column.kind = ColumnKind::kIgnored;
      } else if (c == table_.target) {
        column.kind = options_.regression ? ColumnKind::kNumeric : ColumnKind::kCategorical;
      } else if (contains(options_.categorical, column.name)) {
        column.kind = ColumnKind::kCategorical;
      } else if (!contains(options_.numeric, column.name) && !looks_numeric(head, c)) {
        column.kind = ColumnKind::kCategorical;
      }
    }
    if (like_ != nullptr) take_over(*like_);
    codes_.resize(table_.columns.size());
    for (std::size_t c = 0; c < table_.columns.size(); ++c) {
      for (std::size_t i = 0; i < table_.columns[c].categories.size(); ++i)
        codes_[c].add(table_.columns[c].categories[i]);
    }
    row_.resize(table_.columns.size());
  }

  // `where` is called only for rows that are bad.
  template <typename Fields, typename Where>
  void add(const Fields& fields, const Where& where) {
    const auto refuse = [&](Refusal refusal) {
      bad_.report(Error(ErrorKind::kDamaged, std::move(refusal.message), where(), std::move(refusal.remedy)));
    };
    if (fields.size() != row_.size())
      return refuse({fmt::format("has {} fields where {} are expected", fields.size(), row_.size()), {}});
    for (std::size_t c = 0; c < row_.size(); ++c) {
      const ColumnKind kind = table_.columns[c].kind;
      if (kind == ColumnKind::kIgnored) continue;
      const bool taken = kind == ColumnKind::kNumeric ? take_number(c, fields[c]) : take_category(c, fields[c]);
      if (!taken) return refuse(refusal_of(c, fields[c]));
    }
    for (std::size_t c = 0; c < row_.size(); ++c) {
      if (table_.columns[c].kind != ColumnKind::kIgnored) table_.columns[c].values.push_back(row_[c]);
    }
    ++table_.rows;
  }

  Table finish() {
    if (table_.rows == 0) throw Error(ErrorKind::kDamaged, "has no row that can be used", file_);
    for (Column& column : table_.columns)
      column.values.shrink_to_fit();
    if (like_ == nullptr) {
      for (std::size_t c = 0; c < table_.columns.size(); ++c)
        sort_categories(table_.columns[c], codes_[c]);
      if (!options_.regression && target().categories.size() < 2) {
        throw Error(ErrorKind::kDamaged,
                    fmt::format("the target \"{}\" is \"{}\" in every row: there is nothing to learn", target().name,
                                excerpt(target().categories.front(), kExcerpt)),
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

  Column& target() { return table_.columns[table_.target]; }

  // Both put the field into row_, or return false.
  bool take_number(std::size_t c, std::string_view field) {
    if (const auto value = parse_float(field)) {
      row_[c] = *value;
      return true;
    }
    row_[c] = kMissing;
    return c != table_.target && is_missing(field);
  }
  bool take_category(std::size_t c, std::string_view field) {
    // What is known is a category; only of what is not it has to be asked whether it is missing.
    std::optional<std::size_t> code = codes_[c].find(field);
    if (!code) {
      const bool missing = is_missing(field);
      if (missing && c == table_.target) return false;
      code = code_of(c, missing ? std::string_view() : field);
    }
    row_[c] = code ? static_cast<float>(*code) : -1.0F;
    return code || c != table_.target;
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
            c == table_.target
                ? ""
                : "Repair it, set data.on_bad_sample = \"skip\", or add the column to data.categorical."};
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
  void require_columns(const std::vector<std::string>& names, const char* what) const {
    for (const std::string& name : names)
      position(name, what);
  }

  static bool looks_numeric(const std::vector<StoredRecord>& head, std::size_t c) {
    std::size_t numbers = 0;
    std::size_t present = 0;
    for (const StoredRecord& record : head) {
      if (c >= record.fields.size() || is_missing(record.fields[c])) continue;
      ++present;
      numbers += parse_float(record.fields[c]).has_value();
    }
    return 10 * numbers >= 9 * present;
  }

  void take_over(const Table& like) {
    if (like.columns.size() != table_.columns.size()) {
      throw Error(ErrorKind::kMismatch,
                  fmt::format("has {} columns and the training table {}", table_.columns.size(), like.columns.size()),
                  file_);
    }
    for (std::size_t c = 0; c < like.columns.size(); ++c) {
      if (like.columns[c].name != table_.columns[c].name) {
        throw Error(ErrorKind::kMismatch,
                    fmt::format("column {} is \"{}\" and in the training table \"{}\"", c + 1,
                                excerpt(table_.columns[c].name, kExcerpt), excerpt(like.columns[c].name, kExcerpt)),
                    file_);
      }
      table_.columns[c].kind = like.columns[c].kind;
      table_.columns[c].categories = like.columns[c].categories;
    }
    table_.target = like.target;
  }

  std::optional<std::size_t> code_of(std::size_t c, std::string_view category) {
    Codes& codes = codes_[c];
    if (const auto code = codes.find(category)) return code;
    if (like_ != nullptr) return std::nullopt;
    const std::size_t most = c == table_.target ? kMostClasses : kMostCategories;
    if (codes.size() >= most) {
      throw Error(ErrorKind::kDamaged,
                  fmt::format("column \"{}\" has more than {} different values, too many for categories",
                              table_.columns[c].name, most),
                  file_, "Add it to data.ignore, or to data.numeric if they are numbers.");
    }
    codes.add(category);
    return codes.size() - 1;
  }

  // The order of categories depends on what they are, not on which row has them first.
  static void sort_categories(Column& column, const Codes& codes) {
    if (column.kind != ColumnKind::kCategorical) return;
    std::vector<std::pair<std::string, std::size_t>> named = codes.all();
    const auto integer = [](const std::string& text) -> std::optional<std::int64_t> {
      std::int64_t value = 0;
      const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
      if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
      return value;
    };
    const bool integers =
        std::all_of(named.begin(), named.end(), [&](const auto& entry) { return integer(entry.first).has_value(); });
    std::sort(named.begin(), named.end(), [&](const auto& a, const auto& b) {
      if (integers && *integer(a.first) != *integer(b.first)) return *integer(a.first) < *integer(b.first);
      return a.first < b.first;
    });
    std::vector<float> renamed(named.size());
    for (std::size_t i = 0; i < named.size(); ++i) {
      renamed[named[i].second] = static_cast<float>(i);
      column.categories.push_back(named[i].first);
    }
    for (float& value : column.values)
      value = renamed[static_cast<std::size_t>(value)];
  }

  const TableOptions& options_;
  BadSamples& bad_;
  const Table* const like_;
  const std::string file_;
  Table table_;
  std::vector<Codes> codes_;  // by column
  std::vector<float> row_;    // what add() has of the row so far
};

std::vector<std::string> owned(const std::vector<std::string_view>& fields) {
  return {fields.begin(), fields.end()};
}

}  // namespace

bool is_missing(std::string_view field) {
  while (!field.empty() && field.front() == ' ')
    field.remove_prefix(1);
  while (!field.empty() && field.back() == ' ')
    field.remove_suffix(1);
  if (field.empty()) return true;
  if (field.size() > 4) return false;
  constexpr std::array<std::string_view, 6> kWords{"NA", "N/A", "null", "NULL", "None", "?"};
  return std::find(kWords.begin(), kWords.end(), field) != kWords.end();
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
      head.push_back({names, reader.where()});
      for (std::size_t c = 0; c < names.size(); ++c)
        names[c] = fmt::format("{}", c);
    }
    builder.name_columns(names);
    while (head.size() < kInferenceRows && reader.next(fields))
      head.push_back({owned(fields), reader.where()});
    builder.choose_kinds(head);
    for (const StoredRecord& record : head)
      builder.add(record.fields, [&] { return record.where; });
    head.clear();
    while (reader.next(fields))
      builder.add(fields, [&] { return reader.where(); });
    return builder.finish();
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kResource, "its rows do not fit into memory", file,
                "Leave columns out with data.ignore, or pack the data on a machine that holds it (muster data pack).");
  }
}

Table read_table(const std::filesystem::path& path, const TableOptions& options, BadSamples& bad, const Table* like) {
  CsvReader reader(ByteReader::open(path), path.string(), options.delimiter);
  return read_table(reader, options, bad, like);
}

}  // namespace muster::data
