// A loop: bury the dead, look at the living, decide on members, begin a generation, start who is missing. Judgements
// are pure functions elsewhere (worker_ending.h, worker_watch.h, control/membership.h); this is what acts on them.
#include "muster/launch/supervisor.h"

#include <signal.h>

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/temporary_folder.h"
#include "muster/control/membership.h"
#include "muster/launch/death_reason.h"
#include "muster/launch/environment.h"
#include "muster/launch/job_ending.h"
#include "muster/launch/supervised_arena.h"
#include "muster/launch/worker_process.h"
#include "muster/launch/worker_words.h"

namespace muster::launch {
namespace {

using control::WorkerState;

constexpr std::chrono::milliseconds kPollInterval{2};   // where the kernel does not tell of deaths
constexpr std::chrono::milliseconds kLookInterval{10};  // where it does: newcomers, wishes, signals
constexpr std::chrono::milliseconds kReportInterval{100};
constexpr std::chrono::seconds kUndyingAfter{10};
constexpr const char* kFolderPrefix = "muster-job-";

// The process on a seat; what is known of it beside is a control::Worker.
struct Seat {
  std::optional<WorkerProcess> process;
  bool joins = false;   // it was told to find the arena by the founder
  int processes = 0;    // so far
  bool killed = false;  // because it was of no use, then:
  Clock::Instant killed_at{};
  bool undying = false;        // people were told that it does not die
  bool silent = false;         // by no fault of what it computes
  std::uint64_t began_at = 0;  // committed steps when it was started
};

// What a member waits for, in words.
std::string words_for(comm::Activity activity) {
  if (activity == comm::Activity::kWaiting) return "the others";
  if (activity == comm::Activity::kLoading) return "samples";
  if (activity == comm::Activity::kSaving) return "the disk";
  return {};
}

std::uint64_t bit_of(std::size_t seat) {
  return std::uint64_t{1} << seat;
}

}  // namespace

struct Supervisor::State {
  State(Command its_command, SupervisorOptions its_options, TemporaryFolder folder, const std::filesystem::path& store,
        const Clock& its_clock)
      : command(std::move(its_command)),
        options(std::move(its_options)),
        clock(its_clock),
        arena(std::move(folder), store, options.watch.liveness),
        seats(static_cast<std::size_t>(options.seats)),
        reasons(clock),
        watch(options.watch, seats.size(), clock),
        ending(options.grace, clock) {
    for (int rank = 0; rank < options.seats; ++rank)
      job.workers.push_back({.rank = rank});
  }

  bool member(std::size_t index) const { return job.workers[index].member(); }
  // Other than the one on that seat, if one is named.
  bool any_member(std::optional<std::size_t> but = std::nullopt) const {
    return std::any_of(job.workers.begin(), job.workers.end(), [&](const control::Worker& worker) {
      return worker.member() && (!but || worker.rank != static_cast<int>(*but));
    });
  }
  bool anybody() const {
    return std::any_of(seats.begin(), seats.end(), [](const Seat& seat) { return seat.process.has_value(); });
  }

  void start(std::size_t index) {
    Seat& seat = seats[index];
    const SupervisedArena::Invitation invitation = arena.invite(index);
    Command own = command;
    own.environment["MUSTER_RANK"] = std::to_string(index);
    own.environment["MUSTER_SIZE"] = std::to_string(options.seats);
    own.environment["MUSTER_STORE"] = arena.store_folder().string();
    own.environment["MUSTER_ARENA"] = invitation.arena;
    own.environment["MUSTER_ATTEMPT"] = std::to_string(seat.processes);
    own.environment.merge(options.gate->environment());
    // The beginning of their names; a job that is taken over keeps them.
    if (const auto logs = own.environment.find(kLogsVariable); logs != own.environment.end())
      own.log = logs->second + (index == 0 ? "" : "." + std::to_string(index)) + ".txt";
    // Those who come later come when this process has threads.
    if (reported != Clock::Instant()) own.copy = nullptr;
    seat.joins = invitation.joins;
    ++seat.processes;
    seat.process.emplace(own, clock);
    seat.began_at = arena.step();
    take_seat(index, WorkerState::kStarting, process_of(seat.process->pid()));
  }

