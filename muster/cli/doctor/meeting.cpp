// Ways are tried one after the other, so that no two share a link. A host that does not do its turn in time is a way
// that could not be tried, not the end.
#include "muster/cli/doctor/meeting.h"

#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/version.h"
#include "muster/cli/doctor/probe.h"
#include "muster/control/access_token.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kFirst = 1;
constexpr std::chrono::milliseconds kDeskWait{1000};
constexpr std::chrono::seconds kTurnTime{15};
constexpr std::chrono::hours kLongestExamination{1};
constexpr const char* kEnd = "end";

std::string facts_key(std::uint64_t host) {
  return fmt::format("facts/{}", host);
}

// Waits past what one call may.
std::string await_value(
    control::ClusterCalls& desk, std::uint64_t host, const std::string& key, const Deadline& deadline,
    const std::function<std::optional<Error>()>& lost = [] { return std::nullopt; }) {
  for (;;) {
    if (auto value = desk.store_get(host, key, kDeskWait)) return *value;
    if (const std::optional<Error> error = lost()) throw *error;
    if (deadline.passed()) throw Error(ErrorKind::kTimeout, fmt::format("nobody has said \"{}\"", key));
  }
}

Json figures_json(const LinkFigures& link) {
  return {{"failure", link.failure},
          {"latency_us", link.latency_us},
          {"megabits", link.megabits},
          {"clock_ahead_ms", link.clock_ahead_ms}};
}

LinkFigures figures_from(const std::string& text, std::size_t from, std::size_t to) {
  const Json json = parse_json(text, "a host's figures");
  LinkFigures link{from, to};
  link.failure = json_get<std::string>(json, "failure", "figures");
  link.latency_us = json_get<double>(json, "latency_us", "figures");
  link.megabits = json_get<double>(json, "megabits", "figures");
  link.clock_ahead_ms = json_get<double>(json, "clock_ahead_ms", "figures");
  return link;
}

// What host `own` does with a turn.
void do_turn(control::ClusterCalls& desk, std::uint64_t own, const std::string& word, int number, const Json& turn) {
  if (json_get<std::uint64_t>(turn, "from", "turn") != own) return;
  const LinkFigures link = probe_link(json_get<std::string>(turn, "address", "turn"), word);
  desk.store_set(own, fmt::format("result/{}", number), figures_json(link).dump());
}

}  // namespace

control::Welcome DoctorDesk::join(const control::HostCard& card) {
  if (card.version != version())
    throw Error(ErrorKind::kMismatch,
                fmt::format("host {} has Muster {}, this one {}", card.name, card.version, version()), {},
                "Use the same version on all hosts.");
  const MutexLock lock(mutex_);
  control::Welcome welcome;
  if (joined_.size() < hosts_) {
    joined_.push_back(card.name);
    welcome.host = joined_.size();
  }
  for (std::uint64_t host = kFirst + 1; host <= joined_.size() && welcome.host == 0; ++host)
    if (joined_[host - 1] == card.name && !values_.get(facts_key(host), {})) welcome.host = host;
  if (welcome.host == 0) throw Error(ErrorKind::kUnsupported, fmt::format("all {} hosts have come", hosts_));
  welcome.job = job_;
  welcome.cluster = "doctor";
  return welcome;
}

control::Orders DoctorDesk::report(const control::HostReport&, std::uint64_t, std::chrono::milliseconds) {
  throw Error(ErrorKind::kUnsupported, "this is no job: muster doctor listens here", {}, "Use muster doctor --join.");
}

void DoctorDesk::store_set(std::uint64_t, std::string_view key, std::string_view value) {
  values_.set(key, value);
}

std::optional<std::string> DoctorDesk::store_get(std::uint64_t, std::string_view key, std::chrono::milliseconds wait) {
  return values_.get(key, wait);
}

void DoctorDesk::leave(std::uint64_t, int, const std::string&) {
}

Examination examine(DoctorDesk& desk, MachineFacts first, std::size_t hosts, const Deadline& deadline,
                    const std::function<void(const std::string&)>& tell,
                    const std::function<std::optional<Error>()>& lost) {
  const std::string word = control::random_hex(16);
  const std::string own_address = first.probe;
  std::optional<ProbeServer> server;
  if (!own_address.empty()) {
    server.emplace(own_address, 0, word);
    first.probe = server->address();
  }
  Examination all;
  all.hosts.push_back(std::move(first));
  desk.store_set(kFirst, "plan", word);
  for (std::uint64_t host = kFirst + 1; host <= hosts; ++host) {
    tell(fmt::format("waiting for hosts: {} of {}", all.hosts.size(), hosts));
    try {
      all.hosts.push_back(
          facts_from(parse_json(await_value(desk, kFirst, facts_key(host), deadline, lost), "facts"), "facts"));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
      throw Error(ErrorKind::kTimeout, fmt::format("{} of {} hosts have come", all.hosts.size(), hosts), {},
                  "On each of the others: muster doctor --join, with this address; --wait gives them longer.");
    }
  }
  int number = 0;
  for (std::size_t from = 0; from < all.hosts.size(); ++from) {
    for (std::size_t to = 0; to < all.hosts.size(); ++to) {
      if (from == to) continue;
      ++number;
      const Json turn{{"from", from + 1}, {"address", all.hosts[to].probe}};
      desk.store_set(kFirst, fmt::format("turn/{}", number), turn.dump());
      do_turn(desk, kFirst, word, number, turn);
      try {
        all.links.push_back(figures_from(
            await_value(desk, kFirst, fmt::format("result/{}", number), Deadline::after(kTurnTime)), from, to));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kTimeout) throw;
        all.links.push_back({from, to, "the host did not answer in time"});
      }
    }
  }
  desk.store_set(kFirst, fmt::format("turn/{}", number + 1), kEnd);
  return all;
}

void be_examined(control::ClusterCalls& desk, const control::HostCard& card, const std::string& own_address,
                 const std::function<MachineFacts(const std::string& job)>& look, const Deadline& deadline) {
  std::optional<control::Welcome> welcome;
  while (!welcome) {
    try {
      welcome = desk.join(card);
    } catch (const Error& error) {
      if ((error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kTimeout) || deadline.passed()) throw;
      system_clock().sleep_for(std::chrono::milliseconds(200));
    }
  }
  const std::uint64_t own = welcome->host;
  const Deadline limit = Deadline::after(kLongestExamination);
  const std::string word = await_value(desk, own, "plan", limit);
  ProbeServer server(own_address, 0, word);
  MachineFacts facts = look(welcome->job);
  facts.probe = server.address();
  desk.store_set(own, facts_key(own), to_json(facts).dump());
  for (int number = 1;; ++number) {
    const std::string turn = await_value(desk, own, fmt::format("turn/{}", number), limit);
    if (turn == kEnd) return;
    do_turn(desk, own, word, number, parse_json(turn, "turn"));
  }
}

}  // namespace muster::cli
