// One document, two readers: the space reads itself, all else is given to the schema as dotted keys that stand on the
// lines they had, so that errors name the user's lines.
#include "muster/tuning/study_file.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/base/toml_text.h"
#include "muster/base/toml_value.h"
#include "muster/tuning/registry.h"

namespace muster::tuning {
namespace {

constexpr std::string_view kSpace = "space";
constexpr std::string_view kPoints = "points";
constexpr double kMany = 1e15;

std::string printed(const TomlValue& value) {
  if (const auto* flag = value.get<bool>()) return *flag ? "true" : "false";
  if (const auto* whole = value.get<std::int64_t>()) return std::to_string(*whole);
  if (const auto* real = value.get<double>()) return to_toml(Value(*real));
  if (const auto* text = value.get<std::string>()) return to_toml(Value(*text));
  if (const auto* array = value.get<TomlValue::Array>()) {
    std::string inner;
    for (const TomlValue& element : *array)
      inner += (inner.empty() ? "" : ", ") + printed(element);
    return "[" + inner + "]";
  }
  if (const auto* table = value.get<TomlValue::Table>()) {
    std::string inner;
    for (const TomlEntry& entry : *table)
      inner += fmt::format("{}{} = {}", inner.empty() ? "" : ", ", to_toml(Value(entry.key)), printed(entry.value));
    return "{" + inner + "}";
  }
  return "1970-01-01";  // a date: the schema refuses it as what it is
}

// All but the space and the points, each key on its line.
std::string without_space(const TomlValue& document) {
  struct Line {
    std::uint64_t number;
    std::string text;
  };
  std::vector<Line> lines;
  for (const TomlEntry& section : *document.get<TomlValue::Table>()) {
    if (section.key == kSpace || section.key == kPoints) continue;
    const auto* keys = section.value.get<TomlValue::Table>();
    const std::string name = to_toml(Value(section.key));
    if (keys == nullptr) {
      lines.push_back({section.value.line, fmt::format("{} = {}", name, printed(section.value))});
      continue;
    }
    for (const TomlEntry& entry : *keys) {
      // One objective need not be an array of one.
      const bool one = section.key == "study" && (entry.key == "objective" || entry.key == "goal") &&
                       entry.value.get<std::string>() != nullptr;
      const std::string value = one ? "[" + printed(entry.value) + "]" : printed(entry.value);
      lines.push_back({entry.value.line, fmt::format("{}.{} = {}", name, to_toml(Value(entry.key)), value)});
    }
  }
  std::ranges::stable_sort(lines, {}, &Line::number);
  std::string text;
  std::uint64_t at = 1;
  for (const Line& line : lines) {
    for (; at < line.number; ++at)
      text += '\n';
    text += line.text + "\n";
    ++at;
  }
  return text;
}

const TomlValue* toml_member(const TomlValue& document, std::string_view key) {
  for (const TomlEntry& entry : *document.get<TomlValue::Table>()) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

// [search] and [schedule] have the keys of who is named there.
template <typename AnyChoice>
AnyChoice named_in(const TomlValue& document, std::string_view section, AnyChoice otherwise,
                   const std::function<AnyChoice(std::string_view)>& named_by, const std::string& file) {
  const TomlValue* table = toml_member(document, section);
  const TomlValue* name =
      table != nullptr && table->get<TomlValue::Table>() != nullptr ? toml_member(*table, "name") : nullptr;
  const std::string* text = name != nullptr ? name->get<std::string>() : nullptr;
  if (text == nullptr) return otherwise;  // the schema says what is wrong with it
  try {
    return named_by(*text);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}.name: {}", section, error.message()),
                fmt::format("{}:{}", file, name->line), error.remedy());
  }
}

void describe_study(Schema& schema, StudyFile& file) {
  Section& s = schema.section("study", "What is searched for, and where it is kept.");
  s.field("name", &file.name, "Names the study's folder. Default: the file's name.");
  s.field("job", &file.job, "The job file that every trial trains, as seen from this file.");
  s.field("program", &file.program,
          "Instead of job: a program and its arguments, started by muster run. {KEY} stands for the value of a key, "
          "{folder} for the trial's folder, {trial} for its number, {until} for the epoch to train to.");
  s.field("objective", &file.objectives,
          "What trials are judged by: names of figures of a validation (loss, accuracy, ...). Two of them: a Pareto "
          "front.")
      .non_empty();
  s.field("goal", &file.goals,
          "minimise or maximise, for each objective. Empty: accuracies and scores are maximised, others minimised.")
      .one_of({"minimise", "maximise"});
  s.field("seed", &file.seed, "Of what is proposed.").range(0, kMany);
  s.field("folder", &file.folder, "Folder of studies, as seen from where muster is started.").non_empty();
  s.field("retries", &file.retries, "How often a trial that died goes on from its checkpoint before it has failed.")
      .range(0, 1000);
  s.field("keep", &file.keep,
          "Whose checkpoints stay: \"best\": of the best trial (and of paused ones); \"all\": of every trial.")
      .one_of({"best", "all"});
  s.field("warm_start", &file.warm_start, "Folders of earlier studies whose results are known from the start.");
}

void describe_budget(Schema& schema, StudyFile& file) {
  Section& b = schema.section("budget", "What the study may spend; 0: no limit. The first that is reached ends it.");
  b.field("trials", &file.budget.trials, "Trials that are begun.").range(0, kMany);
  b.field("epochs", &file.budget.epochs, "Epochs of all trials.").range(0, kMany);
  b.field("processor_minutes", &file.budget.processor_minutes, "Processor time of all processes of all trials.")
      .range(0, kMany);
  b.field("minutes", &file.budget.minutes, "Time in which the study works; of several processes at once each counts.")
      .range(0, kMany);
  Section& t = schema.section("trials", "What a trial gets.");
  t.field(
       "parallel", &file.trials.parallel,
       "Trials at once. Not set or \"auto\": as many as cores and memory allow, by the job's workers and threads and "
       "by the check that muster check --memory makes.")
      .range(1, 1024);
  t.field("workers", &file.trials.workers, "Worker processes of a trial. Not set: as the job says; 1 for a program.")
      .range(1, 64);
  t.field("threads", &file.trials.threads, "Of a program: threads of each worker.").range(1, 1024);
  t.field("epochs", &file.trials.epochs,
          "Of a program: epochs of a whole trial, for schedulers. A job says it itself (job.epochs).")
      .range(1, 1e9);
}

Schema schema_of(StudyFile& file, std::string& searcher, std::string& scheduler) {
  Schema schema;
  describe_study(schema, file);
  describe_budget(schema, file);
  Section& search = schema.section("search", "Who proposes values; its own keys stand beside its name.");
  search.field("name", &searcher, "docs/tuning-searchers.md says which one when.").one_of(searcher_names());
  file.searcher.add_keys(search);
  Section& schedule = schema.section("schedule", "Who stops trials early, and lets good ones go on.");
  schedule.field("name", &scheduler, "docs/tuning-searchers.md says which one when.").one_of(scheduler_names());
  file.scheduler.add_keys(schedule);
  return schema;
}

// Values of one point: a table, dotted keys or quoted ones.
void collect(const TomlValue::Table& table, const std::string& prefix, Assignment& values, const std::string& place) {
  for (const TomlEntry& entry : table) {
    const std::string name = prefix.empty() ? entry.key : prefix + "." + entry.key;
    if (const auto* inner = entry.value.get<TomlValue::Table>()) {
      collect(*inner, name, values, place);
    } else if (const auto* flag = entry.value.get<bool>()) {
      values.set(name, *flag);
    } else if (const auto* whole = entry.value.get<std::int64_t>()) {
      values.set(name, *whole);
    } else if (const auto* real = entry.value.get<double>()) {
      values.set(name, *real);
    } else if (const auto* text = entry.value.get<std::string>()) {
      values.set(name, *text);
    } else {
      throw Error(ErrorKind::kInvalidInput, fmt::format("{}: a point has plain values", name), place);
    }
  }
}

// In the order and with the types of the space: 1 stands for 1.0 where a real number is meant.
Assignment fitted(const Space& space, const Assignment& given, const std::string& place) {
  Assignment values;
  for (const Parameter& parameter : space.parameters()) {
    const Value* value = given.find(parameter.name);
    if (value == nullptr) continue;
    const auto* whole = std::get_if<std::int64_t>(value);
    if (parameter.kind == Kind::kReal && whole != nullptr)
      values.set(parameter.name, static_cast<double>(*whole));
    else
      values.set(parameter.name, *value);
  }
  for (const auto& [name, value] : given.entries()) {
    if (space.find(name) == nullptr)
      throw Error(ErrorKind::kInvalidInput, fmt::format("{} is not in [space]", name), place);
  }
  try {
    space.check(values);
  } catch (const Error& error) {
    const std::string key = error.where().empty() ? "" : error.where() + ": ";
    throw Error(error.kind(), key + error.message(), place, error.remedy());
  }
  return values;
}

std::vector<Assignment> points_of(const TomlValue& document, const Space& space, const std::string& file) {
  std::vector<Assignment> points;
  const TomlValue* given = toml_member(document, kPoints);
  if (given == nullptr) return points;
  const auto* array = given->get<TomlValue::Array>();
  if (array == nullptr)
    throw Error(ErrorKind::kInvalidInput, "points are tables, each below a line [[points]]",
                fmt::format("{}:{}", file, given->line));
  for (const TomlValue& point : *array) {
    const std::string place = fmt::format("{}:{}", file, point.line);
    const auto* table = point.get<TomlValue::Table>();
    if (table == nullptr) throw Error(ErrorKind::kInvalidInput, "a point is a table of values", place);
    Assignment values;
    collect(*table, {}, values, place);
    points.push_back(fitted(space, values, place));
  }
  return points;
}

// Every prefix that is a table has a line, and so has every key; what is no key of the space does no harm.
void collect_lines(const TomlValue::Table& table, const std::string& prefix,
                   std::map<std::string, std::uint64_t>& lines) {
  for (const TomlEntry& entry : table) {
    const std::string name = prefix.empty() ? entry.key : prefix + "." + entry.key;
    lines[name] = entry.value.line;
    if (const auto* inner = entry.value.get<TomlValue::Table>()) collect_lines(*inner, name, lines);
  }
}

void check_whole(const Schema& schema, const StudyFile& file) {
  if (!file.job.empty() && !file.program.empty())
    throw schema.invalid("study.program", "beside study.job", "A study has one of them: remove the other.");
  if (file.objectives.size() > 2) throw schema.invalid("study.objective", "one or two, not more");
  if (file.objectives.size() == 2 && file.objectives.front() == file.objectives.back())
    throw schema.invalid("study.objective", fmt::format("\"{}\" twice", excerpt(file.objectives.front(), 100)),
                         "Name it once: a front is of two different figures.");
  if (!file.goals.empty() && file.goals.size() != file.objectives.size())
    throw schema.invalid("study.goal", fmt::format("{} for {} objectives", file.goals.size(), file.objectives.size()),
                         "Give one for each, or none.");
  if (file.space.size() == 0)
    throw Error(ErrorKind::kInvalidInput, "[space] names no key: there is nothing to search", file.path,
                "For example: [space], and below it optimizer.lr = { log = [1e-4, 1.0] }.");
}

// What `make` makes; its errors get the place in the file.
template <typename Make>
auto made_at(const std::string& place, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    const std::string key = error.where().empty() ? "" : error.where() + ": ";
    throw Error(error.kind(), key + error.message(), place, error.remedy());
  }
}