  void take_seat(std::size_t index, WorkerState state, const ProcessId& process) {
    control::Worker& worker = job.workers[index];
    worker.state = state;
    worker.process = process;
    worker.restarts = seats[index].processes - 1;
    worker.started = worker.entered = clock.now();
  }

  // The servers of a job are found by its store, too.
  void keep_servers(bool take_over = false) {
    ServerKeeperOptions wanted;
    // Other hosts know of the processes so far: they count on.
    if (keeper && options.own_servers) wanted.used = keeper->processes();
    keeper.reset();
    if (options.servers == 0 && !options.workers_serve) return;
    wanted.own = options.own_servers;
    wanted.command = options.server_command;
    wanted.servers = options.servers;
    wanted.worker_seats = options.workers_serve ? options.seats : 0;
    wanted.take_over = take_over;
    wanted.liveness = options.watch.liveness;
    wanted.tell = options.tell;
    keeper.emplace(std::move(wanted), arena.store_folder(), clock);
  }

  void look_after_servers() {
    // Workers that have done their work take their servers with them, one after the other.
    if (!keeper || ending.finishing() || ending.stopped()) return;
    for (std::size_t index = 0; options.workers_serve && index < seats.size(); ++index) {
      const Seat& seat = seats[index];
      std::optional<std::uint32_t> attempt;
      if (seat.process) attempt = static_cast<std::uint32_t>(seat.processes - 1);
      keeper->set_worker(static_cast<std::uint32_t>(index), attempt);
    }
    if (options.servers > 0 && wishes.servers > 0 && !options.own_servers) keeper->set_servers(wishes.servers);
    keeper->look();
    job.regroup = job.regroup || keeper->take_restored();
  }

  // Workers of a supervisor that is gone.
  void adopt() {
    arena.adopt();
    job.generation = arena.generation();
    options.gate->adopted(job.generation, arena.store());
    const std::uint64_t members = arena.members();
    keep_servers(true);
    for (std::size_t index = 0; index < seats.size(); ++index) {
      Seat& seat = seats[index];
      const bool was_member = (members & bit_of(index)) != 0;
      if (const std::optional<ProcessId> occupant = arena.board().occupant(static_cast<int>(index))) {
        seat.process.emplace(WorkerProcess::adopt(*occupant, clock));
        // Servers are found by their attempts; nothing else needs the right number.
        seat.processes =
            std::max(1, keeper ? static_cast<int>(keeper->processes(static_cast<std::uint32_t>(index))) : 0);
        take_seat(index, was_member ? WorkerState::kRunning : WorkerState::kStarting, *occupant);
      } else {
        job.workers[index].lost = was_member;
      }
    }
  }

  void start_over_without(std::size_t dead_founder) {
    const bool anew = arena.found_anew() == SupervisedArena::Founding::kAnew;
    if (anew) keep_servers();
    for (std::size_t index = 0; index < seats.size(); ++index) {
      control::Worker& worker = job.workers[index];
      if (index == dead_founder || !seats[index].process) continue;
      if (anew) {
        worker.leaving = true;
        seats[index].process->kill(SIGKILL);
      } else if (ending.finishing() && !worker.leaving) {
        // A user's program may end in good order before it trains; those who came with it may wait for its arena.
        return arena.appoint(index);
      }
    }
  }

  // The worker, if it has taken its seat in the arena.
  std::optional<ProcessId> seated(std::size_t index) {
    if (!arena.there() || !seats[index].process) return std::nullopt;
    const std::optional<ProcessId> occupant = arena.board().occupant(static_cast<int>(index));
    return occupant && seats[index].process->recognizes(*occupant) ? occupant : std::nullopt;
  }

  // Of the worker that makes the arena, or did.
  pid_t founder_process() const {
    const std::optional<std::size_t> founder = arena.founder();
    return founder && seats[*founder].process ? seats[*founder].process->started() : 0;
  }

  EndingView ending_view(std::size_t index) {
    const control::Worker& worker = job.workers[index];
    const Seat& seat = seats[index];
    EndingView view;
    view.evicted = worker.leaving;
    view.member = worker.member();
    view.ready = seated(index).has_value();
    view.done = arena.done(index);
    view.refused = arena.refused(index);
    view.founder_lives = !arena.is_founder(index) && founder_process() != 0;
    view.founder_lost = seat.joins && founder_lost && worker.started <= *founder_lost;
    view.began = job.generation > 0;
    view.others = any_member(index);
    view.fixed = arena.fixed();
    return view;
  }

