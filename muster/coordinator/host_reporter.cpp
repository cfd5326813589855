// Reports carry a sequence, so that of two threads' reports the later one counts; answers carry a revision, so that of
// two answers the newer one does.
#include "muster/coordinator/host_reporter.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/control/job_generation.h"
#include "muster/control/leader_note.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::milliseconds kPauseAfterFailure{100};
constexpr const char* kRelayFolderPrefix = "muster-agent-";

const control::JobHost* find_host(const control::JobGeneration& generation, std::uint64_t number) {
  const auto found = std::find_if(generation.hosts.begin(), generation.hosts.end(),
                                  [&](const control::JobHost& host) { return host.number == number; });
  return found == generation.hosts.end() ? nullptr : &*found;
}

}  // namespace

bool may_join_later(const Error& error) {
  return error.retryable() || error.kind() == ErrorKind::kResource || error.kind() == ErrorKind::kNotFound;
}

// On the supervisor's thread.
class HostReporter::Gate final : public launch::GenerationGate {
 public:
  explicit Gate(HostReporter& reporter) : reporter_(reporter) {}

  std::optional<std::uint64_t> admit(const launch::MembersWanted& wanted) override {
    HostReporter& to = reporter_;
    const MutexLock lock(to.mutex_);
    // Those who are left when the job is done need no generation.
    if (!wanted.finishing && (wanted.wanted != to.report_.wanted || wanted.fixed != to.report_.fixed)) {
      to.report_.wanted = wanted.wanted;
      to.report_.fixed = wanted.fixed;
      to.dirty_ = true;
      to.changed_.notify_all();
    }
    const std::optional<control::JobGeneration>& newest = to.orders_.generation;
    if (!newest || newest->number <= to.report_.begun || to.outcast_) return std::nullopt;
    const control::JobHost* const own = find_host(*newest, to.report_.host);
    // What does not fit any more was decided before the coordinator heard of what has happened here.
    if (own == nullptr || !wanted.fits(own->members)) return std::nullopt;
    next_ = *newest;
    self_ = own->number;
    return own->members;
  }

  bool prepare(std::uint64_t generation, comm::Store& store) override {
    try {
      store.set(control::hosts_key(generation), next_.to_text());
      store.set(control::own_host_key(generation), std::to_string(self_));
      return true;
    } catch (const Error& error) {
      // Left by an agent that died before it could begin it.
      if (error.kind() != ErrorKind::kMismatch) throw;
      return false;
    }
  }

  void begun() override {
    HostReporter& to = reporter_;
    const MutexLock lock(to.mutex_);
    to.report_.begun = next_.number;
    const control::JobHost* const own = find_host(next_, self_);
    to.own_lanes_ = own == nullptr ? 0 : own->last_lane - own->first_lane;
    to.dirty_ = true;
    to.changed_.notify_all();
  }

  void adopted(std::uint64_t generation, comm::Store& store) override {
    if (generation == 0) return;
    const auto adopted = control::JobGeneration::from_text(
        store.get(control::hosts_key(generation), Deadline::after(std::chrono::nanoseconds(0))));
    {
      const MutexLock lock(reporter_.mutex_);
      reporter_.report_.begun = adopted.number;
    }
    reporter_.options_.adopted(adopted);
  }

  std::map<std::string, std::string> environment() const override {
    const MutexLock lock(reporter_.mutex_);
    return {{"MUSTER_CLUSTER", reporter_.relay_->address()},
            {"MUSTER_HOST", std::to_string(reporter_.report_.host)},
            {"MUSTER_INTERFACE", reporter_.interface_},
            {"MUSTER_DATA", reporter_.data_door_}};
  }

 private:
  HostReporter& reporter_;
  control::JobGeneration next_;  // that admit() has let through
  std::uint64_t self_ = 0;       // this host's number in it, which may be given up a moment later
};

HostReporter::HostReporter(control::ClusterCalls& calls, HostReporterOptions options, const Clock& clock)
    : calls_(calls), options_(std::move(options)), clock_(clock) {
}

HostReporter::~HostReporter() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (beat_.joinable()) beat_.join();
  if (watch_.joinable()) watch_.join();
}

control::Welcome HostReporter::join() {
  const control::Welcome welcome = calls_.join(options_.card);
  interval_ = welcome.interval;
  cluster_ = welcome.cluster;
  {
    const MutexLock lock(mutex_);
    report_.host = welcome.host;
    term_ = welcome.term;
    life_ = welcome.life;
    dirty_ = true;
  }
  open_relay();
  gate_ = std::make_shared<Gate>(*this);
  beat_ = std::thread([this] { beat(); });
  watch_ = std::thread([this] { watch(); });
  return welcome;
}

