// A queue of events: the client that ends first, then the one that takes its place. What is drawn of a client is keyed
// by how many have begun before it, because rounds have no fixed length here.
#include "muster/federated/buffered_plan.h"

#include <optional>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/federated/chances.h"

namespace muster::federated {
namespace {

constexpr std::uint64_t kMostTries = 100'000;

}  // namespace

BufferedPlan::BufferedPlan(const Options& options, const ClientSplit& split, std::uint64_t seed)
    : options_(options), split_(split), seed_(seed) {
}

const RoundPlan& BufferedPlan::of(std::uint64_t round) {
  if (next_ == 0 || plan_.round > round) restart();
  while (next_ <= round)
    fill_buffer();
  return plan_;
}

void BufferedPlan::restart() {
  next_ = 0;
  now_ = 0;
  begun_ = 0;
  flights_.clear();
  busy_.clear();
  begin(0);
}

void BufferedPlan::begin(std::uint64_t version) {
  while (flights_.size() < options_.in_flight() && begin_one(version)) {
  }
  // A place that stays empty is filled when the next one ends.
  if (flights_.empty())
    throw Error(ErrorKind::kInvalidInput, "there is no client that could be asked", "federated.availability",
                "Raise it, lower federated.concurrency, or give more clients samples.");
}

bool BufferedPlan::begin_one(std::uint64_t version) {
  if (busy_.size() >= split_.clients()) return false;
  const std::uint64_t number = begun_++;
  const Chances chances(options_, seed_, number);
  RandomStream draws = chances.stream(Draw::kBegins, 0);
  for (std::uint64_t tries = 0; tries < kMostTries; ++tries) {
    const std::uint64_t client = draws.below(split_.clients());
    const std::uint64_t samples = split_.size(client);
    if (samples == 0 || busy_.contains(client) || !chances.available(client)) continue;
    busy_.insert(client);
    const double seconds = chances.seconds(client, static_cast<double>(samples - options_.held_out(samples)));
    flights_.insert({now_ + seconds, number, client, version, now_});
    return true;
  }
  return false;
}

void BufferedPlan::fill_buffer() {
  const double began = now_;
  plan_ = {.round = next_};
  std::vector<std::uint64_t> counted;
  while (true) {
    const Flight flight = *flights_.begin();
    flights_.erase(flights_.begin());
    now_ = flight.ends;
    ++plan_.asked;
    const Chances chances(options_, seed_, flight.number);
    const std::uint64_t staleness = next_ - flight.version;
    const std::uint64_t all = split_.size(flight.client);
    if (chances.drops(flight.client)) {
      ++plan_.dropped;
      busy_.erase(flight.client);
    } else if (staleness > static_cast<std::uint64_t>(options_.most_staleness)) {
      ++plan_.late;
      busy_.erase(flight.client);
    } else {
      counted.push_back(flight.client);
      plan_.counts.push_back({.client = flight.client,
                              .samples = all - options_.held_out(all),
                              .weight = Options::staleness_weight(staleness),
                              .seconds = flight.ends - flight.began,
                              .false_one = chances.is_false(flight.client),
                              .version = flight.version});
    }
    const bool full = counted.size() == static_cast<std::size_t>(options_.per_round);
    if (full) {
      for (const std::uint64_t client : counted)
        busy_.erase(client);
    }
    // Whoever begins when a buffer is full has the model that is made of it.
    begin(full ? next_ + 1 : next_);
    if (full) break;
  }
  plan_.seconds = now_ - began;
  plan_.denominator = static_cast<double>(plan_.counts.size());
  plan_.reason = fmt::format("{} clients have ended, {} count", plan_.asked, plan_.counts.size());
  ++next_;
}

}  // namespace muster::federated
