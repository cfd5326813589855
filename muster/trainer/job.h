// A job: everything that decides the result of a training run, as the job file says it.
//
// The schema in job.cpp binds every key to a member here; docs/job-file.md is printed from it. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/config.h"
#include "muster/base/own_options.h"
#include "muster/base/shared_object.h"
#include "muster/compute/exemption.h"
#include "muster/compute/optimizer.h"
#include "muster/compute/schedule.h"
#include "muster/compute/tuning.h"
#include "muster/data/lane_plan.h"
#include "muster/data/sources.h"
#include "muster/federated/options.h"
#include "muster/federated/vertical/vertical_options.h"
#include "muster/model/registry.h"
#include "muster/pipeline/mesh.h"
#include "muster/strategies/registry.h"

namespace muster::trainer {

struct Job {
  std::string name;
  std::int64_t seed = 1;
  std::int64_t epochs = 10;
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> lanes;
  std::int64_t threads = 1;
  std::string device = "cpu";
  std::optional<std::int64_t> patience;
  std::string runs = "runs";
  bool ledger = false;

  struct {
    std::string source = "fashion-mnist";
    std::string path;
    double validation = 0;
    std::optional<std::int64_t> batch;
    std::optional<std::int64_t> lane_batch;
    std::optional<std::vector<double>> mean;
    std::optional<std::vector<double>> stddev;
    std::vector<std::int64_t> shape = {1, 28, 28};
    std::int64_t classes = 10;
    std::int64_t samples = 10000;
    std::int64_t test_samples = 1000;
    std::string test_path;
    std::string validation_path;
    double test_fraction = 0.1;
    std::string on_bad_sample = "fail";
    std::int64_t bad_sample_limit = 100;
    std::string target;
    std::vector<std::string> numeric;
    std::vector<std::string> categorical;
    std::vector<std::string> ignore;
    std::optional<double> missing;
    std::string delimiter = ",";
    bool header = true;
    std::string tokens = "characters";
    std::int64_t window = 64;
    std::vector<std::string> augment;
    std::string placement = "any";
    std::string partition = "consecutive";
    std::int64_t loader_threads = 1;
    std::int64_t prefetch = 4;
    std::vector<std::string> targets;
    std::string decimal = ".";
    std::string encoding = "utf-8";
    std::string labels;
    std::string file_column;
    std::string access = "shared";
    std::string cache = "muster-cache";
    std::int64_t cache_mb = 10240;
    std::int64_t copies = 2;
    std::string library;
    std::string library_sha256;
    std::string name;
    OwnOptions options;
  } data;

  struct {
    std::optional<std::string> name;
    std::string script;
    std::string library;
    std::string library_sha256;
    std::vector<std::int64_t> hidden;
    std::optional<double> dropout;
    std::optional<std::string> activation;
    std::optional<std::string> norm;
    std::optional<std::int64_t> groups;
    std::optional<std::int64_t> width;
    std::optional<std::int64_t> depth;
    std::optional<std::int64_t> heads;
    std::optional<std::int64_t> embedding;
    bool recompute = false;
    std::string init;
    std::vector<std::string> init_skip;
    std::vector<std::string> freeze;
    std::vector<std::string> unfreeze;
    OwnOptions options;
  } model;

  struct {
    std::string task = "classification";
    double label_smoothing = 0;
    std::optional<std::string> error;
    std::vector<std::string> class_weights;
    std::string library;
    std::string library_sha256;
    std::string name;
    OwnOptions options;
  } loss;

  struct {
    std::string name = "sgd";
    std::optional<double> lr;
    std::optional<double> momentum;
    std::optional<double> dampening;
    bool nesterov = false;
    std::optional<double> weight_decay;
    std::optional<double> beta1;
    std::optional<double> beta2;
    std::optional<double> eps;
    std::optional<double> trust;
    std::string exempt = "none";
    std::optional<double> clip_norm;
    std::string schedule = "constant";
    double warmup_epochs = 0;
    double warmup_start = 0.1;
    std::vector<double> milestones;
    double gamma = 0.1;
    double power = 1;
    double final_fraction = 0;
    std::string scaling = "none";
    std::int64_t base_batch = 32;
    std::vector<std::string> lr_factors;
    std::string init;
  } optimizer;

