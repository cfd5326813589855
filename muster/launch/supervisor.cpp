#include "muster/launch/supervisor.h"

#include <signal.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/comm/arena.h"
#include "muster/comm/arena_address.h"
#include "muster/comm/region.h"
#include "muster/comm/store.h"
#include "muster/control/membership.h"
#include "muster/launch/death_reason.h"
#include "muster/launch/environment.h"
#include "muster/launch/local_workers.h"
#include "muster/launch/server_keeper.h"

namespace muster::launch {
namespace {

constexpr std::chrono::milliseconds kPollInterval{2};   // where the kernel does not tell of deaths
constexpr std::chrono::milliseconds kLookInterval{10};  // where it does: newcomers, wishes, signals
constexpr std::chrono::milliseconds kArenaPollInterval{20};
constexpr std::chrono::milliseconds kReportInterval{100};
constexpr std::chrono::seconds kFetchTimeout{5};
constexpr std::chrono::seconds kChargeTimeout{5};
constexpr std::chrono::milliseconds kGraceAfterFailure{5000};
constexpr std::chrono::milliseconds kFounderPatience{1000};  // what a process may take to die
constexpr const char* kFolderPrefix = "muster-job-";
constexpr int kDeathsOfALane = 2;
constexpr std::size_t kStepTimes = 31;

struct Seat {
  std::optional<ChildProcess> process;
  Clock::Instant started;
  Clock::Instant entered;  // as a member
  Clock::Instant failed;
  int processes = 0;  // so far
  int failures = 0;
  bool evicted = false;
  bool silent = false;  // and killed for it
  bool lost = false;    // was a member of the present generation
};

int exit_code_of(const Ending& ending) {
  if (ending.unknown) return 1;
  return ending.signal != 0 ? 128 + ending.signal : ending.exit_code;
}

// A worker that ended by itself before it could train, while the one that makes the arena lived.
struct GaveUp {
  int exit_code = 0;
  Clock::Instant since;
  pid_t founder = 0;
};

struct LaneOfStep {
  std::uint64_t step = 0;
  int lane = 0;
  auto operator<=>(const LaneOfStep&) const = default;
};

}  // namespace

struct Supervisor::State {
  State(Command its_command, SupervisorOptions its_options, TemporaryFolder its_folder,
        const std::filesystem::path& its_store)
      : command(std::move(its_command)),
        options(std::move(its_options)),
        folder(std::move(its_folder)),
        store_folder(its_store),
        store(comm::make_file_store(store_folder)),
        seats(static_cast<std::size_t>(options.seats)) {}

  bool member(std::size_t seat) const { return (members >> seat & 1) != 0; }

  void start(std::size_t index) {
    Seat& seat = seats[index];
    Command own = command;
    own.environment["MUSTER_RANK"] = std::to_string(index);
    own.environment["MUSTER_SIZE"] = std::to_string(options.seats);
    own.environment["MUSTER_STORE"] = store_folder.string();
    // The first process makes the arena; those that start with it find it in the store, later ones are told.
    own.environment["MUSTER_ARENA"] = server ? address.text() : founded ? "join" : "found";
    own.environment["MUSTER_ATTEMPT"] = std::to_string(seat.processes++);
    own.own_group = true;
    if (!std::exchange(founded, true)) founder = index;
    seat.process.emplace(own);
    seat.started = system_clock().now();
  }

  // The servers of a job are found by its store, too.
  void keep_servers(bool take_over = false) {
    keeper.reset();
    if (options.servers == 0 && !options.workers_serve) return;
    ServerKeeperOptions wanted;
    wanted.command = options.server_command;
    wanted.servers = options.servers;
    wanted.worker_seats = options.workers_serve ? options.seats : 0;
    wanted.take_over = take_over;
    wanted.liveness = options.liveness;
    wanted.tell = options.tell;
    keeper.emplace(std::move(wanted), store_folder);
  }

  void look_after_servers() {
    // Workers that have done their work take their servers with them, one after the other.
    if (!keeper || finishing || stopped) return;
    for (std::size_t index = 0; options.workers_serve && index < seats.size(); ++index) {
      const Seat& seat = seats[index];
      std::optional<std::uint32_t> attempt;
      if (seat.process) attempt = static_cast<std::uint32_t>(seat.processes - 1);
      keeper->set_worker(static_cast<std::uint32_t>(index), attempt);
    }
    if (options.servers > 0 && wishes.servers > 0) keeper->set_servers(wishes.servers);
    keeper->look();
  }

