// muster init: looks at a user's data and writes a job file that works. What was seen, and so why a key is what it is,
// stands in the file as comments, to be changed by whoever knows better.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/cli/command.h"
#include "muster/cli/data_flags.h"
#include "muster/cli/output_file.h"
#include "muster/data/inspect.h"
#include "muster/data/lane_plan.h"
#include "muster/trainer/job.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kUsualLimit = data::BadSampleOptions{}.limit;

struct InitFlags {
  std::string data;
  std::string output;
  bool force = false;
  data::InspectOptions wishes;
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

// So many that a few workers can come, and of samples enough for the statistics of a normalisation.
std::uint64_t lanes_for(std::uint64_t batch) {
  constexpr std::uint64_t kFewestSamples = 8;
  constexpr std::uint64_t kUsualLanes = 4;
  return std::max(data::default_lanes(batch), std::min(kUsualLanes, batch / kFewestSamples));
}

// What was found out about bad samples.
struct Health {
  std::uint64_t looked_at = 0;
  std::uint64_t samples = 0;
  std::uint64_t bad = 0;  // of those looked at
  std::string first = {};

  // Of all, by what was looked at.
  std::uint64_t expected() const { return looked_at >= samples ? bad : bad * samples / looked_at; }
};

// Reads pictures of the sets, all of few and some of many, so that those that are broken are counted.
std::uint64_t read_some(const data::Data& data) {
  constexpr std::uint64_t kMost = 256;
  const std::uint64_t step = std::max<std::uint64_t>(1, (data.train->size() + data.test->size()) / kMost);
  std::vector<float> features(data.train->spec().elements());
  std::uint64_t looked_at = 0;
  for (const auto& set : {data.train, data.test}) {
    for (std::uint64_t id = 0; id < set->size(); id += step, ++looked_at) {
      try {
        set->read(id, features);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kDamaged) throw;  // all of the set are bad, and each is counted
      }
    }
  }
  return looked_at;
}

// Of pictures, what cannot be used shows only when they are decoded; of everything else it has shown already.
// Throws kInvalidInput for data of which so much is bad that it is likely not what it is taken for.
Health health_of(const data::Data& data, const data::SourceOptions& options) {
  Health health;
  health.samples = data.train->size() + data.test->size();
  health.looked_at = options.source == "pictures" ? read_some(data) : health.samples;
  health.bad = data.bad_samples->count();
  if (health.bad == 0) return health;
  health.first = data.bad_samples->examples().front();
  if (health.expected() > kUsualLimit && 10 * health.bad > health.looked_at)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} of {} samples looked at cannot be used; the first: {}", health.bad,
                            std::max(health.looked_at, health.bad), excerpt(health.first, 300)),
                options.path.string(), "Repair the data; muster data check lists all that is bad.");
  return health;
}

std::string bad_sample_keys(const Health& health) {
  if (health.bad == 0) return {};
  std::string keys =
      fmt::format("on_bad_sample = \"skip\"     # {}{} cannot be used; the first: {}\n", health.bad,
                  health.looked_at < health.samples ? fmt::format(" of {} looked at", health.looked_at) : std::string(),
                  excerpt(health.first, 150));
  if (health.expected() > kUsualLimit)
    keys += fmt::format("bad_sample_limit = {}   # more than that, and training fails\n", 2 * health.expected());
  return keys;
}

std::string job_text(const data::Finding& finding, const data::Data& data, const Health& health) {
  std::string text =
      fmt::format("# Written by muster init. Every key: docs/job-file.md, or muster check --reference.\n");
  for (const std::string& reason : finding.reasons)
    text += fmt::format("# Seen: {}.\n", reason);
  for (const std::string& note : data.notes)
    text += fmt::format("# Note: {}.\n", excerpt(note, 500));
  text += fmt::format("# {}.\n\n", data.description);
  const std::uint64_t batch = batch_for(*data.train);
  const std::uint64_t lanes = lanes_for(batch);
  text += fmt::format(
      "[job]\nepochs = 10\nseed = 1                   # same seed and lanes, same result, whatever the number of "
      "workers\nlanes = {}                  # parts of each step; so many workers can share it\n\n",
      lanes);
  std::string section = data_section(finding.options);
  const std::string keys = fmt::format(
      "batch = {}                # samples of a step\nvalidation = 0.1           # of the training samples, "
      "held out\n{}",
      batch, bad_sample_keys(health));
  const std::size_t next = section.find("\n[loss]");
  section.insert(next == std::string::npos ? section.size() : next, keys);
  return text + section + "\n" + model_section(data.train->spec()) +
         fmt::format("\n[parallel]\nworkers = 1                # processes, up to {}: the result is the same\n", lanes);
}

