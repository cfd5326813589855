// Guesses about a table, each from counts over its rows: which delimiter gives rows of one length, which columns are
// numbers, which are names of rows and say nothing about rows to come.
#include "muster/data/inspect_table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/csv_reader.h"
#include "muster/data/table.h"

namespace muster::data {
namespace {

constexpr std::size_t kRows = 4096;
constexpr std::size_t kMostClasses = 20;  // of numbers; more different ones are quantities

using Rows = std::vector<std::vector<std::string>>;

Rows read_rows(const std::filesystem::path& path, const TableOptions& table, std::size_t most) {
  CsvReader reader = open_csv(path, table);
  std::vector<std::string_view> fields;
  Rows rows;
  while (rows.size() < most && reader.next(fields)) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const std::string_view field : fields)
      row.emplace_back(trimmed(field));
  }
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

// How many fields nearly every row has; 0 if they differ.
std::size_t common_fields(const Rows& rows) {
  if (rows.size() < 2) return 0;
  const std::size_t fields = usual_fields(rows);
  const auto same = static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [&](const auto& row) { return row.size() == fields; }));
  return 10 * same >= 9 * rows.size() ? fields : 0;
}

// Whether commas stand in these fields only where numbers have their fraction, and somewhere they do.
bool has_decimal_commas(const Rows& rows) {
  TableOptions comma;
  comma.decimal = ',';
  bool any = false;
  for (const auto& row : rows) {
    for (const std::string& field : row) {
      if (field.find(',') == std::string::npos) continue;
      if (!parse_number(field, comma)) return false;
      any = true;
    }
  }
  return any;
}

// Whether the comma of a number can only be that before its fraction: behind those of thousands are three digits, and
// no thousands begin with a zero.
bool is_surely_fraction(std::string_view number) {
  const std::size_t comma = number.find(',');
  if (comma == std::string_view::npos) return false;
  std::size_t end = comma + 1;
  while (end < number.size() && std::isdigit(static_cast<unsigned char>(number[end])) != 0)
    ++end;
  std::string_view whole = number.substr(0, comma);
  if (!whole.empty() && (whole.front() == '-' || whole.front() == '+')) whole.remove_prefix(1);
  return end - comma - 1 != 3 || whole.size() > 3 || whole.empty() || whole.front() == '0';
}

bool has_sure_fraction(const Rows& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const auto& row) { return std::any_of(row.begin(), row.end(), is_surely_fraction); });
}

// A header is words above a column that holds numbers, or a first row of words that are all different and do not come
// again. The first column may be without a name: programs write the numbers of rows so.
bool has_header(const Rows& rows, const TableOptions& table) {
  const auto& first = rows.front();
  for (std::size_t c = 0; c < first.size(); ++c) {
    const bool unnamed = c == 0 && first[c].empty();
    if (!unnamed && (parse_number(first[c], table) || is_missing(first[c]))) return false;
  }
  for (std::size_t c = 0; c < first.size(); ++c) {
    for (std::size_t r = 1; r < rows.size(); ++r) {
      if (c >= rows[r].size()) continue;
      if (parse_number(rows[r][c], table)) return true;
      if (rows[r][c] == first[c]) return false;
    }
  }
  return std::set<std::string>(first.begin(), first.end()).size() == first.size();
}

// What the values of a column are, over the whole file.
struct ColumnLook {
  std::uint64_t present = 0;
  std::uint64_t numbers = 0;
  std::unordered_set<std::string> different = {};  // at most one more than a column of categories may have

  bool numeric() const { return 10 * numbers >= 9 * present; }
  // Names, sentences: what hardly ever comes again says nothing about rows to come.
  bool is_free_text() const { return !numeric() && present >= 20 && 2 * different.size() > present; }
  bool has_too_many() const { return !numeric() && different.size() > kMostCategories; }
  bool is_quantity() const { return present > 0 && numbers == present && different.size() > kMostClasses; }
};

std::vector<ColumnLook> look_at_columns(const std::filesystem::path& path, const TableOptions& table,
                                        std::size_t columns) {
  std::vector<ColumnLook> looks(columns);
  CsvReader reader = open_csv(path, table);
  std::vector<std::string_view> fields;
  if (table.header) reader.next(fields);
  while (reader.next(fields)) {
    if (fields.size() != columns) continue;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string_view field = trimmed(fields[c]);
      if (is_missing(field)) continue;
      ColumnLook& look = looks[c];
      ++look.present;
      look.numbers += parse_number(field, table).has_value();
      if (look.different.size() <= kMostCategories) look.different.emplace(field);
    }
  }
  return looks;
}

// Numbers that count rows or name things, all of them different, say nothing about rows to come.
bool names_rows(const std::string& column) {
  const std::string name = lower_case(column);
  return name == "id" || name.ends_with("_id") || name == "index" || name.empty();
}

void choose_targets(TableOptions& table, const std::vector<std::string>& names, const std::vector<ColumnLook>& looks,
                    const InspectOptions& wishes, const std::filesystem::path& path) {
  if (wishes.targets.size() > 1) {
    table.targets = wishes.targets;
    return;
  }
  if (!wishes.targets.empty()) {
    table.target = wishes.targets.front();
    return;
  }
  std::vector<bool> may_be(names.size());
  for (std::size_t c = 0; c < names.size(); ++c) {
    const bool ignored = std::find(wishes.ignore.begin(), wishes.ignore.end(), names[c]) != wishes.ignore.end();
    may_be[c] = !ignored && !names_rows(names[c]) && !looks[c].is_free_text() && looks[c].different.size() > 1;
  }
  if (std::find(may_be.begin(), may_be.end(), true) == may_be.end())
    throw Error(ErrorKind::kInvalidInput, "has no column that looks like something to predict", path.string(),
                "Name it with --target.");
  table.target = names[find_target(names, may_be)];
}

