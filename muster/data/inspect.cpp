// From cheap looks to dear ones: names, then first bytes, then a sample of the contents. It only proposes; what it
// proposes is opened by the same code as a job's data.
#include "muster/data/inspect.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/byte_reader.h"
#include "muster/data/csv_reader.h"
#include "muster/data/inspect_table.h"
#include "muster/data/picture_parts.h"
#include "muster/data/source_parts.h"
#include "muster/data/table.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFront = std::size_t{64} << 10;

// The ending of a name, that of its compression aside: "a.csv.gz" is ".csv".
std::string ending(fs::path path) {
  if (path.extension() == ".gz" || path.extension() == ".zst") path.replace_extension();
  return lower_case(path.extension().string());
}

std::string front_of(const fs::path& path) {
  const auto reader = ByteReader::open(path);
  std::string front(kFront, '\0');
  front.resize(reader->read(std::as_writable_bytes(std::span(front))));
  return front;
}

enum class Characters { kNone, kUtf8, kLatin1 };

// What the bytes are as text. Text has no control characters but those that lay it out.
Characters characters_of(std::string_view front) {
  const bool printable = std::all_of(front.begin(), front.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 || (c >= '\t' && c <= '\r');
  });
  if (front.empty()) return Characters::kNone;
  if (valid_utf8_prefix(front) + 4 > front.size() && front.find('\0') == std::string::npos) return Characters::kUtf8;
  return printable ? Characters::kLatin1 : Characters::kNone;
}

Finding found(const char* source, const fs::path& path, std::string reason) {
  Finding finding;
  finding.options.source = source;
  finding.options.path = path;
  finding.reasons.push_back(std::move(reason));
  return finding;
}

Finding inspect_arrays(const fs::path& path, const char* reason, const InspectOptions& wishes) {
  Finding finding = found("numpy", path, reason);
  const ArrayTargetLook look = look_at_targets(path);
  finding.options.table.regression = wishes.task.empty() ? !look.classes : wishes.task == "regression";
  finding.reasons.push_back(fmt::format("to predict: {}", finding.options.table.regression
                                                              ? look.width == 1
                                                                    ? "a number, as y is no whole numbers"
                                                                    : fmt::format("{} numbers a sample", look.width)
                                                              : "classes, as y is whole numbers"));
  return finding;
}

// What lies in a folder and up to two below it.
struct Contents {
  std::vector<fs::path> tables;  // in the folder itself, as the next
  std::vector<fs::path> texts;
  std::vector<fs::path> pictures;             // in the folder itself
  std::vector<fs::path> folders_of_pictures;  // below it
  std::size_t pictures_below = 0;
  bool packed = false;
};

void count_pictures_below(const fs::path& path, int depth, Contents& contents) {
  for (const auto& entry : fs::directory_iterator(path)) {
    if (!entry.is_directory() || entry.path().filename().native().front() == '.') continue;
    std::size_t here = 0;
    for (const auto& file : fs::directory_iterator(entry.path()))
      here += is_picture_name(file.path());
    contents.pictures_below += here;
    if (here > 0) contents.folders_of_pictures.push_back(entry.path());
    if (depth > 1) count_pictures_below(entry.path(), depth - 1, contents);
  }
}

Contents contents_of(const fs::path& path) {
  Contents contents;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string end = ending(entry.path());
    contents.packed |= end == ".pack";
    if (end == ".txt") contents.texts.push_back(entry.path());
    if (end == ".csv") contents.tables.push_back(entry.path());
    if (is_picture_name(entry.path())) contents.pictures.push_back(entry.path());
  }
  count_pictures_below(path, 2, contents);
  std::sort(contents.pictures.begin(), contents.pictures.end());
  std::sort(contents.folders_of_pictures.begin(), contents.folders_of_pictures.end());
  return contents;
}

void choose_shape(Finding& finding, const std::vector<fs::path>& pictures, const InspectOptions& wishes) {
  if (!wishes.shape.empty()) {
    finding.options.shape = wishes.shape;
    return;
  }
  const std::int64_t side = usual_side(pictures);
  finding.options.shape = {3, side, side};
  finding.reasons.push_back(fmt::format("pictures become {0} x {0}, by the size of those that are there", side));
}

std::vector<fs::path> pictures_in(const std::vector<fs::path>& folders) {
  std::vector<fs::path> pictures;
  for (const fs::path& folder : folders) {
    for (const auto& entry : fs::directory_iterator(folder))
      if (is_picture_name(entry.path())) pictures.push_back(entry.path());
  }
  std::sort(pictures.begin(), pictures.end());
  return pictures;
}

