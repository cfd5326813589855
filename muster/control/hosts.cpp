// One function over a snapshot of all hosts, with a reason in words for whatever it decides. Time comes in as a number:
// tests turn it by hand.
#include "muster/control/hosts.h"

#include <algorithm>
#include <bit>
#include <set>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/text.h"

namespace muster::control {
namespace {

constexpr int kBeginsWithin = 2;  // patiences: a host that was given a generation

std::string called(std::uint64_t number, const std::string& name) {
  return fmt::format("host {} ({})", name, number);
}

double in_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

const JobHost* find(const JobGeneration& generation, std::uint64_t number) {
  const auto found = std::find_if(generation.hosts.begin(), generation.hosts.end(),
                                  [&](const JobHost& host) { return host.number == number; });
  return found == generation.hosts.end() ? nullptr : &*found;
}

// Its agent may be heard of while what begins generations there hangs, and all others wait for its workers.
std::optional<std::string> why_late(const HostsView& view, const HostView& host) {
  if (view.finishing || view.stopping || host.begun >= view.present.number ||
      find(view.present, host.number) == nullptr)
    return std::nullopt;
  const std::chrono::nanoseconds waited = view.now - std::max(view.decided, view.watched_since);
  if (waited <= kBeginsWithin * view.patience) return std::nullopt;
  return fmt::format("has not begun generation {} for {:.1f} s, and reports all the same", view.present.number,
                     in_seconds(waited));
}

std::optional<std::string> why_lost(const HostsView& view, const HostView& host) {
  if (!host.ends.empty()) return host.ends;
  const std::chrono::nanoseconds silence = view.now - std::max(host.heard, view.watched_since);
  if (silence <= view.patience) return why_late(view, host);
  return fmt::format("was not heard of for {:.1f} s", in_seconds(silence));
}

LinkedHost linked(const HostView& host) {
  return {host.number, host.name, host.links};
}

// Hosts of the present generation that others of it do not hear, though they are heard of here. What was reported while
// nobody looked here, or of a time when a host slept, is told anew in a moment: it is waited for.
std::vector<LostHost> unheard_hosts(const HostsView& view, const std::vector<const HostView*>& hosts) {
  if (view.finishing || view.stopping || view.now - view.watched_since < view.patience / 2) return {};
  std::vector<LinkedHost> members;
  for (const HostView* host : hosts)
    if (find(view.present, host->number) != nullptr) members.push_back(linked(*host));
  std::vector<LostHost> lost;
  for (const UnheardHost& gone : give_up_unheard(members))
    lost.push_back({gone.number, gone.reason});
  return lost;
}

// Who is not in the present generation has to hear all of those who are in it, and who are taken before it.
std::optional<std::string> why_not_yet(const HostsView& view, const HostView& host,
                                       const std::vector<const HostView*>& able) {
  if (find(view.present, host.number) != nullptr) return std::nullopt;
  for (const HostView* other : able)
    if (!hear_each_other(linked(host), linked(*other)))
      return fmt::format("{} and {} have to hear each other", called(host.number, host.name),
                         called(other->number, other->name));
  return std::nullopt;
}

bool all_hear_each_other(const std::vector<const HostView*>& hosts) {
  for (std::size_t i = 0; i < hosts.size(); ++i)
    for (std::size_t j = i + 1; j < hosts.size(); ++j)
      if (!hear_each_other(linked(*hosts[i]), linked(*hosts[j]))) return false;
  return true;
}

// Speeds where all are known, else workers.
std::vector<double> weights_of(const std::vector<const HostView*>& hosts) {
  const bool measured =
      std::all_of(hosts.begin(), hosts.end(), [](const auto* host) { return host->worker_speed > 0; });
  std::vector<double> weights;
  for (const HostView* host : hosts)
    weights.push_back(std::popcount(host->wanted) * (measured ? host->worker_speed : 1.0));
  return weights;
}

// How the hosts that can train differ from those of the present generation, in words; empty: in nothing.
std::string difference(const HostsView& view, const std::vector<const HostView*>& hosts) {
  const JobGeneration& present = view.present;
  std::set<std::uint64_t> done;
  for (const HostView& host : view.hosts)
    if (host.done) done.insert(host.number);
  std::vector<std::string> words;
  for (const JobHost& before : present.hosts) {
    if (done.contains(before.number)) continue;
    if (std::none_of(hosts.begin(), hosts.end(), [&](const auto* host) { return host->number == before.number; }))
      words.push_back(called(before.number, before.name) + " is gone");
  }
  for (const HostView* host : hosts) {
    const JobHost* const before = find(present, host->number);
    if (before == nullptr)
      words.push_back(called(host->number, host->name) + " takes part");
    else if (before->members != host->wanted)
      words.push_back(called(host->number, host->name) + " has other workers");
  }
  return join_words(words);
}

// How long a step takes with such ranges.
double step_time(const std::vector<LaneRange>& ranges, const std::vector<double>& weights) {
  double longest = 0;
  for (std::size_t place = 0; place < ranges.size(); ++place)
    longest = std::max(longest, static_cast<double>(ranges[place].size()) / weights[place]);
  return longest;
}

std::string why_uneven(const HostsView& view, const std::vector<const HostView*>& hosts) {
  if (view.now - view.decided < kSettled || hosts.size() != view.present.hosts.size()) return {};
  if (std::any_of(hosts.begin(), hosts.end(), [](const auto* host) { return host->worker_speed <= 0; })) return {};
  const std::vector<double> weights = weights_of(hosts);
  std::vector<LaneRange> present;
  for (const JobHost& host : view.present.hosts)
    present.push_back({host.first_lane, host.last_lane});
  const double ratio = step_time(present, weights) / step_time(divide_lanes(weights, view.lanes), weights);
  if (ratio <= kUnevenLanes) return {};
  return fmt::format("with other lanes for the hosts a step takes 1 / {:.2f} of its time", ratio);
}

// A connection broke. Whoever has been heard of since lives; of the others it is not known yet.
bool all_heard_since(Clock::Instant moment, const std::vector<const HostView*>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [&](const auto* host) { return host->heard > moment; });
}

std::string why_next(const HostsView& view, const std::vector<const HostView*>& hosts) {
  std::string why = difference(view, hosts);
  // Those who do not hear each other would lose it again: either they do in a moment, or one of them is given up.
  if (why.empty() && view.broken && all_heard_since(*view.broken, hosts) && all_hear_each_other(hosts))
    why = "workers have lost their connection";
  if (why.empty()) why = why_uneven(view, hosts);
  return why;
}

// Why workers that are fixed cannot go on, of those of the present generation. A worker that its host has lost ends the
// host's part, and is told of as that.
std::string why_over(const HostsView& view, const HostsDecision& decision, const std::vector<const HostView*>& hosts) {
  std::vector<std::string> words;
  for (const LostHost& lost : decision.lost) {
    if (const JobHost* const member = find(view.present, lost.number))
      words.push_back(fmt::format("{} {}", called(member->number, member->name), lost.reason));
  }
  if (words.empty() && view.broken && all_heard_since(*view.broken, hosts))
    words.emplace_back("workers have lost their connection");
  return join_words(words);
}

JobGeneration generation_of(const HostsView& view, const std::vector<const HostView*>& hosts) {
  JobGeneration next;
  next.number = std::max(view.present.number, view.earlier) + 1;
  next.lanes = view.lanes;
  const std::vector<LaneRange> ranges = divide_lanes(weights_of(hosts), view.lanes);
  for (std::size_t place = 0; place < hosts.size(); ++place)
    next.hosts.push_back(
        {hosts[place]->number, hosts[place]->name, hosts[place]->wanted, ranges[place].first, ranges[place].last});
  return next;
}

}  // namespace

