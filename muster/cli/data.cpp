// muster data: what data there is, what is in it, and packing it for speed. Everything opens data as a job does, by the
// same keys, so that what is shown is what would be trained on.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/cores.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/cli/command.h"
#include "muster/cli/data_flags.h"
#include "muster/data/make_table.h"
#include "muster/data/pack.h"
#include "muster/data/pictures/picture_sheet.h"
#include "muster/data/source_parts.h"
#include "muster/data/sources.h"

namespace muster::cli {
namespace {

void list_sources(bool json) {
  for (const data::SourceInfo& source : data::sources()) {
    const bool found = !source.folder.empty() && std::filesystem::is_directory(source.folder);
    if (json) {
      Json row{{"source", source.name}, {"help", source.help}};
      if (!source.package.empty()) {
        row["package"] = source.package;
        row["found"] = found ? Json(source.folder) : Json();
      }
      fmt::print("{}\n", row.dump());
      continue;
    }
    fmt::print("{:<14} {}\n", source.name, source.help);
    if (source.package.empty()) continue;
    if (found) {
      fmt::print("{:<14} found in {}\n", "", source.folder);
    } else {
      fmt::print("{:<14} not here; get it with: apt-get install {}\n", "", source.package);
    }
  }
}

struct ShowFlags {
  std::string what;
  std::string path;
  std::vector<std::string> assignments;
  std::string sheet;
  std::uint32_t augmented = 0;
  bool json = false;
};

// How many samples each class has. Reads every sample.
std::vector<std::uint64_t> count_classes(const data::Dataset& dataset) {
  const data::SampleSpec& spec = dataset.spec();
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(spec.classes));
  std::vector<float> features(spec.elements());
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    const std::int64_t label = dataset.read(id, features);
    if (label >= 0 && label < spec.classes) ++counts[static_cast<std::size_t>(label)];
  }
  return counts;
}

void draw_sheet(const ShowFlags& flags, const data::Data& data) {
  data::SheetOptions sheet;
  sheet.normalization = data.normalization;
  if (flags.augmented > 0) {
    sheet.samples = 8;
    sheet.epochs = flags.augmented;
  }
  data::write_picture_sheet(*data.train, flags.sheet, sheet);
}

