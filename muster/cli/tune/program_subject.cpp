// Arguments are filled in word by word: nothing goes through a shell.
// What the program prints beside its rows is left as it is, in output.txt of the trial.
#include "muster/cli/tune/program_subject.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/tuning/study_log.h"

namespace muster::cli {
namespace {

constexpr const char* kUntil = "{until}";

bool replace_all(std::string& word, const std::string& name, const std::string& value) {
  bool found = false;
  for (std::size_t at = word.find(name); at != std::string::npos; at = word.find(name, at + value.size())) {
    word.replace(at, name.size(), value);
    found = true;
  }
  return found;
}

}  // namespace

ProgramSubject::ProgramSubject(std::filesystem::path study, std::vector<std::string> program,
                               std::vector<tuning::Objective> objectives, std::uint64_t workers, std::uint64_t threads,
                               std::uint64_t epochs)
    : TrialSubject(std::move(study)),
      program_(std::move(program)),
      objectives_(std::move(objectives)),
      workers_(workers),
      threads_(threads),
      epochs_(epochs) {
}

bool ProgramSubject::can_pause() const {
  return std::ranges::any_of(program_, [](const std::string& word) { return word.find(kUntil) != std::string::npos; });
}

std::string ProgramSubject::filled(std::string word, const tuning::Trial& trial, std::uint64_t until) const {
  for (const auto& [key, value] : trial.values.entries())
    replace_all(word, "{" + key + "}", tuning::to_text(value));
  replace_all(word, "{trial}", std::to_string(trial.number));
  replace_all(word, "{folder}", folder(trial.number).string());
  replace_all(word, kUntil, std::to_string(until == 0 ? epochs_ : until));
  return word;
}

std::vector<std::string> ProgramSubject::prepare(const tuning::Trial& trial,
                                                 const std::vector<tuning::Trial>& ancestors, std::uint64_t until) {
  if (!ancestors.empty())
    throw Error(ErrorKind::kUnsupported, "the state of a program's trial cannot be copied into another one");
  make_folder(folder(trial.number));
  std::vector<std::string> words{"run",
                                 "-n",
                                 std::to_string(workers_),
                                 "--runs",
                                 (study_ / "records").string(),
                                 "--threads",
                                 std::to_string(threads_)};
  for (const std::string& word : program_)
    words.push_back(filled(word, trial, until));
  // Keys that no argument names are given as flags.
  for (const auto& [key, value] : trial.values.entries()) {
    const bool named = std::ranges::any_of(
        program_, [&key = key](const std::string& word) { return word.find("{" + key + "}") != std::string::npos; });
    if (!named) words.push_back(fmt::format("--{}={}", key, tuning::to_text(value)));
  }
  return words;
}

RowMeaning ProgramSubject::meaning(const Json& row) const {
  RowMeaning meaning;
  std::optional<std::vector<double>> values = objectives_in(row, objectives_);
  if (!values) {
    // A row with some of them is one of figures; others are the program's own affair.
    std::vector<std::string> lacks = lacking_in(row, objectives_);
    if (lacks.size() < objectives_.size() || row.contains("epoch")) meaning.lacks = std::move(lacks);
    return meaning;
  }
  std::uint64_t epoch = epochs_;
  if (row.contains("epoch")) {
    // As programs write numbers: 3 or 3.0. What is no epoch is no report of one.
    const double number = row["epoch"].is_number() ? row["epoch"].get<double>() : -1;
    if (!(number >= 1) || number > static_cast<double>(epochs_) || number != std::floor(number)) return meaning;
    epoch = static_cast<std::uint64_t>(number);
  }
  meaning.report = tuning::Report{epoch, std::move(*values)};
  return meaning;
}

}  // namespace muster::cli