std::vector<LaneRange> divide_lanes(std::span<const double> weights, std::size_t lanes) {
  MUSTER_CHECK(!weights.empty() && weights.size() <= lanes, "a lane for everybody");
  // One each, and every further one to who would be done with it first.
  std::vector<std::size_t> counts(weights.size(), 1);
  for (std::size_t given = weights.size(); given < lanes; ++given) {
    std::size_t best = 0;
    const auto done_at = [&](std::size_t place) { return static_cast<double>(counts[place] + 1) / weights[place]; };
    for (std::size_t place = 1; place < weights.size(); ++place)
      if (done_at(place) < done_at(best)) best = place;
    ++counts[best];
  }
  std::vector<LaneRange> ranges;
  std::size_t next = 0;
  for (const std::size_t count : counts) {
    ranges.push_back({next, next + count});
    next += count;
  }
  return ranges;
}

HostsDecision decide_hosts(const HostsView& view) {
  HostsDecision decision;
  std::vector<const HostView*> living;
  for (const HostView& host : view.hosts) {
    if (host.done) continue;
    if (const std::optional<std::string> why = why_lost(view, host))
      decision.lost.push_back({host.number, *why});
    else
      living.push_back(&host);
  }
  for (const LostHost& unheard : unheard_hosts(view, living)) {
    std::erase_if(living, [&](const HostView* host) { return host->number == unheard.number; });
    decision.lost.push_back(unheard);
  }
  std::vector<const HostView*> able;
  std::string not_yet;
  // Those who train come first, so that nobody who is new can keep one of them out.
  std::stable_partition(living.begin(), living.end(),
                        [&](const HostView* host) { return find(view.present, host->number) != nullptr; });
  for (const HostView* host : living) {
    const bool admitted = !view.finishing || find(view.present, host->number) != nullptr;
    // Those who have been there longest have the lower numbers: who comes when every lane is taken waits.
    if (host->wanted == 0 || !admitted || able.size() >= view.lanes) continue;
    if (std::optional<std::string> why = why_not_yet(view, *host, able))
      not_yet = *why;
    else
      able.push_back(host);
  }
  std::ranges::sort(able, {}, &HostView::number);
  decision.held_up = not_yet;
  const bool begins = view.present.number == 0 && view.earlier == 0;
  if (begins && able.size() < view.least) {
    decision.waiting = true;
    const std::size_t here = view.hosts.size() - decision.lost.size();
    decision.missing = view.least - std::min(here, view.least);
    if (decision.missing > 0)
      decision.reason = fmt::format("waiting for hosts: {} of {}", here, view.least);
    else if (not_yet.empty())
      decision.reason = fmt::format("waiting for workers to start: {} of {} hosts are ready", able.size(), view.least);
    else
      decision.reason = fmt::format("waiting for the network between hosts: {}", not_yet);
    return decision;
  }
  // The first host has the job's first state: others can begin with it, and not before it.
  const auto is_first = [](const auto& host) { return host.number == kFirstHost && !host.done; };
  const bool first_waits = begins && std::ranges::any_of(view.hosts, is_first) &&
                           std::ranges::none_of(able, [](const HostView* host) { return host->number == kFirstHost; });
  if (first_waits) {
    decision.waiting = true;
    decision.reason = "waiting for the workers of the first host, which has the job's first state";
    return decision;
  }
  const bool fixed = std::any_of(view.hosts.begin(), view.hosts.end(), [](const HostView& host) { return host.fixed; });
  if (fixed && !view.present.hosts.empty()) {
    decision.over = why_over(view, decision, able);
    return decision;
  }
  if (able.empty() || view.expecting) return decision;
  const std::string why = why_next(view, able);
  if (why.empty()) return decision;
  decision.next = generation_of(view, able);
  decision.reason = fmt::format("generation {} with {} host{}: {}", decision.next->number, able.size(),
                                able.size() == 1 ? "" : "s", why);
  return decision;
}

}  // namespace muster::control
