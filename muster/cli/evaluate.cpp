// muster evaluate: the metrics of a trained model, its confusion matrix and the samples it does worst on. The figures
// come from the function by which training validates, so both agree to the last digit.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/cli/checkpoint_flags.h"
#include "muster/cli/command.h"
#include "muster/cli/confusion.h"
#include "muster/cli/csv_text.h"
#include "muster/cli/model_words.h"
#include "muster/cli/output_file.h"
#include "muster/cli/runs.h"
#include "muster/data/open_alike.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/evaluation.h"
#include "muster/trainer/trained_model.h"

namespace muster::cli {
namespace {

struct EvaluateFlags {
  std::string model;
  trainer::TrainedModelOptions options;
  std::string data;
  std::string set = "test";
  std::string out;
  std::size_t worst = 10;
  bool skip_bad = false;
  bool json = false;
};

struct Worst {
  std::uint64_t id = 0;
  double loss = 0;          // of numbers: the absolute error
  std::int64_t answer = 0;  // of a classifier
  std::int64_t target = 0;
};

// Keeps the samples with the highest losses.
class WorstSamples {
 public:
  explicit WorstSamples(std::size_t most) : most_(most) {}
  void add(const Worst& sample) {
    if (most_ == 0 || (worst_.size() == most_ && !above(sample, worst_.front()))) return;
    worst_.push_back(sample);
    std::push_heap(worst_.begin(), worst_.end(), above);
    if (worst_.size() <= most_) return;
    std::pop_heap(worst_.begin(), worst_.end(), above);
    worst_.pop_back();
  }
  std::vector<Worst> sorted() const {
    std::vector<Worst> list = worst_;
    std::sort(list.begin(), list.end(), above);
    return list;
  }