void run_show(const ShowFlags& flags) {
  constexpr std::uint64_t kMostCounted = 200000;  // reading more takes too long for a look
  const data::SourceOptions options = chosen_data(flags.what, flags.path, flags.assignments);
  const auto start = system_clock().now();
  const data::Data data = data::open_source(options);
  const double seconds = std::chrono::duration<double>(system_clock().now() - start).count();
  if (!flags.sheet.empty()) draw_sheet(flags, data);
  const data::SampleSpec& spec = data.train->spec();
  std::vector<std::uint64_t> counts;
  if (spec.target == data::TargetKind::kClass && spec.input == data::InputKind::kFloats &&
      data.train->size() <= kMostCounted) {
    counts = count_classes(*data.train);
  }
  const auto name_of = [&](std::size_t c) {
    return c < spec.class_names.size() ? spec.class_names[c] : fmt::format("{}", c);
  };
  if (flags.json) {
    Json row{{"source", options.source},
             {"train", data.train->size()},
             {"test", data.test->size()},
             {"shape", spec.shape},
             {"classes", spec.classes},
             {"description", data.description},
             {"bad_samples", data.bad_samples->count()},
             {"notes", data.notes},
             {"seconds", seconds}};
    Json& by_class = row["per_class"] = Json::object();
    for (std::size_t c = 0; c < counts.size(); ++c)
      by_class[name_of(c)] = counts[c];
    fmt::print("{}\n", row.dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("source   {}\ndata     {}\nopened   in {:.2f} s\n", options.source, data.description, seconds);
  fmt::print("train    {} samples\ntest     {} samples\nsample   {}\n", data.train->size(), data.test->size(),
             data::describe(spec));
  if (data.bad_samples->count() > 0) {
    fmt::print("bad      {} samples skipped\n", data.bad_samples->count());
    for (const std::string& example : data.bad_samples->examples())
      fmt::print("         {}\n", example);
  }
  for (const std::string& note : data.notes)
    fmt::print("note     {}\n", note);
  if (!flags.sheet.empty()) fmt::print("sheet    {}\n", flags.sheet);
  constexpr std::size_t kMostShown = 100;
  for (std::size_t c = 0; c < std::min(counts.size(), kMostShown); ++c)
    fmt::print("class    {:<20} {:>9}\n", excerpt(name_of(c), 20), counts[c]);
}

struct PackFlags {
  std::string what;
  std::string folder;
  std::string path;
  std::vector<std::string> assignments;
  std::int64_t shards = 0;
  std::int64_t shard_mb = 256;
  std::int64_t threads = 0;
  std::string element;
  bool round = false;
  bool json = false;
};

void run_pack(const PackFlags& flags) {
  const data::Data source = data::open_source(chosen_data(flags.what, flags.path, flags.assignments));
  data::PackOptions options;
  options.shards = static_cast<std::uint64_t>(flags.shards);
  options.shard_bytes = static_cast<std::uint64_t>(flags.shard_mb) << 20;
  options.threads = flags.threads > 0 ? static_cast<int>(flags.threads) : static_cast<int>(usable_cores().usable);
  if (flags.element == "u8" || flags.round) options.element = data::PackedElement::kU8;
  options.round = flags.round;
  if (flags.element == "f32") options.element = data::PackedElement::kF32;
  const bool terminal = ::isatty(2) == 1 && !flags.json;
  const auto pack_set = [&](const std::string& set, const std::shared_ptr<const data::Dataset>& dataset) {
    const auto start = system_clock().now();
    if (terminal) {
      options.progress = [&](std::uint64_t done) { fmt::print(stderr, "\r{}: {} of {}", set, done, dataset->size()); };
    }
    const data::PackResult result = data::pack(dataset, source.normalization, flags.folder, set, options);
    const double seconds = std::chrono::duration<double>(system_clock().now() - start).count();
    if (terminal) fmt::print(stderr, "\r");
    if (flags.json) {
      fmt::print("{}\n", Json{{"set", set},
                              {"samples", result.samples},
                              {"shards", result.shards},
                              {"bytes", result.bytes},
                              {"element", data::to_string(result.element)},
                              {"seconds", seconds}}
                             .dump());
    } else {
      fmt::print("{}: {} samples in {} shards, {} as {}, {:.1f} s\n", set, result.samples, result.shards,
                 human_bytes(result.bytes), data::to_string(result.element), seconds);
    }
  };
  pack_set("train", source.train);
  pack_set("test", source.test);
  if (source.validation) pack_set("validation", source.validation);
  if (!flags.json) fmt::print("Use it with: source = \"packed\", path = \"{}\"\n", flags.folder);
}

void add_show(CLI::App& data) {
  CLI::App* command = data.add_subcommand("show", "What is in a source: shape, classes, how many of each.");
  auto flags = std::make_shared<ShowFlags>();
  command->add_option("source", flags->what, "Name of a source, a job file, or a file or folder of data")->required();
  command->add_option("--path", flags->path, "File or folder of the source");
  command->add_option("--set", flags->assignments, "data.key=value, as for muster train; may be repeated")
      ->allow_extra_args(false);
  CLI::Option* sheet = command->add_option("--sheet", flags->sheet, "Also draw samples as a PNG file");
  command
      ->add_option("--augment", flags->augmented,
                   "On the sheet: 8 samples, each beside what this many epochs of training make of it")
      ->check(CLI::Range(1, 64))
      ->needs(sheet);
  command->add_flag("--json", flags->json, "As one JSON object");
  command->footer(
      "Examples:\n"
      "  muster data show fashion-mnist\n"
      "  muster data show job.toml --sheet sheet.png --augment 7\n"
      "  muster data show table.csv\n"
      "  muster data show csv --path table.csv --set data.target=price --json");
  command->callback([flags] { run_show(*flags); });
}

void add_pack(CLI::App& data) {
  CLI::App* command = data.add_subcommand("pack", "Write a source as packed shards, for fast reading and large sets.");
  auto flags = std::make_shared<PackFlags>();
  command->add_option("source", flags->what, "Name of a source, a job file, or a file or folder of data")->required();
  command->add_option("folder", flags->folder, "Folder for the shards")->required();
  command->add_option("--path", flags->path, "File or folder of the source");
  command->add_option("--set", flags->assignments, "data.key=value, as for muster train; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--shards", flags->shards, "Shards of each set; 0: by --shard-mb")
      ->capture_default_str()
      ->check(CLI::Range(0, 512));
  command->add_option("--shard-mb", flags->shard_mb, "Size of a shard in MiB, about")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--threads", flags->threads, "Threads that read the source; 0: one for each core")
      ->capture_default_str()
      ->check(CLI::Range(0, 256));
  command
      ->add_option("--element", flags->element, "How numbers are stored; not given: as bytes where that loses nothing")
      ->check(CLI::IsMember({"u8", "f32"}));
  command->add_flag("--round", flags->round,
                    "Store resized pictures as bytes, rounded to 256 levels: a quarter of the size, faster to read");
  command->add_flag("--json", flags->json, "One JSON object a set");
  command->footer(
      "The format has a page of its own, docs/packed-format.md.\n"
      "\nExamples:\n"
      "  muster data pack fashion-mnist packed/fashion\n"
      "  muster data pack job.toml packed/mine --shards 16");
  command->callback([flags] { run_pack(*flags); });
}

void add_make_table(CLI::App& data) {
  CLI::App* command = data.add_subcommand("make-table", "Write a CSV table made from a seed, to try things with.");
  auto path = std::make_shared<std::string>();
  auto options = std::make_shared<data::MadeTable>();
  command->add_option("file", *path, "The CSV file to write")->required();
  command->add_option("--rows", options->rows, "Rows")->capture_default_str();
  command->add_option("--numeric", options->numeric, "Columns of numbers")->capture_default_str();
  command->add_option("--categorical", options->categorical, "Columns of categories")->capture_default_str();
  command->add_option("--classes", options->classes, "Classes of the target; 0: a number to predict")
      ->capture_default_str();
  command->add_option("--missing", options->missing, "Part of the fields that is empty")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", options->seed, "The same seed makes the same file")->capture_default_str();
  command->footer("Example:\n  muster data make-table table.csv --rows 10000");
  command->callback([path, options] { data::make_table(*path, *options); });
}

}  // namespace

void add_data(CLI::App& app) {
  CLI::App* command = app.add_subcommand("data", "The data sources: list them, look into them, check them, pack them.");
  command->require_subcommand(0, 1);
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "One JSON object a source");
  command->footer(
      "Without a command: what sources there are, where data was found, and how to get what is not here.\n"
      "\nExamples:\n"
      "  muster data\n"
      "  muster data show fashion-mnist\n"
      "  muster data pack fashion-mnist packed/fashion");
  add_show(*command);
  add_data_check(*command);
  add_pack(*command);
  add_data_partition(*command);
  add_make_table(*command);
  command->callback([command, json] {
    if (command->get_subcommands().empty()) list_sources(*json);
  });
}

}  // namespace muster::cli
