// With noise the number of clients tells nothing and counts for nothing: a round with none adds noise alone, as the
// accountant expects.
#include "muster/federated/live_round.h"

#include <fmt/format.h>

namespace muster::federated {

RoundVerdict judge_round(const Options& options, std::span<const AskedClient> asked, double seconds) {
  RoundVerdict verdict;
  std::uint64_t waited_for = 0;
  std::uint64_t silent = 0;
  for (const AskedClient& one : asked) {
    verdict.accepted += one.reply == AskedClient::Reply::kAccepted ? 1 : 0;
    verdict.refused += one.reply == AskedClient::Reply::kRefused ? 1 : 0;
    if (one.reply != AskedClient::Reply::kNone) continue;
    ++(one.silent ? silent : waited_for);
  }
  const bool noisy = options.noise > 0;
  const bool enough = !noisy && verdict.accepted >= static_cast<std::uint64_t>(options.per_round);
  const bool at_deadline = options.deadline_seconds && seconds >= *options.deadline_seconds;
  verdict.changes = noisy || verdict.accepted >= static_cast<std::uint64_t>(options.least);
  // A buffer waits for whoever comes.
  verdict.over = enough || (waited_for == 0 && !options.buffered()) || at_deadline;
  if (!verdict.over) {
    verdict.reason = fmt::format("{} of {} clients have answered", verdict.accepted + verdict.refused, asked.size());
    return verdict;
  }
  verdict.late = enough ? waited_for : 0;
  verdict.dropped = silent + (enough ? 0 : waited_for);
  verdict.reason = verdict.changes
                       ? fmt::format("{} clients asked, {} count", asked.size(), verdict.accepted)
                       : fmt::format("{} of {} clients answered, and federated.least is {}: nothing changes",
                                     verdict.accepted, asked.size(), options.least);
  return verdict;
}

}  // namespace muster::federated