  // As soon as the first worker has made it.
  void look_for_arena() {
    const auto now = system_clock().now();
    if (arena || now - looked < kArenaPollInterval) return;
    looked = now;
    std::shared_ptr<const comm::SharedRegion> region;
    try {
      address = comm::ArenaAddress::parse(store->get("arena", Deadline::after(std::chrono::nanoseconds(0))));
      region = std::make_shared<const comm::SharedRegion>(
          comm::fetch_region(address.server, Deadline::after(kFetchTimeout)));
    } catch (const Error& error) {
      // Not there yet; or whoever made it has died, and will be buried.
      if (error.kind() == ErrorKind::kTimeout || error.kind() == ErrorKind::kPeerLost) return;
      throw;
    }
    take_arena(region);
  }

  void take_arena(const std::shared_ptr<const comm::SharedRegion>& region) {
    arena.emplace(comm::Arena::attach(region, address.nonce, comm::kAnyRank));
    const Deadline deadline = Deadline::after(kChargeTimeout);
    // A worker that decides in a supervisor's place does so for a moment only.
    while (!arena->take_charge(this_process())) {
      if (deadline.passed()) throw Error(ErrorKind::kMismatch, "another process watches the workers of this job");
      system_clock().sleep_for(kPollInterval);
    }
    // From here on the arena outlives any worker, and newcomers get it from here.
    server.emplace(*region);
    address.server = server->address();
  }

  // Every worker hands out the arena: one that lives is enough.
  void adopt() {
    founded = true;
    for (const auto& [key, value] : comm::values_in_file_store(store_folder, "server")) {
      try {
        address = comm::ArenaAddress::parse(value);
        take_arena(std::make_shared<const comm::SharedRegion>(
            comm::fetch_region(address.server, Deadline::after(kFetchTimeout))));
        break;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kTimeout) throw;
      }
    }
    if (!arena) throw Error(ErrorKind::kPeerLost, "no worker of this job lives any more");
    generation = arena->committed().generation;
    members = arena->present_members();
    keep_servers(true);
    for (std::size_t index = 0; index < seats.size(); ++index) {
      Seat& seat = seats[index];
      seat.started = seat.entered = system_clock().now();
      if (const std::optional<ProcessId> occupant = observer().occupant(static_cast<int>(index))) {
        seat.process.emplace(ChildProcess::adopt(*occupant));
        // Servers are found by their attempts; nothing else needs the right number.
        seat.processes =
            std::max(1, keeper ? static_cast<int>(keeper->processes(static_cast<std::uint32_t>(index))) : 0);
      } else if (member(index)) {
        seat.lost = true;
        members &= ~(std::uint64_t{1} << index);
      }
    }
  }

