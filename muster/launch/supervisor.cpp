#include "muster/launch/supervisor.h"

#include <signal.h>

#include <algorithm>
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
#include "muster/comm/supervisor_sign.h"
#include "muster/control/membership.h"
#include "muster/launch/death_reason.h"
#include "muster/launch/early_endings.h"
#include "muster/launch/environment.h"
#include "muster/launch/server_keeper.h"
#include "muster/launch/worker_ending.h"
#include "muster/launch/worker_process.h"
#include "muster/launch/worker_watch.h"
#include "muster/launch/worker_words.h"

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
constexpr int kRefused = 2;  // exit code

struct Seat {
  std::optional<WorkerProcess> process;
  Clock::Instant started;
  Clock::Instant entered;  // as a member
  Clock::Instant failed;
  bool joins = false;  // it was told to find the arena by the founder
  int processes = 0;   // so far
  int failures = 0;
  bool evicted = false;
  bool killed = false;         // because it was of no use:
  bool silent = false;         // by no fault of what it computes
  bool lost = false;           // was a member of the present generation
  bool done = false;           // has left in good order while others train on
  std::uint64_t began_at = 0;  // committed steps when it was started
};

int exit_code_of(const Ending& ending) {
  if (ending.unknown) return 1;
  return ending.signal != 0 ? 128 + ending.signal : ending.exit_code;
}

struct LostWorker {
  int rank = 0;
  pid_t pid = 0;
  Ending ending;
};

// A worker that ended by itself before it could train, while the one that makes the arena lived.
struct GaveUp {
  std::size_t seat = 0;
  pid_t pid = 0;
  int exit_code = 0;
  Clock::Instant since;
  pid_t founder = 0;
};

// One that ended in good order. Others may be about to do the same.
struct Left {
  std::size_t seat = 0;
  pid_t pid = 0;
  std::uint64_t step = 0;  // committed
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
        seats(static_cast<std::size_t>(options.seats)),
        watch({options.liveness, options.hang, options.start}, seats.size()) {
    comm::leave_supervisor_sign(*store, options.liveness);
  }

  bool member(std::size_t seat) const { return (members >> seat & 1) != 0; }
  std::uint64_t step() const { return arena ? arena->committed().step : 0; }

  void start(std::size_t index) {
    Seat& seat = seats[index];
    Command own = command;
    own.environment["MUSTER_RANK"] = std::to_string(index);
    own.environment["MUSTER_SIZE"] = std::to_string(options.seats);
    own.environment["MUSTER_STORE"] = store_folder.string();
    // The first process makes the arena; those that start with it find it in the store, later ones are told.
    seat.joins = !server && founded;
    own.environment["MUSTER_ARENA"] = server ? address.text() : founded ? "join" : "found";
    own.environment["MUSTER_ATTEMPT"] = std::to_string(seat.processes++);
    // Those who come later come when this process has threads.
    if (reported != Clock::Instant()) own.copy = nullptr;
    if (!std::exchange(founded, true)) founder = index;
    seat.process.emplace(own);
    seat.began_at = step();
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
    regroup = regroup || keeper->take_restored();
  }

