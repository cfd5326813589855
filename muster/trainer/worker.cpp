// The first line of a program: its place among the workers, and the threads it computes with. The rest of a worker is
// in worker_place.cpp (how it comes to the others) and gradients.cpp (loops of one's own).
#include "muster/trainer/worker.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/compute/threads.h"
#include "muster/strategies/parameter_server/server_process.h"
#include "muster/trainer/worker_place.h"

namespace muster::trainer {
namespace {

constexpr std::size_t kLongestName = 60;  // keys of stores begin with it

}  // namespace

Worker join(int /*argc*/, char** /*argv*/, const JoinOptions& options) {
  if (options.timeout <= std::chrono::nanoseconds::zero())
    throw Error(ErrorKind::kInvalidInput, "workers cannot wait for each other for no time", "JoinOptions::timeout");
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  if (options.name.empty() || options.name.size() > kLongestName || !std::ranges::all_of(options.name, fits))
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" cannot name workers", options.name), "JoinOptions::name",
                fmt::format("Use up to {} letters, digits, - and _.", kLongestName));
  const launch::World world = launch::detect_world();
  // Libraries count cores by themselves, and see fewer under some launchers: bits would depend on who started us.
  compute::set_threads(world.threads);
  if (world.serves) {
    int code = 0;
    try {
      strategies::serve_job(world, options.server_update);
    } catch (const Error& error) {
      fmt::print(stderr, "{}\n", error.what());
      code = error.exit_code();
    }
    std::exit(code);  // what follows in the program is the workers'
  }
  std::shared_ptr<WorkerPlace> place = connect_worker(world, options.name);
  place->set_server_update(options.server_update);
  place->set_timeout(options.timeout);
  return Worker(std::move(place));
}

}  // namespace muster::trainer