  struct Parallel {
    std::string strategy = strategies::default_strategy().name();
    IntegerRange workers{};
    std::string claims = "dynamic";
    double liveness_seconds = 2;
    double hang_seconds = 10;
    double start_seconds = 600;
    double orphan_seconds = 60;
    IntegerRange hosts{};
    std::string interface;
    std::string network = "gloo";
    double host_seconds = 5;
    bool sync_batch_norm = false;
    NamedIntegers mesh{};
    std::string schedule = "1f1b";
    std::optional<std::int64_t> chunks;
    std::vector<std::string> cut;
    std::vector<strategies::StrategyChoice> strategies =
        strategies::all_strategies();  // with what the file says of each

    // The one that `strategy` names. REQUIRES: there is one.
    const strategies::StrategyChoice& chosen() const;
    // What the keys of the mesh say; without one all workers are data parallel.
    pipeline::Mesh pipeline_mesh() const;
  } parallel;

  struct {
    std::optional<AutoInteger> every_steps;
    std::int64_t every_epochs = 1;
    std::int64_t keep = 3;
    double grace_seconds = 20;
  } checkpoint;

  federated::Options federated;
  federated::VerticalOptions vertical;

  // Its columns are with several parties: muster federated vertical.
  bool is_vertical() const { return data.partition == federated::kVerticalPartition; }
};

// The description of the job file, bound to `job`.
Schema job_schema(Job& job);

// A job that was read, checked and completed: lanes, batch and rates are resolved, from the job alone.
struct ResolvedJob {
  Job job;
  std::uint64_t batch = 0;
  std::uint64_t lanes = 0;
  double lr = 0;     // after the scaling rule
  std::string text;  // the job as TOML with every default
  Json json;
  // Of every "section.key": where it got its value ("job.toml:12", "--set data.batch=64"), or the file.
  std::map<std::string, std::string, std::less<>> places{};

  // An Error{kInvalidInput} about one key, as those of load_job, for what shows only beside data and model.
  Error invalid(std::string_view key, const std::string& message, const std::string& remedy = {}) const;
};

// Reads `path`, applies the assignments of --set in order, and resolves. Throws Error{kInvalidInput} that names the
// place, the key, what was found and what is allowed; also for a file that sets nothing, unless an assignment does.
ResolvedJob load_job(const std::filesystem::path& path, std::span<const std::string> assignments = {});
// The same for text; `name` stands for the file in messages.
ResolvedJob parse_job(std::string_view text, const std::string& name, std::span<const std::string> assignments = {});

// What the layers below are told. REQUIRES: a resolved job.
compute::OptimizerOptions optimizer_options(const ResolvedJob& resolved);
data::SourceOptions source_options(const Job& job);
// What [model] says; what the data says (input_shape, classes, each_position, vocabulary, columns) is for the caller.
model::ModelOptions model_options(const Job& job);
// The part that loss.task = "library" means.
PartOfLibrary task_of_library(const Job& job);
std::uint64_t total_steps(const Job& job, const data::BatchShape& shape);
compute::Tuning tuning(const Job& job);
compute::Schedule schedule(const Job& job, const data::BatchShape& shape);

// The first key that stands in the way of resuming a run of job `stored` with `now`, as an Error; nothing when there is
// none. Keys that do not change what the steps so far computed (epochs, checkpoint, runs, ...) may differ.
std::optional<Error> resume_obstacle(std::string_view stored, const ResolvedJob& now);
// Whether "section.key" is one of these.
bool may_differ_when_resumed(const std::string& key);

}  // namespace muster::trainer