void HostReporter::open_relay() {
  remove_abandoned(kRelayFolderPrefix);
  const auto number = [this] { return host(); };
  if (options_.relay.empty()) {
    folder_.emplace(kRelayFolderPrefix);
    relay_.emplace(calls_, number, folder_->path());
  } else {
    folder_.emplace(TemporaryFolder::adopt(control::ClusterRelay::token_of(options_.relay).parent_path()));
    relay_.emplace(calls_, number, options_.relay);
  }
}

std::shared_ptr<launch::GenerationGate> HostReporter::gate() {
  return gate_;
}

void HostReporter::beat() {
  for (bool well = true;;) {
    bool outcast = false;
    {
      const MutexLock lock(mutex_);
      const Deadline next = Deadline::after(well ? interval_ : kPauseAfterFailure);
      while (!ends_ && !next.passed() && !(dirty_ && well))
        changed_.wait_for(mutex_, next.remaining());
      if (ends_ || refused_) return;
      dirty_ = false;
      outcast = outcast_ && report_.ends.empty();
    }
    if (outcast) join_again();
    well = exchange(std::chrono::milliseconds(0));
  }
}

void HostReporter::watch() {
  for (bool well = true;;) {
    {
      const MutexLock lock(mutex_);
      if (!well && !ends_) changed_.wait_for(mutex_, kPauseAfterFailure);
      if (ends_ || refused_) return;
    }
    well = exchange(control::kLongestWait);
  }
}

bool HostReporter::exchange(std::chrono::milliseconds wait) {
  control::HostReport report;
  std::uint64_t known = 0;
  {
    const MutexLock lock(mutex_);
    if (outcast_) return false;
    ++report_.sequence;
    report_.worker_speed = speed_.lanes_per_second();
    if (links_) report_.links = links_->links();
    report = report_;
    known = orders_.revision;
  }
  try {
    take(report.host, calls_.report(report, known, wait));
    return true;
  } catch (const Error& error) {
    failed(report.host, error);
    return false;
  }
}

void HostReporter::take(std::uint64_t as_host, const control::Orders& orders) {
  bool back = false;
  {
    const MutexLock lock(mutex_);
    if (as_host != report_.host || outcast_) return;
    back = silent_since_.has_value();
    silent_since_.reset();
    if (orders.revision > orders_.revision) orders_ = orders;
    if (links_) links_->set_peers(report_.host, orders_.peers);
  }
  if (back) options_.tell("the coordinator answers again");
}

void HostReporter::failed(std::uint64_t as_host, const Error& error) {
  bool first = false;
  {
    const MutexLock lock(mutex_);
    if (as_host != report_.host || ends_) return;
    if (error.kind() == ErrorKind::kNotFound) {
      outcast_ = true;
      changed_.notify_all();
      return;
    }
    first = !silent_since_;
    if (first) silent_since_ = clock_.now();
  }
  if (first) options_.tell(fmt::format("the coordinator cannot be reached, the workers go on: {}", error.message()));
}

void HostReporter::tell_that_it_ends(std::uint64_t number, int code, const std::string& reason) {
  try {
    calls_.leave(number, code, reason);
  } catch (const Error&) {
    // It finds out by itself.
  }
}

void HostReporter::say_what_was_agreed(std::uint64_t number) {
  try {
    for (const auto& [key, value] : agreed())
      calls_.store_set(number, key, value);
  } catch (const Error& error) {
    tell_that_it_ends(number, 1, error.message());
    if (error.kind() != ErrorKind::kMismatch) throw;
    throw Error(
        ErrorKind::kMismatch,
        fmt::format("another host has joined the new coordinator before this one, and whether it trains with the "
                    "same cannot be told: {}",
                    error.message()),
        {}, "Start the agent again: its workers compare what they have then.");
  }
}