// Whether a column of the table names pictures of the folder, and which.
std::optional<std::size_t> column_of_pictures(const fs::path& table, const TableOptions& options,
                                              const fs::path& folder, std::vector<std::string>& names) {
  constexpr int kTried = 10;
  CsvReader reader = open_csv(table, options);
  std::vector<std::string_view> fields;
  if (!reader.next(fields)) return std::nullopt;
  for (const std::string_view field : fields)
    names.emplace_back(trimmed(field));
  // A name as it stands counts more than one to which an ending was found: numbers of rows are often such.
  std::vector<int> hits(names.size());
  int rows = 0;
  for (; rows < kTried && reader.next(fields); ++rows) {
    for (std::size_t c = 0; c < std::min(fields.size(), names.size()); ++c) {
      const std::string name(trimmed(fields[c]));
      if (const auto found_as = find_picture(folder, name)) hits[c] += *found_as == name ? 3 : 2;
    }
  }
  const auto best = std::max_element(hits.begin(), hits.end());
  if (rows == 0 || *best <= rows) return std::nullopt;
  return static_cast<std::size_t>(best - hits.begin());
}

// Pictures with a table beside them that says what they are.
std::optional<Finding> inspect_labels(const fs::path& path, const Contents& contents, const InspectOptions& wishes) {
  if (contents.tables.size() != 1) return std::nullopt;
  const fs::path& table = contents.tables.front();
  const bool latin1 = characters_of(front_of(table)) == Characters::kLatin1;
  const std::optional<TableOptions> columns = find_columns(table, latin1, true);
  if (!columns) return std::nullopt;
  std::vector<fs::path> folders{path};
  // Of several they are more likely the classes, and a name without them could be in any.
  if (contents.folders_of_pictures.size() == 1) folders.push_back(contents.folders_of_pictures.front());
  for (const fs::path& folder : folders) {
    std::vector<std::string> names;
    const std::optional<std::size_t> files = column_of_pictures(table, *columns, folder, names);
    if (!files || names.size() < 2) continue;
    Finding finding =
        found("pictures", folder, fmt::format("pictures whose classes are in {}", table.filename().string()));
    finding.options.labels = {table, names[*files]};
    finding.options.table.delimiter = columns->delimiter;
    finding.options.table.latin1 = latin1;
    std::vector<bool> may_be(names.size(), true);
    may_be[*files] = false;
    finding.options.table.target = wishes.targets.empty() ? names[find_target(names, may_be)] : wishes.targets.front();
    finding.reasons.push_back(fmt::format("to predict: \"{}\"", excerpt(finding.options.table.target, 60)));
    choose_shape(finding, folder == path ? contents.pictures : pictures_in({folder}), wishes);
    return finding;
  }
  return std::nullopt;
}

Finding inspect_folder(const fs::path& path, const InspectOptions& wishes) {
  const auto has = [&](const char* name) { return fs::exists(path / name); };
  if (has("train-images-idx3-ubyte") || has("train-images-idx3-ubyte.gz"))
    return found("idx", path, "a folder with MNIST's file names");
  if (has("data_batch_1.bin")) return found("cifar10", path, "a folder with CIFAR-10's file names");
  if (has("x.npy") || has("x_train.npy")) return inspect_arrays(path, "a folder with NumPy arrays", wishes);
  const Contents contents = contents_of(path);
  if (contents.packed) return found("packed", path, "a folder of packed shards");
  if (!contents.pictures.empty() || contents.pictures_below > 0) {
    if (std::optional<Finding> labelled = inspect_labels(path, contents, wishes)) return *labelled;
  }
  // A word about the pictures, or a list of them, makes no text of a folder of pictures; nor one picture of texts.
  if (contents.pictures_below > contents.texts.size()) {
    Finding finding = found("pictures", path, "folders of pictures, one for each class");
    choose_shape(finding, pictures_in(contents.folders_of_pictures), wishes);
    return finding;
  }
  if (contents.tables.size() == 1) return inspect(contents.tables.front(), wishes);
  if (contents.texts.size() > contents.pictures.size()) return found("text", path, "a folder of text files");
  if (!contents.pictures.empty()) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("holds {} pictures, and nothing says what they are of", contents.pictures.size()),
                path.string(),
                "Put them into one folder for each class, or beside them a CSV file with their names and classes.");
  }
  throw Error(ErrorKind::kInvalidInput, "holds nothing that a source reads", path.string(),
              "muster data lists the sources and what they read.");
}

