// muster bench collectives: Muster's collectives and the peers' own, in turns, between processes that it starts itself.
//
// The ranks are this same program (rank_processes.h), under mpirun where MPI takes part. Rank 0 prints. Every contender
// runs in every turn, so that a slow moment of the machine is everybody's.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/rank_processes.h"
#include "muster/comm/checked_transport.h"
#include "muster/comm/copy.h"
#include "muster/comm/gloo_transport.h"
#include "muster/comm/group.h"
#include "muster/comm/mpi_transport.h"
#include "muster/comm/native_collectives.h"
#include "muster/comm/network_backend.h"
#include "muster/comm/shm_backend.h"
#include "muster/launch/child_process.h"

namespace muster::cli {
namespace {

using comm::Group;
using comm::Operation;

constexpr std::chrono::seconds kStartTimeout{60};
constexpr double kTurnMicroseconds = 4000;  // repeats of a short operation that make up one timed turn
constexpr std::size_t kMemoryBytes = std::size_t{64} << 20;
constexpr std::size_t kExchangeBytes = std::size_t{1} << 20;

const std::vector<std::pair<std::string, Operation>> kOperations{
    {"all_reduce", Operation::kAllReduce}, {"reduce_scatter", Operation::kReduceScatter},
    {"all_gather", Operation::kAllGather}, {"broadcast", Operation::kBroadcast},
    {"all_to_all", Operation::kAllToAll},  {"barrier", Operation::kBarrier}};
const std::vector<std::string> kBackends{"shm", "shm-shared", "gloo", "mpi", "gloo-native", "mpi-native"};

// The buffers of one operation on one rank. `bytes` is the longest buffer of a rank.
struct Buffers {
  std::span<float> input;
  std::span<float> output;
};

// One of those compared: does an operation once.
class Contender {
 public:
  virtual ~Contender() = default;
  virtual std::string name() const = 0;
  virtual bool can(Operation operation) const = 0;
  virtual void run(Operation operation, const Buffers& buffers) = 0;
};

class GroupContender final : public Contender {
 public:
  GroupContender(std::string name, Group group) : name_(std::move(name)), group_(std::move(group)) {}
  std::string name() const override { return name_; }
  bool can(Operation) const override { return true; }
  void run(Operation operation, const Buffers& buffers) override {
    switch (operation) {
      case Operation::kReduceScatter:
        return group_.reduce_scatter(buffers.input, buffers.output);
      case Operation::kAllGather:
        return group_.all_gather(buffers.input, buffers.output);
      case Operation::kBroadcast:
        return group_.broadcast(buffers.output, 0);
      case Operation::kAllToAll:
        return group_.all_to_all(buffers.input, buffers.output);
      case Operation::kBarrier:
        return group_.barrier();
      default:
        return group_.all_reduce(buffers.output);
    }
  }

 private:
  std::string name_;
  Group group_;
};

// all_reduce of a buffer that the group shares from the start.
class SharedContender final : public Contender {
 public:
  explicit SharedContender(Group group) : group_(std::move(group)) {}
  std::string name() const override { return "shm-shared"; }
  bool can(Operation operation) const override { return operation == Operation::kAllReduce; }
  void run(Operation, const Buffers& buffers) override {
    if (array_.as<float>().size() != buffers.output.size()) array_ = group_.share(buffers.output.size_bytes());
    group_.all_reduce(array_.as<float>());
  }

 private:
  Group group_;
  comm::SharedArray array_;
};

class MpiContender final : public Contender {
 public:
  explicit MpiContender(std::shared_ptr<comm::MpiRuntime> runtime) : runtime_(std::move(runtime)) {}
  std::string name() const override { return "mpi-native"; }
  bool can(Operation) const override { return true; }
  void run(Operation operation, const Buffers& buffers) override {
    comm::native_mpi_collective(*runtime_, operation, buffers.input, buffers.output);
  }

