#include "muster/cli/bench.h"

#include <memory>

#include <fmt/format.h>

#include "muster/cli/command.h"

namespace muster::cli {

void print_row(const Json& row, bool json) {
  if (json) {
    fmt::print("{}\n", row.dump());
  } else {
    std::string text;
    for (const auto& [key, value] : row.items()) {
      const std::string shown = value.is_string()         ? value.get<std::string>()
                                : value.is_number_float() ? fmt::format("{:.4g}", value.get<double>())
                                                          : value.dump();
      text += fmt::format("{}{} {}", text.empty() ? "" : "  ", key, shown);
    }
    fmt::print("{}\n", text);
  }
  std::fflush(stdout);
}

void add_bench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure speed on this machine, against plain LibTorch.");
  bench->require_subcommand(1);
  bench->footer(
      "Both sides of a comparison run in one process, in turns; figures are medians. Let nothing else run meanwhile.\n"
      "\nExamples:\n"
      "  muster bench step --model resnet18 --batch 32 --json\n"
      "  muster bench optimizer --json\n"
      "  muster bench files --source fashion-mnist");

  CLI::App* step = bench->add_subcommand("step", "A whole training step: Muster and the plain LibTorch loop.");
  auto s = std::make_shared<StepBench>();
  step->add_option("--model", s->model, "Model of the zoo (mlp is 784-2048-2048-10)")->capture_default_str();
  step->add_option("--batch", s->batch, "Samples of a step")->capture_default_str()->check(CLI::Range(1, 1 << 20));
  step->add_option("--lanes", s->lanes, "Lanes of a step")->capture_default_str()->check(CLI::Range(1, 64));
  step->add_option("--threads", s->threads, "Threads a lane, and of the plain loop")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  step->add_option("--rounds", s->rounds, "Turns of each side")->capture_default_str()->check(CLI::Range(1, 100000));
  step->add_option("--steps", s->steps, "Timed steps in a turn")->capture_default_str()->check(CLI::Range(1, 100000));
  step->add_flag("--json", s->json, "One JSON object a line");
  step->footer(
      "Times are milliseconds a step: compute is forward and backward, update is reduce, optimizer and commit, load is "
      "waiting\n"
      "for samples, wait is waiting for other workers. The plain row is optimizer.zero_grad(), forward, backward, step "
      "with\n"
      "torch::optim::SGD on tensors that are ready in memory; both use momentum 0.9 and weight decay 1e-4.");
  step->callback([s] { bench_step(*s); });

  CLI::App* optimizer =
      bench->add_subcommand("optimizer", "Muster's optimizers and torch::optim on a model's parameters.");
  auto o = std::make_shared<OptimizerBench>();
  optimizer->add_option("--model", o->model, "Model of the zoo")->capture_default_str();
  optimizer->add_option("--rounds", o->rounds, "Turns of each side")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  optimizer->add_flag("--json", o->json, "One JSON object a line");
  optimizer->callback([o] { bench_optimizer(*o); });

  CLI::App* files = bench->add_subcommand("files", "Training from files and training from the same tensors in memory.");
  auto f = std::make_shared<FilesBench>();
  files->add_option("--source", f->source, "Data source")->capture_default_str();
  files->add_option("--path", f->path, "Folder of the files");
  files->add_option("--model", f->model, "Model of the zoo")->capture_default_str();
  files->add_option("--batch", f->batch, "Samples of a step")->capture_default_str()->check(CLI::Range(1, 1 << 20));
  files->add_option("--rounds", f->rounds, "Turns of each side")->capture_default_str()->check(CLI::Range(1, 100000));
  files->add_option("--steps", f->steps, "Timed steps in a turn")->capture_default_str()->check(CLI::Range(1, 100000));
  files->add_flag("--json", f->json, "One JSON object a line");
  files->callback([f] { bench_files(*f); });
}

}  // namespace muster::cli
