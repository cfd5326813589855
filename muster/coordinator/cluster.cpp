// Calls change what is known of a host and wake the thread that decides; whoever waits for orders is woken by what it
// decided. Words are told after the lock was given back: whoever listens may take its time.
#include "muster/coordinator/cluster.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/base/version.h"
#include "muster/control/access_token.h"
#include "muster/control/leader_note.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::milliseconds kLookAtHosts{50};
// Between two looks: after a longer one, whoever looks was kept from it, and has no right to call others silent.
constexpr std::chrono::milliseconds kLookGap{1000};
constexpr std::uint64_t kNumbersOfATerm = 100'000;
// More generations than a job could ever have; what is said by others is added to.
constexpr std::uint64_t kMostBegun = std::uint64_t{1} << 40;
constexpr std::size_t kMostTold = 1000;  // bytes of what a worker has to say to people

// Numbers are never given twice, in any term.
std::uint64_t first_number(std::uint64_t term) {
  return control::kFirstHost + (term - 1) * kNumbersOfATerm;
}

std::string words_for_host(const control::HostView& host) {
  return fmt::format("host {} ({})", host.name, host.number);
}

}  // namespace

Cluster::Cluster(ClusterOptions options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      identity_(options_.welcome.cluster.empty() ? control::random_hex(16) : options_.welcome.cluster),
      life_(control::life_of(identity_, options_.welcome.term, control::random_hex(8))) {
  next_number_ = first_number(options_.welcome.term);
  for (const auto& [key, value] : options_.agreed)
    values_.set(key, value);
  // Of one that takes over: until it is known who was there before.
  if (options_.welcome.term > 1) expected_ = std::numeric_limits<std::size_t>::max();
  orders_.workers = options_.workers;
  orders_.revision = 1;
  looked_ = watched_since_ = began_ = clock_.now();
  thread_ = std::thread([this] { run(); });
}

Cluster::~Cluster() {
  values_.close();
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Cluster::run() {
  for (;;) {
    Words words;
    {
      const MutexLock lock(mutex_);
      if (!look_now_ && !ends_) changed_.wait_for(mutex_, kLookAtHosts);
      if (ends_) return;
      look_now_ = false;
      if (superseded_ == 0) words = look();
      ++looks_;
    }
    say(words);
  }
}

void Cluster::say(const Words& words) const {
  for (const std::string& line : words.told)
    options_.tell(line);
  for (const std::string& line : words.noted)
    options_.note(line);
}

void Cluster::met(const std::string& life) {
  const std::uint64_t term = control::term_of(life, identity_);
  if (term <= options_.welcome.term) return;
  {
    const MutexLock lock(mutex_);
    if (term <= superseded_) return;
    superseded_ = term;
    changed_.notify_all();
  }
  options_.tell(fmt::format("another coordinator has taken over this job (term {}): this one ends", term));
}

std::uint64_t Cluster::superseded() const {
  const MutexLock lock(mutex_);
  return superseded_;
}

void Cluster::require_not_superseded() const {
  if (superseded_ == 0) return;
  throw Error(ErrorKind::kNotFound, fmt::format("a coordinator of term {} has taken over this job", superseded_));
}

Cluster::Host& Cluster::find(std::uint64_t number) {
  require_not_superseded();
  const auto found =
      std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& host) { return host.view.number == number; });
  if (found == hosts_.end() || found->view.done)
    throw Error(ErrorKind::kNotFound, fmt::format("host {} is no part of this job any more", number), {},
                "Its agent joins again by itself.");
  return *found;
}

void Cluster::change_orders() {
  ++orders_.revision;
  changed_.notify_all();
}

void Cluster::tell_peers() {
  std::vector<control::Peer> now;
  for (const Host& host : hosts_)
    if (!host.calls.empty() && !host.view.done) now.push_back({host.view.number, host.calls});
  if (now == orders_.peers) return;
  orders_.peers = std::move(now);
  change_orders();
}

void Cluster::tell_data_hosts() {
  std::vector<control::DataHost> now;
  for (const Host& host : hosts_)
    if (!host.data.empty() && !host.view.done)
      now.push_back({host.view.number, host.view.name, host.data, host.data_whole, host.data_held});
  if (now == orders_.data) return;
  orders_.data = std::move(now);
  change_orders();
}

