// Each kind of fault has random numbers of its own and comes once an interval, somewhere in its middle half: adding a
// kind to a run leaves the moments of the others as they were.
#include "muster/cli/chaos/plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::cli {
namespace {

constexpr double kMostAMinute = 600;

Fault fault_named(const std::string& name, std::span<const Fault> allowed) {
  std::vector<std::string> names;
  for (const Fault fault : allowed) {
    if (name == to_string(fault)) return fault;
    names.emplace_back(to_string(fault));
  }
  throw Error(ErrorKind::kInvalidInput, fmt::format("no fault \"{}\"{}", excerpt(name, 40), did_you_mean(name, names)),
              "--faults", fmt::format("Faults are {}.", join_words(names)));
}

double rate_in(std::string_view text) {
  double rate = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), rate);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || !(rate > 0) || rate > kMostAMinute)
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no rate", excerpt(text, 40)), "--faults",
                fmt::format("Give faults a minute, above 0 and at most {}.", kMostAMinute));
  return rate;
}

}  // namespace

std::string_view to_string(Fault fault) {
  switch (fault) {
    case Fault::kKill:
      return "kill";
    case Fault::kStop:
      return "stop";
    case Fault::kOom:
      return "oom";
    case Fault::kCoordinator:
      return "coordinator";
    case Fault::kHost:
      return "host";
    case Fault::kFreeze:
      return "freeze";
    case Fault::kLink:
      return "link";
    case Fault::kOneWay:
      return "oneway";
    case Fault::kSplit:
      return "split";
  }
  return "unknown";
}

FaultRates parse_faults(std::string_view text, double rate, std::span<const Fault> allowed) {
  FaultRates rates;
  std::size_t shared = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const std::size_t equals = word.find('=');
    const Fault fault = fault_named(std::string(word.substr(0, equals)), allowed);
    const bool own = equals != std::string_view::npos;
    if (!rates.emplace(fault, own ? rate_in(word.substr(equals + 1)) : 0).second)
      throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" stands twice", to_string(fault)), "--faults");
    if (!own) ++shared;
    begin = end + 1;
  }
  if (shared != 0 && shared != rates.size())
    throw Error(ErrorKind::kInvalidInput, "some faults have a rate and some have none", "--faults",
                "Give all of them a rate (kill=12,stop=2), or none and --rate for all together.");
  for (auto& [fault, own] : rates)
    if (shared != 0) own = rate / static_cast<double>(shared);
  return rates;
}

FaultPlan::FaultPlan(const FaultRates& rates, std::uint64_t seed) {
  MUSTER_CHECK(!rates.empty(), "a plan needs faults");
  for (const auto& [fault, rate] : rates) {
    std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                           static_cast<std::uint32_t>(fault)};
    Kind kind{60 / rate, 0, std::mt19937_64(sequence), {}};
    kind.upcoming.fault = fault;
    advance(kind);
    kinds_.emplace(fault, kind);
  }
}

void FaultPlan::advance(Kind& kind) {
  const double chance = std::ldexp(static_cast<double>(kind.random() >> 11), -53);
  kind.upcoming.at = kind.interval * (static_cast<double>(kind.count++) + 0.25 + 0.5 * chance);
  kind.upcoming.draw = kind.random();
}

PlannedFault FaultPlan::next() {
  Kind& first = std::min_element(kinds_.begin(), kinds_.end(), [](const auto& a, const auto& b) {
                  return a.second.upcoming.at < b.second.upcoming.at;
                })->second;
  const PlannedFault fault = first.upcoming;
  advance(first);
  return fault;
}

}  // namespace muster::cli
