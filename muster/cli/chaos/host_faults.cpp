// A fault is open until all hosts train again. Most wait for the ones before; a quarter comes while hosts are still on
// their way back, because that is when a second one hurts.
#include "muster/cli/chaos/host_faults.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/check.h"

namespace muster::cli {
namespace {

// Seconds. What was under way when a fault came may still be committed, and a look may be as old.
constexpr double kUnderWay = 0.6;
constexpr double kShortestRest = 0.2;
constexpr double kLongestRest = 1.7;
constexpr double kAttachTime = 5;  // for somebody's muster attach to start

// Some of a fault's number that decides on nothing else.
double share_of(std::uint64_t draw) {
  return static_cast<double>(draw % 1000) / 1000;
}

}  // namespace

HostFaultMaker::HostFaultMaker(HostJob& job, HostFaultOptions options) : job_(job), options_(std::move(options)) {
}

void HostFaultMaker::look(const Look& look) {
  newest_ = look;
  if (!look.live) return;
  for (Open& open : open_) {
    MadeFault& fault = made(open);
    if (look.at <= fault.at + kUnderWay)
      open.step = std::max(open.step, look.step);
    else if (!fault.commit && look.step > open.step)
      fault.commit = look.at;
    for (const HostLook& host : look.hosts)
      if (open.numbers.contains(host.name) && open.numbers[host.name] != host.number) fault.given_up = true;
    const bool given_up = look.hosts.size() + open.what.apart.size() <= static_cast<std::size_t>(job_.size());
    if (options_.ledger && given_up && fault.commit && !fault.continued && open.ledgers.empty())
      for (const int host : open.what.apart)
        open.ledgers[host] = job_.ledger_bytes(host);
    if (fault.continued && look.at > *fault.continued && !open.undone_step) open.undone_step = look.step;
  }
  std::erase_if(open_, [&](const Open& open) {
    if (!back(open, look)) return false;
    made(open).replaced = look.at;
    settled_at_ = look.at;
    options_.tell(fmt::format("all hosts train again, {:.1f} s after the fault", look.at - made(open).at));
    return true;
  });
}

bool HostFaultMaker::back(const Open& open, const Look& look) const {
  if (!open.undone_step || look.step <= *open.undone_step || !look.all_train(job_.size())) return false;
  const bool killed = open.what.fault == Fault::kHost || open.what.fault == Fault::kCoordinator;
  if (!killed) return true;
  // One that was killed comes back under another number; until it is given up it seems to be there.
  const std::string& name = job_.hosts()[open.what.victim].name();
  const auto before = open.numbers.find(name);
  return std::ranges::all_of(look.hosts, [&](const HostLook& host) {
    return host.name != name || before == open.numbers.end() || host.number != before->second;
  });
}

void HostFaultMaker::tend(double now) {
  for (Open& open : open_)
    if (!made(open).continued && now >= open.undo) undo(open, now);
}

void HostFaultMaker::undo(Open& open, double now) {
  for (const auto& [host, bytes] : open.ledgers)
    if (job_.ledger_bytes(host) != bytes)
      went_on_.push_back(fmt::format("{} at {:.1f} s, {}", job_.hosts()[host].name(), now, made(open).whom));
  parts_ += open.ledgers.empty() ? 0 : 1;
  const Disturbance& what = open.what;
  switch (what.fault) {
    case Fault::kFreeze:
      job_.hosts()[what.victim].thaw();
      break;
    case Fault::kLink:
      job_.hosts().link_up(what.victim);
      break;
    case Fault::kHost:
    case Fault::kCoordinator:
      if (what.silent) job_.hosts().heal();
      job_.come_back(what.victim, what.wiped);
      break;
    default:
      job_.hosts().heal();
  }
  made(open).continued = now;
}

void HostFaultMaker::end(double now) {
  for (Open& open : open_)
    open.undo = std::min(open.undo, now);
  tend(now);
}

bool HostFaultMaker::ready(const PlannedFault& planned, double now) const {
  if (!newest_.live || newest_.state != "running" || now < planned.at) return false;
  if (open_.empty())
    return newest_.all_train(job_.size()) &&
           now >= settled_at_ + kShortestRest + (kLongestRest - kShortestRest) * share_of(planned.draw);
  const Disturbance what = disturbance_of(planned, job_.size(), job_.coordinator(), options_.detection);
  if (!what.early || what.victim == job_.coordinator()) return false;
  // Somebody who trains has to be left, and the faults before have to be over but for the way back.
  return std::ranges::all_of(
      open_, [&](const Open& open) { return faults_[open.fault].continued && faults_[open.fault].commit; });
}

void HostFaultMaker::make(const PlannedFault& planned, double now) {
  MUSTER_CHECK(ready(planned, now), "a fault needs a job that goes on");
  Open open;
  open.what = disturbance_of(planned, job_.size(), job_.coordinator(), options_.detection);
  for (const HostLook& host : newest_.hosts)
    open.numbers[host.name] = host.number;
  open.step = newest_.step;
  MadeFault fault;
  fault.fault = planned.fault;
  fault.at = now;
  fault.whom = open.what.words;
  fault.brief = open.what.brief && open_.empty();
  if (planned.fault == Fault::kFreeze && open.what.victim == job_.coordinator()) fault.hopeless = open.what.seconds;
  if (planned.fault == Fault::kCoordinator) fault.hopeless = options_.detection + kAttachTime;
  // Nobody is given up whom the coordinator hears: two others that do not hear each other are waited for.
  const auto coordinates = [&](const std::pair<int, int>& cut) {
    return cut.first == job_.coordinator() || cut.second == job_.coordinator();
  };
  if (planned.fault == Fault::kOneWay && std::ranges::none_of(open.what.cuts, coordinates))
    fault.hopeless = open.what.seconds;
  for (const Open& earlier : open_)
    faults_[earlier.fault].hit_again = true;
  options_.tell(fmt::format("{}, at step {}", fault.whom, newest_.step));
  disturb(open.what, planned);
  open.undo = now + open.what.seconds;
  open.fault = faults_.size();
  faults_.push_back(fault);
  open_.push_back(std::move(open));
}

void HostFaultMaker::disturb(const Disturbance& what, const PlannedFault& planned) {
  for (const auto& [from, to] : what.cuts)
    job_.hosts().cut_one_way(from, to);
  if (what.victim < 0) return;
  if (what.fault == Fault::kFreeze) job_.hosts()[what.victim].freeze();
  if (what.fault == Fault::kLink) job_.hosts().link_down(what.victim);
  if (what.fault != Fault::kHost && what.fault != Fault::kCoordinator) return;
  if (what.silent) job_.hosts().cut(what.victim);
  job_.kill(what.victim);
  if (what.fault != Fault::kCoordinator) return;
  const auto others = static_cast<std::uint64_t>(job_.size() - 1);
  job_.take_over((what.victim + 1 + static_cast<int>((planned.draw >> 32) % others)) % job_.size());
}

}  // namespace muster::cli