 private:
  std::shared_ptr<comm::MpiRuntime> runtime_;
};

class GlooContender final : public Contender {
 public:
  GlooContender(int rank, int size, const std::shared_ptr<comm::Store>& store)
      : gloo_(rank, size, store, Deadline::after(kStartTimeout)) {}
  std::string name() const override { return "gloo-native"; }
  bool can(Operation operation) const override { return operation == Operation::kAllReduce; }
  void run(Operation, const Buffers& buffers) override { gloo_.all_reduce(buffers.output); }

 private:
  comm::NativeGloo gloo_;
};

// One rank's side of the benchmark.
class RankBench {
 public:
  explicit RankBench(const CollectivesBench& options) : options_(options) {
    if (options.under_mpi) {
      runtime_ = comm::start_mpi();
      rank_ = comm::mpi_world(*runtime_).rank;
    } else {
      rank_ = static_cast<int>(options.rank);
    }
    size_ = static_cast<int>(options.ranks.front());
    store_ = comm::make_file_store(options.rank_folder);
    control_ = Group(
        comm::make_shm_backend(rank_, size_, comm::with_prefix(store_, "control"), Deadline::after(kStartTimeout)),
        kRankRunTimeout);
    for (const std::string& name : options.backends)
      contenders_.push_back(make_contender(name));
  }

  void run() {
    measure_machine();
    for (const std::string& operation : options_.operations) {
      for (const std::string& size : options_.sizes) {
        const auto found =
            std::find_if(kOperations.begin(), kOperations.end(), [&](const auto& o) { return o.first == operation; });
        measure(*found, found->second == Operation::kBarrier ? 0 : parse_bytes(size));
        if (found->second == Operation::kBarrier) break;
      }
    }
    control_.barrier();
  }

 private:
  std::unique_ptr<Contender> make_contender(const std::string& name) {
    const auto store = comm::with_prefix(store_, name);
    const Deadline deadline = Deadline::after(kStartTimeout);
    if (name == "mpi-native") return std::make_unique<MpiContender>(runtime_);
    if (name == "gloo-native") return std::make_unique<GlooContender>(rank_, size_, store);
    std::shared_ptr<comm::Backend> backend;
    if (name == "gloo") {
      comm::GlooOptions gloo;
      gloo.rank = rank_;
      gloo.size = size_;
      gloo.store = store;
      gloo.deadline = deadline;
      backend = std::make_shared<comm::NetworkBackend>(comm::with_checksums(comm::make_gloo_transport(gloo)));
    } else if (name == "mpi") {
      std::vector<int> members(static_cast<std::size_t>(size_));
      for (int rank = 0; rank < size_; ++rank)
        members[static_cast<std::size_t>(rank)] = rank;
      backend = std::make_shared<comm::NetworkBackend>(
          comm::with_checksums(comm::make_mpi_transport(runtime_, members, name)));
    } else {
      backend = comm::make_shm_backend(rank_, size_, store, deadline);
      if (name == "shm-shared") return std::make_unique<SharedContender>(Group(std::move(backend), kRankRunTimeout));
    }
    return std::make_unique<GroupContender>(name, Group(std::move(backend), kRankRunTimeout));
  }

  // The longest of all ranks: an operation is over when it is over for everyone.
  double slowest(double value) {
    control_.all_reduce(std::span(&value, 1), comm::Reduction::kMax);
    return value;
  }