  void bury(std::size_t index, const Ending& how) {
    Seat& seat = seats[index];
    control::Worker& worker = job.workers[index];
    const auto now = clock.now();
    EndedWorker ended;
    ended.rank = worker.rank;
    ended.pid = seat.process->pid();
    ended.ending = how;
    ended.view = ending_view(index);
    ended.failures = worker.failures;
    ended.member_for = now - worker.entered;
    ended.silent = seat.silent;
    ended.step = arena.step();
    // Steps of parameter servers are not counted here.
    ended.counts_steps = !(keeper && job.generation > 0);
    ended.saw_no_step = ended.step == seat.began_at && ended.counts_steps;
    ended.reason = read_reason(arena.store_folder(), worker.rank, seat.processes - 1);
    ended.started = worker.started;
    if (worker.member()) ended.lanes = arena.lanes_of(index);
    ended.founder = founder_process();
    const Aftermath after = ending.bury(ended, [&](const Ending& known) { return reasons.explain(ended.pid, known); });
    for (const std::string& line : after.told)
      options.tell(line);
    if (arena.is_founder(index)) founder_lost = now;
    if (!arena.there() && arena.is_founder(index)) start_over_without(index);
    seat.process.reset();
    seat.killed = seat.silent = seat.undying = false;
    worker.failures = after.failures;
    worker.failed = now;
    worker.lost = worker.lost || worker.member();
    worker.leaving = false;
    worker.state = WorkerState::kEmpty;
  }

  void bury_the_dead() {
    for (const JobEnding::Leaver& leaver : ending.early_leavers(now())) {
      options.tell(leaver.told);
      job.workers[static_cast<std::size_t>(leaver.rank)].done = true;
    }
    for (std::size_t index = 0; index < seats.size(); ++index) {
      if (!seats[index].process) continue;
      if (const std::optional<Ending> how = seats[index].process->poll(seated(index) && arena.done(index)))
        bury(index, *how);
    }
    if (const std::optional<std::string> told = ending.judge_who_gave_up(now())) options.tell(*told);
  }

  JobEnding::Now now() {
    JobEnding::Now now;
    now.generation = job.generation;
    now.members = any_member();
    for (std::size_t index = 0; job.generation == 0 && index < seats.size(); ++index)
      now.ready |= seated(index).has_value();
    now.step = arena.step();
    now.founder = founder_process();
    return now;
  }

  // Those that live and are of no use: silent, hung, stuck before they could train.
  void kill_the_lost() {
    if (arena.there()) watch.see_step(arena.step());
    for (std::size_t index = 0; index < seats.size(); ++index) {
      Seat& seat = seats[index];
      const control::Worker& worker = job.workers[index];
      if (seat.process && seat.killed) name_if_undying(index);
      if (!seat.process || worker.leaving || seat.killed) continue;
      const WorkerSigns signs = signs_of_worker(index);
      const std::optional<Finding> finding = watch.look_at(worker, signs);
      if (!finding || (!signs.seated && arena.fixed())) continue;
      const std::string at =
          finding->hung ? fmt::format("{} {} ", to_string(signs.doing->activity), arena.place_of(index)) : "";
      options.tell(
          fmt::format("worker {} (pid {}) {}{}; it is killed", index, seat.process->pid(), at, finding->reason));
      seat.killed = true;
      seat.killed_at = clock.now();
      seat.silent = finding->silent;
      seat.process->kill(SIGKILL);
    }
  }

  // Nobody can take its place before it is dead, and the kernel may never let it die.
  void name_if_undying(std::size_t index) {
    Seat& seat = seats[index];
    if (clock.now() - seat.killed_at < kUndyingAfter || std::exchange(seat.undying, true)) return;
    const std::string why = why_it_lives(seat.process->pid());
    options.tell(fmt::format("worker {} (pid {}) was killed and does not die{}{}; the others wait until it does", index,
                             seat.process->pid(), why.empty() ? "" : ": ", why));
  }

