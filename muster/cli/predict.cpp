// muster predict: what a trained model says about files, as a CSV file that is there when all of it is. Samples that
// cannot be read have no row where they may be skipped: the answer for another would be taken for theirs.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/cli/answer_rows.h"
#include "muster/cli/checkpoint_flags.h"
#include "muster/cli/command.h"
#include "muster/cli/model_words.h"
#include "muster/cli/output_file.h"
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
  bool skip_bad = false;
};

// The rows of the samples in `file`, but for those that cannot be read where these may be skipped; gives how many.
std::uint64_t predict_file(const trainer::TrainedModel& trained, const PredictFlags& flags, const std::string& file,
                           const std::shared_ptr<data::BadSamples>& bad, OutputFile& out) {
  const data::SampleSpec& spec = trained.card.form.spec;
  const data::Alike alike = data::open_alike(trainer::source_options(trained.resolved.job), trained.card.form, file,
                                             {.targets = false, .bad_samples = bad});
  for (const std::string& note : alike.notes)
    fmt::print(stderr, "warning: {}\n", note);
  const torch::NoGradGuard no_grad;
  trainer::BatchWalkOptions options;
  options.loader_threads = static_cast<int>(trained.resolved.job.data.loader_threads);
  trainer::BatchWalk walk(alike.samples, options);
  std::uint64_t written = 0;
  while (data::Batch* const batch = walk.next()) {
    torch::Tensor answer = trained.net->forward(trainer::input_tensor(*batch));
    const bool classes = spec.target == data::TargetKind::kClass;
    if (classes) answer = answer.slice(1, 0, spec.classes).softmax(1);
    answer = answer.reshape({static_cast<std::int64_t>(batch->size()), -1}).contiguous();
    // In the place of a sample that cannot be read stands another, whose answer is not its own.
    const std::vector<std::uint64_t> damaged =
        alike.tolerant ? alike.tolerant->damaged(batch->ids) : std::vector<std::uint64_t>();
    for (std::size_t i = 0; i < batch->size(); ++i) {
      if (std::find(damaged.begin(), damaged.end(), batch->ids[i]) != damaged.end()) continue;
      const float* const row = answer.data_ptr<float>() + static_cast<std::int64_t>(i) * answer.size(1);
      const std::string sample = alike.name(batch->ids[i]);
      out.write(answer_row(sample, row, spec, flags.probabilities));
      ++written;
    }
  }
  return written;
}

// The rows of all files; gives how many. Where bad samples are skipped, so is a file in which nothing can be read.
std::uint64_t predict_files(const trainer::TrainedModel& trained, const PredictFlags& flags, OutputFile& out) {
  const data::BadSampleOptions options = trainer::source_options(trained.resolved.job).bad_samples;
  const auto bad = std::make_shared<data::BadSamples>(options);
  std::uint64_t samples = 0;
  for (const std::string& file : flags.data) {
    const std::uint64_t bad_before = bad->count();
    try {
      samples += predict_file(trained, flags, file, bad, out);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kDamaged || !bad->skipping() || bad->count() > options.limit) throw;
      if (bad->count() == bad_before) bad->report(error);
    }
    fmt::print(stderr, "{}: {} sample{} so far\n", file, grouped(samples), samples == 1 ? "" : "s");
  }
  if (const std::string skipped = describe_skipped(*bad, flags.skip_bad); !skipped.empty())
    fmt::print(stderr, "warning: {}", skipped);
  if (samples == 0)
    throw Error(ErrorKind::kInvalidInput, "nothing of it can be read, so nothing is written", join_words(flags.data),
                "The lines above say why.");
  return samples;
}

void run_predict(const PredictFlags& flags) {
  const FoundModel found = find_model(flags.model);
  trainer::TrainedModel trained = trainer::open_trained(found.path, flags.options);
  const data::SampleSpec& spec = trained.card.form.spec;
  if (spec.target == data::TargetKind::kTokens)
    throw Error(ErrorKind::kInvalidInput, "is a language model: it writes text", flags.model, "Use muster generate.");
  refuse_overwriting(flags.out, files_read(trained, flags.data), ".csv");
  if (flags.skip_bad) skip_bad_samples(trained.resolved.job);
  fmt::print(stderr, "{}\n", describe_weights(found, trained));
  OutputFile out(flags.out);
  out.write(answers_header(trained.card.form, "sample", flags.probabilities));
  std::uint64_t samples = 0;
  try {
    samples = predict_files(trained, flags, out);
  } catch (const Error& error) {
    throw with_remedy(error, flags.skip_bad);
  }
  out.commit();
  fmt::print(stderr, "wrote {} prediction{} to {}\n", grouped(samples), samples == 1 ? "" : "s",
             flags.out == "-" ? "standard output" : flags.out);
}

}  // namespace

void add_predict(CLI::App& app) {
  CLI::App* command = app.add_subcommand("predict", "Write down what a trained model says about files.");
  auto flags = std::make_shared<PredictFlags>();
  command
      ->add_option("model", flags->model,
                   "A job's name (its newest run in runs/ with a checkpoint), the folder of a run, a checkpoint in it, "
                   "or a file of weights")
      ->required();
  command->add_option("--run", flags->options.run, "With a file of weights: the run that says which model it is");
  add_checkpoint_flags(*command, flags->options.checkpoint);
  command
      ->add_option("--data", flags->data, "Files or folders in the format of the training data; they need no targets")
      ->required();
  command
      ->add_option("--out", flags->out,
                   "The CSV file to write; what is there stays until all is written. - is standard output")
      ->required();
  command->add_flag("--skip-bad", flags->skip_bad, "Leave out what cannot be read, whatever the run does about it");
  command->add_flag("--probabilities", flags->probabilities, "A column for each class");
  command->footer(
      "Examples:\n"
      "  muster predict runs/adult-20260101-120000 --data new.csv --out answers.csv\n"
      "  muster predict runs/pets-20260101-120000 --data a.jpg b.jpg folder --out answers.csv");
  command->callback([flags] { run_predict(*flags); });
}

}  // namespace muster::cli
