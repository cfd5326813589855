// muster bench data: how fast samples come out of a source, without a model that takes them. The first epoch's
// beginning is not counted: threads are starting and memory is touched for the first time.
#include <chrono>
#include <deque>
#include <filesystem>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/deadline.h"
#include "muster/base/text.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/data_flags.h"
#include "muster/data/loader.h"
#include "muster/data/permutation.h"
#include "muster/data/sources.h"

namespace muster::cli {
namespace {

double seconds_since(Clock::Instant start) {
  return std::chrono::duration<double>(system_clock().now() - start).count();
}

std::uint64_t bytes_on_disk(const std::filesystem::path& path) {
  if (path.empty()) return 0;
  if (!std::filesystem::is_directory(path)) return std::filesystem::file_size(path);
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
    bytes += entry.is_regular_file() ? entry.file_size() : 0;
  return bytes;
}

struct Rates {
  double samples = 0;
  double wall_s = 0;
  double cpu_s = 0;
};

// What comes out of a loader that is kept busy with the epoch's shuffled batches.
Rates measure_loading(const std::shared_ptr<const data::Dataset>& dataset, int threads, const DataBench& options) {
  data::Loader loader(dataset, {.threads = threads});
  const data::Permutation order(dataset->size(), 1, 0);
  const auto batch = static_cast<std::uint64_t>(options.batch);
  std::uint64_t position = 0;
  std::deque<data::Loader::Ticket> tickets;
  const auto submit = [&] {
    std::vector<std::uint64_t> ids(batch);
    for (std::uint64_t& id : ids) {
      id = order(position);
      position = (position + 1) % dataset->size();
    }
    tickets.push_back(loader.submit(std::move(ids)));
  };
  for (int i = 0; i < 2 * threads + 2; ++i)
    submit();
  const auto take = [&] {
    data::Batch taken = loader.take(tickets.front(), Deadline::after(std::chrono::minutes(1)));
    tickets.pop_front();
    loader.recycle(std::move(taken));
    submit();
  };
  take();  // threads are running, memory is there
  const auto start = system_clock().now();
  const double cpu_start = cpu_seconds();
  std::uint64_t taken = 0;
  while (seconds_since(start) < options.seconds) {
    take();
    taken += batch;
  }
  return {.samples = static_cast<double>(taken), .wall_s = seconds_since(start), .cpu_s = cpu_seconds() - cpu_start};
}

}  // namespace

void bench_data(const DataBench& options) {
  const data::SourceOptions source = chosen_data(options.source, options.path, options.assignments);
  const auto start = system_clock().now();
  const double cpu_start = cpu_seconds();
  const data::Data data = data::open_source(source);
  const double open_cpu_s = cpu_seconds() - cpu_start;
  const double open_s = seconds_since(start);
  const data::SampleSpec& spec = data.train->spec();
  const std::uint64_t element = spec.input == data::InputKind::kTokens ? sizeof(std::int64_t) : sizeof(float);
  const double sample_mb = static_cast<double>(spec.elements() * element) / 1e6;
  const double disk_mb = static_cast<double>(bytes_on_disk(source.path)) / 1e6;
  for (const std::int64_t threads : options.threads) {
    const Rates rates = measure_loading(data.train, static_cast<int>(threads), options);
    const double rate = rates.samples / rates.wall_s;
    print_row({{"bench", "data"},
               {"source", source.source},
               {"threads", threads},
               {"samples_per_s", rate},
               {"mb_per_s", rate * sample_mb},
               {"cpu_s", rates.cpu_s},
               {"samples_per_cpu_s", rates.samples / rates.cpu_s},
               {"open_s", open_s},
               {"open_mb_per_s", disk_mb / open_s},
               {"open_mb_per_cpu_s", disk_mb / open_cpu_s}},
              options.json);
  }
}

}  // namespace muster::cli
