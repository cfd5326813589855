// muster model: look into files of weights, and turn one format into another; the zoo is in model_list.cpp. No torch
// here, but for TorchScript, which model_script.cpp writes.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/cli/checkpoint_flags.h"
#include "muster/cli/command.h"
#include "muster/cli/model_files.h"
#include "muster/cli/output_file.h"

namespace muster::cli {
namespace {

struct ShowFlags {
  std::string what;
  trainer::CheckpointChoice checkpoint;
  bool json = false;
};

struct ConvertFlags {
  std::string from;
  std::string to;
  std::string to_format;
  std::string from_format;
  std::string optimizer;
  std::string job;
  trainer::CheckpointChoice checkpoint;
};

// Of every tensor's name, type, shape and bytes, in order of the names: the same for every format and order of a file.
std::string contents_hash(const model::Weights& weights) {
  std::vector<const model::TensorView*> ordered;
  for (const model::TensorView& tensor : weights.tensors)
    ordered.push_back(&tensor);
  std::sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  Sha256 hash;
  for (const model::TensorView* const tensor : ordered) {
    const std::string head = fmt::format("{}\n{} {}\n", tensor->name, to_string(tensor->dtype), tensor->shape);
    hash.update(std::as_bytes(std::span(head)));
    hash.update(tensor->data);
  }
  return hash.finish();
}

std::uint64_t elements_of(const model::TensorView& tensor) {
  return tensor.data.size() / model::bytes_of(tensor.dtype);
}

void run_show(const ShowFlags& flags) {
  const ModelFile file = open_model(flags.what, flags.checkpoint);
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
  std::size_t widest = 4;
  Json rows = Json::array();
  for (const model::TensorView& tensor : file.weights.tensors) {
    elements += elements_of(tensor);
    bytes += tensor.data.size();
    widest = std::max(widest, tensor.name.size());
    rows.push_back({{"name", tensor.name},
                    {"dtype", to_string(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"bytes", tensor.data.size()}});
  }
  const std::string hash = contents_hash(file.weights);
  if (flags.json) {
    const Json row{{"file", file.path.string()},
                   {"format", to_string(file.weights.format)},
                   {"tensors", rows},
                   {"elements", elements},
                   {"bytes", bytes},
                   {"contents", hash},
                   {"notes", file.weights.notes}};
    fmt::print("{}\n", row.dump());
    return;
  }
  for (const model::TensorView& tensor : file.weights.tensors) {
    fmt::print("{:<{}}  {:<4}  {:>10}  {}\n", tensor.name, widest, to_string(tensor.dtype),
               human_bytes(tensor.data.size()), tensor.shape);
  }
  fmt::print("{}: {}, {} tensors, {} numbers, {}\n", file.path.string(), to_string(file.weights.format),
             file.weights.tensors.size(), grouped(elements), human_bytes(bytes));
  for (const std::string& note : file.weights.notes)
    fmt::print("note: {}\n", note);
  fmt::print("contents {}\n", hash);
}

trainer::ResolvedJob job_of(const ConvertFlags& flags, const ModelFile& file) {
  if (!flags.job.empty()) return trainer::load_job(flags.job);
  if (file.checkpoint) return trainer::parse_job(file.checkpoint->manifest.job, "the checkpoint's job");
  throw Error(ErrorKind::kInvalidInput, "TorchScript holds the model's code, and a file of weights does not tell it",
              flags.from, "Name the job whose model it is with --job, or convert a run.");
}

void run_convert(const ConvertFlags& flags) {
  const ModelFile file = open_model(flags.from, flags.checkpoint);
  if (!flags.from_format.empty() && file.weights.format != model::parse_weights_format(flags.from_format)) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("is {}, not {}", to_string(file.weights.format), flags.from_format), file.path.string());
  }
  // What is read is mapped, not copied: writing over it would destroy both.
  const std::filesystem::path inputs[] = {file.path, file.checkpoint ? file.checkpoint->path : file.path};
  for (const std::string& out : {flags.to, flags.optimizer})
    refuse_overwriting(out, inputs, "");
  const auto whole = [](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path));
  };
  if (!flags.optimizer.empty() && whole(flags.optimizer) == whole(flags.to))
    throw Error(ErrorKind::kInvalidInput, "weights and optimizer's state would be written to the same file", flags.to,
                "Name another file for --optimizer.");
  const model::WeightsFormat format =
      flags.to_format.empty() ? model::weights_format_of(flags.to) : model::parse_weights_format(flags.to_format);
  if (!flags.optimizer.empty() && !file.checkpoint) {
    throw Error(ErrorKind::kInvalidInput, "has no optimizer's state: it is no run and no checkpoint", flags.from,
                "Leave --optimizer out.");
  }
  switch (format) {
    case model::WeightsFormat::kSafetensors:
      model::write_safetensors(flags.to, file.weights.tensors, {{"format", "pt"}});
      break;
    case model::WeightsFormat::kPth:
      model::write_state_dict(flags.to, file.weights.tensors);
      break;
    case model::WeightsFormat::kTorchScript:
      write_script(job_of(flags, file), file, flags.to);
      break;
  }
  for (const std::string& note : file.weights.notes)
    fmt::print("note: {}\n", note);
  fmt::print("{} ({}, {} tensors) -> {} ({})\n", file.path.string(), to_string(file.weights.format),
             file.weights.tensors.size(), flags.to, to_string(format));
  if (flags.optimizer.empty()) return;
  export_optimizer(*file.checkpoint, flags.optimizer);
  fmt::print("optimizer's state -> {}\n", flags.optimizer);
}

