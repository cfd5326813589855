// Every choice is drawn from the fault's own number, in a fixed order: what one kind draws more leaves the others as
// they were.
#include "muster/cli/chaos/host_plan.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/check.h"

namespace muster::cli {
namespace {

// Seconds after which a host comes back, in times of detection. Before 1 nobody has missed it yet.
constexpr double kSoon = 0.2;
constexpr double kLate = 3;
constexpr double kBrief = 0.4;  // a host that was away for so long only is not given up

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(random_() >> 11) / 9007199254740992.0;
  }
  int below(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }
  bool one_in(int count) { return below(count) == 0; }

 private:
  std::mt19937_64 random_;
};

std::string name_of(int host) {
  return fmt::format("host-{}", host);
}

// Part of each host; at least two are apart, one of three times all are.
std::vector<int> parts_of(int hosts, Draws& draws) {
  std::vector<int> parts(static_cast<std::size_t>(hosts));
  if (draws.one_in(3)) {
    for (int host = 0; host < hosts; ++host)
      parts[static_cast<std::size_t>(host)] = host;
    return parts;
  }
  const int alone = draws.below(hosts);
  for (int host = 0; host < hosts; ++host)
    parts[static_cast<std::size_t>(host)] = host == alone || (hosts > 3 && draws.one_in(2)) ? 1 : 0;
  if (std::ranges::all_of(parts, [](int part) { return part == 1; }))
    parts[static_cast<std::size_t>((alone + 1) % hosts)] = 0;
  return parts;
}

std::string words_of(const std::vector<int>& parts) {
  std::vector<std::string> sides;
  for (int part = 0; part < static_cast<int>(parts.size()); ++part) {
    std::vector<std::string> names;
    for (std::size_t host = 0; host < parts.size(); ++host)
      if (parts[host] == part) names.push_back(name_of(static_cast<int>(host)));
    if (!names.empty()) sides.push_back(fmt::format("{}", fmt::join(names, " ")));
  }
  return fmt::format("the hosts fall apart: {}", fmt::join(sides, " | "));
}

void split(Disturbance& made, int hosts, int coordinator, Draws& draws) {
  const std::vector<int> parts = parts_of(hosts, draws);
  const auto part = [&](int host) { return parts[static_cast<std::size_t>(host)]; };
  for (int from = 0; from < hosts; ++from)
    for (int to = 0; to < hosts; ++to)
      if (part(from) != part(to)) made.cuts.emplace_back(from, to);
  for (int host = 0; host < hosts; ++host)
    if (part(host) != part(coordinator)) made.apart.push_back(host);
  made.words = words_of(parts);
}

}  // namespace

Disturbance disturbance_of(const PlannedFault& planned, int hosts, int coordinator, double detection) {
  MUSTER_CHECK(hosts >= 2, "a fault between hosts takes two");
  Draws draws(planned.draw);
  Disturbance made;
  made.fault = planned.fault;
  made.early = draws.one_in(4);
  made.seconds = detection * draws.between(kSoon, kLate);
  const int any = draws.below(hosts);
  const int other = (any + 1 + draws.below(hosts - 1)) % hosts;
  switch (planned.fault) {
    case Fault::kHost:
      made.victim = any == coordinator ? other : any;
      made.silent = draws.one_in(2);
      made.wiped = draws.one_in(3);
      made.words =
          fmt::format("{}: all processes are killed{}", name_of(made.victim), made.silent ? ", without a goodbye" : "");
      if (made.wiped) made.words += ", and its disk is lost";
      break;
    case Fault::kCoordinator:
      made.victim = coordinator;
      made.early = false;
      made.silent = draws.one_in(2);
      made.words = fmt::format("{}, which coordinates: all processes are killed{}", name_of(coordinator),
                               made.silent ? ", without a goodbye" : "");
      break;
    case Fault::kFreeze:
      made.victim = any;
      made.brief = draws.one_in(3);
      if (made.brief) made.seconds = kBrief * detection;
      made.words =
          fmt::format("{}{}: all processes stand still", name_of(any), any == coordinator ? ", which coordinates" : "");
      break;
    case Fault::kLink:
      made.victim = any;
      made.words = fmt::format("{}{}: its link is down", name_of(any), any == coordinator ? ", which coordinates" : "");
      for (int host = 0; host < hosts; ++host)
        if (any == coordinator ? host != any : host == any) made.apart.push_back(host);
      break;
    case Fault::kOneWay:
      made.cuts = {{any, other}};
      made.words = fmt::format("{} is not heard by {} any more", name_of(any), name_of(other));
      break;
    case Fault::kSplit:
      made.seconds += detection;  // long enough for both sides to notice
      split(made, hosts, coordinator, draws);
      break;
    case Fault::kKill:
    case Fault::kStop:
    case Fault::kOom:
      MUSTER_CHECK(false, "a fault of workers");
  }
  made.words += fmt::format(", for {:.1f} s", made.seconds);
  return made;
}

}  // namespace muster::cli
