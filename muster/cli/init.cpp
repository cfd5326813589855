// muster init: looks at a user's data and writes a job file that works.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/cli/command.h"
#include "muster/cli/data_flags.h"
#include "muster/data/inspect.h"
#include "muster/trainer/job.h"

namespace muster::cli {
namespace {

struct InitFlags {
  std::string data;
  std::string output;
  bool force = false;
};

std::string model_section(const data::SampleSpec& spec) {
  if (spec.input == data::InputKind::kTokens) {
    return "[model]\nname = \"transformer\"\n\n[optimizer]\nname = \"adamw\"\nlr = 0.001\n";
  }
  if (spec.shape.size() == 3) {
    return "[model]\nname = \"cnn\"             # a small one; resnet20 is better and slower\n\n"
           "[optimizer]\nname = \"sgd\"\nlr = 0.05\nmomentum = 0.9\nschedule = \"cosine\"\n";
  }
  return "[model]\nname = \"mlp\"\nhidden = [128, 64]         # widths of the hidden layers\n\n"
         "[optimizer]\nname = \"adam\"\nlr = 0.001\n";
}

// Small data gets small batches: an epoch should have some steps. A sample of text is as many predictions as it has
// positions.
std::uint64_t batch_for(const data::Dataset& train) {
  std::uint64_t batch = train.spec().target == data::TargetKind::kTokens ? 32 : 256;
  while (batch > 16 && train.size() / batch < 20)
    batch /= 2;
  return batch;
}

std::string job_text(const data::Finding& finding, const data::Data& data) {
  std::string text =
      fmt::format("# Written by muster init. Every key: docs/job-file.md, or muster check --reference.\n");
  for (const std::string& reason : finding.reasons)
    text += fmt::format("# Seen: {}.\n", reason);
  text += fmt::format("# {}.\n\n", data.description);
  text += "[job]\nepochs = 10\nseed = 1                   # same seed, same result, whatever the number of workers\n\n";
  std::string section = data_section(finding.options);
  const std::string batch = fmt::format(
      "batch = {}                # samples of a step\nvalidation = 0.1           # of the training samples, "
      "held out\n",
      batch_for(*data.train));
  const std::size_t next = section.find("\n[loss]");
  section.insert(next == std::string::npos ? section.size() : next, batch);
  return text + section + "\n" + model_section(data.train->spec()) +
         "\n[parallel]\nworkers = 1                # processes; the result does not depend on it\n";
}

void run_init(const InitFlags& flags) {
  data::Finding finding = data::inspect(flags.data);
  // The job file may be used from anywhere.
  finding.options.path = std::filesystem::absolute(finding.options.path).lexically_normal();
  const data::Data data = data::open_source(finding.options);
  std::filesystem::path output = flags.output;
  if (output.empty()) {
    std::filesystem::path stem = std::filesystem::absolute(flags.data).lexically_normal();
    if (!stem.has_filename()) stem = stem.parent_path();
    output = stem.filename().replace_extension(".toml");
  }
  if (std::filesystem::exists(output) && !flags.force) {
    throw Error(ErrorKind::kInvalidInput, "is there already", output.string(),
                "Name another file with --output, or overwrite it with --force.");
  }
  const std::string text = job_text(finding, data);
  trainer::parse_job(text, output.string());  // what is written must be valid
  write_atomically(output, text);
  for (const std::string& reason : finding.reasons)
    fmt::print("{}\n", reason);
  fmt::print("{}\nwrote {}; train with: muster train {}\n", data.description, output.string(), output.string());
}

}  // namespace

void add_init(CLI::App& app) {
  CLI::App* command = app.add_subcommand("init", "Look at a file or folder of data and write a job file for it.");
  auto flags = std::make_shared<InitFlags>();
  command->add_option("data", flags->data, "File or folder: a table, text, arrays, shards, MNIST or CIFAR files")
      ->required()
      ->check(CLI::ExistingPath);
  command->add_option("-o,--output", flags->output, "The job file to write; default: the data's name with .toml");
  command->add_flag("--force", flags->force, "Overwrite it");
  command->footer(
      "Examples:\n"
      "  muster init table.csv\n"
      "  muster init /usr/share/datasets/fashion-mnist -o fashion.toml");
  command->callback([flags] { run_init(*flags); });
}

}  // namespace muster::cli
