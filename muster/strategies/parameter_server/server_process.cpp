// The job's store tells all that a server has to know: the plan, and by what way calls come. Who is to end it may be
// gone: it looks for that itself.
#include "muster/strategies/parameter_server/server_process.h"

#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/process.h"
#include "muster/comm/store.h"
#include "muster/comm/supervisor_sign.h"
#include "muster/launch/worker_words.h"
#include "muster/strategies/parameter_server/job_transport.h"
#include "muster/strategies/parameter_server/server.h"
#include "muster/strategies/parameter_server/server_watch.h"

namespace muster::strategies {
namespace {

constexpr std::chrono::milliseconds kLook{500};
constexpr int kLooks = 4;  // one after the other without a worker: one that takes over may be about to start the first

bool any_worker_lives(const std::string& store) {
  for (const auto& [key, address] : comm::values_in_file_store(store, "server")) {
    ProcessId worker;
    if (std::sscanf(key.c_str(), "server/%d-%lu", &worker.pid, &worker.start_time) == 2 &&
        state_of(worker) != ProcessState::kGone)
      return true;
  }
  return false;
}

// Until the job is over although nobody has ended this process, or `stop`. Who coordinates may be another one than who
// started this process: the store knows.
void watch_the_job(const ProcessId& owner, const std::string& store, const std::function<void()>& over,
                   const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  int alone = 0;
  while (!stopped.wait_for(lock, stop, kLook, [&] { return stop.stop_requested(); })) {
    const bool kept =
        state_of(owner) != ProcessState::kGone || comm::supervisor_lives(store) || any_worker_lives(store);
    alone = kept ? 0 : alone + 1;
    if (alone == kLooks) return over();
  }
}

void serve(const launch::World& world, OwnUpdate update) {
  MUSTER_FAILPOINT("server.start");
  ServerOptions options;
  options.number = static_cast<std::uint32_t>(world.rank);
  options.attempt = static_cast<std::uint32_t>(world.attempt);
  options.store = comm::make_file_store(world.store);
  options.update = std::move(update);
  options.watched = [store = world.store] { return comm::supervisor_lives(store); };
  options.tell = [](const std::string& message) { fmt::print(stderr, "muster: {}\n", message); };
  // The plan says how calls travel; the job's first worker leaves it, once it has opened its data.
  const ServerPlan plan = comm::wait_while_supervised(
      world.store, options.patience, [&](const Deadline& deadline) { return get_plan(*options.store, deadline); });
  const JobTransport transport = job_transport(*options.store, plan, Deadline::after(options.patience));
  options.make_inbox = transport.make_inbox;
  options.connect = transport.connect;
  const ProcessId owner = process_of(::getppid());
  Server server(std::move(options));
  // From here on whoever takes over finds it in the store.
  outlive_parent();
  const std::jthread watch([&](const std::stop_token& stop) {
    watch_the_job(
        owner, world.store, [&] { server.stop(); }, stop);
  });
  const ServerWatch heartbeat(server);
  server.run();
}

}  // namespace

void serve_job(const launch::World& world, OwnUpdate update) {
  // Whoever keeps the servers says it when it gives up.
  try {
    serve(world, std::move(update));
  } catch (const std::exception& error) {
    launch::leave_server_reason(world.store, static_cast<std::uint32_t>(world.rank),
                                static_cast<std::uint32_t>(world.attempt), error.what());
    throw;
  }
}

}  // namespace muster::strategies