  WorkerSigns signs_of_worker(std::size_t index) {
    WorkerSigns signs;
    signs.group = seats[index].process->started();
    signs.seated = seated(index).has_value();
    // What a user's program does before it trains, or without an arena, nobody knows.
    signs.unknown = !arena.there() && !options.grace;
    if (!signs.seated) return signs;
    const int rank = static_cast<int>(index);
    signs.beat = arena.board().last_beat(rank);
    if (member(index)) signs.doing = arena.board().doing(rank);
    return signs;
  }

  // Who has taken its seat, and which process that is.
  void look_at_seats() {
    for (std::size_t index = 0; index < seats.size(); ++index) {
      if (!seats[index].process) continue;
      control::Worker& worker = job.workers[index];
      const std::optional<ProcessId> sits = seated(index);
      if (sits) worker.process = *sits;
      if (!worker.member()) worker.state = sits ? WorkerState::kReady : WorkerState::kStarting;
    }
  }

  control::MembershipDecision decide() {
    job.now = clock.now();
    job.target = wishes.workers;
    job.arena = arena.there();
    job.failed = ending.failure() != 0;
    job.finishing = ending.admits_nobody();
    return control::decide_members(job);
  }

  MembersWanted wanted_by(const control::MembershipDecision& decision) const {
    MembersWanted wanted;
    for (std::size_t index = 0; index < seats.size(); ++index) {
      const control::Worker& worker = job.workers[index];
      if (worker.member()) wanted.present |= bit_of(index);
      if (worker.member() || (worker.state == WorkerState::kReady && !worker.leaving)) wanted.possible |= bit_of(index);
    }
    wanted.changed = decision.new_generation;
    wanted.finishing = ending.finishing();
    wanted.wanted = decision.new_generation ? decision.members : wanted.present;
    wanted.fixed = arena.fixed();
    if (wanted.fixed && job.generation == 0 && std::popcount(wanted.wanted) < options.seats) {
      wanted.wanted = 0;
      wanted.changed = false;
    }
    return wanted;
  }

  void begin_generation(std::uint64_t members) {
    for (std::size_t index = 0; index < seats.size(); ++index) {
      if ((members & bit_of(index)) == 0 || member(index)) continue;
      job.workers[index].entered = clock.now();
      job.workers[index].state = WorkerState::kRunning;
    }
    do
      ++job.generation;
    while (!options.gate->prepare(job.generation, arena.store()));
    arena.begin_generation(job.generation, members);
    options.gate->begun();
    job.regroup = false;
  }

  void act(const control::MembershipDecision& decision) {
    std::optional<std::uint64_t> members;
    if (arena.there()) members = options.gate->admit(wanted_by(decision));
    if (members) begin_generation(*members);
    // The dead are members until a generation without them has begun. Without any the old one stays until somebody is
    // ready.
    const bool settled = members || !decision.new_generation || decision.members == 0;
    for (control::Worker& worker : job.workers)
      worker.lost = worker.lost && !settled;
    for (const int seat : decision.start)
      if (!job.workers[static_cast<std::size_t>(seat)].lost) start(static_cast<std::size_t>(seat));
    evict(decision.evict);
    const bool changed = members || (decision.new_generation && settled);
    if (changed || system_clock().now() - reported > kReportInterval) tell_report();
  }

  void evict(const std::vector<int>& those) {
    // A worker that serves hands its part of the model over first, and trains meanwhile.
    for (std::size_t index = 0; options.workers_serve && keeper && index < seats.size(); ++index) {
      const bool leaves = std::find(those.begin(), those.end(), static_cast<int>(index)) != those.end();
      keeper->set_leaving(static_cast<std::uint32_t>(index), leaves || job.workers[index].leaving);
    }
    for (const int index : those) {
      if (options.workers_serve && (!keeper || !keeper->may_go(static_cast<std::uint32_t>(index)))) continue;
      job.workers[static_cast<std::size_t>(index)].leaving = true;
      seats[static_cast<std::size_t>(index)].process->kill(SIGKILL);
    }
  }

  void tell_report() {
    reported = system_clock().now();
    SupervisorReport report;
    report.store = arena.store_folder().string();
    report.generation = job.generation;
    report.step = arena.step();
    report.note = arena.note();
    const bool fixed = !arena.there() && arena.fixed();
    if (keeper && !options.workers_serve) report.servers = keeper->count();
    for (std::size_t index = 0; index < seats.size(); ++index) {
      if (!seats[index].process) continue;
      control::Worker worker = job.workers[index];
      reasons.look_at(worker.process.pid);
      if (fixed) worker.state = WorkerState::kRunning;
      if (arena.there() && worker.member()) tell_what_it_does(worker);
      report.workers.push_back(std::move(worker));
    }
    options.report(report);
  }