  // As soon as the first worker has made it.
  void look_for_arena() {
    const auto now = system_clock().now();
    if (arena || now - looked < kArenaPollInterval) return;
    looked = now;
    std::shared_ptr<const comm::SharedRegion> region;
    try {
      address =
          comm::ArenaAddress::parse(store->get(comm::arena_key(round), Deadline::after(std::chrono::nanoseconds(0))));
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
        seat.process.emplace(WorkerProcess::adopt(*occupant));
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
    if (comm::open_round(*store) == round) {
      // The next process makes the one that the others wait for; once the job finishes there is none.
      if (finishing) appoint_founder(dead_founder);
      return;
    }
    store_folder = folder.path() / fmt::format("store-{}", ++foundings);
    store = comm::make_file_store(store_folder);
    round = 0;
    comm::leave_supervisor_sign(*store, options.liveness);
    keep_servers();
    for (std::size_t index = 0; index < seats.size(); ++index) {
      if (index == dead_founder || !seats[index].process) continue;
      seats[index].evicted = true;
      seats[index].process->kill(SIGKILL);
    }
  }

  // A user's program may end in good order before it trains; those who came with it may still wait for its arena.
  void appoint_founder(std::size_t dead_founder) {
    for (std::size_t index = 0; index < seats.size(); ++index) {
      if (index == dead_founder || !seats[index].process || seats[index].evicted) continue;
      store->set(comm::arena_key(round++), comm::appointment(static_cast<int>(index)));
      founder = index;
      founded = true;
      return;
    }
  }

  bool ready(std::size_t index) {
    if (!arena || !seats[index].process) return false;
    const std::optional<ProcessId> occupant = observer().occupant(static_cast<int>(index));
    return occupant && seats[index].process->recognizes(*occupant);
  }
  // It has said so.
  bool done(std::size_t index) const {
    return arena && observer().doing(static_cast<int>(index)).activity == comm::Activity::kDone;
  }
  const comm::Board& observer() const { return arena->board(); }

  // The lanes that a dead worker had begun: one that kills every worker that computes it must not kill all of them.
  void count_lanes_of(std::size_t index, const Ending& ending) {
    if (!arena || !member(index)) return;
    const comm::Arena now = comm::Arena::attach(arena->region(), address.nonce, comm::kAnyRank);
    for (int lane = 0; lane < now.options().lanes; ++lane) {
      const comm::LaneWord word = now.lane_state(lane);
      if (word.state != comm::LaneState::kStarted || word.rank != static_cast<int>(index)) continue;
      if (++deaths[{now.step(), lane}] < kDeathsOfALane) continue;
      // One that has ended by itself has said why, and so will whoever computes the lane after it.
      if (ending.signal == 0 && !ending.unknown)
        hopeless = ending.exit_code;
      else
        deadly = LaneOfStep{now.step(), lane};
    }
  }

  void bury(std::size_t index, const Ending& ending) {
    Seat& seat = seats[index];
    const pid_t pid = seat.process->pid();
    const bool was_member = member(index);
    const auto now = system_clock().now();
    switch (judge_ending(ending_view(index), ending).verdict) {
      case EndingVerdict::kRefused:
        if (hopeless == 0) hopeless = ending.good() ? kRefused : exit_code_of(ending);
        options.tell(fmt::format("the job ends: worker {} was refused", index));
        break;
      case EndingVerdict::kFinished:
        finishing = true;
        left.push_back({index, pid, step()});
        break;
      case EndingVerdict::kStopped:
        stopped = true;
        if (index == 0 || exit_code == 0) exit_code = exit_code_of(ending);
        break;
      case EndingVerdict::kNothing:
        break;
      case EndingVerdict::kBroken:
        if (!broken_by) broken_by = LostWorker{static_cast<int>(index), pid, ending};
        break;
      case EndingVerdict::kGaveUp:
        if (!gave_up) gave_up = GaveUp{index, pid, ending.exit_code, now, seats[founder].process->started()};
        ++seat.failures;
        break;
      case EndingVerdict::kHopeless:
        hopeless = hopeless == 0 ? ending.exit_code : hopeless;
        tell_of_failed_start(index, pid, ending.exit_code);
        break;
      case EndingVerdict::kLost:
        options.tell(fmt::format("worker {} (pid {}) is lost: {}", index, pid, reasons.explain(pid, ending)));
        // One that was silent was stopped or starved from outside: heartbeats do not depend on lanes.
        if (!seat.silent) count_lanes_of(index, ending);
        if (was_member) last_exit_code = ending.exit_code;
        if (was_member && now - seat.entered > control::kForgiven) seat.failures = 0;
        ++seat.failures;
        judge_early_end(index, ending);
        if (seat.failures == control::kMostFailures && hopeless == 0 && !is_users_mistake(ending))
          options.tell(fmt::format("worker {} has failed {} times in a row: its place stays empty for {} minutes",
                                   index, seat.failures, control::kQuarantine.count()));
        break;
    }
    if (index == founder) founder_lost = now;
    if (!arena && index == founder) start_over_without(index);
    seat.process.reset();
    seat.failed = now;
    seat.lost = was_member;
    seat.evicted = false;
    seat.killed = false;
    seat.silent = false;
    members &= ~(std::uint64_t{1} << index);
  }

  EndingView ending_view(std::size_t index) {
    const Seat& seat = seats[index];
    EndingView view;
    view.evicted = seat.evicted;
    view.member = member(index);
    view.ready = ready(index);
    view.done = done(index);
    view.refused = was_refused(index);
    view.founder_lives = founded && index != founder && seats[founder].process;
    view.founder_lost = seat.joins && founder_lost && seat.started <= *founder_lost;
    view.began = generation > 0;
    view.others = (members & ~(std::uint64_t{1} << index)) != 0;
    view.signal = passed_on;
    view.finishing = finishing;
    view.hopeless = hopeless != 0;
    view.fixed = fixed();
    return view;
  }

  // One that has ended before its first step: would another one do the same?
  void judge_early_end(std::size_t index, const Ending& ending) {
    Seat& seat = seats[index];
    if (is_users_mistake(ending) && !member(index)) {
      options.tell(
          fmt::format("worker {} says that it was started with a mistake: its place stays empty for {} minutes", index,
                      control::kQuarantine.count()));
      seat.failures = control::kMostFailures;
    }
    // Steps of parameter servers are not counted here.
    if (!is_crash(ending) || step() != seat.began_at || (keeper && generation > 0)) return;
    const std::optional<std::string> reason = early_endings.crashed(index, ending, step());
    if (!reason) return;
    options.tell(fmt::format("the job ends: {}. What they have printed says why.", *reason));
    hopeless = exit_code_of(ending);
  }

  // A worker of ours has said why.
  void tell_of_failed_start(std::size_t index, pid_t pid, int code) const {
    if (!options.grace)
      options.tell(fmt::format("the job ends: worker {} (pid {}) ended with exit code {} before anybody trained", index,
                               pid, code));
  }

  bool was_refused(std::size_t index) const {
    const std::optional<std::string> refused = stored(kRefusedKey);
    return refused && *refused == std::to_string(index) && !seats[index].evicted;
  }

  // Those who left in good order have come to the end of the job, unless others go on after them. Workers of ours do
  // not.
  void look_for_early_leavers() {
    if (left.empty() || passed_on != 0 || options.grace) return;
    bool waiting = false;
    for (std::size_t index = 0; generation == 0 && index < seats.size(); ++index)
      waiting |= ready(index);
    const bool early = waiting || (members != 0 && step() > left.back().step);
    if (!early) return;
    for (const Left& one : left) {
      options.tell(
          fmt::format("worker {} (pid {}) has left after step {} without an error, and the others train on: its "
                      "place stays empty",
                      one.seat, one.pid, one.step));
      seats[one.seat].done = true;
    }
    left.clear();
    finishing = false;
    patience.reset();
  }

  // Of a worker that was taken over nobody is told how it ended; whether it was done is in the arena.
  Ending as_far_as_known(std::size_t index, const Ending& ending) const {
    if (!ending.unknown) return ending;
    if (!done(index)) return ending;
    return {.exit_code = passed_on == 0 ? 0 : 128 + passed_on};
  }

  void bury_the_dead() {
    look_for_early_leavers();
    for (std::size_t index = 0; index < seats.size(); ++index) {
      if (!seats[index].process) continue;
      if (const std::optional<Ending> ending = seats[index].process->poll(ready(index) && done(index)))
        bury(index, as_far_as_known(index, *ending));
    }
    judge_who_gave_up();
  }

  // One that gave up while it waited for the arena has either said why, or has seen before us that its founder dies:
  // then another one will not do the same.
  void judge_who_gave_up() {
    if (!gave_up) return;
    const std::optional<WorkerProcess>& process = seats[founder].process;
    if (members != 0 || !process || process->started() != gave_up->founder) {
      if (members != 0)
        options.tell(fmt::format("worker {} (pid {}) is lost: exit code {}, before it could train", gave_up->seat,
                                 gave_up->pid, gave_up->exit_code));
      gave_up.reset();
    } else if (system_clock().now() - gave_up->since > kFounderPatience) {
      if (hopeless == 0) hopeless = gave_up->exit_code;
      tell_of_failed_start(gave_up->seat, gave_up->pid, gave_up->exit_code);
      gave_up.reset();
    }
  }

  // Those that live and are of no use: silent, hung, stuck before they could train.
  void kill_the_lost() {
    if (arena) watch.see_step(arena->committed().step);
    for (std::size_t index = 0; index < seats.size(); ++index) {
      Seat& seat = seats[index];
      if (!seat.process || seat.evicted || seat.killed) continue;
      WatchedWorker worker = watched(index);
      // What a user's program does before it trains, or without an arena, nobody knows.
      worker.unknown = !arena && !options.grace;
      const std::optional<Finding> finding = watch.look_at(index, worker);
      if (!finding || (!worker.ready && fixed())) continue;
      const std::string at =
          finding->hung ? fmt::format("{} {} ", to_string(worker.doing->activity), lane_of(index)) : "";
      options.tell(
          fmt::format("worker {} (pid {}) {}{}; it is killed", index, seat.process->pid(), at, finding->reason));
      seat.killed = true;
      seat.silent = finding->silent;
      seat.process->kill(SIGKILL);
    }
  }

  WatchedWorker watched(std::size_t index) {
    const Seat& seat = seats[index];
    WatchedWorker worker;
    worker.group = seat.process->started();
    worker.ready = ready(index);
    if (!worker.ready) return worker;
    const int rank = static_cast<int>(index);
    worker.process = *observer().occupant(rank);
    worker.beat = observer().last_beat(rank);
    if (member(index)) worker.doing = observer().doing(rank);
    worker.member_for = system_clock().now() - seat.entered;
    return worker;
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

  control::JobView view() {
    control::JobView job;
    const auto now = system_clock().now();
    job.generation = generation;
    job.target = wishes.workers;
    job.arena = arena.has_value();
    job.failed = last_exit_code != 0;
    job.regroup = regroup;
    job.finishing = finishing || passed_on != 0 || hopeless != 0 || broken_by;
    for (std::size_t index = 0; index < seats.size(); ++index) {
      const Seat& seat = seats[index];
      control::SeatView one;
      one.failures = seat.failures;
      one.since_failure = now - seat.failed;
      one.since_start = now - seat.started;
      one.lost = seat.lost;
      one.leaving = seat.evicted;
      one.done = seat.done;
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
      regroup = false;
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
    report.note = now ? now->note() : read_note(store_folder);
    const bool is_fixed = !now && fixed();
    if (keeper && !options.workers_serve) report.servers = keeper->count();
    const control::JobView job = view();
    for (std::size_t index = 0; index < seats.size(); ++index) {
      if (!seats[index].process) continue;
      SupervisorReport::Seat seat;
      seat.seat = static_cast<int>(index);
      seat.process = process_of(seats[index].process->pid());
      reasons.look_at(seat.process.pid);
      seat.state = is_fixed ? control::SeatState::kMember : job.seats[index].state;
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
    for (const Seat& seat : seats) {
      if (!seat.process) continue;
      for (const int handle : seat.process->handles())
        handles.push_back(handle);
    }
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
    // Those who train can write a checkpoint.
    if (hopeless != 0 && members != 0 && !std::exchange(told_of_failure, true)) signal_all(SIGTERM);
    // Those that are still getting ready came for nothing. What a user's program does before it trains nobody knows.
    const bool in_vain = generation > 0 || (hopeless != 0 && options.grace);
    for (std::size_t index = 0; in_vain && index < seats.size(); ++index) {
      if (seats[index].process && !member(index)) seats[index].process->kill(SIGKILL);
    }
    if (!patience && (options.grace || failed)) patience = Deadline::after(options.grace.value_or(kGraceAfterFailure));
    if (patience && patience->passed() && passed_on == 0) signal_all(SIGKILL);
  }

  // Whether the workers' program has made a group that nobody can join later.
  bool fixed() const { return stored(kFixedKey).has_value(); }

  std::optional<std::string> stored(const char* key) const {
    try {
      return store->get(key, Deadline::after(std::chrono::nanoseconds(0)));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
      return std::nullopt;
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
  int round = 0;                               // of the store's arena keys (comm/arena_address.h)
  std::optional<Clock::Instant> founder_lost;  // the last time that one ended
  std::map<LaneOfStep, int> deaths;
  std::optional<LaneOfStep> deadly;
  DeathReasons reasons;
  std::optional<ServerKeeper> keeper;
  bool regroup = false;  // what the servers have is not what the workers think
  // the arena
  std::optional<comm::Arena> arena;
  std::optional<comm::RegionServer> server;
  comm::ArenaAddress address;
  Clock::Instant looked;
  WorkerWatch watch;
  // how it ends
  bool finishing = false;
  std::vector<Left> left;        // and others may go on
  int hopeless = 0;              // exit code of a worker that could not begin
  bool told_of_failure = false;  // those who train
  EarlyEndings early_endings;
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
    state.kill_the_lost();
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