Cluster::Words Cluster::look() {
  Words words = std::exchange(unsaid_, {});
  control::HostsView view;
  view.now = clock_.now();
  const bool held = !options_.may_decide();
  if (held) looked_ = view.now;  // it looks, and decides nothing
  if (std::exchange(held_, held) != held)
    words.noted.push_back(held ? "not certain to lead: hosts and generations stay as they are" : "leads for certain");
  if (held) return words;
  if (view.now - looked_ > kLookGap) watched_since_ = view.now;
  looked_ = view.now;
  view.watched_since = watched_since_;
  view.decided = decided_;
  view.patience = options_.patience;
  view.least = options_.least;
  view.lanes = options_.lanes;
  view.finishing = finishing_;
  view.stopping = orders_.stop;
  view.earlier = earlier_;
  view.present = present_;
  view.broken = broken_;
  for (const Host& host : hosts_)
    view.hosts.push_back(host.view);
  if (expected_ > 0 && (hosts_.size() >= expected_ || view.now - began_ > options_.patience)) expected_ = 0;
  view.expecting = expected_ > 0;
  const control::HostsDecision decision = control::decide_hosts(view);
  for (const control::LostHost& lost : decision.lost) {
    const auto host =
        std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& one) { return one.view.number == lost.number; });
    // Those who end after the job is over do as they should.
    (orders_.over ? words.noted : words.told)
        .push_back(fmt::format("{} {}; {}", words_for_host(host->view), lost.reason,
                               decision.over.empty() ? "the others go on without it"
                                                     : "the job ends, because its workers cannot be replaced"));
    hosts_.erase(host);
    changed_.notify_all();
  }
  tell_data_hosts();
  tell_peers();
  if (decision.waiting && !hosts_.empty() && decision.reason != waiting_) {
    waiting_ = decision.reason;
    (decision.missing > 0 ? words.told : words.noted).push_back(waiting_);
  }
  if (decision.held_up != held_up_.why) held_up_ = {decision.held_up, view.now, false};
  if (!held_up_.why.empty() && !held_up_.told && view.now - held_up_.since > options_.patience) {
    held_up_.told = true;
    words.told.push_back(
        fmt::format("{} before both train: see that UDP goes through between their addresses on the "
                    "interface between hosts",
                    held_up_.why));
  }
  if (decision.missing > 0 && options_.arrival && !refusal_ && view.now - began_ > *options_.arrival)
    refusal_ = Error(ErrorKind::kTimeout,
                     fmt::format("{}, and no more have come in {:.0f} s", decision.reason,
                                 std::chrono::duration<double>(*options_.arrival).count()),
                     {}, "What keeps the others is in their output.");
  if (!decision.over.empty() && !orders_.over) {
    finishing_ = true;
    orders_.over = decision.over;
    change_orders();
  }
  if (!decision.next) return words;
  present_ = *decision.next;
  decided_ = view.now;
  broken_.reset();
  values_.forget_before(present_.number);
  orders_.generation = present_;
  change_orders();
  words.noted.push_back(decision.reason);
  return words;
}

control::Welcome Cluster::join(const control::HostCard& card) {
  if (card.version != version())
    throw Error(ErrorKind::kMismatch,
                fmt::format("host {} has Muster {}, the coordinator {}", card.name, card.version, version()), {},
                "Use the same version on all hosts.");
  // Its workers may stand elsewhere than this job does, and its generations count for nothing here.
  if (!card.cluster.empty() && card.cluster != identity_)
    throw Error(
        ErrorKind::kMismatch,
        fmt::format("the coordinator was started anew, and the workers of host {} belong to the one before", card.name),
        {}, "Start the agent again: the job goes on from what the new coordinator has.");
  if (card.begun > kMostBegun)
    throw Error(ErrorKind::kInvalidInput, fmt::format("generation {} makes no sense", card.begun));
  control::Welcome welcome = options_.welcome;
  welcome.cluster = identity_;
  welcome.life = life_;
  welcome.patience = std::chrono::duration_cast<std::chrono::milliseconds>(options_.patience);
  std::string told;
  {
    const MutexLock lock(mutex_);
    require_not_superseded();
    if (orders_.over || finishing_ || orders_.stop)
      throw Error(ErrorKind::kUnsupported, "the job is ending: nobody joins it any more");
    if (hosts_.size() >= options_.most)
      throw Error(ErrorKind::kResource,
                  fmt::format("the job has all its hosts: {} of {}", hosts_.size(), options_.most), {},
                  "Raise parallel.hosts, or wait until one has left.");
    // Generations of a coordinator before this one: nobody may meet one of its numbers again.
    if (card.cluster == identity_) earlier_ = std::max(earlier_, card.begun);
    Host host;
    host.view.number = welcome.host = next_number_++;
    host.view.name = card.name;
    host.view.heard = clock_.now();
    hosts_.push_back(std::move(host));
    if (welcome.host != first_number(options_.welcome.term))
      told = fmt::format("{} has come", words_for_host(hosts_.back().view));
    look_now_ = true;
    changed_.notify_all();
  }
  if (!told.empty()) options_.tell(told);
  return welcome;
}