  void tell_what_it_does(control::Worker& worker) const {
    const std::vector<LaneOfStep> lanes = arena.lanes_of(static_cast<std::size_t>(worker.rank));
    if (!lanes.empty()) worker.lane = static_cast<std::uint64_t>(lanes.back().lane);
    const comm::Board::Doing doing = arena.board().doing(worker.rank);
    worker.waits_for = words_for(doing.activity);
    worker.seconds = std::chrono::duration<double>(clock.now().time_since_epoch() - doing.since).count();
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

  void pass_signal_on() {
    const int signal = ending.signal_to_pass(options.requested_signal(), wishes.stop, now());
    if (signal != 0) signal_all(signal);
  }

  void hurry_the_last() {
    const JobEnding::Hurry hurry = ending.hurry(now());
    if (hurry.tell) signal_all(SIGTERM);
    for (std::size_t index = 0; hurry.kill_newcomers && index < seats.size(); ++index) {
      if (seats[index].process && !member(index)) seats[index].process->kill(SIGKILL);
    }
    if (hurry.kill_all) signal_all(SIGKILL);
  }

  void throw_if_deadly() const {
    const std::optional<LaneOfStep>& lane = ending.deadly_lane();
    if (!lane) return;
    const std::string samples = options.describe_lane(lane->step, lane->lane);
    throw Error(ErrorKind::kCompute,
                fmt::format("lane {} of step {} has killed {} workers{}{}", lane->lane, lane->step + 1,
                            JobEnding::kDeathsOfALane, samples.empty() ? "" : "; ", samples),
                {}, "Look at these samples, at the workers' logs and at the memory that is free.");
  }

  // constant after construction
  const Command command;
  const SupervisorOptions options;
  const Clock& clock;
  // the workers
  SupervisedArena arena;
  std::vector<Seat> seats;
  control::JobView job;  // as it was seen last; of it the generation and the members are kept here alone
  Wishes wishes;
  Clock::Instant reported;
  std::optional<Clock::Instant> founder_lost;  // the last time that one ended
  DeathReasons reasons;
  WorkerWatch watch;
  std::optional<ServerKeeper> keeper;
  JobEnding ending;
};

Supervisor::Supervisor(Command command, SupervisorOptions options, const Clock& clock) {
  remove_abandoned(kFolderPrefix);
  TemporaryFolder folder(kFolderPrefix);
  const std::filesystem::path store = folder.path() / "store-0";
  state_ = std::make_unique<State>(std::move(command), std::move(options), std::move(folder), store, clock);
  state_->keep_servers();
}

Supervisor::Supervisor(Command command, SupervisorOptions options, const std::filesystem::path& store,
                       const Clock& clock) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(store, ignored))
    throw Error(ErrorKind::kPeerLost, "no worker of this job lives any more", store.string());
  state_ = std::make_unique<State>(std::move(command), std::move(options), TemporaryFolder::adopt(store.parent_path()),
                                   store, clock);
  state_->adopt();
}

Supervisor::~Supervisor() = default;

int Supervisor::run() {
  State& state = *state_;
  for (;;) {
    state.wishes = state.options.wishes();
    state.bury_the_dead();
    state.throw_if_deadly();
    state.arena.look();
    state.look_after_servers();
    state.look_at_seats();
    state.kill_the_lost();
    const control::MembershipDecision decision = state.decide();
    if (decision.all_lost) {
      // Workers that all ended by themselves have said why.
      if (state.ending.failure() != 0) return state.ending.failure();
      throw Error(ErrorKind::kPeerLost, "all workers are lost", {},
                  "Nothing that was committed to a checkpoint is lost: start again with --resume.");
    }
    state.act(decision);
    if (!state.anybody() && decision.start.empty() && state.ending.over(state.now())) return state.ending.exit_code();
    state.pass_signal_on();
    state.hurry_the_last();
    state.wait();
  }
}

}  // namespace muster::launch