  // A store's values stay: the arena of a founder that died before anybody else had it would be looked for in vain.
  void start_over_without(std::size_t dead_founder) {
    founded = false;
    try {
      store->get("arena", Deadline::after(std::chrono::nanoseconds(0)));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kTimeout) return;  // the next process makes the one that the others wait for
      throw;
    }
    store_folder = folder.path() / fmt::format("store-{}", ++foundings);
    store = comm::make_file_store(store_folder);
    keep_servers();
    for (std::size_t index = 0; index < seats.size(); ++index) {
      if (index == dead_founder || !seats[index].process) continue;
      seats[index].evicted = true;
      seats[index].process->kill(SIGKILL);
    }
  }

  bool ready(std::size_t index) const {
    if (!arena || !seats[index].process) return false;
    const std::optional<ProcessId> occupant = observer().occupant(static_cast<int>(index));
    return occupant && occupant->pid == seats[index].process->pid();
  }
  const comm::Board& observer() const { return arena->board(); }

  // The lanes that a dead worker had begun: one that kills every worker that computes it must not kill all of them.
  void count_lanes_of(std::size_t index) {
    if (!arena || !member(index)) return;
    const comm::Arena now = comm::Arena::attach(arena->region(), address.nonce, comm::kAnyRank);
    for (int lane = 0; lane < now.options().lanes; ++lane) {
      const comm::LaneWord word = now.lane_state(lane);
      if (word.state != comm::LaneState::kStarted || word.rank != static_cast<int>(index)) continue;
      if (++deaths[{now.step(), lane}] >= kDeathsOfALane) deadly = LaneOfStep{now.step(), lane};
    }
  }

  void bury(std::size_t index, const Ending& ending) {
    Seat& seat = seats[index];
    const pid_t pid = seat.process->pid();
    const bool was_member = member(index);
    const bool was_ready = ready(index);
    const auto now = system_clock().now();
    if (ending.good()) {
      finishing = true;
    } else if (seat.evicted) {
      // It was one too many: how it ended is nobody's business.
    } else if (passed_on != 0 && (generation == 0 || passed_on == SIGKILL ||
                                  (was_member && (ending.signal == 0 || ending.signal == passed_on)))) {
      stopped = true;
      if (index == 0 || exit_code == 0) exit_code = exit_code_of(ending);
    } else if (passed_on != 0 && !was_member) {
      // It came too late.
    } else if ((finishing && !fixed()) || hopeless != 0) {
      // One that came too late, or did not leave in time.
    } else if (fixed()) {
      if (!broken_by) broken_by = LostWorker{static_cast<int>(index), pid, ending};
    } else if (members == 0 && !was_ready && ending.signal == 0 && waits_for_founder(index)) {
      if (!gave_up) gave_up = GaveUp{ending.exit_code, now, seats[founder].process->pid()};
      ++seat.failures;
    } else if (members == 0 && !was_ready && ending.signal == 0) {
      // Nobody trains, and it gave up by itself before it could, and has said why: another one would do the same.
      hopeless = hopeless == 0 ? ending.exit_code : hopeless;
    } else {
      options.tell(fmt::format("worker {} (pid {}) is lost: {}", index, pid, reasons.explain(pid, ending)));
      // One that was silent was stopped or starved from outside: heartbeats do not depend on lanes.
      if (!seat.silent) count_lanes_of(index);
      if (was_member) last_exit_code = ending.exit_code;
      if (was_member && now - seat.entered > control::kForgiven) seat.failures = 0;
      ++seat.failures;
    }
    if (!arena && index == founder) start_over_without(index);
    seat.process.reset();
    seat.failed = now;
    seat.lost = was_member;
    seat.evicted = false;
    seat.silent = false;
    members &= ~(std::uint64_t{1} << index);
  }

  // Of a worker that was taken over nobody is told how it ended; whether it was done is in the arena.
  Ending as_far_as_known(std::size_t index, const Ending& ending) const {
    if (!ending.unknown) return ending;
    if (observer().doing(static_cast<int>(index)).activity != comm::Activity::kDone) return ending;
    return {.exit_code = passed_on == 0 ? 0 : 128 + passed_on};
  }

  void bury_the_dead() {
    for (std::size_t index = 0; index < seats.size(); ++index) {
      if (!seats[index].process) continue;
      if (const std::optional<Ending> ending = seats[index].process->poll())
        bury(index, as_far_as_known(index, *ending));
    }
    judge_who_gave_up();
  }

  bool waits_for_founder(std::size_t index) const { return founded && index != founder && seats[founder].process; }

  // One that gave up while it waited for the arena has either said why, or has seen before us that its founder dies:
  // then another one will not do the same.
  void judge_who_gave_up() {
    if (!gave_up) return;
    const std::optional<ChildProcess>& process = seats[founder].process;
    if (members != 0 || !process || process->pid() != gave_up->founder) {
      gave_up.reset();
    } else if (system_clock().now() - gave_up->since > kFounderPatience) {
      if (hopeless == 0) hopeless = gave_up->exit_code;
      gave_up.reset();
    }
  }

  // A process that gives no sign of life may wake up and write: it has to be dead before others take its place.
  void kill_the_silent() {
    const auto now = system_clock().now();
    const bool stalled = now - last_look > options.liveness / 4;  // then this process judges nobody
    if (stalled) judging_since = now;
    last_look = now;
    if (!arena || now - judging_since < options.liveness) return;
    for (std::size_t index = 0; index < seats.size(); ++index) {
      if (!seats[index].process) continue;
      if (!ready(index)) {
        if (generation == 0 || now - seats[index].started < control::kStartPatience) continue;
        options.tell(fmt::format("worker {} (pid {}) has not begun to train within {} s: it is killed", index,
                                 seats[index].process->pid(), control::kStartPatience.count()));
        seats[index].process->kill(SIGKILL);
        judging_since = now;
        continue;
      }
      const std::chrono::nanoseconds beat = observer().last_beat(static_cast<int>(index));
      if (beat.count() == 0 || now.time_since_epoch() - beat < options.liveness) continue;
      options.tell(fmt::format("worker {} (pid {}) gave no sign of life for {:.1f} s: it is killed", index,
                               seats[index].process->pid(), std::chrono::duration<double>(options.liveness).count()));
      seats[index].silent = true;
      seats[index].process->kill(SIGKILL);
      judging_since = now;
    }
  }

  // Alive, but not getting on: an endless loop in user code, say. Waiting for others, for samples and for disks has
  // deadlines of its own.
  void kill_the_hung() {
    if (!arena) return;
    const auto now = system_clock().now();
    const std::uint64_t step = arena->committed().step;
    if (step != last_step) {
      if (last_step_at) step_times.push_back(now - *last_step_at);
      if (step_times.size() > kStepTimes) step_times.pop_front();
      last_step = step;
      last_step_at = now;
    }
    for (std::size_t index = 0; index < seats.size(); ++index) {
      if (!seats[index].process || !member(index)) continue;
      const comm::Board::Doing doing = observer().doing(static_cast<int>(index));
      const bool works = doing.activity == comm::Activity::kComputing || doing.activity == comm::Activity::kEvaluating;
      const std::chrono::nanoseconds lasts = now.time_since_epoch() - doing.since;
      if (!works || lasts < hang_limit(now - seats[index].entered)) continue;
      options.tell(fmt::format("worker {} (pid {}) {} {} for {:.0f} s without getting on: it is killed", index,
                               seats[index].process->pid(), to_string(doing.activity), lane_of(index),
                               std::chrono::duration<double>(lasts).count()));
      seats[index].process->kill(SIGKILL);
    }
  }

  std::chrono::nanoseconds hang_limit(std::chrono::nanoseconds member_for) const {
    std::vector<std::chrono::nanoseconds> sorted(step_times.begin(), step_times.end());
    std::sort(sorted.begin(), sorted.end());
    std::chrono::nanoseconds limit = options.hang;
    if (!sorted.empty()) limit = std::max(limit, 10 * sorted[sorted.size() / 2]);
    // First runs are slow: caches, pages, code that is compiled.
    const std::chrono::nanoseconds warm_up = 6 * options.hang;
    return member_for < warm_up + limit || sorted.empty() ? limit + warm_up : limit;
  }

  std::string lane_of(std::size_t index) const {
    const comm::Arena now = comm::Arena::attach(arena->region(), address.nonce, comm::kAnyRank);
    for (int lane = 0; lane < now.options().lanes; ++lane) {
      const comm::LaneWord word = now.lane_state(lane);
      if (word.rank == static_cast<int>(index) && word.state == comm::LaneState::kStarted)
        return fmt::format("lane {} of step {}", lane, now.step() + 1);
    }
    return fmt::format("after step {}", now.step());
  }

  control::JobView view() const {
    control::JobView job;
    const auto now = system_clock().now();
    job.generation = generation;
    job.target = wishes.workers;
    job.arena = arena.has_value();
    job.failed = last_exit_code != 0;
    job.finishing = finishing || passed_on != 0 || hopeless != 0 || broken_by;
    for (std::size_t index = 0; index < seats.size(); ++index) {
      const Seat& seat = seats[index];
      control::SeatView one;
      one.failures = seat.failures;
      one.since_failure = now - seat.failed;
      one.since_start = now - seat.started;
      one.lost = seat.lost;
      one.leaving = seat.evicted;
      if (seat.process)
        one.state = member(index)  ? control::SeatState::kMember
                    : ready(index) ? control::SeatState::kReady
                                   : control::SeatState::kStarting;
      job.seats.push_back(one);
    }
    return job;
  }

  void act(const control::MembershipDecision& decision) {
    // Without members the old generation stays until somebody is ready.
    if (decision.new_generation && decision.members != 0) {
      const auto now = system_clock().now();
      for (std::size_t index = 0; index < seats.size(); ++index) {
        if ((decision.members >> index & 1) != 0 && !member(index)) seats[index].entered = now;
      }
      arena->begin_generation(++generation, decision.members);
      members = decision.members;
    }
    for (Seat& seat : seats)
      seat.lost = false;
    for (const int seat : decision.start)
      start(static_cast<std::size_t>(seat));
    evict(decision.evict);
    if (decision.new_generation || system_clock().now() - reported > kReportInterval) tell_report();
  }

  void evict(const std::vector<int>& those) {
    // A worker that serves hands its part of the model over first, and trains meanwhile.
    for (std::size_t index = 0; options.workers_serve && keeper && index < seats.size(); ++index) {
      const bool leaves = std::find(those.begin(), those.end(), static_cast<int>(index)) != those.end();
      keeper->set_leaving(static_cast<std::uint32_t>(index), leaves || seats[index].evicted);
    }
    for (const int index : those) {
      if (options.workers_serve && (!keeper || !keeper->may_go(static_cast<std::uint32_t>(index)))) continue;
      Seat& seat = seats[static_cast<std::size_t>(index)];
      seat.evicted = true;
      seat.process->kill(SIGKILL);
    }
  }

  void tell_report() {
    reported = system_clock().now();
    SupervisorReport report;
    report.store = store_folder.string();
    report.generation = generation;
    std::optional<comm::Arena> now;
    if (arena) now.emplace(comm::Arena::attach(arena->region(), address.nonce, comm::kAnyRank));
    if (now) report.step = now->step();
    if (now) report.note = now->note();
    if (keeper && !options.workers_serve) report.servers = keeper->count();
    const control::JobView job = view();
    for (std::size_t index = 0; index < seats.size(); ++index) {
      if (!seats[index].process) continue;
      SupervisorReport::Seat seat;
      seat.seat = static_cast<int>(index);
      seat.process = process_of(seats[index].process->pid());
      reasons.look_at(seat.process.pid);
      seat.state = job.seats[index].state;
      seat.restarts = seats[index].processes - 1;
      for (int lane = 0; now && lane < now->options().lanes; ++lane) {
        const comm::LaneWord word = now->lane_state(lane);
        if (word.rank == seat.seat && word.state == comm::LaneState::kStarted) seat.lane = lane;
      }
      if (now) seat.doing = now->board().doing(seat.seat);
      report.seats.push_back(seat);
    }
    options.report(report);
  }

  void signal_all(int signal) const {
    for (const Seat& seat : seats)
      if (seat.process) seat.process->kill(signal);
  }

  // Until it is worth looking again: at once when a worker has ended.
  void wait() const {
    std::vector<int> handles;
    for (const Seat& seat : seats)
      if (seat.process) handles.push_back(seat.process->handle());
    if (keeper) {
      for (const int handle : keeper->handles())
        handles.push_back(handle);
    }
    const bool told = std::all_of(handles.begin(), handles.end(), [](int handle) { return handle >= 0; });
    wait_for_an_end(handles, told ? kLookInterval : kPollInterval);
  }

  bool anybody() const {
    return std::any_of(seats.begin(), seats.end(), [](const Seat& seat) { return seat.process.has_value(); });
  }

  void pass_signal_on() {
    const int asked_for = options.requested_signal();
    const int requested = asked_for == 0 && wishes.stop ? SIGTERM : asked_for;
    // Those who were told are lost before one of them could end the job: others have to.
    if (passed_on != 0 && passed_on != SIGKILL && generation > 0 && members == 0 && !stopped && !finishing)
      passed_on = 0;
    if (requested == 0 || requested == passed_on) return;
    const bool nobody_trains = generation > 0 && members == 0 && !finishing && !stopped;
    if (nobody_trains && requested != SIGKILL && hopeless == 0 && !broken_by) return;
    signal_all(requested);
    passed_on = requested;
  }

  // Once the job ends everybody has `grace`; a signal has its own grace, the workers'.
  void hurry_the_last() {
    const bool failed = hopeless != 0 || broken_by;
    if (!finishing && !failed) return;
    // Those that are still getting ready came for nothing. What a user's program does before it trains nobody knows.
    const bool in_vain = generation > 0 || (hopeless != 0 && options.grace);
    for (std::size_t index = 0; in_vain && index < seats.size(); ++index) {
      if (seats[index].process && !member(index)) seats[index].process->kill(SIGKILL);
    }
    if (!patience && (options.grace || failed)) patience = Deadline::after(options.grace.value_or(kGraceAfterFailure));
    if (patience && patience->passed() && passed_on == 0) signal_all(SIGKILL);
  }

  // Whether the workers' program has made a group that nobody can join later.
  bool fixed() const {
    try {
      store->get(kFixedKey, Deadline::after(std::chrono::nanoseconds(0)));
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
      return false;
    }
  }

  int end() const {
    if (!broken_by) return hopeless != 0 ? hopeless : exit_code;
    if (broken_by->ending.signal != 0)
      throw Error(ErrorKind::kPeerLost, fmt::format("worker {} (pid {}) was {}", broken_by->rank, broken_by->pid,
                                                    to_string(broken_by->ending)));
    return broken_by->ending.exit_code;
  }

  void throw_if_deadly() {
    if (!deadly) return;
    const std::string samples = options.describe_lane(deadly->step, deadly->lane);
    throw Error(ErrorKind::kCompute,
                fmt::format("lane {} of step {} has killed {} workers{}{}", deadly->lane, deadly->step + 1,
                            kDeathsOfALane, samples.empty() ? "" : "; ", samples),
                {}, "Look at these samples, at the workers' logs and at the memory that is free.");
  }

  // constant after construction
  const Command command;
  const SupervisorOptions options;
  TemporaryFolder folder;
  // the workers
  std::filesystem::path store_folder;
  int foundings = 0;  // attempts to make the arena that came to nothing although others had been told of it
  std::shared_ptr<comm::Store> store;
  std::vector<Seat> seats;
  std::uint64_t generation = 0;
  std::uint64_t members = 0;
  Wishes wishes;
  Clock::Instant reported;
  bool founded = false;  // somebody was told to make the arena:
  std::size_t founder = 0;
  std::map<LaneOfStep, int> deaths;
  std::optional<LaneOfStep> deadly;
  DeathReasons reasons;
  std::optional<ServerKeeper> keeper;
  // the arena
  std::optional<comm::Arena> arena;
  std::optional<comm::RegionServer> server;
  comm::ArenaAddress address;
  std::uint64_t last_step = 0;
  std::optional<Clock::Instant> last_step_at;
  std::deque<std::chrono::nanoseconds> step_times;
  Clock::Instant looked;
  Clock::Instant last_look;
  Clock::Instant judging_since;
  // how it ends
  bool finishing = false;
  int hopeless = 0;                     // exit code of a worker that could not begin
  std::optional<GaveUp> gave_up;        // a worker of which that is not certain yet
  std::optional<LostWorker> broken_by;  // of a job whose workers cannot be replaced: the first that was lost
  int passed_on = 0;
  bool stopped = false;  // a worker has done as the signal asked
  int exit_code = 0;
  int last_exit_code = 0;
  std::optional<Deadline> patience;
};

