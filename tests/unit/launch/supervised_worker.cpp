// A worker as a supervisor sees it, without a model: supervised_worker MODE. It makes or finds the arena, takes its
// seat, gives signs of life and does the steps of comm's little job until a signal tells it to end: SIGUSR1 with exit
// code 3, SIGUSR2 with 0, SIGTERM with 143. Modes:
//   train             as said
//   train-once        a process that takes another one's place ends at once with exit code 7
//   stubborn          signals do nothing
//   dies-when-told    the first process on a seat is killed by SIGTERM as by kill -9
//   announce-and-die  the first process says where the arena is, and is killed
//   linger            as announce-and-die, but a while after nobody can get the arena any more
//   busy-start        the second process on a seat computes for a while before it looks for the arena
//   idle-start        the second process on a seat does nothing at all
//   late-joiner       the first process that looks for the arena of another one does not get to it
//   gives-up          the first process on the second seat ends with exit code 3 once the other one is ready
//   hungry            SIGUSR1: it takes memory until there is none
//   crash             it crashes before it takes its seat
//   crash-as-member   it crashes as soon as it was let in
//   mistaken          a process that takes another one's place ends at once with exit code 2
//   refused           the second one says that it is refused, and ends with exit code 2
//   leave             the second one ends at once, with 0
//   fixed-alone       it says that its group is fixed, and the second one does not get to the arena
//   twice             failpoints act in the first two processes on a seat only
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/process.h"
#include "muster/comm/arena.h"
#include "muster/comm/arena_address.h"
#include "muster/comm/store.h"
#include "muster/launch/environment.h"
#include "support/eventually.h"
#include "unit/comm/arena_job.h"

namespace muster {
namespace {

using comm::testing::kJobNonce;

constexpr std::chrono::seconds kPatience{30};

// For the signal handlers.
comm::Board* own_board = nullptr;

// What a signal handler may do.
[[noreturn]] void take_memory() {
  constexpr std::size_t kPiece = 1 << 20;
  for (;;) {
    void* const piece = ::mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED) ::_exit(1);
    std::memset(piece, 1, kPiece);
  }
}

void compute_for(std::chrono::nanoseconds time) {
  for (const Deadline end = Deadline::after(time); !end.passed();)
    continue;
}

comm::Arena open_arena(const launch::World& world, comm::Store& store) {
  if (world.arena == "found") {
    const comm::ArenaOptions options = comm::testing::job_options(world.size);
    auto region = std::make_shared<const comm::SharedRegion>(comm::SharedRegion::create(comm::Arena::bytes(options)));
    comm::testing::fill_first_version(comm::Arena::create(region, options));
    return comm::Arena::attach(region, kJobNonce, world.rank);
  }
  const std::string text =
      world.arena == "join" ? store.get("arena", Deadline::after(kPatience)) : std::string(world.arena);
  const comm::ArenaAddress address = comm::ArenaAddress::parse(text);
  return comm::Arena::attach(
      std::make_shared<const comm::SharedRegion>(comm::fetch_region(address.server, Deadline::after(kPatience))),
      address.nonce, world.rank);
}

void train(comm::Arena& arena, int rank) {
  for (;;) {
    try {
      arena.enter_next(Deadline::after(kPatience));
      for (;;) {
        comm::testing::do_step(arena, rank, Deadline::after(kPatience));
        // sleeps: a step takes its time, and whoever watches sees some
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kPeerLost) throw;
    }
  }
}

void run(const std::string& mode) {
  const launch::World world = launch::detect_world();
  if (mode == "train-once" && world.attempt > 0) ::_exit(7);
  if (mode == "mistaken" && world.attempt > 0) ::_exit(2);
  if (mode == "leave" && world.rank == 1) ::_exit(0);
  if (mode == "stops" && world.rank == 0 && world.attempt == 0) ::raise(SIGSTOP);
  if (mode == "shell-says-killed" && world.rank == 1 && world.attempt == 0) ::_exit(137);
  if (mode == "crash") {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer would end it in another way
    ::raise(SIGSEGV);
  }
  const bool stubborn = mode == "stubborn";
  ::signal(
      SIGUSR1, stubborn ? SIG_IGN : [](int) { ::_exit(3); });
  ::signal(SIGUSR2, [](int) {
    if (own_board != nullptr) own_board->begin(comm::Activity::kDone);
    ::_exit(0);
  });
  ::signal(
      SIGTERM, stubborn ? SIG_IGN : [](int) { ::_exit(143); });
  if (mode == "dies-when-told" && world.attempt == 0) ::signal(SIGTERM, [](int) { ::kill(::getpid(), SIGKILL); });
  if (mode == "hungry") ::signal(SIGUSR1, [](int) { take_memory(); });
  const char* const rules = std::getenv("MUSTER_FAILPOINTS");
  if (rules != nullptr && (mode != "twice" || world.attempt < 2)) arm_failpoints(rules);
  if (mode == "busy-start" && world.attempt == 1) compute_for(std::chrono::seconds(5));
  while ((mode == "idle-start" && world.attempt == 1) || (mode == "late-joiner" && world.arena == "join"))
    ::pause();
  const auto store = comm::make_file_store(world.store);
  if (mode == "fixed-alone") store->set(launch::kFixedKey, "1");
  while (mode == "fixed-alone" && world.rank == 1)
    ::pause();
  comm::Arena arena = open_arena(world, *store);
  if (mode == "refused" && world.rank == 1) {
    store->set(launch::kRefusedKey, "1");
    ::_exit(2);
  }
  if (mode == "gives-up" && world.rank == 1 && world.attempt == 0) {
    // When the other one is ready, and its supervisor in charge, nobody waits for this one's replacement.
    const bool all_there = muster::testing::eventually([&] {
      if (arena.board().occupant(0) && !arena.take_charge(this_process())) return true;
      arena.leave_charge(this_process());
      return false;
    });
    ::_exit(all_there ? 3 : 4);
  }
  std::optional<comm::RegionServer> server(std::in_place, *arena.region());
  const std::string address = comm::ArenaAddress{server->address(), kJobNonce}.text();
  store->set("server/" + std::to_string(::getpid()), address);
  if (world.arena == "found") store->set("arena", address);
  const bool first_founder = world.attempt == 0 && world.arena == "found";
  if (mode == "linger" && first_founder) {
    server.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // sleeps: it is long in dying
  }
  if ((mode == "announce-and-die" || mode == "linger") && first_founder) ::kill(::getpid(), SIGKILL);
  own_board = &arena.board();
  arena.ask_to_enter();
  outlive_parent();
  const std::jthread heartbeat([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      arena.beat();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // sleeps: between two beats of the heart
    }
  });
  if (mode == "crash-as-member") {
    arena.enter_next(Deadline::after(kPatience));
    ::raise(SIGABRT);
  }
  train(arena, world.rank);
}

}  // namespace
}  // namespace muster

int main(int, char** argv) {
  try {
    muster::run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    ::_exit(1);
  }
}
