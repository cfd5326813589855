// muster model list: the zoo, and what one of its models costs. Costs are measured on the model itself
// (model/profile.h), so they are those of the options that were given.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/cli/command.h"
#include "muster/compute/threads.h"
#include "muster/model/profile.h"

namespace muster::cli {
namespace {

struct ModelListFlags {
  std::string name;
  std::string input;
  std::optional<std::int64_t> classes;
  std::optional<std::int64_t> vocabulary;
  std::int64_t batch = 32;
  bool recompute = false;
  bool json = false;
};

// "3x224x224".
std::vector<std::int64_t> parse_shape(const std::string& text) {
  std::vector<std::int64_t> shape;
  const char* next = text.data();
  const char* const end = text.data() + text.size();
  for (;;) {
    std::int64_t extent = 0;
    const auto parsed = std::from_chars(next, end, extent);
    const bool whole = parsed.ptr == end || *parsed.ptr == 'x';
    if (parsed.ec != std::errc() || extent < 1 || extent > 1'000'000'000 || !whole) {
      throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no shape", excerpt(text, 40)), "--input",
                  "Write the extents of one sample, as 3x224x224.");
    }
    shape.push_back(extent);
    if (parsed.ptr == end) return shape;
    next = parsed.ptr + 1;
  }
}

model::ModelOptions options_of(const ModelListFlags& flags, const model::ModelEntry& entry) {
  model::ModelOptions options = entry.typical;
  if (!flags.input.empty()) {
    if (!options.columns.empty())
      throw Error(ErrorKind::kInvalidInput, fmt::format("the columns of {} come from a table", entry.name), "--input");
    options.input_shape = parse_shape(flags.input);
  }
  if (flags.vocabulary) {
    if (!options.vocabulary)
      throw Error(ErrorKind::kInvalidInput, fmt::format("{} does not read tokens", entry.name), "--vocabulary");
    options.vocabulary = flags.vocabulary;
    options.classes = *flags.vocabulary;
  }
  if (flags.classes) {
    options.classes = *flags.classes;
    options.each_position = false;  // of whole sequences, where the model reads sequences
  }
  options.recompute = flags.recompute;
  return options;
}

void list_models(bool json) {
  if (json) {
    for (const model::ModelEntry& entry : model::models())
      fmt::print("{}\n", Json{{"name", entry.name}, {"help", entry.help}, {"options", entry.options}}.dump());
    return;
  }
  for (const model::ModelEntry& entry : model::models())
    fmt::print("{:<17}{}\n", entry.name, entry.help);
  fmt::print("\nmuster model list NAME tells what one costs.\n");
}

// "4.09 G".
std::string human_count(std::int64_t count) {
  const auto value = static_cast<double>(count);
  if (count >= 1'000'000'000) return fmt::format("{:.2f} G", value / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.2f} M", value / 1e6);
  return grouped(static_cast<std::uint64_t>(count));
}

std::string shown(const std::vector<std::int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

Json to_json(const model::LayerProfile& layer) {
  return {{"name", layer.name},
          {"kind", layer.kind},
          {"output", layer.output},
          {"parameters", layer.parameters},
          {"multiply_adds", layer.multiply_adds}};
}

void print_layers(const std::vector<model::LayerProfile>& layers) {
  std::size_t name_width = 5;
  std::size_t kind_width = 4;
  std::size_t output_width = 6;
  for (const model::LayerProfile& layer : layers) {
    name_width = std::max(name_width, layer.name.size());
    kind_width = std::max(kind_width, layer.kind.size());
    output_width = std::max(output_width, shown(layer.output).size());
  }
  fmt::print("{:<{}}  {:<{}}  {:>{}}  {:>12}  {:>15}\n", "layer", name_width, "kind", kind_width, "output",
             output_width, "parameters", "multiply-adds");
  for (const model::LayerProfile& layer : layers) {
    fmt::print("{:<{}}  {:<{}}  {:>{}}  {:>12}  {:>15}\n", layer.name, name_width, layer.kind, kind_width,
               shown(layer.output), output_width, grouped(static_cast<std::uint64_t>(layer.parameters)),
               grouped(static_cast<std::uint64_t>(layer.multiply_adds)));
  }
}

void show_model(const ModelListFlags& flags) {
  const model::ModelEntry entry = model::find_model(flags.name);
  const model::ModelOptions options = options_of(flags, entry);
  compute::set_threads(1);
  const model::ModelProfile profile = model::profile_model(options);
  const auto activations = model::measure_step_memory(options).of(static_cast<std::uint64_t>(flags.batch));
  const std::uint64_t step = 2 * profile.parameter_bytes + profile.buffer_bytes + activations;
  if (flags.json) {
    Json row{{"name", entry.name},
             {"help", entry.help},
             {"options", entry.options},
             {"input", options.input_shape},
             {"classes", options.classes},
             {"parameters", profile.parameters},
             {"multiply_adds", profile.multiply_adds},
             {"batch", flags.batch},
             {"memory",
              {{"parameters", profile.parameter_bytes},
               {"gradients", profile.parameter_bytes},
               {"buffers", profile.buffer_bytes},
               {"activations", activations},
               {"step", step}}},
             {"layers", Json::array()}};
    for (const model::LayerProfile& layer : profile.layers)
      row["layers"].push_back(to_json(layer));
    fmt::print("{}\n", row.dump());
    return;
  }
  fmt::print("{}: {}\n\n", entry.name, entry.help);
  fmt::print("input          {}, {} scores{}\n", shown(options.input_shape), options.classes,
             options.each_position ? " for each position" : "");
  fmt::print("parameters     {} ({})\n", grouped(static_cast<std::uint64_t>(profile.parameters)),
             human_bytes(profile.parameter_bytes));
  fmt::print("multiply-adds  {} a sample, forward\n", human_count(profile.multiply_adds));
  fmt::print("memory         {} for a batch of {}: parameters {}, gradients {}, buffers {}, activations {}\n",
             human_bytes(step), flags.batch, human_bytes(profile.parameter_bytes), human_bytes(profile.parameter_bytes),
             human_bytes(profile.buffer_bytes), human_bytes(activations));
  fmt::print("               and the optimizer's state: {} for SGD with momentum, {} for Adam\n",
             human_bytes(profile.parameter_bytes), human_bytes(2 * profile.parameter_bytes));
  fmt::print("options        {}\n\n", join_words(entry.options));
  print_layers(profile.layers);
}

}  // namespace

void add_model_list(CLI::App& model) {
  CLI::App* command = model.add_subcommand("list", "The models of the zoo, and what one costs.");
  auto flags = std::make_shared<ModelListFlags>();
  command->add_option("name", flags->name, "Model to look at; without it all are listed");
  command->add_option("--batch", flags->batch, "Samples of a step, for its memory")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--input", flags->input,
                      "Shape of a sample, as 3x224x224 (64 for 64 tokens). Default: the usual one");
  command->add_option("--classes", flags->classes, "Scores of a sample. Default: the usual number")
      ->check(CLI::Range(1, 100'000'000));
  command->add_option("--vocabulary", flags->vocabulary, "Tokens there are, for models of text")
      ->check(CLI::Range(1, 100'000'000));
  command->add_flag("--recompute", flags->recompute, "As with model.recompute = true");
  command->add_flag("--json", flags->json, "As JSON: one object, or one a line for the list");
  command->footer(
      "Multiply-adds are counted while a sample goes through the model; memory is measured on two small batches and "
      "scaled.\n"
      "Several lanes at once take as much each, in activations and gradients.\n"
      "\nExamples:\n"
      "  muster model list\n"
      "  muster model list resnet50 --batch 64\n"
      "  muster model list wrn-16-4 --input 3x32x32 --classes 100 --json");
  command->callback([flags] {
    if (flags->name.empty())
      list_models(flags->json);
    else
      show_model(*flags);
  });
}

}  // namespace muster::cli