void HostReporter::join_again() {
  control::HostCard card = options_.card;
  std::uint64_t before = 0;
  std::uint64_t term = 0;
  std::string life;
  {
    const MutexLock lock(mutex_);
    card.begun = report_.begun;
    card.cluster = cluster_;
    before = report_.host;
    term = term_;
    life = life_;
  }
  try {
    const control::Welcome welcome = calls_.join(card);
    if (welcome.term < term || (welcome.term == term && welcome.life != life))
      throw Error(ErrorKind::kPeerLost,
                  fmt::format("the coordinator that answers is of term {}, and another one of term {} is followed",
                              welcome.term, term));
    if (welcome.term > term) say_what_was_agreed(welcome.host);
    {
      const MutexLock lock(mutex_);
      report_.host = welcome.host;
      orders_.revision = 0;
      outcast_ = false;
      term_ = welcome.term;
      life_ = welcome.life;
      silent_since_.reset();
    }
    options_.tell(
        welcome.term > term
            ? fmt::format("another coordinator has taken over (term {}): this host, {} before, is host {}",
                          welcome.term, before, welcome.host)
            : fmt::format("this host was given up as host {}, and has joined again as host {}", before, welcome.host));
  } catch (const Error& error) {
    const MutexLock lock(mutex_);
    if (!may_join_later(error)) refused_ = error;
    if (!silent_since_) silent_since_ = clock_.now();
  }
}

void HostReporter::set_job(std::chrono::nanoseconds orphan, std::string interface) {
  const MutexLock lock(mutex_);
  orphan_ = orphan;
  interface_ = std::move(interface);
}

void HostReporter::call_others(const std::string& address, std::chrono::nanoseconds patience) {
  auto links = std::make_unique<LinkCalls>(address, cluster_, patience, clock_);
  const MutexLock lock(mutex_);
  links_ = std::move(links);
  links_->set_peers(report_.host, orders_.peers);
  report_.calls = links_->address();
  dirty_ = true;
  changed_.notify_all();
}

void HostReporter::set_held(const std::string& plan) {
  const MutexLock lock(mutex_);
  report_.data_held = plan;
  dirty_ = true;
  changed_.notify_all();
}

void HostReporter::set_data(std::string address, bool whole, std::string door) {
  const MutexLock lock(mutex_);
  data_door_ = std::move(door);
  report_.data = std::move(address);
  report_.data_whole = whole;
  dirty_ = true;
  changed_.notify_all();
}

void HostReporter::see(const launch::SupervisorReport& report) {
  const MutexLock lock(mutex_);
  report_.step = report.step;
  const control::LeaderNote note = control::LeaderNote::read(report.note);
  report_.place = note.place;
  report_.saved = note.saved;
  report_.alarm = note.alarm;
  store_ = report.store;
  HostSpeed::Moment moment;
  moment.now = clock_.now();
  moment.generation = report.generation;
  moment.step = report.step;
  moment.lanes = own_lanes_;
  for (const control::Worker& worker : report.workers)
    if (worker.member() && worker.waits_for.empty()) ++moment.computing;
  speed_.see(moment);
}

std::uint64_t HostReporter::host() const {
  const MutexLock lock(mutex_);
  return report_.host;
}

std::string HostReporter::store() const {
  const MutexLock lock(mutex_);
  return store_;
}

bool HostReporter::fixed() const {
  const MutexLock lock(mutex_);
  return report_.fixed;
}

std::uint64_t HostReporter::term() const {
  const MutexLock lock(mutex_);
  return term_;
}

control::Orders HostReporter::orders() const {
  const MutexLock lock(mutex_);
  return orders_;
}

std::optional<Error> HostReporter::abandoned() const {
  const MutexLock lock(mutex_);
  if (refused_) return refused_;
  // The workers are told to end then: a coordinator that answers after all comes too late.
  if (abandoned_ || !silent_since_ || clock_.now() - *silent_since_ <= orphan_) return abandoned_;
  abandoned_.emplace(ErrorKind::kPeerLost,
                     fmt::format("the coordinator has not answered for {:.0f} s",
                                 std::chrono::duration<double>(clock_.now() - *silent_since_).count()),
                     "", "Look at its host; start the job again there with --resume, and the agents after it.");
  return abandoned_;
}

void HostReporter::announce_end(const std::string& reason) {
  const MutexLock lock(mutex_);
  if (!report_.ends.empty()) return;
  report_.ends = reason;
  dirty_ = true;
  changed_.notify_all();
}

bool HostReporter::gone() const {
  const MutexLock lock(mutex_);
  return outcast_;
}

void HostReporter::leave(int code, const std::string& reason) {
  std::uint64_t number = 0;
  {
    const MutexLock lock(mutex_);
    if (outcast_ || std::exchange(ends_, true)) return;
    number = report_.host;
    changed_.notify_all();
  }
  tell_that_it_ends(number, code, reason);
}

}  // namespace muster::coordinator
