// The flags of all benchmarks, and what their rows have in common.
// Each benchmark is a file of its own and a line here.
#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/join.h"

#include <time.h>

#include <memory>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/cli/bench/blocks.h"
#include "muster/cli/bench/memory.h"
#include "muster/cli/bench/mesh.h"
#include "muster/cli/bench/pipeline.h"
#include "muster/cli/bench/ps.h"
#include "muster/cli/bench/search.h"
#include "muster/cli/bench/secure.h"
#include "muster/cli/bench/start.h"
#include "muster/cli/bench/tune.h"
#include "muster/cli/command.h"

namespace muster::cli {

double cpu_seconds() {
  timespec now{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

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

namespace {

void add_ps(CLI::App& bench) {
  CLI::App* ps = bench.add_subcommand("ps", "Parameter servers: workers push gradients and pull parameters, or rows.");
  auto o = std::make_shared<PsBench>();
  ps->add_option("--servers", o->servers, "Server processes")->capture_default_str()->check(CLI::Range(1, 32));
  ps->add_option("--workers", o->workers, "Worker processes")->capture_default_str()->check(CLI::Range(1, 32));
  ps->add_option("--mb", o->mb, "Millions of bytes of parameters")->capture_default_str()->check(CLI::Range(0.1, 1e5));
  ps->add_option("--chunk-kb", o->chunk_kb, "Parameters are cut into chunks of so many KiB")
      ->capture_default_str()
      ->check(CLI::Range(64, 1 << 16));
  ps->add_option("--transport", o->transport, "shm or grpc")
      ->capture_default_str()
      ->check(CLI::IsMember({"shm", "grpc"}));
  ps->add_flag("--sparse", o->sparse, "Rows of an embedding table instead of parameters");
  ps->add_option("--rows", o->rows, "Rows of the table")->capture_default_str()->check(CLI::Range(1, 1 << 30));
  ps->add_option("--width", o->width, "Floats of a row")->capture_default_str()->check(CLI::Range(1, 1 << 16));
  ps->add_option("--batch", o->batch, "Random keys of a push and a pull")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 24));
  ps->add_option("--rounds", o->rounds, "Timed pushes and pulls of each worker")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  ps->add_flag("--json", o->json, "One JSON object a line");
  ps->add_option("--rank-folder", o->rank_folder)->group("");
  ps->add_option("--rank", o->rank)->group("");
  ps->footer(
      "A round is a push of everything, by which the servers take a step of SGD, and a pull of what comes of it.\n"
      "gb_per_s and rows_per_s count both ways, of all workers together; gb_per_s_per_worker is the slowest one's.\n"
      "p50_us and p99_us are times of rounds, of the first worker.");
  ps->callback([o] { bench_ps(*o); });
}

// The net of a mesh that computes, and its peer.
void add_mesh_options(CLI::App& command, MeshBench& o) {
  const auto number = [&](const char* name, std::int64_t& value, const char* help, std::int64_t most) {
    command.add_option(name, value, help)->capture_default_str()->check(CLI::Range(std::int64_t{1}, most));
  };
  number("--layers", o.layers, "Blocks of the transformer", 1000);
  number("--d-model", o.d_model, "Its width, a multiple of the heads", 1 << 16);
  number("--heads", o.heads, "Heads of its attention", 1024);
  number("--context", o.context, "Tokens of a sequence", 1 << 16);
  number("--vocabulary", o.vocabulary, "Different tokens", 1 << 20);
  number("--batch", o.batch, "Sequences of a step, of all workers together: a multiple of the lanes", 1 << 20);
  number("--threads", o.threads, "Threads of each worker", 1024);
  number("--rounds", o.rounds, "Turns of each team", 10000);
  command.add_option("--against", o.against, "torch: the same net with PyTorch over Gloo, in turns")
      ->check(CLI::IsMember({"torch"}));
  command.add_option("--python", o.python, "With --against: the Python that has torch. Default: the system's");
  command.add_option("--team", o.team)->group("");
}

void add_tensor(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("tensor", "A transformer whose layers several workers compute together.");
  auto o = std::make_shared<MeshBench>();
  command->add_option("--workers", o->workers, "Members of the team, and workers of those to compare with")
      ->capture_default_str()
      ->check(CLI::Range(2, 64));
  command->add_option("--lanes", o->lanes, "Lanes of a step")->capture_default_str()->check(CLI::Range(1, 64));
  add_mesh_options(*command, *o);
  command->add_option("--steps", o->steps, "Timed steps of a turn")->capture_default_str()->check(CLI::Range(1, 1000));
  command->add_flag("--json", o->json, "One JSON object a line");
  command->add_option("--rank-folder", o->rank_folder)->group("");
  command->add_option("--rank", o->rank)->group("");
  command->footer(
      "Teams take turns: \"data\" has the workers each compute lanes of their own, \"tensor\" together, \"torch\" is\n"
      "PyTorch's parallelize_module. Times are medians of steps; wait_ms is what members wait for each other.");
  command->callback([o] { bench_mesh(*o); });
}

// What is said of a transformer means nothing to stages that sleep, and the other way round.
void refuse_other_kind(const CLI::App& command, bool computes) {
  const std::vector<std::string> of_sleep{"--sleep", "--width", "--picture"};
  const std::vector<std::string> of_transformer{"--layers", "--d-model", "--heads",  "--context", "--vocabulary",
                                                "--batch",  "--threads", "--rounds", "--against", "--python"};
  for (const std::string& name : computes ? of_sleep : of_transformer) {
    if (command.count(name) > 0)
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("{} means nothing {} --compute", name, computes ? "with" : "without"), "bench pipeline",
                  computes ? "Leave one of the two out." : "Add --compute, for a transformer instead of sleep.");
  }
}

void add_pipeline(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("pipeline", "How long the stages of a pipeline wait for each other.");
  auto o = std::make_shared<PipelineBench>();
  command->add_option("--stages", o->stages, "Stages, a process each")->capture_default_str()->check(CLI::Range(2, 64));
  command->add_option("--lanes", o->lanes, "Numbers of lanes in a step")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command->add_option("--schedule", o->schedules, "Schedules (gpipe, 1f1b, interleaved)")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--chunks", o->chunks, "Of a stage, with interleaved")
      ->capture_default_str()
      ->check(CLI::Range(2, 16));
  command->add_option("--sleep", o->sleep, "Milliseconds of a stage's forward; backward takes twice that")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 10000.0));
  command->add_option("--steps", o->steps, "Steps that are measured")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_option("--width", o->width, "Floats of a sample that stages pass on; a lane has two samples")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 24));
  command->add_option("--picture", o->picture,
                      "Draw the last step of each schedule, with the first number of lanes, into this SVG file");
  auto mesh = std::make_shared<MeshBench>();
  mesh->by = "pipeline";
  auto compute = std::make_shared<bool>(false);
  command->add_flag("--compute", *compute, "A transformer instead of sleep, beside workers with lanes of their own");
  add_mesh_options(*command, *mesh);
  command->add_flag("--json", o->json, "One JSON object a line");
  command->add_option("--rank-folder", o->rank_folder)->group("");
  command->add_option("--rank", o->rank)->group("");
  command->footer(
      "Stages sleep instead of computing, so that there may be more than cores; all else is what a job does. bubble "
      "is\n"
      "the share of all stages' time in which they do not compute, commits of steps included; bubble_theory is\n"
      "(p-1)/(m+p-1), with v chunks (p-1)/(v m+p-1). With --compute teams take turns: \"data\" has as many workers, "
      "with\n"
      "lanes of their own, \"torch\" is torch.distributed.pipelining. docs/model-parallel.md tells of schedules.");
  command->callback([o, mesh, compute, command] {
    refuse_other_kind(*command, *compute);
    if (!*compute) return bench_pipeline(*o);
    if (command->count("--lanes") == 0) o->lanes = {8};
    if (command->count("--schedule") == 0) o->schedules = {"1f1b"};
    if (command->count("--stages") == 0) o->stages = 2;
    mesh->workers = o->stages;
    mesh->chunks = o->chunks;
    mesh->steps = o->steps;
    mesh->json = o->json;
    mesh->rank_folder = o->rank_folder;
    mesh->rank = o->rank;
    for (const std::int64_t lanes : o->lanes) {
      for (const std::string& schedule : o->schedules) {
        mesh->lanes = lanes;
        mesh->schedule = schedule;
        bench_mesh(*mesh);
      }
    }
  });
}

