// A graph of at most as many hosts as a job has: links that are cut are removed with the host that has most of them,
// until none is left.
#include "muster/control/host_links.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/text.h"

namespace muster::control {
namespace {

bool contains(const std::vector<std::uint64_t>& numbers, std::uint64_t number) {
  return std::ranges::find(numbers, number) != numbers.end();
}

bool cut(const LinkedHost& a, const LinkedHost& b) {
  return contains(a.links.unheard, b.number) || contains(b.links.unheard, a.number);
}

std::string words_for_linked(const LinkedHost& host) {
  return fmt::format("host {} ({})", host.name, host.number);
}

}  // namespace

bool hear_each_other(const LinkedHost& a, const LinkedHost& b) {
  return !a.links.looks || !b.links.looks || (contains(a.links.heard, b.number) && contains(b.links.heard, a.number));
}

std::vector<UnheardHost> give_up_unheard(std::span<const LinkedHost> hosts) {
  std::vector<const LinkedHost*> left;
  for (const LinkedHost& host : hosts)
    left.push_back(&host);
  std::vector<UnheardHost> gone;
  const auto cuts_of = [&](const LinkedHost* host) {
    return std::ranges::count_if(left, [&](const LinkedHost* other) { return other != host && cut(*host, *other); });
  };
  for (;;) {
    const LinkedHost* worst = nullptr;
    for (const LinkedHost* host : left) {
      if (cuts_of(host) == 0) continue;
      const bool more = worst == nullptr || cuts_of(host) > cuts_of(worst);
      if (more || (cuts_of(host) == cuts_of(worst) && host->number > worst->number)) worst = host;
    }
    if (worst == nullptr) return gone;
    std::vector<std::string> others;
    bool tie = false;
    for (const LinkedHost* other : left) {
      if (other == worst) continue;
      if (cut(*worst, *other)) others.push_back(words_for_linked(*other));
      tie = tie || cuts_of(other) == cuts_of(worst);
    }
    gone.push_back(
        {worst->number, fmt::format("and {} do not hear each other, though the coordinator hears both, and it "
                                    "hears the fewest ({} of {} others){}",
                                    join_words(others), left.size() - 1 - others.size(), left.size() - 1,
                                    tie ? "; of those with as few it came last" : "")});
    std::erase(left, worst);
  }
}

}  // namespace muster::control
