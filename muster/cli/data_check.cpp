// muster data check: reads every sample of a source and lists those that cannot be used. The list is on standard
// output, and the exit code says whether it is empty.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/cli/data_flags.h"
#include "muster/data/sources.h"

namespace muster::cli {
namespace {

struct DataCheckFlags {
  std::string what;
  std::string path;
  std::vector<std::string> assignments;
  bool json = false;
};

// Reads all samples of the set, which reports those that are bad and gives others for them. False if none is good.
bool read_every_sample(const data::Dataset& set, const std::string& name, bool shows_progress) {
  constexpr std::uint64_t kOften = 256;
  const data::SampleSpec& spec = set.spec();
  const bool floats = spec.input == data::InputKind::kFloats;
  const bool values = spec.target == data::TargetKind::kValues;
  std::vector<float> features(floats ? spec.elements() : 0);
  std::vector<std::int64_t> tokens(floats ? 0 : spec.elements());
  std::vector<std::int64_t> labels(values ? 0 : spec.target_elements());
  std::vector<float> targets(values ? spec.target_elements() : 0);
  for (std::uint64_t id = 0; id < set.size(); ++id) {
    try {
      set.read_sample(id, {.features = features, .tokens = tokens, .labels = labels, .values = targets});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kDamaged) throw;
      return false;
    }
    if (shows_progress && id % kOften == 0) fmt::print(stderr, "\r{}: {} of {}", name, id, set.size());
  }
  if (shows_progress) fmt::print(stderr, "\r\x1b[K");
  return true;
}

void run_data_check(const DataCheckFlags& flags) {
  data::SourceOptions options = chosen_data(flags.what, flags.path, flags.assignments);
  options.augment.clear();
  options.bad_samples.on_bad_sample = data::OnBadSample::kSkip;
  options.bad_samples.limit = std::numeric_limits<std::uint64_t>::max();
  options.bad_samples.examples = std::numeric_limits<std::size_t>::max();
  const data::Data data = data::open_source(options);
  const bool terminal = ::isatty(STDERR_FILENO) == 1 && !flags.json;
  std::uint64_t samples = 0;
  std::vector<std::string> unusable;
  const auto read = [&](const std::shared_ptr<const data::Dataset>& set, const char* name) {
    if (!set) return;
    samples += set->size();
    if (!read_every_sample(*set, name, terminal)) unusable.emplace_back(name);
  };
  read(data.train, "train");
  read(data.validation, "validation");
  read(data.test, "test");
  std::vector<std::string> bad = data.bad_samples->examples();
  std::sort(bad.begin(), bad.end());
  if (flags.json) {
    const Json row{{"source", options.source},  {"samples", samples},
                   {"bad_samples", bad.size()}, {"bad", bad},
                   {"notes", data.notes},       {"description", data.description}};
    fmt::print("{}\n", row.dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    for (const std::string& line : bad)
      fmt::print("{}\n", line);
    for (const std::string& note : data.notes)
      fmt::print("note: {}\n", note);
    fmt::print("{}\n", data.description);
    for (const std::string& set : unusable)
      fmt::print("no sample of the {} set can be read\n", set);
    fmt::print("{} bad of {} samples\n", grouped(bad.size()), grouped(samples));
  }
  if (bad.empty()) return;
  // What was asked for is on standard output; the end says how it went, for scripts.
  throw Error(ErrorKind::kDamaged, fmt::format("{} samples cannot be used", grouped(bad.size())), flags.what,
              "Repair or remove them, or set data.on_bad_sample = \"skip\".");
}

}  // namespace

void add_data_check(CLI::App& data) {
  CLI::App* command = data.add_subcommand("check", "Read every sample of a source and list those that are bad.");
  auto flags = std::make_shared<DataCheckFlags>();
  command->add_option("source", flags->what, "Name of a source, a job file, or a file or folder of data")->required();
  command->add_option("--path", flags->path, "File or folder of the source");
  command->add_option("--set", flags->assignments, "data.key=value, as for muster train; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--json", flags->json, "As one JSON object");
  command->footer(
      "Ends with 2 if there are any, each named with its file and what is wrong with it.\n"
      "\nExamples:\n"
      "  muster data check job.toml\n"
      "  muster data check flowers");
  command->callback([flags] { run_data_check(*flags); });
}

}  // namespace muster::cli
