// A queue of events: the client that ends first, then the one that takes its place. What is drawn of a client is keyed
// by how many have begun before it, because rounds have no fixed length here.
#include "muster/federated/buffered_plan.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/federated/chances.h"

namespace muster::federated {
namespace {

constexpr std::uint64_t kMostTries = 100'000;

}  // namespace

BufferedPlan::BufferedPlan(const Options& options, const ClientSplit& split, std::uint64_t seed, SampleBudgets* budgets)
    : options_(options), split_(split), seed_(seed), budgets_(budgets) {
}

const RoundPlan& BufferedPlan::of(std::uint64_t round) {
  go_to(round + 1);
  return plan_;
}

void BufferedPlan::go_to(std::uint64_t rounds) {
  if (begun_ == 0 || next_ > rounds) restart();
  while (next_ < rounds)
    fill_buffer();
}

void BufferedPlan::restart() {
  next_ = 0;
  now_ = 0;
  begun_ = 0;
  flights_.clear();
  busy_.clear();
  if (budgets_ != nullptr) budgets_->restart();
  begin(0);
  require_somebody();
}

void BufferedPlan::begin(std::uint64_t version) {
  // A place that stays empty is filled when the next one ends.
  while (flights_.size() < options_.in_flight() && begin_one(version)) {
  }
}

void BufferedPlan::require_somebody() const {
  if (flights_.empty() && (budgets_ == nullptr || budgets_->able() > 0))
    throw Error(ErrorKind::kInvalidInput, "there is no client that could be asked", "federated.availability",
                "Raise it, lower federated.concurrency, or give more clients samples.");
}

bool BufferedPlan::may_begin(std::uint64_t client, const Chances& chances) const {
  return split_.size(client) > 0 && !busy_.contains(client) && chances.available(client) &&
         (budgets_ == nullptr || budgets_->allows(client));
}

bool BufferedPlan::begin_one(std::uint64_t version) {
  if (busy_.size() >= split_.clients() || (budgets_ != nullptr && budgets_->able() == 0)) return false;
  const std::uint64_t number = begun_++;
  const Chances chances(options_, seed_, number);
  RandomStream draws = chances.stream(Draw::kBegins, 0);
  std::uint64_t client = draws.below(split_.clients());
  for (std::uint64_t tries = 1; tries < kMostTries && !may_begin(client, chances); ++tries)
    client = draws.below(split_.clients());
  // Where budgets have left few, the next one who may.
  for (std::uint64_t i = 0; budgets_ != nullptr && i < split_.clients() && !may_begin(client, chances); ++i)
    client = (client + 1) % split_.clients();
  if (!may_begin(client, chances)) return false;
  const std::uint64_t samples = split_.size(client);
  busy_.insert(client);
  if (budgets_ != nullptr) budgets_->spend(client);
  const double seconds = chances.seconds(client, static_cast<double>(samples - options_.held_out(samples)));
  flights_.insert({now_ + seconds, number, client, version, now_});
  return true;
}

void BufferedPlan::fill_buffer() {
  const double began = now_;
  plan_ = {.round = next_};
  std::vector<std::uint64_t> counted;
  while (!flights_.empty()) {
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
    if (counted.size() == static_cast<std::size_t>(options_.per_round)) break;
    begin(next_);
    if (budgets_ == nullptr) require_somebody();
  }
  // Whoever begins when a buffer is full has the model that is made of it.
  for (const std::uint64_t client : counted)
    busy_.erase(client);
  begin(next_ + 1);
  require_somebody();
  plan_.seconds = now_ - began;
  plan_.denominator = static_cast<double>(plan_.counts.size());
  plan_.reason = fmt::format("{} clients have ended, {} count", plan_.asked, plan_.counts.size());
  ++next_;
}

}  // namespace muster::federated