// A list of pictures is no table to learn from: the names are of no use without the pictures.
void refuse_labels_alone(const fs::path& path, const TableOptions& columns, const InspectOptions& wishes) {
  constexpr std::size_t kTried = 10;
  const fs::path folder = fs::absolute(path).parent_path();
  std::vector<std::string> names;
  std::optional<std::size_t> files = column_of_pictures(path, columns, folder, names);
  std::vector<std::size_t> hits(names.size());
  CsvReader reader = open_csv(path, columns);
  std::vector<std::string_view> fields;
  std::size_t rows = 0;
  reader.next(fields);
  for (; rows < kTried && reader.next(fields); ++rows) {
    for (std::size_t c = 0; c < std::min(fields.size(), names.size()); ++c)
      hits[c] += is_picture_name(fs::path(trimmed(fields[c])));
  }
  for (std::size_t c = 0; !files && c < hits.size(); ++c)
    if (rows > 0 && hits[c] == rows) files = c;
  if (!files || std::find(wishes.ignore.begin(), wishes.ignore.end(), names[*files]) != wishes.ignore.end()) return;
  const fs::path shown = path.has_parent_path() ? path.parent_path() : fs::path(".");
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("column \"{}\" names pictures: these are labels, and no table to learn from",
                          excerpt(names[*files], 60)),
              path.string(),
              fmt::format("Look at the folder of the pictures, with this file in it: muster init {}. --ignore \"{}\" "
                          "learns from the other columns alone.",
                          shown.string(), excerpt(names[*files], 60)));
}

Finding inspect_file(const fs::path& path, const InspectOptions& wishes) {
  const std::string front = front_of(path);
  const std::string name = ending(path);
  if (std::string_view(front).starts_with("PK\x03\x04"))
    return inspect_arrays(path, "an archive of NumPy arrays", wishes);
  const bool called_table = name == ".csv" || name == ".tsv";
  const Characters characters = characters_of(front);
  if (characters == Characters::kNone) {
    throw Error(ErrorKind::kInvalidInput, front.empty() ? "is empty" : "is nothing that a source reads", path.string(),
                "muster data lists the sources and what they read.");
  }
  const bool latin1 = characters == Characters::kLatin1;
  const bool text_wanted = name == ".txt" || wishes.task == "language";
  const auto columns = text_wanted && wishes.targets.empty() ? std::nullopt : find_columns(path, latin1, called_table);
  if (columns) {
    refuse_labels_alone(path, *columns, wishes);
    return inspect_table(path, *columns, wishes);
  }
  if (called_table && std::string_view(front).substr(0, front.find_last_not_of("\r\n") + 1).find('\n') == front.npos)
    throw Error(ErrorKind::kInvalidInput, "has one line alone: a table has a line for each sample", path.string(),
                "Look at what has written it.");
  if (called_table)
    throw Error(ErrorKind::kInvalidInput, "is called a table and has no columns: nothing cuts its lines alike",
                path.string(), "Columns are separated by a comma, a tab, a semicolon, a bar or a space.");
  Finding finding = found("text", path, latin1 ? "text, in Latin-1" : "text");
  finding.options.text.latin1 = latin1;
  return finding;
}

// Wishes that have no meaning for what was found would be lost without a word.
void check_wishes(const Finding& finding, const InspectOptions& wishes, const fs::path& path) {
  const std::string& source = finding.options.source;
  const auto refuse = [&](const char* flag, const char* goes_with) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("is for the source \"{}\", where {} has no effect", source, flag),
                path.string(), fmt::format("It goes with {}. Leave it out.", goes_with));
  };
  if (!wishes.targets.empty() && source != "csv" && source != "pictures") refuse("--target", "tables");
  if (!wishes.targets.empty() && source == "pictures" && finding.options.labels.file.empty())
    refuse("--target", "tables, and with pictures that have a table of labels");
  if (!wishes.ignore.empty() && source != "csv") refuse("--ignore", "tables");
  if (!wishes.shape.empty() && source != "pictures") refuse("--shape", "pictures");
  const bool language = source == "text";
  const bool numbers = source == "csv" || source == "numpy";
  if (!wishes.task.empty() && (wishes.task == "language") != language)
    refuse("this --task", language ? "tables, arrays and pictures" : "text");
  if (wishes.task == "regression" && !numbers) refuse("--task regression", "tables and arrays");
}

}  // namespace

Finding inspect(const fs::path& path, const InspectOptions& wishes) {
  Finding finding = fs::is_directory(path) ? inspect_folder(path, wishes) : inspect_file(path, wishes);
  check_wishes(finding, wishes, path);
  return finding;
}

}  // namespace muster::data
