// A look is: bury the dead, kill the stopped, find who has come, decide on a map, let go who may go. Every map is in
// the store before anybody acts on it, so that whoever takes over goes on from there.
#include "muster/launch/server_keeper.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/process.h"
#include "muster/control/membership.h"
#include "muster/control/server_places.h"
#include "muster/launch/worker_words.h"

namespace muster::launch {
namespace {

std::optional<std::string> value(comm::Store& store, const std::string& key) {
  try {
    return store.get(key, Deadline::after(std::chrono::nanoseconds(0)));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
    return std::nullopt;
  }
}

// Whether a server that holds something is another process than the one that held it.
bool came_back(const control::ServerMap& before, const control::ServerMap& now) {
  for (std::uint32_t server = 0; server < now.servers.size(); ++server) {
    const control::ServerSeat& seat = now.servers[server];
    const bool same = server < before.servers.size() && before.servers[server] == seat;
    if (!seat.address.empty() && seat.attempt > 0 && !same && now.holds_any(server)) return true;
  }
  return false;
}

}  // namespace

struct ServerKeeper::Seat {
  std::optional<ChildProcess> process;  // of a server that is a process of its own
  bool there = false;                   // somebody serves here, or prepares to
  std::uint32_t attempt = 0;            // of the one that is there
  std::uint32_t processes = 0;          // so far
  std::string address;                  // empty: it is not ready
  std::string host;                     // of several
  bool here = true;                     // of several hosts: it is this one's to run
  std::uint32_t first_attempt = 0;      // of its processes here
  bool leaving = false;                 // it is to go when it holds nothing
  bool ended = false;                   // and was told to
  int failures = 0;
  Clock::Instant started{};
  Clock::Instant failed{};
  std::optional<Clock::Instant> stopped{};  // since when it was seen stopped
};

ServerKeeper::ServerKeeper(ServerKeeperOptions options, const std::filesystem::path& store_folder, const Clock& clock)
    : options_(std::move(options)),
      folder_(store_folder),
      clock_(clock),
      store_(options_.store ? options_.store : comm::make_file_store(store_folder)),
      seats_(static_cast<std::size_t>(std::max(options_.servers, options_.worker_seats))) {
  if (options_.take_over) take_over();
  for (std::size_t number = 0; number < std::min(seats_.size(), options_.used.size()); ++number)
    seats_[number].processes = options_.used[number];
  if (options_.take_over || options_.own) return;
  for (std::uint32_t number = 0; number < static_cast<std::uint32_t>(options_.servers); ++number)
    start(number);
}

ServerKeeper::~ServerKeeper() = default;

// Servers say who they are before they cease to end with their parent: whoever lives is known.
void ServerKeeper::take_over() {
  for (std::uint64_t generation = 1;; ++generation) {
    const std::optional<std::string> text = value(*store_, control::map_key(generation));
    if (!text) break;
    map_ = control::ServerMap::from_text(*text);
  }
  if (map_) seats_.resize(std::max(seats_.size(), map_->servers.size()));
  std::vector<ProcessId> processes(seats_.size());
  for (const auto& [key, process] : comm::values_in_file_store(folder_, control::kServerProcesses)) {
    std::uint32_t number = 0;
    std::uint32_t attempt = 0;
    ProcessId id;
    if (std::sscanf(key.c_str() + key.find('/'), "/%u-%u", &number, &attempt) != 2 ||
        std::sscanf(process.c_str(), "%d %lu", &id.pid, &id.start_time) != 2)
      throw Error(ErrorKind::kDamaged, fmt::format("{} = \"{}\" names no parameter server", key, process),
                  folder_.string());
    if (number >= seats_.size()) {
      seats_.resize(number + std::size_t{1});
      processes.resize(seats_.size());
    }
    if (attempt < seats_[number].processes) continue;
    seats_[number].processes = attempt + 1;
    seats_[number].attempt = attempt;
    processes[number] = id;
  }
  for (std::size_t number = 0; options_.worker_seats == 0 && number < seats_.size(); ++number) {
    Seat& seat = seats_[number];
    if (seat.processes == 0) continue;
    seat.process.emplace(ChildProcess::adopt(processes[number]));
    seat.there = true;
    seat.started = clock_.now();
  }
}

void ServerKeeper::start(std::uint32_t number) {
  Seat& seat = seats_[number];
  // Whoever decides learns by it that those before are no more.
  for (std::uint32_t gone = seat.first_attempt; options_.own && gone < seat.processes; ++gone)
    store_->set(control::server_gone_key(number, gone), "1");
  Command own = options_.command;
  own.environment["MUSTER_RANK"] = std::to_string(number);
  own.environment["MUSTER_SIZE"] = std::to_string(seats_.size());
  own.environment["MUSTER_STORE"] = folder_.string();
  own.environment["MUSTER_ATTEMPT"] = std::to_string(seat.processes);
  own.own_group = true;
  seat.process.emplace(own);
  seat.there = true;
  seat.attempt = seat.processes++;
  seat.address.clear();
  seat.started = clock_.now();
}

void ServerKeeper::set_worker(std::uint32_t number, std::optional<std::uint32_t> attempt) {
  Seat& seat = seats_[number];
  if (seat.there == attempt.has_value() && (!attempt || seat.attempt == *attempt)) return;
  seat.there = attempt.has_value();
  seat.attempt = attempt.value_or(0);
  seat.address.clear();
}

void ServerKeeper::set_host(std::uint32_t seat, std::string host) {
  seats_[seat].host = std::move(host);
}

// Servers that are placed elsewhere now are not waited for: whoever decides has made a map without them.
void ServerKeeper::take_places() {
  const std::vector<OwnServer> own = options_.own();
  for (std::uint32_t number = 0; number < seats_.size(); ++number) {
    Seat& seat = seats_[number];
    const auto placed =
        std::find_if(own.begin(), own.end(), [&](const OwnServer& one) { return one.number == number; });
    const bool same = placed != own.end() && placed->first_attempt == seat.first_attempt;
    if (seat.process && !same) {
      seat.here = false;
      if (!std::exchange(seat.ended, true)) seat.process->kill(SIGKILL);
    }
    if (seat.process) continue;
    seat.here = placed != own.end();
    if (same || !seat.here) continue;
    seat.first_attempt = placed->first_attempt;
    seat.processes = std::max(seat.processes, placed->first_attempt);
  }
}

void ServerKeeper::follow_maps() {
  for (std::uint64_t next = map_ ? map_->generation + 1 : 1;; ++next) {
    const std::optional<std::string> text = value(*store_, control::map_key(next));
    if (!text) return;
    map_ = control::ServerMap::from_text(*text);
  }
}

void ServerKeeper::set_servers(int servers) {
  seats_.resize(std::max(seats_.size(), static_cast<std::size_t>(servers)));
  for (std::size_t number = 0; number < seats_.size(); ++number)
    seats_[number].leaving = number >= static_cast<std::size_t>(servers);
}

void ServerKeeper::set_leaving(std::uint32_t seat, bool leaving) {
  seats_[seat].leaving = leaving;
}

bool ServerKeeper::may_go(std::uint32_t seat) const {
  return map_ && !map_->holds_any(seat);
}

void ServerKeeper::bury(std::uint32_t number, const Ending& ending) {
  Seat& seat = seats_[number];
  const auto now = clock_.now();
  std::string reason;
  if (seat.ended) {
    if (!options_.own) options_.tell(fmt::format("parameter server {} has left; others have what it held", number));
    seat.failures = 0;
  } else {
    reason = read_server_reason(folder_, number, seat.attempt);
    if (reason.empty()) reason = to_string(ending);
    options_.tell(
        fmt::format("parameter server {} (pid {}) is lost: {}", number, seat.process->pid(), to_string(ending)));
    // One that never served has proved nothing, however long it took to fail: it may have waited for the job's data.
    if (!seat.address.empty() && now - seat.started > control::kForgiven) seat.failures = 0;
    ++seat.failures;
  }
  seat.failed = now;
  seat.process.reset();
  seat.there = false;
  seat.ended = false;
  seat.address.clear();
  seat.stopped.reset();
  if (options_.own) store_->set(control::server_gone_key(number, seat.attempt), "1");
  give_up_if_hopeless(number, reason);
}

// Training waits for every server before it begins, and for one that alone has chunks: without an end, if none of its
// processes can ever serve. Where others have what it held the job goes on without it.
void ServerKeeper::give_up_if_hopeless(std::uint32_t number, const std::string& reason) const {
  const int failures = seats_[number].failures;
  if (failures < control::kMostFailures) return;
  const bool only_one = map_ && map_->copies == 1 && map_->needs(number);
  if (map_ && !only_one) return;
  throw Error(
      ErrorKind::kPeerLost,
      fmt::format("parameter server {} has failed {} times in a row{}; the last time: {}", number, failures,
                  only_one ? ", and nobody else has its part of the model" : " before the job could begin", reason),
      {},
      only_one ? "Mend what it names; then start again with --resume. With parallel.copies = 2 others would have "
                 "what it held."
               : "Mend what it names, and start again.");
}

void ServerKeeper::bury_the_dead() {
  if (options_.worker_seats > 0) return;
  for (std::uint32_t number = 0; number < seats_.size(); ++number) {
    Seat& seat = seats_[number];
    if (seat.process) {
      if (const std::optional<Ending> ending = seat.process->poll()) bury(number, *ending);
    }
    // One that was leaving and is lost comes back only if its next process can have what nobody else has: a snapshot.
    const bool wanted = seat.here && (!seat.leaving || (map_ && map_->copies == 1 && map_->needs(number)));
    const bool due = clock_.now() - seat.failed >= control::back_off(seat.failures);
    if (!seat.process && wanted && due) start(number);
  }
}

void ServerKeeper::end_those_who_may_go() {
  for (std::uint32_t number = 0; number < seats_.size(); ++number) {
    Seat& seat = seats_[number];
    if (!seat.process || !seat.leaving || seat.ended || !may_go(number)) continue;
    seat.ended = true;
    seat.process->kill(SIGKILL);
  }
}

// One that was stopped may wake up and write: it has to be dead before others take its place.
void ServerKeeper::kill_the_stopped() {
  const auto now = clock_.now();
  for (Seat& seat : seats_) {
    if (!seat.process) continue;
    if (state_of(process_of(seat.process->pid())) != ProcessState::kStopped) {
      seat.stopped.reset();
    } else if (!seat.stopped) {
      seat.stopped = now;
    } else if (now - *seat.stopped > options_.liveness) {
      options_.tell(fmt::format("the parameter server of pid {} has been stopped for {:.1f} s: it is killed",
                                seat.process->pid(), std::chrono::duration<double>(options_.liveness).count()));
      seat.process->kill(SIGKILL);
    }
  }
}

void ServerKeeper::find_addresses() {
  for (std::uint32_t number = 0; number < seats_.size(); ++number) {
    Seat& seat = seats_[number];
    if (!seat.there || !seat.address.empty()) continue;
    seat.address = value(*store_, control::server_key(number, seat.attempt)).value_or("");
  }
}

void ServerKeeper::publish(control::ServerMap map) {
  store_->set(control::map_key(map.generation), map.to_text());
  map_ = std::move(map);
}

void ServerKeeper::decide() {
  std::vector<control::ServerSeat> seats;
  std::set<std::uint32_t> leaving;
  for (const Seat& seat : seats_) {
    const bool ready = !seat.address.empty();
    if (ready && seat.leaving) leaving.insert(static_cast<std::uint32_t>(seats.size()));
    seats.push_back({seat.address, ready ? seat.attempt : 0, seat.host});
  }
  if (!map_) {
    const std::optional<std::string> chunks = value(*store_, control::kChunksKey);
    const std::optional<std::string> copies = value(*store_, control::kCopiesKey);
    // All that were started, so that nothing has to move at once.
    const bool all = std::all_of(seats_.begin(), seats_.end(), [](const Seat& seat) {
      return !seat.address.empty() || (!seat.there && !seat.process);
    });
    const auto ready =
        std::count_if(seats.begin(), seats.end(), [](const auto& seat) { return !seat.address.empty(); });
    const bool any = ready > static_cast<std::ptrdiff_t>(leaving.size());
    if (!chunks || !copies || !all || !any) return;
    return publish(control::first_map(static_cast<std::uint32_t>(std::stoul(*chunks)),
                                      static_cast<std::uint32_t>(std::stoul(*copies)), std::move(seats),
                                      std::move(leaving)));
  }
  if (seats != map_->servers || leaving != map_->leaving) {
    control::ServerMap next = control::next_map(*map_, std::move(seats), std::move(leaving));
    restored_ = restored_ || (next.copies == 1 && came_back(*map_, next));
    const std::vector<std::uint32_t> lost = next.lost();
    if (!lost.empty())
      throw Error(ErrorKind::kPeerLost, fmt::format("all copies of {} chunks of the model are lost", lost.size()), {},
                  "Start again with --resume: nothing that was committed to a checkpoint is lost. More copies "
                  "(parallel.copies) survive more losses at once.");
    return publish(std::move(next));
  }
  const std::vector<std::uint32_t> filling = map_->filling();
  const bool filled = std::all_of(filling.begin(), filling.end(), [&](std::uint32_t server) {
    return value(*store_, control::filled_key(map_->generation, server)).has_value();
  });
  if (map_->unsettled() && filled) publish(control::settled_map(*map_));
}

void ServerKeeper::look() {
  if (options_.own) take_places();
  bury_the_dead();
  kill_the_stopped();
  find_addresses();
  if (options_.own) return follow_maps();
  decide();
  end_those_who_may_go();
}

ServerKeeper::Count ServerKeeper::count() const {
  Count count;
  for (const Seat& seat : seats_) {
    if (!seat.address.empty()) ++(seat.leaving ? count.leaving : count.serving);
  }
  return count;
}

std::uint32_t ServerKeeper::processes(std::uint32_t seat) const {
  return seats_[seat].processes;
}

std::vector<std::uint32_t> ServerKeeper::processes() const {
  std::vector<std::uint32_t> all;
  for (const Seat& seat : seats_)
    all.push_back(seat.processes);
  return all;
}

std::vector<int> ServerKeeper::handles() const {
  std::vector<int> handles;
  for (const Seat& seat : seats_) {
    if (seat.process) handles.push_back(seat.process->handle());
  }
  return handles;
}

std::vector<std::int32_t> ServerKeeper::pids() const {
  std::vector<std::int32_t> pids;
  for (const Seat& seat : seats_)
    pids.push_back(seat.process ? seat.process->pid() : 0);
  return pids;
}

}  // namespace muster::launch
