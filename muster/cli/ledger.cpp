// muster ledger check: proves from a run's ledger that every sample was used exactly once. The proof is
// data/ledger_check.h; here it is held against the newest checkpoint, which the ledger must reach.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/json.h"
#include "muster/cli/command.h"
#include "muster/cli/runs.h"
#include "muster/data/ledger_check.h"
#include "muster/model/checkpoint.h"
#include "muster/trainer/run_folder.h"

namespace muster::cli {
namespace {

struct LedgerFlags {
  std::string job;
  std::string runs = "runs";
  bool json = false;
};

// The report, held against the newest checkpoint that is whole: a ledger must reach that far.
data::LedgerReport check(const trainer::RunFolder& run) {
  const std::filesystem::path folder = run.ledger();
  data::LedgerReport report = data::check_ledger(folder);
  model::CheckpointStore checkpoints(run.checkpoints());
  const std::vector<std::uint64_t> steps = checkpoints.list();
  if (report.violation || steps.empty() || steps.back() <= report.steps) return report;
  // Reading a checkpoint takes time, so only now: one that is damaged proves nothing.
  std::vector<model::RejectedCheckpoint> rejected;
  const auto newest = checkpoints.load_newest(rejected);
  return newest ? data::check_ledger(folder, newest->manifest.step) : report;
}

Json to_json(const data::LedgerReport& report) {
  return {{"exact", !report.violation.has_value()},
          {"violation", report.violation ? Json(*report.violation) : Json()},
          {"files", report.files},
          {"epoch_samples", report.epoch_samples},
          {"steps", report.steps},
          {"whole_epochs", report.whole_epochs},
          {"samples_so_far", report.samples_so_far},
          {"skipped", report.skipped},
          {"skipped_ids", report.skipped_ids},
          {"lanes", report.lanes},
          {"repeated_lanes", report.repeated_lanes},
          {"void_records", report.void_records},
          {"resumptions", report.resumptions},
          {"unclosed_files", report.unclosed_files}};
}

void print_text(const data::LedgerReport& report) {
  fmt::print("{} committed steps in {} lanes, by {} worker process{}.\n", report.steps, report.lanes, report.files,
             report.files == 1 ? "" : "es");
  if (report.repeated_lanes > 0)
    fmt::print("{} lanes were computed again, with the same samples.\n", report.repeated_lanes);
  if (report.resumptions > 0)
    fmt::print("Resumed {} time(s); {} records past a checkpoint are void.\n", report.resumptions, report.void_records);
  if (report.unclosed_files > 0)
    fmt::print("{} file(s) were not closed: their workers were killed, or still run.\n", report.unclosed_files);
  if (report.skipped > 0) {
    constexpr std::size_t kShown = 20;
    const auto shown = std::span(report.skipped_ids).first(std::min(kShown, report.skipped_ids.size()));
    fmt::print("{} times a bad sample was skipped and another stood in its place: {}{}.\n", report.skipped,
               fmt::join(shown, ", "), shown.size() < report.skipped_ids.size() ? ", ..." : "");
  }
  fmt::print("Exact: {} whole epoch(s) of {} samples, each {} once", report.whole_epochs, report.epoch_samples,
             report.skipped > 0 ? "loaded or skipped" : "used");
  if (report.samples_so_far > 0) fmt::print("; {} samples of the next so far, none twice", report.samples_so_far);
  fmt::print(".\n");
}

void run_check(const LedgerFlags& flags, Outcome& outcome) {
  const trainer::RunFolder run = trainer::RunFolder::open(find_run(flags.job, flags.runs));
  const data::LedgerReport report = check(run);
  if (report.violation) outcome.exit_code = 1;
  if (flags.json)
    fmt::print("{}\n", to_json(report).dump());
  else if (report.violation)
    fmt::print(stderr, "muster: error: {}: the ledger is not exact: {}\n", run.path().string(), *report.violation);
  else
    print_text(report);
}

}  // namespace

void add_ledger(CLI::App& app, Outcome& outcome) {
  CLI::App* ledger = app.add_subcommand("ledger", "The record of the samples that a run used.");
  ledger->require_subcommand(1);
  CLI::App* command = ledger->add_subcommand("check", "Prove that every sample was used exactly once per epoch.");
  auto flags = std::make_shared<LedgerFlags>();
  command->add_option("run", flags->job, "A run's folder, its name, or the beginning of it")->required();
  command->add_option("--runs", flags->runs, "Folder that holds the runs")->capture_default_str();
  command->add_flag("--json", flags->json, "As one JSON object");
  command->footer(
      "Exit code 0: exact; 1: the message names the first record, epoch and sample that are wrong. A run may be "
      "checked\n"
      "while it trains. Runs have a ledger with [job] ledger = true.\n"
      "\nExamples:\n"
      "  muster ledger check fashion\n"
      "  muster ledger check runs/fashion-20261115-193427 --json | jq .whole_epochs");
  command->callback([flags, &outcome] { run_check(*flags, outcome); });
}

}  // namespace muster::cli
