// muster check: is this job file right, and what does it say with every default?
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
#include "muster/trainer/preflight.h"

namespace muster::cli {
namespace {

struct CheckFlags {
  std::string job;
  std::vector<std::string> assignments;
  bool json = false;
  bool memory = false;
  bool reference = false;
};

constexpr const char* kReferenceHead =
    "# The job file\n\n"
    "A job file is TOML. This page is printed by `muster check --reference` from the code that reads the file, and a "
    "test\n"
    "compares the two. A key that is not here, a value of the wrong type or outside the limits is an error that names "
    "file,\n"
    "line, key, what was found and what is allowed. `muster check JOB.toml` prints a job with every default;\n"
    "`--set section.key=value` changes a key for one call.\n\n";

struct MemoryNeed {
  trainer::MemoryFigures figures;
  Memory usable;
};

// What the job would take, by its data and a small piece of training. Throws when it does not fit.
MemoryNeed check_memory(const trainer::ResolvedJob& resolved) {
  MemoryNeed need;
  need.usable = usable_memory();
  const ProcessMemory before = process_memory();
  need.figures = trainer::check_memory(resolved, trainer::open_data(resolved.job), before, need.usable);
  return need;
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
  std::optional<MemoryNeed> need;
  if (flags.memory) need = check_memory(resolved);
  if (flags.json) {
    Json row = resolved.json;
    row["resolved"] = {{"batch", resolved.batch}, {"lanes", resolved.lanes}, {"lr", resolved.lr}};
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
    fmt::print("# {}: valid. Batch {} in {} lanes, learning rate {}.\n{}", flags.job, resolved.batch, resolved.lanes,
               resolved.lr, resolved.text);
  }
}

}  // namespace

void add_check(CLI::App& app) {
  CLI::App* command = app.add_subcommand("check", "Validate a job file and print it with every default.");
  auto flags = std::make_shared<CheckFlags>();
  command->add_option("job", flags->job, "The job file (TOML)");
  command->add_option("--set", flags->assignments, "section.key=value, over what the file says; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--json", flags->json, "As one JSON object");
  command->add_flag("--memory", flags->memory,
                    "Open the data too and estimate the memory on this host; a job that does not fit is refused");
  command->add_flag("--reference", flags->reference,
                    "Print the page docs/job-file.md: every key, type, default and meaning");
  command->footer(
      "Exit code 0: the file is good; 2: the message says what is wrong and where. Data files are opened\n"
      "only with --memory.\n"
      "\nExamples:\n"
      "  muster check examples/fashion.toml\n"
      "  muster check job.toml --set data.batch=256 --json | jq .resolved\n"
      "  muster check job.toml --memory");
  command->callback([flags] { run_check(*flags); });
}

}  // namespace muster::cli