// Only a searcher that has nothing left to propose ends a study by itself.
void require_end(const StudyPlan& plan, const StudyFile& file) {
  const auto searcher = made_at(file.where("[search] name"), [&] { return plan.searcher.make(plan.search_problem()); });
  const std::string& path = file.path;
  if (plan.budget != Budget{} || searcher->most()) return;
  throw Error(ErrorKind::kInvalidInput, "the study has no budget and would never end", path,
              "For example: [budget], and below it trials = 50.");
}

}  // namespace

Goal usual_goal(std::string_view metric) {
  for (const std::string_view grows :
       {"accuracy", "auc", "score", "r2", "top5", "f1", "precision", "recall", "reward"}) {
    if (metric.find(grows) != std::string_view::npos) return Goal::kMaximise;
  }
  return Goal::kMinimise;
}

std::string StudyFile::where(std::string_view key) const {
  const auto found = lines.find(std::string(key));
  return found == lines.end() || found->second == 0 ? path : fmt::format("{}:{}", path, found->second);
}

void StudyFile::check_choices(const StudyPlan& plan) const {
  made_at(where("[search] name"), [&] { return plan.searcher.make(plan.search_problem()); });
  made_at(where("[schedule] name"), [&] { return plan.scheduler.make(plan.schedule_problem()); });
}