  // What the machine itself can do, all ranks at once: memory read and written, and bytes that another core wrote.
  void measure_machine() {
    std::vector<float> array(kMemoryBytes / sizeof(float), 1.0F);
    const comm::SharedArray shared = control_.share(kExchangeBytes);
    std::vector<float> target(kExchangeBytes / sizeof(float));
    std::vector<double> memory;
    std::vector<double> exchange;
    for (std::int64_t turn = 0; turn < options_.rounds; ++turn) {
      control_.barrier();
      auto start = system_clock().now();
      for (float& value : array)
        value *= 1.0001F;
      memory.push_back(slowest(microseconds_since(start)));
      // Everyone writes its own part, which the all-reduce hands over: after it every slice was written by its owner.
      std::fill(shared.as<float>().begin(), shared.as<float>().end(), 1.0F);
      control_.all_reduce(shared.as<float>());
      start = system_clock().now();
      comm::copy_bytes(target.data(), shared.as<float>().data(), kExchangeBytes);
      exchange.push_back(slowest(microseconds_since(start)));
    }
    memory_us_ = median(memory);
    if (rank_ != 0) return;
    print_row({{"bench", "machine"},
               {"ranks", size_},
               {"memory_gb_per_s", 2e-3 * size_ * static_cast<double>(kMemoryBytes) / memory_us_},
               {"core_to_core_gb_per_s", 1e-3 * static_cast<double>(kExchangeBytes) / median(exchange)}},
              options_.json);
  }

  Buffers make_buffers(Operation operation, std::uint64_t bytes) {
    const auto parts = static_cast<std::size_t>(size_);
    std::size_t count = bytes / sizeof(float);
    if (operation != Operation::kAllReduce && operation != Operation::kBroadcast)
      count = std::max<std::size_t>(count / parts, 1) * parts;
    const std::size_t inputs = operation == Operation::kAllGather ? count / parts : count;
    const std::size_t outputs = operation == Operation::kReduceScatter ? count / parts : count;
    input_.assign(operation == Operation::kAllReduce || operation == Operation::kBroadcast ? 0 : inputs, 1.0F);
    output_.assign(outputs, 1.0F);
    return {input_, output_};
  }

  void measure(const std::pair<std::string, Operation>& operation, std::uint64_t bytes) {
    const Buffers buffers = make_buffers(operation.second, bytes);
    struct Lane {
      Contender* contender;
      int repeats;
      std::vector<double> times;
    };
    std::vector<Lane> lanes;
    for (const auto& contender : contenders_) {
      if (!contender->can(operation.second)) continue;
      contender->run(operation.second, buffers);  // touches memory, opens connections
      control_.barrier();
      const auto start = system_clock().now();
      contender->run(operation.second, buffers);
      const double once = std::max(0.1, slowest(microseconds_since(start)));
      lanes.push_back({contender.get(), static_cast<int>(std::clamp(kTurnMicroseconds / once, 1.0, 1000.0)), {}});
    }
    for (std::int64_t turn = 0; turn < options_.rounds; ++turn) {
      for (Lane& lane : lanes) {
        // Sums of sums overflow, and infinities may be slower to add.
        std::fill(buffers.output.begin(), buffers.output.end(), 0.0F);
        control_.barrier();
        const auto start = system_clock().now();
        for (int repeat = 0; repeat < lane.repeats; ++repeat)
          lane.contender->run(operation.second, buffers);
        lane.times.push_back(slowest(microseconds_since(start) / lane.repeats));
      }
    }
    if (rank_ != 0) return;
    std::optional<double> mpi;
    for (const char* peer : {"mpi", "mpi-native"}) {
      for (const Lane& lane : lanes) {
        if (lane.contender->name() == peer) mpi = median(lane.times);
      }
    }
    for (const Lane& lane : lanes)
      print(operation, bytes, lane.contender->name(), median(lane.times), mpi);
  }

  void print(const std::pair<std::string, Operation>& operation, std::uint64_t bytes, const std::string& backend,
             double time, std::optional<double> mpi) const {
    Json row{{"bench", "collectives"}, {"op", operation.first}, {"backend", backend},
             {"ranks", size_},         {"bytes", bytes},        {"median_us", time}};
    if (bytes > 0) row["alg_gb_per_s"] = 1e-3 * static_cast<double>(bytes) / time;
    if (mpi) row["ratio_to_mpi"] = *mpi / time;
    // Each rank has to read its array and to write the result: the time for that at the machine's rate, as a share.
    if (operation.second == Operation::kAllReduce && bytes >= kMemoryBytes)
      row["of_memory_bandwidth"] = memory_us_ * static_cast<double>(bytes) / kMemoryBytes / time;
    print_row(row, options_.json);
  }

