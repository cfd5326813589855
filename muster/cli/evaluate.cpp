// muster evaluate: the metrics of a trained model, its confusion matrix and the samples it does worst on.
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
#include "muster/cli/command.h"
#include "muster/cli/confusion.h"
#include "muster/cli/csv_text.h"
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
  bool json = false;
};

struct Worst {
  std::uint64_t id = 0;
  double loss = 0;
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
  alike.name = [set = flags.set](std::uint64_t id) { return fmt::format("{}:{}", set, id); };
  return alike;
}

void write_worst(const std::string& file, const std::vector<Worst>& worst, const data::Alike& alike,
                 const data::SampleSpec& spec) {
  const bool classes = spec.target == data::TargetKind::kClass;
  std::string text = classes ? "sample,loss,answer,target\n" : "sample,loss\n";
  for (const Worst& sample : worst) {
    text += fmt::format("{},{}", csv_field(alike.name(sample.id)), sample.loss);
    if (classes)
      text +=
          fmt::format(",{},{}", csv_field(class_name(spec, sample.answer)), csv_field(class_name(spec, sample.target)));
    text += "\n";
  }
  write_atomically(file, text);
}

void run_evaluate(const EvaluateFlags& flags) {
  const trainer::TrainedModel trained = trainer::open_trained(find_model(flags.model), flags.options);
  const data::Alike alike = chosen_samples(trained, flags);
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
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Worst sample{ids[i], losses.data_ptr<double>()[i], 0, 0};
      if (classes) {
        sample.answer = chosen.data_ptr<std::int64_t>()[i];
        sample.target = target.data_ptr<std::int64_t>()[i];
        confusion.add(sample.target, sample.answer);
      }
      worst.add(sample);
    }
  };
  const trainer::Evaluation evaluation = *trainer::evaluate(
      *trained.net, [&](const torch::Tensor& input) { return trained.net->forward(input); }, alike.samples, options);
  if (!flags.out.empty()) {
    std::filesystem::create_directories(flags.out);
    if (classes) {
      write_atomically(flags.out + "/confusion.svg", confusion_svg(confusion, spec));
      write_atomically(flags.out + "/confusion.csv", confusion_csv(confusion, spec));
    }
    write_worst(flags.out + "/worst.csv", worst.sorted(), alike, spec);
  }
  if (flags.json) {
    Json row{{"event", "evaluation"},
             {"weights", trained.weights.string()},
             {"samples", evaluation.samples},
             {"loss", evaluation.loss}};
    for (const trainer::Metric& metric : evaluation.metrics)
      row[metric.name] = metric.value;
    fmt::print("{}\n", row.dump());
    return;
  }
  fmt::print("weights  {}\nsamples  {}\n{}\n", trained.weights.string(), grouped(evaluation.samples),
             describe(evaluation));
  if (classes) fmt::print("\n{}", confusion_text(confusion, spec));
  if (flags.worst > 0) fmt::print("\nworst samples\n");
  for (const Worst& sample : worst.sorted()) {
    fmt::print("  {}  loss {:.4f}", alike.name(sample.id), sample.loss);
    if (classes) fmt::print("  {} taken for {}", class_name(spec, sample.target), class_name(spec, sample.answer));
    fmt::print("\n");
  }
  if (!flags.out.empty()) fmt::print("\nwrote {}\n", flags.out);
}

}  // namespace

void add_evaluate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("evaluate", "How good a trained model is, on its test set or other data.");
  auto flags = std::make_shared<EvaluateFlags>();
  command
      ->add_option(
          "model", flags->model,
          "A job's name (its newest run in runs/), the folder of a run, a checkpoint in it, or a file of weights")
      ->required();
  command->add_option("--run", flags->options.run, "With a file of weights: the run that says which model it is");
  command->add_option("--checkpoint", flags->options.checkpoint, "Of a run: best, last or a step")
      ->capture_default_str();
  command->add_option("--data", flags->data, "Other data, in the format of the training data");
  command->add_option("--set", flags->set, "Of the run's own data")
      ->check(CLI::IsMember({"train", "validation", "test"}))
      ->capture_default_str();
  command->add_option("--out", flags->out, "Folder for confusion.svg, confusion.csv and worst.csv");
  command->add_option("--worst", flags->worst, "How many of the samples with the highest loss to name")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "One row of JSON");
  command->footer(
      "Examples:\n"
      "  muster evaluate runs/fashion-20260101-120000\n"
      "  muster evaluate runs/adult-20260101-120000 --data adult.test --out report");
  command->callback([flags] { run_evaluate(*flags); });
}

}  // namespace muster::cli