void add_show(CLI::App& model) {
  CLI::App* command =
      model.add_subcommand("show", "The tensors of a file or run: names, types, shapes, sizes, a hash.");
  auto flags = std::make_shared<ShowFlags>();
  command->add_option("FILE", flags->what, "A safetensors, .pth or TorchScript file, a run, or a checkpoint")
      ->required();
  add_checkpoint_flags(*command, flags->checkpoint);
  command->add_flag("--json", flags->json, "As one JSON object");
  command->footer("Examples:\n  muster model show resnet18.pth\n  muster model show runs/fashion-... --last --json");
  command->callback([flags] { run_show(*flags); });
}

void add_convert(CLI::App& model) {
  CLI::App* command = model.add_subcommand("convert", "Write weights in another format.");
  auto flags = std::make_shared<ConvertFlags>();
  command->add_option("FROM", flags->from, "A safetensors, .pth or TorchScript file, a run, or a checkpoint")
      ->required();
  command->add_option("TO", flags->to, "The new file; its extension is its format: .safetensors, .pth, .pt")
      ->required();
  command->add_option("--to", flags->to_format, "Format, whatever the extension: safetensors, pth, torchscript");
  command->add_option("--from", flags->from_format, "Refuse FROM if it is not of this format");
  command->add_option("--optimizer", flags->optimizer,
                      "Of a run or checkpoint: write its optimizer's state here, for torch.optim in Python");
  command->add_option("--job", flags->job, "For TorchScript from a file of weights: the job whose model it is");
  add_checkpoint_flags(*command, flags->checkpoint);
  command->footer(
      "Examples:\n"
      "  muster model convert resnet18.pth resnet18.safetensors\n"
      "  muster model convert runs/fashion-... fashion.pth --optimizer optimizer.pth\n"
      "  muster model convert runs/fashion-... fashion.pt --last");
  command->callback([flags] { run_convert(*flags); });
}

}  // namespace

void add_model(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("model", "The models there are; files of weights: look into them, convert them.");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  muster model list\n"
      "  muster model list resnet50 --batch 64\n"
      "  muster model show resnet18.pth\n"
      "  muster model convert A.pth B.safetensors");
  add_model_list(*command);
  add_show(*command);
  add_convert(*command);
}

}  // namespace muster::cli