 private:
  // A loss that is no number is the worst of all.
  static bool above(const Worst& a, const Worst& b) {
    const double x = std::isnan(a.loss) ? INFINITY : a.loss;
    const double y = std::isnan(b.loss) ? INFINITY : b.loss;
    return x != y ? x > y : a.id < b.id;
  }
  std::size_t most_;
  std::vector<Worst> worst_;  // a heap, the least of them in front
};

data::Alike chosen_samples(const trainer::TrainedModel& trained, const EvaluateFlags& flags) {
  if (!flags.data.empty()) {
    data::Alike alike = data::open_alike(trainer::source_options(trained.resolved.job), trained.card.form, flags.data);
    if (!alike.labelled)
      throw Error(ErrorKind::kInvalidInput, "says nothing about what the model should answer", flags.data,
                  "Without that there is nothing to compare; muster predict writes what the model says.");
    return alike;
  }
  const trainer::Datasets sets = trainer::open_data(trained.resolved.job);
  data::Alike alike;
  alike.samples = flags.set == "train" ? sets.train : flags.set == "validation" ? sets.validation : sets.test;
  alike.bad_samples = sets.bad_samples;
  alike.notes = sets.notes;
  alike.name = [set = flags.set, samples = alike.samples](std::uint64_t id) {
    const std::string name = samples->name(id);
    return name.empty() ? fmt::format("{}:{}", set, id) : name;
  };
  return alike;
}

// What Worst::loss is.
const char* loss_name(const data::SampleSpec& spec) {
  return spec.target == data::TargetKind::kValues ? "error" : "loss";
}

void write_worst(const std::string& file, const std::vector<Worst>& worst, const data::Alike& alike,
                 const data::SampleSpec& spec) {
  const bool classes = spec.target == data::TargetKind::kClass;
  std::string text = fmt::format("sample,{}{}\n", loss_name(spec), classes ? ",answer,target" : "");
  for (const Worst& sample : worst) {
    text += fmt::format("{},{}", csv_field(alike.name(sample.id)), sample.loss);
    if (classes)
      text +=
          fmt::format(",{},{}", csv_field(class_name(spec, sample.answer)), csv_field(class_name(spec, sample.target)));
    text += "\n";
  }
  write_atomically(file, text);
}

template <typename Work>
auto about_samples(const EvaluateFlags& flags, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw with_remedy(error, flags.skip_bad);
  }
}

void run_evaluate(const EvaluateFlags& flags) {
  const FoundModel found = find_model(flags.model);
  trainer::TrainedModel trained = trainer::open_trained(found.path, flags.options);
  if (flags.skip_bad) skip_bad_samples(trained.resolved.job);
  const std::vector<std::string> data = flags.data.empty() ? std::vector<std::string>() : std::vector{flags.data};
  for (const char* name : {"confusion.svg", "confusion.csv", "worst.csv"})
    if (!flags.out.empty())
      refuse_overwriting(std::filesystem::path(flags.out) / name, files_read(trained, data),
                         std::filesystem::path(name).extension().string());
  const data::Alike alike = about_samples(flags, [&] { return chosen_samples(trained, flags); });
  for (const std::string& note : alike.notes)
    fmt::print(stderr, "warning: {}\n", note);
  const data::SampleSpec& spec = trained.card.form.spec;
  const bool classes = spec.target == data::TargetKind::kClass;
  Confusion confusion(classes ? static_cast<std::size_t>(spec.classes) : 0);
  WorstSamples worst(flags.worst);
  trainer::EvaluationOptions options;
  options.task = trained.task;
  options.batch = trainer::evaluation_batch(trained.resolved.batch, trained.resolved.lanes);
  options.loader_threads = static_cast<int>(trained.resolved.job.data.loader_threads);
  options.each = [&](std::span<const std::uint64_t> ids, const torch::Tensor& answer, const torch::Tensor& target) {
    const torch::Tensor losses = trained.task->sample_losses(answer, target).to(torch::kFloat64).contiguous();
    const torch::Tensor chosen = classes ? answer.argmax(1).contiguous() : torch::Tensor();
    // Which samples others stand for: these are not among the worst, whatever the others are.
    const auto tolerant = std::dynamic_pointer_cast<const data::Tolerant>(alike.samples);
    const std::vector<std::uint64_t> damaged = tolerant ? tolerant->damaged(ids) : std::vector<std::uint64_t>();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (std::find(damaged.begin(), damaged.end(), ids[i]) != damaged.end()) continue;
      Worst sample{ids[i], losses.data_ptr<double>()[i], 0, 0};
      if (classes) {
        sample.answer = chosen.data_ptr<std::int64_t>()[i];
        sample.target = target.data_ptr<std::int64_t>()[i];
        confusion.add(sample.target, sample.answer);
      }
      worst.add(sample);
    }
  };
  const trainer::Evaluation evaluation = about_samples(flags, [&] {
    return *trainer::evaluate(
        *trained.net, [&](const torch::Tensor& input) { return trained.net->forward(input); }, alike.samples, options);
  });
  if (!flags.out.empty()) {
    std::filesystem::create_directories(flags.out);
    if (classes) {
      write_atomically(flags.out + "/confusion.svg", confusion_svg(confusion, spec));
      write_atomically(flags.out + "/confusion.csv", confusion_csv(confusion, spec));
    }
    write_worst(flags.out + "/worst.csv", worst.sorted(), alike, spec);
  }
  if (const std::string bad = describe_skipped(*alike.bad_samples, flags.skip_bad); !bad.empty())
    fmt::print(stderr, "warning: {}", bad);
  if (flags.json) {
    Json row{
        {"event", "evaluation"},         {"weights", trained.weights.string()},       {"checkpoint", trained.chosen},
        {"samples", evaluation.samples}, {"bad_samples", alike.bad_samples->count()}, {"loss", evaluation.loss}};
    for (const trainer::Metric& metric : evaluation.metrics)
      row[metric.name] = metric.value;
    fmt::print("{}\n", row.dump());
    return;
  }
  fmt::print("{}\nsamples  {}\n{}\n", describe_weights(found, trained), grouped(evaluation.samples),
             describe(evaluation));
  if (classes) fmt::print("\n{}", confusion_text(confusion, spec));
  if (flags.worst > 0) fmt::print("\nworst samples\n");
  for (const Worst& sample : worst.sorted()) {
    fmt::print("  {}  {} {:.4f}", alike.name(sample.id), loss_name(spec), sample.loss + 0.0);  // never "-0.0000"
    if (classes && sample.answer == sample.target)
      fmt::print("  {}, answered rightly", class_name(spec, sample.target));
    else if (classes)
      fmt::print("  {} taken for {}", class_name(spec, sample.target), class_name(spec, sample.answer));
    fmt::print("\n");
  }
  if (!flags.out.empty()) fmt::print("\nwrote {}\n", flags.out);
}

}  // namespace

void add_evaluate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("evaluate", "How good a trained model is, on its test set or other data.");
  auto flags = std::make_shared<EvaluateFlags>();
  command
      ->add_option("model", flags->model,
                   "A job's name (its newest run in runs/ with a checkpoint), the folder of a run, a checkpoint in it, "
                   "or a file of weights")
      ->required();
  command->add_option("--run", flags->options.run, "With a file of weights: the run that says which model it is");
  add_checkpoint_flags(*command, flags->options.checkpoint);
  command->add_option("--data", flags->data, "Other data, in the format of the training data");
  command->add_option("--set", flags->set, "Of the run's own data")
      ->check(CLI::IsMember({"train", "validation", "test"}))
      ->capture_default_str();
  command->add_option("--out", flags->out, "Folder for confusion.svg, confusion.csv and worst.csv");
  command
      ->add_option("--worst", flags->worst, "How many of the samples with the highest loss to name; of numbers: error")
      ->capture_default_str();
  command->add_flag("--skip-bad", flags->skip_bad, "Leave out what cannot be read, whatever the run does about it");
  command->add_flag("--json", flags->json, "One row of JSON");
  command->footer(
      "Examples:\n"
      "  muster evaluate runs/fashion-20260101-120000\n"
      "  muster evaluate runs/adult-20260101-120000 --data newer.csv --out report");
  command->callback([flags] { run_evaluate(*flags); });
}

}  // namespace muster::cli
