// The supervisor of a job's workers on this machine: it starts them, sees a death at once, and decides who trains.
//
// Workers find the arena and say that they are ready by taking their seat in it; the supervisor, which only observes
// the arena, lets them in by beginning a generation. When a worker dies the others go on in the next generation, which
// begins as soon as the death is confirmed, and a new process is started in its place. A worker that lives and is of no
// use is killed first; comm/arena.h says why. The supervisor looks and acts; what it does is decided elsewhere, without
// effects and on a clock that tests can turn: who is started, let in and evicted (control/membership.h), who is of no
// use (worker_watch.h), what the end of a worker means (worker_ending.h), how the job ends (job_ending.h).
// Thread safety: one thread.
//
// Workers that have entered the arena outlive a supervisor that is killed: another one takes them over, from the store
// by which they found each other. Until then they settle losses among themselves, and nobody is replaced.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/control/worker.h"
#include "muster/launch/child_process.h"
#include "muster/launch/generation_gate.h"
#include "muster/launch/server_keeper.h"
#include "muster/launch/worker_watch.h"

namespace muster::launch {

// What the supervisor knows, for those who show or record it.
struct SupervisorReport {
  std::string store;  // the folder that whoever takes over needs
  std::uint64_t generation = 0;
  std::uint64_t step = 0;                // committed
  std::vector<control::Worker> workers;  // those that are there
  ServerKeeper::Count servers{};
  std::string note;  // what the leader has left in the arena (comm/arena.h)
};

// What the job's owner wants now.
struct Wishes {
  int workers = 1;
  bool stop = false;  // finish the step, write a checkpoint, end
  int servers = 0;    // processes of parameter servers; 0: as many as it began with
};

struct SupervisorOptions {
  int seats = 1;  // most that may ever train at once
  // Asked again and again.
  std::function<Wishes()> wishes = [] { return Wishes(); };
  // Called when the members change, and several times a second.
  std::function<void(const SupervisorReport&)> report = [](const SupervisorReport&) {};
  WorkerWatchOptions watch{};  // when a worker is taken for silent, for hung, for stuck before it could train
  // Signal to pass on to all workers, once; 0: none so far. Asked again and again while workers run. It asks for the
  // end of the job, with a checkpoint: so it reaches a generation of workers that trains, and the next one if that is
  // lost before it has come to an end. SIGKILL: the end at once.
  std::function<int()> requested_signal = [] { return 0; };
  // How long workers may take to end by themselves once one has finished the job; they are killed then. Empty: as long
  // as they like.
  std::optional<std::chrono::milliseconds> grace = std::chrono::milliseconds(5000);
  // What is known of a lane of a step, for the error when it has killed two workers: its samples.
  std::function<std::string(std::uint64_t step, int lane)> describe_lane = [](std::uint64_t, int) {
    return std::string();
  };
  // Parameter servers, of a job that has some: processes of `server_command`, or, with workers_serve, threads of the
  // workers.
  int servers = 0;  // at first
  Command server_command{};
  bool workers_serve = false;
  // Of a host of several: which servers run here, now. Empty: all.
  std::function<std::vector<OwnServer>()> own_servers{};
  // Who lets generations begin: nobody has to be asked, where there is one host.
  std::shared_ptr<GenerationGate> gate = make_open_gate();
  // What happened, for people.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

class Supervisor {
 public:
  // `command` starts a worker, which is told its seat and how to find the others by MUSTER_RANK, MUSTER_SIZE,
  // MUSTER_STORE and MUSTER_ARENA (environment.h).
  // `clock` is what decisions go by; it outlives the supervisor.
  Supervisor(Command command, SupervisorOptions options, const Clock& clock = system_clock());
  // Takes over the workers of a supervisor that is gone; `store` is what it reported. Throws kPeerLost when none of
  // them lives, kMismatch when another process watches them.
  Supervisor(Command command, SupervisorOptions options, const std::filesystem::path& store,
             const Clock& clock = system_clock());
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();

  // Until the job has ended; its exit code. Throws kPeerLost when all workers are lost, kCompute when a lane has killed
  // two of them; no process is left then.
  int run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::launch
