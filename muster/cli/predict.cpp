// muster predict: what a trained model says about files, as a CSV file that grows while it works.
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/cli/command.h"
#include "muster/cli/confusion.h"
#include "muster/cli/csv_text.h"
#include "muster/cli/runs.h"
#include "muster/data/open_alike.h"
#include "muster/trainer/batch_tensors.h"
#include "muster/trainer/batch_walk.h"
#include "muster/trainer/trained_model.h"

namespace muster::cli {
namespace {

struct PredictFlags {
  std::string model;
  trainer::TrainedModelOptions options;
  std::vector<std::string> data;
  std::string out;
  bool probabilities = false;
};

std::string header(const data::SampleSpec& spec, bool probabilities) {
  std::string text = "sample";
  if (spec.target == data::TargetKind::kValues) {
    for (std::uint64_t i = 0; i < spec.target_elements(); ++i)
      text += spec.target_elements() == 1 ? ",value" : fmt::format(",value{}", i);
    return text;
  }
  text += ",class,probability";
  for (std::int64_t c = 0; probabilities && c < spec.classes; ++c)
    text += "," + csv_field("p:" + class_name(spec, c));
  return text;
}

void write_classes(std::ostream& out, const std::string& sample, const float* scores, const data::SampleSpec& spec,
                   bool probabilities) {
  std::int64_t best = 0;
  for (std::int64_t c = 1; c < spec.classes; ++c) {
    if (scores[c] > scores[best]) best = c;
  }
  fmt::print(out, "{},{},{}", csv_field(sample), csv_field(class_name(spec, best)), scores[best]);
  for (std::int64_t c = 0; probabilities && c < spec.classes; ++c)
    fmt::print(out, ",{}", scores[c]);
  fmt::print(out, "\n");
}

void write_values(std::ostream& out, const std::string& sample, const float* values, const data::SampleSpec& spec) {
  fmt::print(out, "{}", csv_field(sample));
  for (std::uint64_t i = 0; i < spec.target_elements(); ++i) {
    const data::ValueScale scale = i < spec.target_scale.size() ? spec.target_scale[i] : data::ValueScale{};
    fmt::print(out, ",{}", static_cast<float>(static_cast<double>(values[i]) * scale.stddev + scale.mean));
  }
  fmt::print(out, "\n");
}

std::uint64_t predict_file(const trainer::TrainedModel& trained, const PredictFlags& flags, const std::string& file,
                           std::ostream& out) {
  const data::SampleSpec& spec = trained.card.form.spec;
  const data::Alike alike = data::open_alike(trainer::source_options(trained.resolved.job), trained.card.form, file);
  const torch::NoGradGuard no_grad;
  trainer::BatchWalkOptions options;
  options.loader_threads = static_cast<int>(trained.resolved.job.data.loader_threads);
  trainer::BatchWalk walk(alike.samples, options);
  while (data::Batch* const batch = walk.next()) {
    torch::Tensor answer = trained.net->forward(trainer::input_tensor(*batch));
    const bool classes = spec.target == data::TargetKind::kClass;
    if (classes) answer = answer.slice(1, 0, spec.classes).softmax(1);
    answer = answer.reshape({static_cast<std::int64_t>(batch->size()), -1}).contiguous();
    for (std::size_t i = 0; i < batch->size(); ++i) {
      const float* const row = answer.data_ptr<float>() + static_cast<std::int64_t>(i) * answer.size(1);
      const std::string sample = alike.name(batch->ids[i]);
      if (classes) {
        write_classes(out, sample, row, spec, flags.probabilities);
      } else {
        write_values(out, sample, row, spec);
      }
    }
    if (!out) throw Error(ErrorKind::kIo, "cannot be written", flags.out);
  }
  return alike.samples->size();
}

void run_predict(const PredictFlags& flags) {
  const trainer::TrainedModel trained = trainer::open_trained(find_model(flags.model), flags.options);
  const data::SampleSpec& spec = trained.card.form.spec;
  if (spec.target == data::TargetKind::kTokens)
    throw Error(ErrorKind::kInvalidInput, "is a language model: it writes text", flags.model, "Use muster generate.");
  std::ofstream file(flags.out);
  if (!file) throw Error(ErrorKind::kIo, "cannot be written", flags.out, "Name a file in a folder that is there.");
  fmt::print(file, "{}\n", header(spec, flags.probabilities));
  std::uint64_t samples = 0;
  for (const std::string& data : flags.data) {
    samples += predict_file(trained, flags, data, file);
    fmt::print(stderr, "{}: {} samples so far\n", data, grouped(samples));
  }
  file.close();
  if (!file) throw Error(ErrorKind::kIo, "cannot be written to its end", flags.out);
  fmt::print("wrote {} predictions to {}\n", grouped(samples), flags.out);
}

}  // namespace

void add_predict(CLI::App& app) {
  CLI::App* command = app.add_subcommand("predict", "Write down what a trained model says about files.");
  auto flags = std::make_shared<PredictFlags>();
  command
      ->add_option(
          "model", flags->model,
          "A job's name (its newest run in runs/), the folder of a run, a checkpoint in it, or a file of weights")
      ->required();
  command->add_option("--run", flags->options.run, "With a file of weights: the run that says which model it is");
  command->add_option("--checkpoint", flags->options.checkpoint, "Of a run: best, last or a step")
      ->capture_default_str();
  command
      ->add_option("--data", flags->data, "Files or folders in the format of the training data; they need no targets")
      ->required();
  command->add_option("--out", flags->out, "The CSV file to write")->required();
  command->add_flag("--probabilities", flags->probabilities, "A column for each class");
  command->footer(
      "Examples:\n"
      "  muster predict runs/adult-20260101-120000 --data new.csv --out answers.csv\n"
      "  muster predict runs/pets-20260101-120000 --data a.jpg b.jpg folder --out answers.csv");
  command->callback([flags] { run_predict(*flags); });
}

}  // namespace muster::cli
