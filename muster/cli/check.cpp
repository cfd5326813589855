// muster check: is this job file right, and what does it say with every default? It asks the functions that the start
// of a run asks (trainer/job_check.h), and writes nothing.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/memory.h"
#include "muster/base/process_memory.h"
#include "muster/cli/command.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/job.h"
#include "muster/trainer/job_check.h"
#include "muster/trainer/job_fit.h"
#include "muster/trainer/party_table.h"
#include "muster/trainer/preflight.h"
#include "muster/trainer/split_nets.h"

namespace muster::cli {
namespace {

struct CheckFlags {
  std::string job;
  std::vector<std::string> assignments;
  bool json = false;
  bool memory = false;
  bool file_only = false;
  bool reference = false;
};

constexpr const char* kReferenceHead =
    "# The job file\n\n"
    "A job file is TOML. This page is printed by `muster check --reference` from the code that reads the file, and a "
    "test\n"
    "compares the two. A key that is not here, a value of the wrong type or outside the limits is an error that names "
    "file,\n"
    "line, key, what was found and what is allowed. `muster check JOB.toml` tries a job on its data\n"
    "and prints it with every default; `--set section.key=value` changes a key for one call. A key that would do "
    "nothing\n"
    "beside the others is an error too.\n\n"
    "Files that a job reads are named as seen from the job file's folder, in `--set` from the current folder. What a "
    "job\n"
    "writes goes below the current folder.\n\n";

struct MemoryNeed {
  trainer::MemoryFigures figures;
  Memory usable;
};

// What was found out beyond the file.
struct Tried {
  trainer::JobCheck job;
  std::optional<MemoryNeed> memory;
  std::string party;  // of vertical training: whose job it is, and with what
};

// Of vertical training: what this party can find out without the others, its table and its nets.
std::string try_party(const trainer::ResolvedJob& resolved, const std::string& file) {
  const trainer::Job& job = resolved.job;
  const bool labelled = trainer::is_label_holder(job);
  if (!labelled) trainer::require_columns_job(resolved, file);
  const trainer::PartyTable table(resolved, labelled);
  // As if all rows were common, and the others gave as many numbers as this one.
  federated::Alignment all{.name = "all", .train_rows = table.ids().size()};
  for (std::uint64_t row = 0; row < table.ids().size(); ++row)
    all.rows.push_back(row);
  const std::vector<std::uint64_t> widths(job.vertical.parties.size(), static_cast<std::uint64_t>(job.vertical.width));
  if (labelled)
    trainer::make_top_net(resolved, table.aligned(all), widths);
  else
    trainer::make_bottom_net(resolved, table.aligned(all));
  return fmt::format("{}; {} rows, {} columns", labelled ? "the label holder's job" : "the job of a party with columns",
                     table.ids().size(), table.columns());
}

// Tries the job on its data, and what it would take by a small piece of training if that is asked for. Throws when the
// job does not fit its data, its model or this host.
Tried try_job(const trainer::ResolvedJob& resolved, const std::string& file, bool with_memory) {
  Tried tried;
  if (resolved.job.is_vertical()) {
    if (with_memory)
      throw Error(ErrorKind::kUnsupported, "the memory of vertical training is not estimated", "--memory",
                  "Leave it out: a party needs its table and a few batches.");
    tried.party = try_party(resolved, file);
    return tried;
  }
  const Memory usable = usable_memory();
  const ProcessMemory before = process_memory();
  const trainer::Datasets sets = trainer::open_data(resolved);
  if (with_memory) tried.memory = MemoryNeed{trainer::check_memory(resolved, sets, before, usable), usable};
  tried.job = trainer::check_job(resolved, sets);
  return tried;
}

void run_check(const CheckFlags& flags) {
  if (flags.reference) {
    trainer::Job defaults;
    const std::string page = trainer::job_schema(defaults).to_markdown();
    fmt::print("{}{}", kReferenceHead, page.substr(0, page.size() - 1));
    return;
  }
  if (flags.job.empty()) {
    throw Error(ErrorKind::kInvalidInput, "no job file given", "muster check",
                "For example: muster check examples/fashion.toml");
  }
  const trainer::ResolvedJob resolved = trainer::load_job(flags.job, flags.assignments);
  const Tried tried = flags.file_only ? Tried() : try_job(resolved, flags.job, flags.memory);
  const std::optional<MemoryNeed>& need = tried.memory;
  for (const std::string& doubt : tried.job.doubts)
    fmt::print(stderr, "muster: warning: {}\n", doubt);
  if (flags.json) {
    Json row = resolved.json;
    row["resolved"] = {{"batch", resolved.batch}, {"lanes", resolved.lanes}, {"lr", resolved.lr}};
    row["warnings"] = tried.job.doubts;
    if (!tried.job.stages.empty()) row["stages"] = tried.job.stages;
    if (!tried.job.own.empty()) row["own_options"] = tried.job.own;
    if (!tried.party.empty()) row["party"] = tried.party;
    if (need) {
      row["memory"] = trainer::estimate_memory(need->figures).to_json();
      row["memory"]["usable"] = need->usable.usable_bytes;
      if (!need->figures.unmeasured.empty()) row["memory"]["unmeasured"] = need->figures.unmeasured;
    }
    fmt::print("{}\n", row.dump());
  } else {
    if (need) {
      fmt::print("# Memory: about {}; {}.{}\n",
                 describe(trainer::estimate_memory(need->figures), need->figures.workers), need->usable.reason,
                 need->figures.unmeasured.empty() ? "" : " Activations could not be measured and are not counted.");
    }
    if (!tried.party.empty()) fmt::print("# Vertical training: {}. The others' is not looked at.\n", tried.party);
    for (const std::string& line : tried.job.own)
      fmt::print("# {}\n", line);
    for (const std::string& line : tried.job.stages)
      fmt::print("# {}\n", line);
    fmt::print("# {}: valid{}. Batch {} in {} lanes, learning rate {}.\n{}", flags.job,
               flags.file_only ? " as far as the file alone tells" : "", resolved.batch, resolved.lanes, resolved.lr,
               resolved.text);
  }
}

}  // namespace

void add_check(CLI::App& app) {
  CLI::App* command = app.add_subcommand("check", "Try a job without training, and print it with every default.");
  auto flags = std::make_shared<CheckFlags>();
  command->add_option("job", flags->job, "The job file (TOML)");
  command->add_option("--set", flags->assignments, "section.key=value, over what the file says; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--json", flags->json, "As one JSON object");
  CLI::Option* const memory = command->add_flag(
      "--memory", flags->memory, "Estimate the memory on this host too; a job that does not fit is refused");
  command->add_flag("--file-only", flags->file_only, "Look at the file alone: neither data nor model need be there")
      ->excludes(memory);
  command->add_flag("--reference", flags->reference,
                    "Print the page docs/job-file.md: every key, type, default and meaning");
  command->footer(
      "The data is opened and the model is built as muster train would: what this calls valid, train does not refuse,\n"
      "unless this host has too little memory for it (--memory), or single samples are bad, which only reading them\n"
      "all can tell (muster data check).\n"
      "Exit code 0: the job is good; 2: the message says what is wrong and where. What can be trained and is hardly\n"
      "meant is a warning.\n"
      "\nExamples:\n"
      "  muster check examples/fashion.toml\n"
      "  muster check job.toml --set data.batch=256 --json | jq .resolved\n"
      "  muster check job.toml --memory\n"
      "  muster check job.toml --file-only     on a machine without the data");
  command->callback([flags] { run_check(*flags); });
}

}  // namespace muster::cli