Error no_numbers(const std::string& column, const ColumnLook& look, const std::filesystem::path& path) {
  // The least of them, so that the message is the same every time.
  const std::set<std::string> values(look.different.begin(), look.different.end());
  const auto word = std::find_if(values.begin(), values.end(),
                                 [](const std::string& value) { return !parse_number(value, {}).has_value(); });
  return {ErrorKind::kInvalidInput,
          fmt::format("column \"{}\" is no number: it has \"{}\", and --task regression predicts numbers",
                      excerpt(column, 60), excerpt(word == values.end() ? *values.begin() : *word, 40)),
          path.string(), "Leave --task out for a column of words, or name a column of numbers with --target."};
}

}  // namespace

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::size_t find_target(const std::vector<std::string>& names, const std::vector<bool>& may_be) {
  constexpr std::array<std::string_view, 8> kUsual{"target",  "label",   "class", "y",
                                                   "outcome", "species", "price", "value"};
  for (const std::string_view usual : kUsual) {
    for (std::size_t c = 0; c < names.size(); ++c) {
      if (may_be[c] && lower_case(names[c]) == usual) return c;
    }
  }
  for (std::size_t c = names.size(); c-- > 0;) {
    if (may_be[c]) return c;
  }
  return names.size() - 1;
}

std::optional<TableOptions> find_columns(const std::filesystem::path& path, bool latin1, bool called_table) {
  std::optional<TableOptions> best;
  std::size_t most = 1;
  for (const char delimiter : {',', '\t', ';', '|', ' '}) {
    if (delimiter == ' ' && (best || !called_table)) continue;
    TableOptions table;
    table.delimiter = delimiter;
    table.latin1 = latin1;
    Rows rows;
    try {
      rows = read_rows(path, table, 100);
    } catch (const Error&) {
      continue;  // not quoted as a table of this delimiter would be
    }
    const std::size_t fields = common_fields(rows);
    if (fields < 2) continue;
    // A comma that only ever stands in numbers cuts every line alike, too, and into more fields. Where commas separate
    // the columns such numbers stand in quotes, as those do whose commas separate thousands.
    if (delimiter != ' ' && has_decimal_commas(rows) && (delimiter != ',' || has_sure_fraction(rows))) {
      table.decimal = ',';
      return table;
    }
    if (fields > most) {
      most = fields;
      best = table;
    }
  }
  return best;
}

Finding inspect_table(const std::filesystem::path& path, const TableOptions& found, const InspectOptions& wishes) {
  Finding finding;
  finding.options.source = "csv";
  finding.options.path = path;
  TableOptions& table = finding.options.table = found;
  const Rows rows = read_rows(path, table, kRows);
  if (const std::size_t usual = usual_fields(rows); rows.front().size() != usual) {
    throw Error(
        ErrorKind::kInvalidInput, fmt::format("has {} fields where most lines have {}", rows.front().size(), usual),
        fmt::format("{}:1", path.string()), "Take the first line out of the file, or make it name every column.");
  }
  table.header = has_header(rows, table);
  std::vector<std::string> names = rows.front();
  for (std::size_t c = 0; !table.header && c < names.size(); ++c)
    names[c] = fmt::format("{}", c);
  const std::vector<ColumnLook> looks = look_at_columns(path, table, names.size());
  choose_targets(table, names, looks, wishes, path);
  const auto is_target = [&](const std::string& name) {
    return name == table.target || std::find(table.targets.begin(), table.targets.end(), name) != table.targets.end();
  };
  const auto position = static_cast<std::size_t>(std::find(names.begin(), names.end(), table.target) - names.begin());
  table.regression = !wishes.task.empty()
                         ? wishes.task == "regression"
                         : !table.targets.empty() || (position < looks.size() && looks[position].is_quantity());
  if (wishes.task == "regression") {
    for (std::size_t c = 0; c < names.size(); ++c)
      if (is_target(names[c]) && !looks[c].numeric()) throw no_numbers(names[c], looks[c], path);
  }
  finding.reasons.push_back(fmt::format("a table of {} columns separated by {}, {}{}{}", names.size(),
                                        table.delimiter == '\t' ? "tabs" : fmt::format("\"{}\"", table.delimiter),
                                        table.header ? "with a header" : "without a header",
                                        table.decimal == ',' ? ", with decimal commas" : "",
                                        table.latin1 ? ", in Latin-1" : ""));
  const std::string target = table.targets.empty() ? fmt::format("\"{}\"", excerpt(table.target, 60))
                                                   : excerpt(join_words(table.targets), 200);
  const char* const as = !table.regression       ? "whose values are classes"
                         : table.targets.empty() ? "as a number"
                                                 : "as numbers";
  finding.reasons.push_back(fmt::format("to predict: {}, {}", target, as));
  table.ignore = wishes.ignore;
  for (std::size_t c = 0; c < names.size(); ++c) {
    const std::string& name = names[c];
    if (is_target(name) || std::find(table.ignore.begin(), table.ignore.end(), name) != table.ignore.end()) continue;
    const char* reason = names_rows(name)          ? "it only names rows"
                         : looks[c].has_too_many() ? "it has more than 1,000 different values that are no numbers"
                         : looks[c].is_free_text() ? "its values hardly ever come again"
                                                   : nullptr;
    if (reason == nullptr) continue;
    table.ignore.push_back(name);
    finding.reasons.push_back(fmt::format("left out the column \"{}\": {}", excerpt(name, 60), reason));
  }
  return finding;
}

}  // namespace muster::data