std::filesystem::path job_file(const InitFlags& flags) {
  if (!flags.output.empty()) return flags.output;
  std::filesystem::path stem = std::filesystem::absolute(flags.data).lexically_normal();
  if (!stem.has_filename()) stem = stem.parent_path();
  return stem.filename().replace_extension(".toml");
}

// As it is seen from the job file if it lies below its folder or beside that, so that both can be moved; else whole.
std::filesystem::path seen_from(const std::filesystem::path& job, const std::filesystem::path& path) {
  if (path.empty()) return path;
  std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  const std::filesystem::path near =
      whole.lexically_relative(std::filesystem::absolute(job).lexically_normal().parent_path());
  const auto above = std::count(near.begin(), near.end(), "..");
  return near.empty() || above > 1 || near == ".." ? whole : near;
}

void check_output(const InitFlags& flags, const std::filesystem::path& output) {
  if (std::filesystem::is_regular_file(flags.data) && flags.data.ends_with(".toml"))
    throw Error(ErrorKind::kInvalidInput, "is a job file, and data is wanted here", flags.data,
                fmt::format("muster check {0} tries it, muster train {0} trains it.", flags.data));
  const std::filesystem::path inputs[] = {flags.data};
  refuse_overwriting(output, inputs, ".toml");
  if (std::filesystem::exists(output) && !flags.force) {
    throw Error(ErrorKind::kInvalidInput, "is there already", output.string(),
                "Name another file with --output, or overwrite it with --force.");
  }
}

void run_init(const InitFlags& flags) {
  const std::filesystem::path output = job_file(flags);
  check_output(flags, output);
  data::Finding finding = data::inspect(flags.data, flags.wishes);
  // What cannot be used is left out of the job, and it says so.
  finding.options.bad_samples.on_bad_sample = data::OnBadSample::kSkip;
  finding.options.bad_samples.limit = std::numeric_limits<std::uint64_t>::max();
  const data::Data data = data::open_source(finding.options);
  const Health health = health_of(data, finding.options);
  for (std::filesystem::path* path : {&finding.options.path, &finding.options.labels.file})
    *path = seen_from(output, *path);
  const std::string text = job_text(finding, data, health);
  trainer::parse_job(text, output.string());  // what is written must be valid
  write_atomically(output, text);
  for (const std::string& reason : finding.reasons)
    fmt::print("{}\n", reason);
  for (const std::string& note : data.notes)
    fmt::print("note: {}\n", note);
  if (health.bad > 0)
    fmt::print("note: {} bad sample{}{}, the first: {}\n", health.bad, health.bad == 1 ? "" : "s",
               health.looked_at < health.samples ? fmt::format(" of {} looked at", health.looked_at) : std::string(),
               health.first);
  fmt::print("{}\nwrote {}; train with: muster train {}\n", data.description, output.string(), output.string());
}

}  // namespace

void add_init(CLI::App& app) {
  CLI::App* command = app.add_subcommand("init", "Look at a file or folder of data and write a job file for it.");
  auto flags = std::make_shared<InitFlags>();
  command
      ->add_option("data", flags->data, "File or folder: a table, text, pictures, arrays, shards, MNIST or CIFAR files")
      ->required()
      ->check(CLI::ExistingPath);
  command->add_option("-o,--output", flags->output, "The job file to write; default: the data's name with .toml");
  command->add_flag("--force", flags->force, "Overwrite it");
  command->add_option("--target", flags->wishes.targets,
                      "Of a table: the column to predict; several are numbers, for regression");
  command->add_option("--ignore", flags->wishes.ignore, "Of a table: columns to leave out");
  command->add_option("--task", flags->wishes.task, "What to learn; default: what the data looks like")
      ->check(CLI::IsMember({"classification", "regression", "language"}));
  command->add_option("--shape", flags->wishes.shape, "Of pictures: channels, height, width; default: by their size")
      ->delimiter(',')
      ->expected(3)
      ->check(CLI::Range(1, 65535));
  command->footer(
      "Examples:\n"
      "  muster init table.csv\n"
      "  muster init houses.csv --target price --ignore remarks --task regression\n"
      "  muster init flowers --shape 3,64,64\n"
      "  muster init /usr/share/datasets/fashion-mnist -o fashion.toml");
  command->callback([flags] { run_init(*flags); });
}

}  // namespace muster::cli
