// The description of the job file: type, limits, default and help of every key, bound to its member of Job. Help is
// written for people: it becomes docs/job-file.md as it stands.
#include <algorithm>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/data/sources.h"
#include "muster/strategies/registry.h"
#include "muster/strategies/strategy_traits.h"
#include "muster/trainer/job.h"

namespace muster::trainer {

const strategies::StrategyChoice& Job::Parallel::chosen() const {
  const strategies::StrategyChoice* const found = strategies::find_strategy(strategies, strategy);
  MUSTER_CHECK(found != nullptr, "a strategy that is not there");
  return *found;
}

pipeline::Mesh Job::Parallel::pipeline_mesh() const {
  pipeline::Mesh made;
  if (mesh.empty()) return made;
  const auto size = [&](const char* name) {
    const auto found = mesh.find(name);
    return found == mesh.end() ? std::size_t{1} : static_cast<std::size_t>(found->second);
  };
  made.data = size("data");
  made.pipeline = size("pipeline");
  made.tensor = size("tensor");
  made.schedule = pipeline::parse_schedule(schedule);
  if (made.schedule == pipeline::Schedule::kInterleaved && made.pipeline > 1)
    made.chunks = static_cast<std::size_t>(chunks.value_or(2));
  return made;
}

Schema job_schema(Job& job) {
  constexpr double kMostLanes = 64;
  constexpr double kMany = 1e15;  // far beyond any run, far below where integers stop being exact as numbers
  Schema schema;
  Section& j = schema.section("job", "What is trained, for how long, and what fixes the bits of the result.");
  j.field("name", &job.name, "Names the run's folder, runs/NAME-TIME. Default: the job file's name.");
  j.field("seed", &job.seed, "Of everything random: first weights, order of samples, dropout.").range(0, kMany);
  j.field("epochs", &job.epochs, "Passes over the training data.").range(1, 1e9);
  j.field("steps", &job.steps, "Steps instead of epochs, when given.").range(1, kMany);
  j.field(
       "lanes", &job.lanes,
       "Parts that each step's batch is cut into; part of the result. Not set: the largest power of two that leaves at "
       "least 32 samples a lane.")
      .range(1, kMostLanes);
  j.field("threads", &job.threads, "Threads that compute one lane, in LibTorch and in the BLAS; part of the result.")
      .range(1, 1024);
  j.field("device", &job.device, "Where to compute. A LibTorch with CUDA compiles, but Muster was never run on one.")
      .one_of({"cpu"});
  j.field("patience", &job.patience,
          "Stop early when the validation loss has not improved for so many epochs. Not set: never.")
      .range(1, 1e9);
  j.field("runs", &job.runs, "Folder that holds the runs.").non_empty();
  j.field("ledger", &job.ledger,
          "Record every sample that is loaded, for muster ledger check: 4 bytes a sample and 56 a lane, for ever.");

  Section& d = schema.section("data", "Where samples come from and how many make a step.");
  d.field("source", &job.data.source, "Kind of data.").one_of(data::source_names());
  d.field("path", &job.data.path,
          "File or folder of the data, as seen from the job file. Empty: where the source's Debian package puts it, if "
          "it has one.");
  d.field("validation", &job.data.validation,
          "Fraction of the training samples held out for validation. 0: validate on the test set.")
      .range(0, 0.9);
  d.field("batch", &job.data.batch, "Samples of a step, over all lanes. Default 64.").range(1, 1e9);
  d.field("lane_batch", &job.data.lane_batch,
          "Instead of batch: samples of each lane, so that more lanes make a larger batch.")
      .range(1, 1e9);
  d.field("mean", &job.data.mean,
          "Per channel, subtracted from pixels in 0..1. Not set: measured on the training set.");
  d.field("std", &job.data.stddev, "Per channel, divides pixels after mean. Not set: measured on the training set.")
      .above(0);
  d.field("shape", &job.data.shape,
          "Of one sample; for the sources synthetic and pictures (channels, height, width; 3, 224, 224 if not set).")
      .range(1, 1e6)
      .non_empty();
  d.field("classes", &job.data.classes, "For the source synthetic.").range(2, 1e6);
  d.field("samples", &job.data.samples, "Training samples; for the source synthetic.").range(1, kMany);
  d.field("test_samples", &job.data.test_samples, "For the source synthetic.").range(1, kMany);
  d.field("test_path", &job.data.test_path,
          "Test set in a file or folder of its own, for csv, numpy, text and pictures. Empty: test_fraction of the "
          "samples is held out.");
  d.field("validation_path", &job.data.validation_path,
          "Validation set in a file or folder of its own, for the same. Empty: as validation says.");
  d.field(
       "test_fraction", &job.data.test_fraction,
       "Part of the samples held out as test set where there is none: csv and numpy by a keyed draw, text at its end.")
      .range(0.001, 0.9);
  d.field(
       "on_bad_sample", &job.data.on_bad_sample,
       "A sample that cannot be used (a cut picture, a line with too few fields): \"fail\" ends the job and names it, "
       "\"skip\" goes on and counts it.")
      .one_of({"fail", "skip"});
  d.field("bad_sample_limit", &job.data.bad_sample_limit,
          "skip: with more bad samples than this the job fails after all.")
      .range(0, kMany);
  d.field("target", &job.data.target, "csv, pictures with labels: name of the column to predict. Empty: the last one.");
  d.field("targets", &job.data.targets, "csv, regression: instead of target, names of several columns to predict.");
  d.field("numeric", &job.data.numeric, "csv: names of columns of numbers. Columns in no list are inferred.");
  d.field("categorical", &job.data.categorical, "csv: names of columns whose values are categories.");
  d.field("ignore", &job.data.ignore, "csv: names of columns to leave out.");
  d.field("missing", &job.data.missing,
          "csv: stands for missing numbers. Not set: the mean of the column in the training rows.");
  d.field("delimiter", &job.data.delimiter, "csv, pictures with labels: one character between fields.").non_empty();
  d.field("decimal", &job.data.decimal, "csv: what stands before the fraction of a number: 1.5 or 1,5.")
      .one_of({".", ","});
  d.field("encoding", &job.data.encoding,
          "csv, text, pictures with labels: how characters are written. latin-1 is also what Windows calls 1252.")
      .one_of({"utf-8", "latin-1"});
  d.field("header", &job.data.header,
          "csv: the first line names the columns; false: their names are \"0\", \"1\", ...");
  d.field("labels", &job.data.labels,
          "pictures: CSV file with a header that names pictures below path and, in the column target, their classes. "
          "Empty: folders are classes.");
  d.field("file_column", &job.data.file_column,
          "pictures with labels: the column of the pictures' names. Empty: the first.");
  d.field("tokens", &job.data.tokens, "text: what models read.").one_of({"characters", "bytes"});
  d.field("window", &job.data.window, "text: tokens of a sample.").range(1, 1e6);
  d.field("augment", &job.data.augment,
          "What is done to training pictures, in this order: flip, crop:N, rotate:DEGREES, jitter:S, cutout:N, "
          "random-resized-crop, mixup:ALPHA (docs/data-pictures.md).");
  d.field("placement", &job.data.placement,
          "\"any\": every worker reads any sample. \"local\": every lane has samples of its own, so that a worker "
          "reads only those of its lanes (docs/partitioning.md).")
      .one_of({"any", "local"});
  d.field("partition", &job.data.partition,
          "placement local: which samples a lane has. consecutive, random, hash, balanced, stratified, "
          "dirichlet:ALPHA or file:PATH. Or vertical: several parties have columns of the same rows each, with muster "
          "federated vertical (docs/federated-vertical.md).");
  d.field(
       "access", &job.data.access,
       "Jobs of several hosts: \"shared\": every host sees the same data at path. \"fetch\": hosts that have no shards "
       "there (source packed) get them from those that have. \"copy\": these also keep a part of them each, so that "
       "the "
       "loss of a host loses no data (docs/data-hosts.md).")
      .one_of({"shared", "fetch", "copy"});
  d.field("cache", &job.data.cache,
          "access fetch, copy: folder in which a host keeps what it has fetched, as seen from where its agent was "
          "started.")
      .non_empty();
  d.field("cache_mb", &job.data.cache_mb,
          "access fetch, copy: MiB that a host keeps at most, beside its part (copy); the least used goes first.")
      .range(16, 1e9);
  d.field("copies", &job.data.copies, "access copy: hosts that keep each part of the data.").range(1, 64);
  d.field("loader_threads", &job.data.loader_threads, "Threads that read samples ahead of training.").range(1, 256);
  d.field("prefetch", &job.data.prefetch, "Lanes that are read ahead.").range(1, 1024);

  d.field("library", &job.data.library,
          "library: shared object with data sources of your own, of which name is one (docs/data.md). It is code: use "
          "files you trust.");
  d.field("library_sha256", &job.data.library_sha256,
          "Hash that the library must have. Not set: of the file there is.");
  d.field("name", &job.data.name, "library: the source that is meant.");
  d.field("options", &job.data.options,
          "library: keys of the source's own, as a section [data.options]. muster check tells which it has.");

  Section& m = schema.section("model", "What is trained.");
  m.field(
      "name", &job.model.name,
      "Model of the zoo (muster model list shows them), or of the library. Not set: cnn; for the source csv mlp, for "
      "the task language transformer.");
  m.field("script", &job.model.script,
          "Instead of name: a TorchScript file, trained from the weights in it. It is code: use files you trust.");
  m.field("library", &job.model.library,
          "Shared object with models of your own, of which name is one (docs/models.md). It is code: use files you "
          "trust.");
  m.field("library_sha256", &job.model.library_sha256,
          "Hash that the library must have. Not set: of the file there is.");
  m.field("options", &job.model.options,
          "Keys of a library's own model, as a section [model.options]. muster check tells which it has.");
  m.field("hidden", &job.model.hidden,
          "mlp, cnn, wide_deep: widths of the hidden layers. Empty: the model's own. [0]: none; an mlp is then linear.")
      .range(0, 1e6);
  m.field("dropout", &job.model.dropout,
          "mlp, cnn, wrn-D-K, lstm, gru, transformer, wide_deep: probability of dropping an activation. Not set: the "
          "model's own.")
      .range(0, 0.99);
  m.field("activation", &job.model.activation, "Of mlp, wide_deep and all convolutional models. Not set: relu.")
      .one_of({"relu", "leaky_relu"});
  m.field("norm", &job.model.norm, "Of all convolutional models. Not set: batch.").one_of({"batch", "group"});
  m.field("groups", &job.model.groups,
          "norm group: groups of channels. Not set: up to 32, of at least two channels each.")
      .range(1, 1e6);
  m.field("width", &job.model.width, "lstm, gru, transformer: width of the state. Not set: 256.").range(1, 1e6);
  m.field("depth", &job.model.depth, "lstm, gru, transformer: layers. Not set: 2; 4 for the transformer.")
      .range(1, 1e4);
  m.field("heads", &job.model.heads, "transformer: heads of attention. Not set: 4.").range(1, 1e4);
  m.field("embedding", &job.model.embedding, "lstm, gru, wide_deep: width of an embedding. Not set: the model's own.")
      .range(1, 1e6);
  m.field(
      "recompute", &job.model.recompute,
      "ResNets and transformer: blocks keep only their input for backward and are computed again there. Less memory, "
      "more time, the same bits.");
  m.field(
      "init", &job.model.init,
      "File of weights to begin from: safetensors or PyTorch's .pth. Every tensor of the model must be in it, but for "
      "those of init_skip.");
  m.field("init_skip", &job.model.init_skip,
          "Patterns of tensors that are begun anew in spite of init, a new last layer for example: [\"fc.*\"]. A star "
          "stands for any characters.");
  m.field(
      "freeze", &job.model.freeze,
      "Patterns of tensors that do not train. A batch norm that is frozen normalises by its statistics, which stay.");
  m.field("unfreeze", &job.model.unfreeze,
          "Ends freeze for a pattern once so many epochs are finished: [\"layer4.*=2\"]. The last that fits counts.");

  Section& l = schema.section("loss", "What is minimised.");
  l.field("task", &job.loss.task,
          "What the model is asked for: a class, numbers, the next token of a text at every position, or what a "
          "library of yours says (docs/training.md).")
      .one_of({"classification", "regression", "language", "library"});
  l.field("label_smoothing", &job.loss.label_smoothing,
          "classification, language: share of the target spread over all classes.")
      .range(0, 0.99);
  l.field("error", &job.loss.error, "regression: squared, absolute or Huber error. Not set: mse.")
      .one_of({"mse", "mae", "huber"});
  l.field("class_weights", &job.loss.class_weights,
          "classification: how much a sample of a class counts in training, as [\"cat=2\", \"dog=0.5\"], 1 where "
          "nothing is said; [\"balanced\"]: every class as much as any other.");

  l.field("library", &job.loss.library,
          "library: shared object with tasks of your own, of which name is one (docs/training.md). It is code: use "
          "files you trust.");
  l.field("library_sha256", &job.loss.library_sha256,
          "Hash that the library must have. Not set: of the file there is.");
  l.field("name", &job.loss.name, "library: the task that is meant.");
  l.field("options", &job.loss.options,
          "library: keys of the task's own, as a section [loss.options]. muster check tells which it has.");

  auto& opt = job.optimizer;
  Section& o = schema.section("optimizer",
                              "How the parameters follow the gradient. Keys that the chosen optimizer or "
                              "schedule does not know are errors.");
  o.field("name", &opt.name, "LARS and LAMB are made for large batches.")
      .one_of({"sgd", "adam", "adamw", "lars", "lamb"});
  o.field("lr", &opt.lr, "Learning rate. Not set: the optimizer's own default.").above(0);
  o.field("momentum", &opt.momentum, "sgd, lars.").range(0, 0.9999);
  o.field("dampening", &opt.dampening, "sgd.").range(0, 1);
  o.field("nesterov", &opt.nesterov, "sgd, lars.");
  o.field("weight_decay", &opt.weight_decay, "L2 in the gradient; decoupled for adamw and lamb.").range(0);
  o.field("beta1", &opt.beta1, "adam, adamw, lamb.").range(0, 0.999999);
  o.field("beta2", &opt.beta2, "adam, adamw, lamb.").range(0, 0.999999);
  o.field("eps", &opt.eps, "adam, adamw, lars, lamb.").above(0);
  o.field("trust", &opt.trust, "lars: the trust coefficient.").above(0);
  o.field("exempt", &opt.exempt, "Which tensors weight decay and trust ratios leave alone.")
      .one_of(compute::exemption_names());
  o.field("lr_factors", &opt.lr_factors,
          "Factors of the learning rate for patterns of parameters: [\"layer1.*=0.1\"]. The last that fits counts; 1 "
          "where none fits.");
  o.field("init", &opt.init,
          "State of torch.optim's SGD, Adam or AdamW from Python (.pth), to go on from. Not set: none.");
  o.field("clip_norm", &opt.clip_norm, "Largest norm of the whole gradient. Not set: no clipping.").above(0);
  o.field("schedule", &opt.schedule, "How the rate changes after warm-up.").one_of(compute::schedule_names());
  o.field("warmup_epochs", &opt.warmup_epochs, "Epochs in which the rate rises to its full value; may be a fraction.")
      .range(0, 1e9);
  o.field("warmup_start", &opt.warmup_start, "Fraction of the rate at which warm-up starts.").range(0, 1);
  o.field("milestones", &opt.milestones, "step: epochs at which the rate is multiplied by gamma.").range(0, 1e9);
  o.field("gamma", &opt.gamma, "step.").above(0);
  o.field("power", &opt.power, "polynomial.").above(0);
  o.field("final_fraction", &opt.final_fraction, "cosine, polynomial: the rate at the end, as a fraction.").range(0, 1);
  o.field("scaling", &opt.scaling,
          "\"linear\": lr is for base_batch samples, and grows with the batch (32 to 256: 8 times).")
      .one_of({"none", "linear"});
  o.field("base_batch", &opt.base_batch, "The batch for which lr was tuned.").range(1, 1e9);

  Section& p =
      schema.section("parallel", "Who computes. With the default strategy it changes speed, never the result.");
  const std::string replacing = strategies::strategies_with(&strategies::Traits::replaces_workers);
  p.field("strategy", &job.parallel.strategy, "How workers become one.").one_of(strategies::strategy_names());
  p.field("workers", &job.parallel.workers,
          fmt::format("Worker processes, on each host. A range as \"1:4\" starts with the most, and muster scale "
                      "changes it ({}).",
                      replacing))
      .range(1, 64);
  p.field("hosts", &job.parallel.hosts,
          fmt::format("Machines that train together ({}): muster train --listen on one, muster agent --join on the "
                      "others. With a range as \"1:4\" the job begins with the least, and others may come and go; for "
                      "strategies that replace lost workers.",
                      strategies::strategies_with(&strategies::Traits::crosses_hosts)))
      .range(1, 1024);
  p.field(
      "interface", &job.parallel.interface,
      "The network interface between hosts, as \"eth0\"; what goes over it is not encrypted. --interface says it for "
      "one host.");
  p.field("network", &job.parallel.network,
          "What moves sums of gradients between hosts. mpi: MPI's messages (UCX and RDMA below them where MPI has "
          "them), one worker a host, each of them a rank of mpirun or of srun --mpi=pmix; the job ends with the first "
          "worker that is lost. The result is the same.")
      .one_of({"gloo", "mpi"});
  p.field("host_seconds", &job.parallel.host_seconds,
          "A host that is not heard of for so long is given up; the others go on without it, or the job ends where "
          "workers cannot be replaced.")
      .range(0.5, 3600);
  p.field("claims", &job.parallel.claims,
          fmt::format("{}: who computes which lane. dynamic lets a worker that is done take lanes that others have not "
                      "begun.",
                      strategies::strategies_with(&strategies::Traits::claims_lanes)))
      .one_of({"static", "dynamic"});
  p.field(
       "liveness_seconds", &job.parallel.liveness_seconds,
       fmt::format("{}, others on several hosts: a worker without a sign of life for so long is killed, and replaced "
                   "if it can be, unless it only waits for a processor.",
                   replacing))
      .range(0.5, 3600);
  p.field("hang_seconds", &job.parallel.hang_seconds,
          fmt::format("{}: a worker that computes one lane for longer than this, and than ten steps usually take, is "
                      "killed and replaced.",
                      replacing))
      .range(0.5, 86400);
  p.field("start_seconds", &job.parallel.start_seconds,
          fmt::format("{}: a worker that does not train yet, and neither computes nor reads nor writes for so long, is "
                      "killed and replaced.",
                      replacing))
      .range(1, 86400);
  p.field("orphan_seconds", &job.parallel.orphan_seconds,
          fmt::format("{}, others on several hosts: workers whose coordinator was killed go on for so long; muster "
                      "attach takes them over. Then they write a checkpoint and end.",
                      replacing))
      .range(0, 86400);
  p.field("sync_batch_norm", &job.parallel.sync_batch_norm,
          fmt::format("{}, one lane a worker: batch norms of zoo models use the samples of all workers.",
                      strategies::strategies_with(&strategies::Traits::lanes_meet)));
  p.field(
       "mesh", &job.parallel.mesh,
       fmt::format("{}, one host: {{ data = 2, pipeline = 2 }} cuts the model into 2 stages, which 2 rows of workers "
                   "compute; the same result. With tensor = 2 each layer is divided between 2 workers; the same within "
                   "rounding. parallel.workers is their product.",
                   strategies::strategies_with(&strategies::Traits::passes_lanes)))
      .one_of({"data", "pipeline", "tensor"})
      .range(1, 64);
  p.field("schedule", &job.parallel.schedule,
          "Of a pipeline: gpipe (all lanes forward, then all back), 1f1b (keeps fewer lanes in memory), interleaved "
          "(several chunks of the model a stage, which waits less).")
      .one_of(pipeline::schedule_names());
  p.field("chunks", &job.parallel.chunks, "interleaved: parts of the model that each stage has. Not set: 2.")
      .range(2, 16);
  p.field("cut", &job.parallel.cut,
          "Of a pipeline: the pieces of the model (muster check shows them) that parts begin with, all but the first. "
          "Empty: about the same work for each.");
  for (strategies::StrategyChoice& strategy : job.parallel.strategies)
    strategy.add_keys(p);

  Section& c = schema.section("checkpoint", "What survives when everything dies.");
  c.field("every_steps", &job.checkpoint.every_steps,
          "Also checkpoint after so many steps; \"auto\": as often as measured cost and failures make it pay. Not set: "
          "only "
          "at epochs.")
      .range(1, kMany);
  c.field("every_epochs", &job.checkpoint.every_epochs, "Checkpoint after so many epochs.").range(1, 1e9);
  c.field("keep", &job.checkpoint.keep, "Newest checkpoints that stay, besides the best.").range(1, 1e6);
  c.field("grace_seconds", &job.checkpoint.grace_seconds,
          "After Ctrl-C or SIGTERM: longest time until the process ends, with or without its checkpoint.")
      .range(0.1, 3600);

  job.federated.add_keys(schema.section(
      "federated", "Training by clients that keep their data, with muster federated (docs/federated.md)."));
  job.vertical.add_keys(
      schema.section("vertical",
                     "Training by parties that hold different columns of the same rows, with muster federated vertical "
                     "(docs/federated-vertical.md)."));
  return schema;
}

}  // namespace muster::trainer