Supervisor::Supervisor(Command command, SupervisorOptions options) {
  remove_abandoned(kFolderPrefix);
  TemporaryFolder folder(kFolderPrefix);
  const std::filesystem::path store = folder.path() / "store-0";
  state_ = std::make_unique<State>(std::move(command), std::move(options), std::move(folder), store);
  state_->keep_servers();
}

Supervisor::Supervisor(Command command, SupervisorOptions options, const std::filesystem::path& store) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(store, ignored))
    throw Error(ErrorKind::kPeerLost, "no worker of this job lives any more", store.string());
  state_ = std::make_unique<State>(std::move(command), std::move(options), TemporaryFolder::adopt(store.parent_path()),
                                   store);
  state_->adopt();
}

Supervisor::~Supervisor() = default;

int Supervisor::run() {
  State& state = *state_;
  for (;;) {
    state.wishes = state.options.wishes();
    state.bury_the_dead();
    state.throw_if_deadly();
    state.look_for_arena();
    state.look_after_servers();
    state.kill_the_silent();
    state.kill_the_hung();
    const control::MembershipDecision decision = control::decide_members(state.view());
    if (decision.all_lost) {
      // Workers that all ended by themselves have said why.
      if (state.last_exit_code != 0) return state.last_exit_code;
      throw Error(ErrorKind::kPeerLost, "all workers are lost", {},
                  "Nothing that was committed to a checkpoint is lost: start again with --resume.");
    }
    state.act(decision);
    const bool over = state.finishing || state.hopeless != 0 || state.stopped || state.broken_by ||
                      (state.passed_on != 0 && state.generation == 0);
    if (!state.anybody() && decision.start.empty() && over) return state.end();
    state.pass_signal_on();
    state.hurry_the_last();
    state.wait();
  }
}

}  // namespace muster::launch
