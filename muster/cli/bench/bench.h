// Benchmarks: ratios from one run on one machine, medians of interleaved repeats, one JSON object a row.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/json.h"
#include "muster/comm/group.h"
#include "muster/strategies/membership.h"
#include "muster/strategies/registry.h"

namespace muster::cli {

// REQUIRES: not empty.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

inline double microseconds_since(Clock::Instant start) {
  return std::chrono::duration<double, std::micro>(system_clock().now() - start).count();
}

// Processor time of all threads of this process, in user and system mode: what a core would have needed, whoever else
// used it.
double cpu_seconds();

// Prints a row: as JSON, or as "key value" pairs for people.
void print_row(const Json& row, bool json);

struct StepBench {
  std::string model = "resnet18";
  std::int64_t batch = 32;
  std::int64_t lanes = 1;
  std::int64_t threads = 1;
  std::int64_t rounds = 15;  // interleaved repeats
  std::int64_t steps = 5;    // timed steps in each
  std::string optimizer = "sgd";
  bool json = false;
  // Several workers, a batch each.
  std::vector<std::int64_t> workers;
  std::vector<std::string> strategies{strategies::default_strategy().name()};
  std::string against;
  std::string backend = "shm";
  double slow = 1;     // the last worker takes so many times as long for a lane
  double sleep = 0;    // milliseconds for which a lane sleeps instead of being computed; 0: it is computed
  std::string python;  // of --against; empty: the system's
  // Several hosts, with as many workers on each as `workers` says.
  std::int64_t hosts = 1;
  std::string link;  // what the link of a host carries, as tc writes it; empty: no limit
  // Of the processes it starts itself.
  std::string rank_folder;
  std::int64_t rank = 0;
  bool overlap = false;
  std::string role;     // on a host (host_roles.h)
  std::string address;  // of the first host
  std::string certs;    // by which hosts know each other; empty: they do not
  std::string turns;    // where a team is told to take its turn
  // Of bench join: one host more may come, and workers write down each step instead of taking turns.
  bool joins = false;
  std::int64_t width = 0;  // of the mlp's two layers; 0: as it is
};
void bench_step(const StepBench& options);
// bench_step with workers: processes of this program, and of PyTorch DDP, in turns.
void bench_workers(const StepBench& options);
// bench_step with hosts: the same on hosts that this process makes, joined by links of a given rate.
void bench_hosts(const StepBench& options);

// Lanes of each worker when one is slow: enough of them for the others to take what it does not get to.
constexpr std::int64_t kLanesOfUnevenWorkers = 4;

// What both kinds of `bench step` train.
struct StepTimes {
  std::vector<double> total, compute, update, wait, load, exchange;  // milliseconds a step
  std::int64_t lanes = 0;                                            // that this worker has computed
};
// With whom a worker trains: a group, or those whom a supervisor brings together.
struct StepCompany {
  comm::Group group{};
  std::optional<strategies::Supervised> supervised{};
};
class StepContender {
 public:
  StepContender(const StepBench& options, std::int64_t batch, std::int64_t lanes, const std::string& strategy,
                const StepCompany& company);
  ~StepContender();
  StepContender(const StepContender&) = delete;
  StepContender& operator=(const StepContender&) = delete;
  // Bytes that this worker holds of the model's state.
  std::size_t state_bytes() const;
  // One untimed step, which brings the side's own memory back into the caches, and then as many as the options say.
  void turn(StepTimes& times);
  // One step.
  void step(StepTimes& times);

 private:
  struct State;
  std::unique_ptr<State> state_;
};
Json step_row(const StepBench& options, const std::string& strategy, std::int64_t workers, std::int64_t lanes,
              const StepTimes& times);

struct OptimizerBench {
  std::string model = "resnet18";
  std::int64_t rounds = 31;
  bool json = false;
};
void bench_optimizer(const OptimizerBench& options);

struct ModelsBench {
  std::vector<std::string> models;  // empty: all
  std::string against;              // "torch": the same nets in Python
  std::int64_t batch = 8;
  std::int64_t side = 64;  // of pictures, for models that usually see larger ones
  std::int64_t threads = 1;
  std::int64_t rounds = 7;
  std::int64_t steps = 3;
  bool recompute = false;  // blocks keep only their input
  bool json = false;
};
void bench_models(const ModelsBench& options);

struct FilesBench {
  std::string source = "fashion-mnist";
  std::string path;
  std::string model = "cnn";
  std::int64_t batch = 64;
  std::int64_t rounds = 15;
  std::int64_t steps = 40;
  bool json = false;
};
void bench_files(const FilesBench& options);

struct CheckpointBench {
  std::string model = "mlp";
  std::int64_t batch = 32;  // of each worker
  std::vector<std::int64_t> workers{1, 2};
  std::int64_t every = 100;  // steps from checkpoint to checkpoint
  std::int64_t rounds = 5;
  std::string folder;  // empty: a temporary one
  bool json = false;
  // Of the processes it starts itself.
  std::string rank_folder;
  std::int64_t rank = 0;
};
void bench_checkpoint(const CheckpointBench& options);
struct DataBench {
  std::string source = "fashion-mnist";
  std::string path;
  std::vector<std::string> assignments;
  std::vector<std::int64_t> threads{1};
  std::int64_t batch = 64;
  double seconds = 3;
  bool json = false;
};
void bench_data(const DataBench& options);

struct CollectivesBench {
  std::vector<std::string> operations{"all_reduce"};
  std::vector<std::int64_t> ranks{2, 4};
  std::vector<std::string> sizes{"4K", "64K", "1M", "64M"};
  std::vector<std::string> backends{"shm", "shm-shared", "gloo", "mpi", "gloo-native", "mpi-native"};
  std::int64_t rounds = 15;
  bool json = false;
  // Of the processes it starts itself.
  std::string rank_folder;
  std::int64_t rank = 0;
  bool under_mpi = false;
};
void bench_collectives(const CollectivesBench& options);

struct ArenaBench {
  std::string size = "64M";
  std::vector<std::int64_t> ranks{1, 2};
  std::int64_t lanes = 0;
  std::int64_t rounds = 31;
  bool json = false;
  // Of the processes it starts itself.
  std::string rank_folder;
  std::int64_t rank = 0;
};
void bench_arena(const ArenaBench& options);

// "4096", "64K", "16M": bytes, a multiple of 4. Throws kInvalidInput.
std::uint64_t parse_bytes(const std::string& text);

}  // namespace muster::cli
