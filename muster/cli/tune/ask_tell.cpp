// Between ask and tell no process stands for a trial: it stays with who asked until it is told.
// A study file that names neither a job nor a program is enough.
#include "muster/cli/tune/ask_tell.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/cli/tune/study_place.h"
#include "muster/tuning/study.h"

namespace muster::cli {
namespace {

struct AskFlags {
  std::string study;
  bool text = false;
};

struct TellFlags {
  std::string study;
  std::uint64_t trial = 0;
  std::vector<double> values;
  std::optional<std::uint64_t> epoch;
  std::string failed;
  bool release = false;
};

// A study file begins the study if need be; a folder or a name has to be one.
tuning::Study open_study(const std::string& what) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(what, code)) return tuning::Study(store_of(find_study(what)));
  const tuning::StudyFile file = tuning::read_study_file(what);
  const std::filesystem::path folder = folder_of(file);
  const tuning::StudyPlan plan = plan_of(file);
  if (!is_study(folder)) make_study(folder, file);
  return tuning::Study(store_of(folder), plan);
}

void ask(const AskFlags& flags) {
  tuning::Study study = open_study(flags.study);
  const std::optional<tuning::Suggestion> trial = study.ask_for_person();
  if (!trial) {
    fmt::print("{}\n", flags.text ? "over" : Json{{"over", true}}.dump());
    return;
  }
  if (flags.text) {
    fmt::print("trial {}\n", trial->number);
    for (const auto& [key, value] : trial->values.entries())
      fmt::print("{} {}\n", key, tuning::to_text(value));
    return;
  }
  Json row{{"trial", trial->number}, {"values", trial->values.json()}, {"epoch", trial->resource}};
  if (trial->lineage) row["from"] = {{"trial", trial->lineage->parent}, {"epoch", trial->lineage->resource}};
  fmt::print("{}\n", row.dump());
}

void tell(const TellFlags& flags) {
  tuning::Study study = open_study(flags.study);
  tuning::Suggestion trial;
  trial.number = flags.trial;
  if (!flags.failed.empty()) return study.tell_failed(trial, flags.failed);
  if (flags.release) return study.release(trial);
  if (flags.values.empty())
    throw Error(ErrorKind::kInvalidInput, "no value is told", {},
                "muster tune tell STUDY TRIAL VALUE, or --failed REASON, or --release");
  if (!flags.epoch) return study.tell(trial, flags.values);
  const bool goes_on = study.report(trial, *flags.epoch, flags.values);
  fmt::print("{}\n", Json{{"trial", flags.trial}, {"go_on", goes_on}}.dump());
}

}  // namespace

void add_ask_tell(CLI::App& tune) {
  CLI::App* command = tune.add_subcommand("ask", "A trial to run: its number and values.");
  auto a = std::make_shared<AskFlags>();
  command->add_option("study", a->study, "The study file, the study's folder or its name")->required();
  command->add_flag("--text", a->text, "Lines \"KEY VALUE\" for a shell, instead of JSON");
  command->footer(
      "Prints {\"trial\": 3, \"values\": {\"lr\": 0.1}, \"epoch\": 0}, or {\"over\": true}; with --text \"trial 3\" "
      "and a\n"
      "line a key, or \"over\". The study file needs no job then.");
  command->callback([a] { ask(*a); });

  CLI::App* told = tune.add_subcommand("tell", "What came of a trial.");
  auto t = std::make_shared<TellFlags>();
  told->add_option("study", t->study, "The study file, the study's folder or its name")->required();
  told->add_option("trial", t->trial, "Its number")->required();
  told->add_option("values", t->values, "A value for each objective")->expected(0, 2)->allow_extra_args();
  told->add_option("--epoch", t->epoch, "The trial goes on: values after so many epochs; tells whether it is worth it");
  told->add_option("--failed", t->failed, "It failed: why");
  told->add_flag("--release", t->release, "It was not run: somebody else may");
  told->callback([t] { tell(*t); });
}

}  // namespace muster::cli