  const CollectivesBench& options_;
  int rank_ = 0;
  int size_ = 1;
  double memory_us_ = 0;
  std::shared_ptr<comm::MpiRuntime> runtime_;
  std::shared_ptr<comm::Store> store_;
  Group control_;
  std::vector<std::unique_ptr<Contender>> contenders_;
  std::vector<float> input_;
  std::vector<float> output_;
};

bool is_mpi(const std::string& backend) {
  return backend.starts_with("mpi");
}

// Leaves out, with a word about it, what cannot run here.
std::vector<std::string> usable_backends(const CollectivesBench& options) {
  const bool mpi = comm::mpi_available() && launch::find_program("mpirun").has_value();
  std::vector<std::string> usable;
  for (const std::string& backend : options.backends) {
    const bool known = std::find(kBackends.begin(), kBackends.end(), backend) != kBackends.end();
    if (!known)
      throw Error(ErrorKind::kInvalidInput, fmt::format("unknown backend \"{}\"", backend), "--backends",
                  did_you_mean(backend, kBackends));
    if (is_mpi(backend) && !mpi)
      fmt::print(stderr, "muster: no {} here: it needs a build with MPI and mpirun (openmpi-bin)\n", backend);
    else if (const auto missing = comm::missing_gloo(); backend.starts_with("gloo") && missing)
      fmt::print(stderr, "muster: no {} here: this build has no Gloo: {}\n", backend, missing->reason);
    else
      usable.push_back(backend);
  }
  return usable;
}

std::vector<std::string> rank_arguments(const CollectivesBench& options, const std::vector<std::string>& backends,
                                        std::int64_t ranks, const std::string& folder) {
  std::vector<std::string> arguments{"bench",         "collectives",
                                     "--rank-folder", folder,
                                     "--ranks",       std::to_string(ranks),
                                     "--rounds",      std::to_string(options.rounds),
                                     "--op",          fmt::format("{}", fmt::join(options.operations, ",")),
                                     "--sizes",       fmt::format("{}", fmt::join(options.sizes, ",")),
                                     "--backends",    fmt::format("{}", fmt::join(backends, ","))};
  if (options.json) arguments.push_back("--json");
  return arguments;
}

}  // namespace

std::uint64_t parse_bytes(const std::string& text) {
  std::size_t digits = 0;
  std::uint64_t value = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && value < (1ULL << 40))
    value = value * 10 + static_cast<std::uint64_t>(text[digits++] - '0');
  const std::string unit = text.substr(digits);
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (digits == 0 || shift < 0 || value == 0 || (value << shift) > (8ULL << 30) || (value << shift) % 4 != 0)
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is not a size", text), "--sizes",
                "Give bytes, a multiple of 4 up to 8G: 4096, 64K, 16M.");
  return value << shift;
}

void bench_collectives(const CollectivesBench& options) {
  for (const std::string& operation : options.operations) {
    std::vector<std::string> names;
    for (const auto& known : kOperations)
      names.push_back(known.first);
    if (std::find(names.begin(), names.end(), operation) == names.end())
      throw Error(ErrorKind::kInvalidInput, fmt::format("unknown operation \"{}\"", operation), "--op",
                  did_you_mean(operation, names));
  }
  for (const std::string& size : options.sizes)
    parse_bytes(size);
  if (!options.rank_folder.empty()) return RankBench(options).run();
  const std::vector<std::string> backends = usable_backends(options);
  if (backends.empty()) throw Error(ErrorKind::kUnsupported, "none of the backends can run here", "--backends");
  const bool under_mpi = std::any_of(backends.begin(), backends.end(), is_mpi);
  for (const std::int64_t ranks : options.ranks) {
    run_rank_processes(ranks, under_mpi,
                       [&](const std::string& folder) { return rank_arguments(options, backends, ranks, folder); });
  }
}

}  // namespace muster::cli