StudyPlan StudyFile::plan() const {
  StudyPlan plan;
  plan.name = name;
  plan.space = space;
  plan.objectives.clear();
  for (std::size_t i = 0; i < objectives.size(); ++i) {
    const Goal goal = goals.empty()            ? usual_goal(objectives[i])
                      : goals[i] == "maximise" ? Goal::kMaximise
                                               : Goal::kMinimise;
    plan.objectives.push_back({objectives[i], goal});
  }
  plan.seed = static_cast<std::uint64_t>(seed);
  plan.searcher = searcher;
  plan.scheduler = scheduler;
  plan.budget = {static_cast<std::uint64_t>(budget.trials), static_cast<std::uint64_t>(budget.epochs),
                 60 * budget.processor_minutes, 60 * budget.minutes};
  plan.points = points;
  plan.retries = static_cast<std::uint64_t>(retries);
  require_end(plan, *this);
  return plan;
}

StudyFile read_study_file(const std::filesystem::path& path) {
  return parse_study_file(read_text(path, kLargestToml), path.string());
}

StudyFile parse_study_file(std::string_view text, const std::string& name) {
  StudyFile file;
  file.path = name;
  file.name = std::filesystem::path(name).stem().string();
  const TomlValue document = parse_toml(text, name);
  file.searcher = named_in<SearcherChoice>(document, "search", file.searcher, searcher_named, name);
  file.scheduler = named_in<SchedulerChoice>(document, "schedule", file.scheduler, scheduler_named, name);
  std::string searcher = file.searcher.name();
  std::string scheduler = file.scheduler.name();
  Schema schema = schema_of(file, searcher, scheduler);
  schema.load_text(without_space(document), name);
  for (const std::string_view section : {"study", "search", "schedule"}) {
    const TomlValue* table = toml_member(document, section);
    if (table == nullptr || table->get<TomlValue::Table>() == nullptr) continue;
    for (const TomlEntry& entry : *table->get<TomlValue::Table>())
      file.lines[fmt::format("[{}] {}", section, entry.key)] = entry.value.line;
  }
  if (const TomlValue* space = toml_member(document, kSpace)) {
    if (space->get<TomlValue::Table>() == nullptr)
      throw Error(ErrorKind::kInvalidInput, "space is a section", fmt::format("{}:{}", name, space->line),
                  "Write [space] on a line of its own, and its keys below.");
    collect_lines(*space->get<TomlValue::Table>(), {}, file.lines);
    file.space = Space::from_toml(*space, name);
  }
  file.points = points_of(document, file.space, name);
  check_whole(schema, file);
  return file;
}

namespace {

template <typename AnyChoice>
std::string tables_of(const std::vector<AnyChoice>& choices, std::string_view section) {
  std::string text;
  for (AnyChoice choice : choices) {
    Schema schema;
    choice.add_keys(schema.section(fmt::format("{}, name = \"{}\"", section, choice.name()), choice.help()));
    text += schema.to_markdown();
  }
  return text;
}

}  // namespace

std::string study_file_reference() {
  StudyFile file;
  Schema schema;
  describe_study(schema, file);
  describe_budget(schema, file);
  return schema.to_markdown() + tables_of(all_searchers(), "search") + tables_of(all_schedulers(), "schedule");
}

}  // namespace muster::tuning