bool Cluster::take_folder(Host& host, const control::HostReport& report) {
  const std::size_t before = unsaid_.told.size() + unsaid_.noted.size();
  const std::string who = words_for_host(host.view);
  using control::LeaderNote;
  if (report.place != host.place) {
    if (report.place == LeaderNote::kLeads) unsaid_.noted.push_back(who + " leads: the run's folder is there");
    if (report.place == LeaderNote::kCopy) unsaid_.noted.push_back(who + " keeps a copy of the run on its own disk");
    if (report.place == LeaderNote::kShared) unsaid_.noted.push_back(who + " sees the run's folder, and keeps no copy");
  }
  const bool copy = report.place == LeaderNote::kCopy;
  if (copy && report.saved && (report.saved != host.saved || report.place != host.place))
    unsaid_.noted.push_back(fmt::format("{} has the checkpoint of step {}", who, *report.saved));
  // What the leader cannot write it says itself.
  if (copy && host.alarm.empty() && !report.alarm.empty())
    unsaid_.told.push_back(fmt::format("{}, which keeps a copy of the run: {}; training goes on", who, report.alarm));
  if (copy && !host.alarm.empty() && report.alarm.empty())
    unsaid_.told.push_back(fmt::format("{} writes its copy of checkpoints again", who));
  host.place = report.place;
  host.saved = report.saved;
  host.alarm = report.alarm;
  return unsaid_.told.size() + unsaid_.noted.size() > before;
}

control::Orders Cluster::report(const control::HostReport& report, std::uint64_t known,
                                std::chrono::milliseconds wait) {
  const Deadline deadline = Deadline::after(wait);
  const MutexLock lock(mutex_);
  Host& host = find(report.host);
  host.view.heard = clock_.now();
  if (report.sequence > host.sequence) {
    host.sequence = report.sequence;
    host.step = report.step;
    host.view.begun = report.begun;
    const bool changed = host.view.wanted != report.wanted || host.view.ends != report.ends;
    host.view.wanted = report.wanted;
    host.view.fixed = report.fixed;
    host.view.ends = report.ends;
    host.view.worker_speed = report.worker_speed;
    host.data = report.data;
    host.data_whole = report.data_whole;
    host.data_held = report.data_held;
    tell_data_hosts();
    host.calls = report.calls;
    tell_peers();
    host.view.links = report.links;
    const bool news = take_folder(host, report);
    if (changed || news) {
      look_now_ = true;
      changed_.notify_all();
    }
  }
  while (orders_.revision == known && !ends_ && !deadline.passed()) {
    changed_.wait_for(mutex_, deadline.remaining());
    find(report.host);
  }
  return orders_;
}

void Cluster::store_set(std::uint64_t host, std::string_view key, std::string_view value) {
  const MutexLock lock(mutex_);
  find(host);
  const bool warning = key.starts_with(control::kOtherKernels) && !values_.get(key, {});
  values_.set(key, value);
  if (warning) {
    unsaid_.told.push_back(excerpt(value, kMostTold));
    look_now_ = true;
    changed_.notify_all();
  }
  const bool begun = present_.number != 0 || earlier_ != 0;
  if (key == control::kOtherDataKey && !begun) refusal_ = control::refusal_of(std::string(value));
  if (present_.number == 0 || key != control::broken_key(present_.number) || broken_) return;
  broken_ = clock_.now();
}

std::optional<std::string> Cluster::store_get(std::uint64_t host, std::string_view key,
                                              std::chrono::milliseconds wait) {
  {
    const MutexLock lock(mutex_);
    find(host);
  }
  return values_.get(key, wait);
}

void Cluster::leave(std::uint64_t number, int code, const std::string& reason) {
  const MutexLock lock(mutex_);
  Host& host = find(number);
  // Workers end together, and in good order only when the job has: nobody waits for those who are through.
  if (code == 0 || orders_.stop) {
    host.view.done = true;
    finishing_ = true;
  } else {
    host.view.ends = fmt::format("has ended{}{}", reason.empty() ? "" : ": ", reason);
  }
  look_now_ = true;
  changed_.notify_all();
}