void add_search(CLI::App& bench) {
  CLI::App* search = bench.add_subcommand("search", "Searchers of trials on functions whose minimum is known.");
  auto o = std::make_shared<SearchBench>();
  search->add_option("--searchers", o->searchers, "Searchers to compare (tpe, cma_es, gp, sobol, random, ...)")
      ->delimiter(',')
      ->capture_default_str();
  search->add_option("--functions", o->functions, "Of branin, hartmann6, rosenbrock, mixed, conditional. Default: all")
      ->delimiter(',');
  search->add_option("--trials", o->trials, "Trials of a search")->capture_default_str()->check(CLI::Range(1, 100000));
  search->add_option("--seeds", o->seeds, "Searches, each with a seed of its own")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  search->add_option("--set", o->assignments, "An option of the searchers, as key=value");
  search->add_option("--history", o->history, "Time --trials questions after so many finished trials instead")
      ->check(CLI::Range(1, 1000000));
  search->add_flag("--json", o->json, "One JSON object a line");
  search->footer(
      "regret is how far the best value of a search lies above the minimum: the median over the seeds, and quartiles.\n"
      "ask_us is the median time of a question. tools/compare_searchers makes the same with Optuna, beside it.");
  search->callback([o] { bench_search(*o); });
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure speed on this machine, against plain LibTorch.");
  bench->require_subcommand(1);
  bench->footer(
      "Both sides of a comparison run in one process, in turns; figures are medians. Let nothing else run meanwhile.\n"
      "\nExamples:\n"
      "  muster bench step --model resnet18 --batch 32 --json\n"
      "  muster bench models --models resnet18,lstm --against torch --json\n"
      "  muster bench optimizer --json\n"
      "  muster bench memory --models cnn --workers 1,2\n"
      "  muster bench files --source fashion-mnist\n"
      "  muster bench data --source table.csv --threads 1,2 --json\n"
      "  muster bench collectives --ranks 2 --sizes 64K,1M --json\n"
      "  muster bench ps --servers 1 --workers 1 --mb 46 --json\n"
      "  muster bench search --searchers tpe,gp --functions branin --trials 50\n"
      "  muster bench tune --trials 10000 --slots 2 --json\n"
      "  muster bench pipeline --stages 4 --lanes 8 --json");

  add_search(*bench);
  add_pipeline(*bench);
  add_tensor(*bench);
  CLI::App* step = bench->add_subcommand("step", "A whole training step: Muster and the plain LibTorch loop.");
  auto s = std::make_shared<StepBench>();
  step->add_option("--model", s->model,
                   "Model of the zoo (mlp is 784-2048-2048-10; transformer is 4 layers of 256, sequences of 64 tokens)")
      ->capture_default_str();
  step->add_option("--batch", s->batch, "Samples of a step")->capture_default_str()->check(CLI::Range(1, 1 << 20));
  step->add_option("--lanes", s->lanes, "Lanes of a step")->capture_default_str()->check(CLI::Range(1, 64));
  step->add_option("--threads", s->threads, "Threads a lane, and of the plain loop")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  step->add_option("--optimizer", s->optimizer, "sgd or adam")
      ->capture_default_str()
      ->check(CLI::IsMember({"sgd", "adam"}));
  step->add_option("--rounds", s->rounds, "Turns of each side")->capture_default_str()->check(CLI::Range(1, 100000));
  step->add_option("--steps", s->steps, "Timed steps in a turn")->capture_default_str()->check(CLI::Range(1, 100000));
  step->add_option("--workers", s->workers, "Numbers of worker processes to compare, each worker with --batch samples")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  step->add_option(
          "--strategies", s->strategies,
          "With --workers or --hosts: the strategies to compare; all_reduce+overlap sums while backward goes on, and\n"
          "so does shared_sync+early between hosts; shared_sync+certs has mutual TLS between them")
      ->delimiter(',')
      ->capture_default_str();
  step->add_option("--against", s->against,
                   "With --workers or --hosts: ddp compares with PyTorch DDP over Gloo (python3-torch)");
  step->add_option("--backend", s->backend, "With --workers: shm, or gloo over loopback as between hosts")
      ->capture_default_str()
      ->check(CLI::IsMember({"shm", "gloo"}));
  step->add_option("--slow", s->slow,
                   "With --workers: the last worker takes so many times as long for a lane; four lanes a worker")
      ->check(CLI::Range(1.0, 100.0));
  step->add_option("--sleep", s->sleep,
                   "Milliseconds for which a lane sleeps instead of being computed: the cost of many workers or hosts "
                   "on few cores")
      ->check(CLI::Range(0.0, 60000.0));
  step->add_option("--python", s->python, "With --against ddp: the Python that has torch. Default: the system's");
  step->add_option("--hosts", s->hosts,
                   "Hosts that this command makes as network namespaces (root), with --workers on each (default: 1)")
      ->check(CLI::Range(1, 64));
  step->add_option("--link", s->link, "With --hosts: what each host's link carries, as 1gbit. Default: no limit");
  step->add_option("--role", s->role)->group("");
  step->add_option("--address", s->address)->group("");
  step->add_option("--certs", s->certs)->group("");
  step->add_option("--turns", s->turns)->group("");
  step->add_option("--rank-folder", s->rank_folder)->group("");
  step->add_option("--rank", s->rank)->group("");
  step->add_flag("--overlap", s->overlap)->group("");
  step->add_flag("--joins", s->joins)->group("");
  step->add_option("--width", s->width)->group("");
  step->add_flag("--json", s->json, "One JSON object a line");
  step->footer(
      "Times are milliseconds a step: compute is forward and backward, update is reduce, optimizer and commit, load is "
      "waiting\n"
      "for samples, wait is waiting for other workers. The plain row is optimizer.zero_grad(), forward, backward, step "
      "with\n"
      "torch::optim on tensors that are ready in memory; SGD has momentum 0.9 and weight decay 1e-4.\n"
      "With --workers there is one lane a worker. efficiency compares samples/s with as many times one worker's,\n"
      "of_ceiling with that of as many processes that each train a model of their own (the row apart), ratio_to_ddp "
      "with\n"
      "DDP's. host_mb is the model's state on the host (parameters, gradients, optimizer state, in "
      "all\n"
      "copies), process_mb the whole memory of all processes of the row. With --slow of_speeds compares lanes/s with "
      "the\n"
      "sum of what each worker computes while it computes, and slow_share is the part of the lanes that the slow one "
      "had.\n"
      "With --hosts workers counts those of all hosts. bytes_between_hosts is what all hosts send in a step, with "
      "headers;\n"
      "exchange_ms the time in which sums go from host to host, link_share the part of the link's rate that is used "
      "then,\n"
      "link_gbit_per_s what plain TCP gets over the link, both ways at once.");
  step->callback([s] { bench_step(*s); });

  CLI::App* models = bench->add_subcommand("models", "Forward and backward of the zoo's models.");
  auto m = std::make_shared<ModelsBench>();
  models->add_option("--models", m->models, "Models of the zoo. Default: all")->delimiter(',');
  models
      ->add_option("--against", m->against,
                   "torch: the same nets in Python (python3-torch, python3-torchvision), in turns")
      ->check(CLI::IsMember({"torch"}));
  models->add_option("--batch", m->batch, "Samples of a step")->capture_default_str()->check(CLI::Range(2, 1 << 20));
  models->add_option("--side", m->side, "Height and width of pictures, for models that usually see 224x224")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  models->add_option("--threads", m->threads, "Threads of each side")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  models->add_option("--rounds", m->rounds, "Turns of each side")->capture_default_str()->check(CLI::Range(1, 100000));
  models->add_option("--steps", m->steps, "Timed steps in a turn")->capture_default_str()->check(CLI::Range(1, 100000));
  models->add_flag("--recompute", m->recompute, "As with model.recompute = true");
  models->add_flag("--json", m->json, "One JSON object a line");
  models->footer(
      "A step is forward, cross-entropy and backward, without an optimizer. Times are medians in milliseconds. ratio "
      "is\n"
      "Muster's time by Python's, of medians of turns that follow each other; cpu_ratio the same by processor time, "
      "for\n"
      "machines that others use as well. Both sides have the same number of parameters, or it is an error.");
  models->callback([m] { bench_models(*m); });

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

  CLI::App* checkpoint =
      bench->add_subcommand("checkpoint", "Training with a checkpoint every K steps, and the same steps without.");
  auto k = std::make_shared<CheckpointBench>();
  checkpoint->add_option("--model", k->model, "Model of the zoo")->capture_default_str();
  checkpoint->add_option("--batch", k->batch, "Samples of a step, for each worker")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  checkpoint->add_option("--workers", k->workers, "Numbers of worker processes")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  checkpoint->add_option("--every", k->every, "K: steps from checkpoint to checkpoint")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  checkpoint->add_option("--rounds", k->rounds, "Turns of each side, of K steps")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  checkpoint->add_option("--folder", k->folder, "Where the checkpoints go: the disk to measure. Default: temporary");
  checkpoint->add_flag("--json", k->json, "One JSON object a line");
  checkpoint->add_option("--rank-folder", k->rank_folder)->group("");
  checkpoint->add_option("--rank", k->rank)->group("");
  checkpoint->footer(
      "ratio is the time of K steps with one checkpoint, divided by that of K steps without. blocked_ms is how long "
      "training\n"
      "stood still for the copy, writing_ms how long it took until the checkpoint was on disk, overrun_ms how much of "
      "that was\n"
      "left after the K steps (it counts as time with). cost_ms is what one checkpoint costs in all.");
  checkpoint->callback([k] { bench_checkpoint(*k); });

  CLI::App* memory = bench->add_subcommand("memory", "The memory that jobs take, and what was estimated before.");
  auto r = std::make_shared<MemoryBench>();
  memory->add_option("--models", r->models, "Models, each with a small job of its own")
      ->delimiter(',')
      ->capture_default_str();
  memory->add_option("--workers", r->workers, "Numbers of worker processes")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 2));
  memory->add_option("--strategy", r->strategy, "parallel.strategy")->capture_default_str();
  memory->add_option("--optimizer", r->optimizer, "optimizer.name")->capture_default_str();
  memory->add_flag("--json", r->json, "One JSON object a line, with the items of the estimate");
  memory->footer(
      "estimate_mb is what muster check --memory says, peak_mb the most that the job's processes had together while "
      "it\n"
      "trained, with what they share counted once, ratio the one by the other. docs/memory.md.");
  memory->callback([r] { bench_memory(*r); });

  CLI::App* data = bench->add_subcommand("data", "Samples a second out of a data source, without a model.");
  auto d = std::make_shared<DataBench>();
  data->add_option("--source", d->source, "Name of a source, a job file, or a file or folder of data")
      ->capture_default_str();
  data->add_option("--path", d->path, "File or folder of the source");
  data->add_option("--set", d->assignments, "data.key=value, as for muster train; may be repeated")
      ->allow_extra_args(false);
  data->add_option("--threads", d->threads, "Numbers of loader threads")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  data->add_option("--batch", d->batch, "Samples of a batch")->capture_default_str()->check(CLI::Range(1, 1 << 20));
  data->add_option("--seconds", d->seconds, "Time for each row")->capture_default_str()->check(CLI::Range(0.1, 3600.0));
  data->add_flag("--json", d->json, "One JSON object a line");
  data->footer(
      "mb_per_s is what the model would get (4 bytes a number, 8 a token); open_mb_per_s is the size of the files by "
      "the\n"
      "time until the source was open, which is parsing for csv and next to nothing for packed.");
  data->callback([d] { bench_data(*d); });

  CLI::App* collectives = bench->add_subcommand(
      "collectives", "Collectives between processes of this machine: Muster's, Gloo's and MPI's.");
  auto c = std::make_shared<CollectivesBench>();
  collectives
      ->add_option("--op", c->operations, "all_reduce, reduce_scatter, all_gather, broadcast, all_to_all, barrier")
      ->delimiter(',')
      ->capture_default_str();
  collectives->add_option("--ranks", c->ranks, "Numbers of processes")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  collectives->add_option("--sizes", c->sizes, "Bytes of a rank's longest buffer, with K, M or G")
      ->delimiter(',')
      ->capture_default_str();
  collectives
      ->add_option("--backends", c->backends,
                   "shm, gloo, mpi: Muster's; shm-shared: of a shared array; gloo-native, mpi-native: the peers' own")
      ->delimiter(',')
      ->capture_default_str();
  collectives->add_option("--rounds", c->rounds, "Turns of each backend")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  collectives->add_flag("--json", c->json, "One JSON object a line");
  collectives->add_option("--rank-folder", c->rank_folder)->group("");
  collectives->add_option("--rank", c->rank)->group("");
  collectives->add_flag("--under-mpi", c->under_mpi)->group("");
  collectives->footer(
      "ratio_to_mpi is MPI's own time (mpi-native) divided by the row's: 4 means four times as fast as Open MPI.\n"
      "The machine row tells the limits: memory_gb_per_s is what all ranks together read and write, and\n"
      "core_to_core_gb_per_s what one rank reads of what others wrote. of_memory_bandwidth is the time that reading "
      "and\n"
      "writing each rank's array once would take, as a share of the row's time.");
  collectives->callback([c] { bench_collectives(*c); });

  CLI::App* arena =
      bench->add_subcommand("arena", "One synchronous update without the computing: reduce, update, commit.");
  auto a = std::make_shared<ArenaBench>();
  arena->add_option("--size", a->size, "Bytes of parameters, with K, M or G")->capture_default_str();
  arena->add_option("--ranks", a->ranks, "Numbers of processes")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  arena->add_option("--lanes", a->lanes, "Lanes of a step; 0: one for each process")
      ->capture_default_str()
      ->check(CLI::Range(0, 64));
  arena->add_option("--rounds", a->rounds, "Timed updates")->capture_default_str()->check(CLI::Range(1, 100000));
  arena->add_flag("--json", a->json, "One JSON object a line");
  arena->add_option("--rank-folder", a->rank_folder)->group("");
  arena->add_option("--rank", a->rank)->group("");
  arena->footer(
      "ns_per_byte is time for each byte of parameters; times_copy is how often the processes could have copied the\n"
      "parameters once, each its share, in that time.");
  arena->callback([a] { bench_arena(*a); });

  add_ps(*bench);
  add_tune_bench(*bench);
  add_secure_bench(*bench);
  add_blocks_bench(*bench);
  add_join_bench(*bench);
  add_start_bench(*bench);
}

}  // namespace muster::cli