control::ControlCalls& Cluster::commands_of(std::uint64_t number, const std::string& what) {
  std::string from;
  {
    const MutexLock lock(mutex_);
    from = words_for_host(find(number).view);
  }
  if (options_.commands == nullptr)
    throw Error(ErrorKind::kUnsupported, "this coordinator takes no commands from other hosts");
  if (!what.empty()) options_.note(fmt::format("{} passes on: {}", from, what));
  return *options_.commands;
}

control::JobStatus Cluster::host_status(std::uint64_t host) {
  return commands_of(host, "").status();
}

control::WantedState Cluster::host_scale(std::uint64_t host, const std::string& request,
                                         const control::Scaling& scaling) {
  const auto number = [](const std::optional<int>& wanted) { return wanted ? std::to_string(*wanted) : "as before"; };
  return commands_of(host, fmt::format("muster scale, workers: {}, servers: {}", number(scaling.workers),
                                       number(scaling.servers)))
      .scale(request, scaling);
}

control::WantedState Cluster::host_stop(std::uint64_t host, const std::string& request) {
  return commands_of(host, "muster stop").stop(request);
}

control::Change Cluster::host_set(std::uint64_t host, const std::string& request, const std::string& assignment) {
  return commands_of(host, "muster set " + excerpt(assignment, 200)).set(request, assignment);
}

void Cluster::expect(const control::JobGeneration& adopted) {
  const MutexLock lock(mutex_);
  earlier_ = std::max(earlier_, adopted.number);
  expected_ = adopted.hosts.size();
  began_ = clock_.now();
}

void Cluster::ask(const std::vector<control::Change>& changes) {
  const MutexLock lock(mutex_);
  if (orders_.changes == changes) return;
  orders_.changes = changes;
  change_orders();
}

void Cluster::wish(int workers, bool stop, bool at_once) {
  const MutexLock lock(mutex_);
  if (orders_.workers == workers && orders_.stop == stop && orders_.at_once == at_once) return;
  orders_.workers = workers;
  orders_.stop = stop;
  orders_.at_once = at_once;
  change_orders();
}

void Cluster::end(const std::string& failure) {
  const MutexLock lock(mutex_);
  finishing_ = true;
  // What has ended it before is the reason.
  if (orders_.over && !orders_.over->empty()) return;
  orders_.over = failure;
  change_orders();
}

std::string Cluster::failure(const Deadline& deadline) {
  const MutexLock lock(mutex_);
  while (!orders_.over && !deadline.passed())
    changed_.wait_for(mutex_, std::min<std::chrono::nanoseconds>(deadline.remaining(), kLookAtHosts));
  return orders_.over.value_or("");
}

bool Cluster::wait_until_alone(std::uint64_t own, const Deadline& deadline) {
  const MutexLock lock(mutex_);
  const auto alone = [&]() MUSTER_REQUIRES(mutex_) {
    return superseded_ != 0 || std::all_of(hosts_.begin(), hosts_.end(),
                                           [&](const Host& host) { return host.view.number == own || host.view.done; });
  };
  while (!alone()) {
    if (deadline.passed()) return false;
    changed_.wait_for(mutex_, std::min<std::chrono::nanoseconds>(deadline.remaining(), kLookAtHosts));
  }
  return true;
}

std::vector<control::HostStatus> Cluster::hosts() const {
  const MutexLock lock(mutex_);
  std::vector<control::HostStatus> statuses;
  for (const Host& host : hosts_) {
    control::HostStatus& status = statuses.emplace_back();
    status.number = host.view.number;
    status.name = host.view.name;
    status.step = host.step;
    status.silent_seconds = std::chrono::duration<double>(clock_.now() - host.view.heard).count();
    status.place = host.place;
    status.checkpoint = host.saved;
    status.alarm = host.alarm;
    for (const control::JobHost& member : present_.hosts) {
      if (member.number != host.view.number || host.view.done) continue;
      status.workers = member.workers();
      status.first_lane = member.first_lane;
      status.last_lane = member.last_lane;
    }
  }
  return statuses;
}

std::optional<Error> Cluster::refusal() const {
  const MutexLock lock(mutex_);
  return refusal_;
}

std::uint64_t Cluster::looks() const {
  const MutexLock lock(mutex_);
  return looks_;
}

control::JobGeneration Cluster::generation() const {
  const MutexLock lock(mutex_);
  control::JobGeneration newest = present_;
  // What people are shown never goes back.
  if (newest.number == 0) newest.number = earlier_;
  return newest;
}

}  // namespace muster::coordinator
