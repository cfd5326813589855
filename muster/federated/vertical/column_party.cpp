// A step is a pure function of what is on disk and what the label holder sends, so that one that was interrupted is
// simply done again.
#include "muster/federated/vertical/column_party.h"

#include <openssl/err.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/text.h"
#include "muster/federated/enrolments.h"

namespace muster::federated {
namespace {

constexpr std::chrono::milliseconds kCallWait{2000};
constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{2000};
constexpr std::chrono::milliseconds kLook{50};

std::uint64_t drawn_attempt() {
  std::uint64_t number = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof number) != 1) {
    ERR_clear_error();
    throw Error(ErrorKind::kResource, "OpenSSL cannot draw random numbers", "vertical training");
  }
  return std::max<std::uint64_t>(number, 1);
}

Error not_the_protocol(const std::string& what) {
  return {ErrorKind::kDamaged, fmt::format("the label holder {}", what), "vertical training",
          "Both sides need the same version of Muster; if they have it, do not trust it."};
}

}  // namespace

ColumnParty::ColumnParty(VerticalCalls& calls, ColumnPartyOptions options, std::span<const std::string> ids,
                         MakeNet make_net, const Clock& clock)
    : calls_(calls),
      options_(std::move(options)),
      all_ids_(ids),
      ids_(distinct_ids(ids)),
      ids_digest_(digest_of_ids(ids)),
      make_net_(std::move(make_net)),
      clock_(clock) {
  if (ids_.repeated + ids_.missing > 0)
    options_.tell(fmt::format("{} rows have an id that another one had before, {} have none: left out", ids_.repeated,
                              ids_.missing));
}

void ColumnParty::go_on() const {
  if (!keep_on_()) throw Error(ErrorKind::kInterrupted, "stopped");
}

template <typename Call>
auto ColumnParty::patiently(const Call& call) {
  const Deadline deadline = Deadline::after(options_.patience, clock_);
  std::chrono::milliseconds pause = kFirstPause;
  while (true) {
    go_on();
    try {
      return call();
    } catch (const Error& error) {
      if (!error.retryable() || deadline.passed()) throw;
      if (pause == kFirstPause) options_.tell(fmt::format("{}: {}: trying again", error.where(), error.message()));
    }
    for (const Deadline end = Deadline::after(pause, clock_); !end.passed() && keep_on_();)
      clock_.sleep_for(kLook);
    pause = std::min(pause * 2, kLongestPause);
  }
}

std::filesystem::path ColumnParty::run(const std::function<bool()>& keep_on) {
  keep_on_ = keep_on;
  const std::string run = patiently([&] { return calls_.meet(options_.name, {}, kCallWait); }).run;
  if (!is_client_name(run)) throw not_the_protocol(fmt::format("says its run is called \"{}\"", excerpt(run, 80)));
  files_.emplace(options_.state / run / options_.name);
  options_.enter(files_->folder());
  alignment_ = files_->alignment(ids_digest_, all_ids_.size());
  while (true) {
    const PartyOrder order = meet();
    if (order.what == PartyOrder::What::kAlign)
      align(order.session);
    else if (train(order))
      return files_->folder();
  }
}

PartyOrder ColumnParty::meet() {
  PartyWish wish{.attempt = drawn_attempt(), .width = options_.width, .ids = ids_.ids.size()};
  if (alignment_) {
    wish.alignment = alignment_->name;
    wish.checkpoints = files_->checkpoints();
    // More are there only if somebody put them there.
    if (wish.checkpoints.size() > kMostCheckpoints)
      wish.checkpoints.erase(wish.checkpoints.begin(), wish.checkpoints.end() - kMostCheckpoints);
  }
  std::string told;
  while (true) {
    PartyOrder order = patiently([&] { return calls_.meet(options_.name, wish, kCallWait); });
    if (order.what != PartyOrder::What::kWait) return order;
    if (order.reason != told) options_.tell(order.reason);
    told = order.reason;
  }
}

// --- Which rows all have.

void ColumnParty::align(std::uint64_t session) {
  options_.tell(fmt::format("looks for the common rows, with {} ids of its own", ids_.ids.size()));
  const auto between = [&] { go_on(); };
  AnsweringSide side(ids_.ids, between);
  const std::optional<PointList> others = read_points(session);
  if (!others) return;
  options_.tell(fmt::format("the label holder has {} ids", others->size() / kPointBytes));
  if (!send_points(session, PointsKind::kOwn, side.points())) return;
  if (!send_points(session, PointsKind::kRaised, side.raise(*others, between))) return;
  MUSTER_FAILPOINT("vertical.columns.before_places");
  if (!read_places(session, side)) return;
  net_.reset();
  options_.tell(fmt::format("{} of its {} rows are common to all", alignment_->rows.size(), all_ids_.size()));
}

std::optional<PointList> ColumnParty::read_points(std::uint64_t session) {
  PointList points;
  while (true) {
    const PointsPart part =
        patiently([&] { return calls_.read_points(options_.name, session, points.size(), kCallWait); });
    if (part.standing == Standing::kMeetAgain) return std::nullopt;
    if (part.standing == Standing::kWait) continue;
    if (part.total > kMostIds * kPointBytes || part.data.size() > part.total - std::min(part.total, points.size()) ||
        (part.data.empty() && points.size() < part.total))
      throw not_the_protocol("sends another number of points than it says");
    points.insert(points.end(), part.data.begin(), part.data.end());
    if (points.size() == part.total) return points;
  }
}

bool ColumnParty::send_points(std::uint64_t session, PointsKind kind, const PointList& points) {
  std::uint64_t sent = 0;
  do {
    const auto part = std::span(points).subspan(sent, std::min(kPointsPartBytes, points.size() - sent));
    const PointsTaken taken =
        patiently([&] { return calls_.send_points(options_.name, session, kind, points.size(), sent, part); });
    if (taken.standing == Standing::kMeetAgain) return false;
    if (taken.bytes > points.size()) throw not_the_protocol("says it has more points than there are");
    sent = taken.bytes;
  } while (sent < points.size());
  return true;
}

bool ColumnParty::read_places(std::uint64_t session, const AnsweringSide& side) {
  std::vector<std::uint64_t> places;
  while (true) {
    const PlacesPart part =
        patiently([&] { return calls_.read_places(options_.name, session, places.size(), kCallWait); });
    if (part.standing == Standing::kMeetAgain) return false;
    if (part.standing == Standing::kWait) continue;
    if (part.total > ids_.ids.size() || part.places.size() > part.total - std::min(part.total, places.size()) ||
        (part.places.empty() && places.size() < part.total) || part.train_rows > part.total)
      throw not_the_protocol("sends places of rows that cannot be");
    places.insert(places.end(), part.places.begin(), part.places.end());
    if (places.size() < part.total) continue;
    Alignment alignment{.name = part.alignment, .ids_digest = ids_digest_, .train_rows = part.train_rows};
    for (const std::uint64_t id : side.ids_at(places))
      alignment.rows.push_back(ids_.rows[id]);
    files_->keep(alignment);
    MUSTER_FAILPOINT("vertical.columns.after_places");
    alignment_ = std::move(alignment);
    return true;
  }
}

// --- Training.

void ColumnParty::require_possible(const PartyOrder& order) const {
  if (!alignment_ || order.alignment != alignment_->name) throw not_the_protocol("trains on rows of another alignment");
  order.plan.check();
  if (order.plan.train_rows != alignment_->train_rows ||
      order.plan.test_rows != alignment_->rows.size() - alignment_->train_rows || order.step > order.plan.steps())
    throw not_the_protocol("trains on other rows than were found");
  const std::vector<std::uint64_t> steps = files_->checkpoints();
  if (order.step > 0 && !std::ranges::binary_search(steps, order.step))
    throw not_the_protocol(fmt::format("goes on before step {}, which was not written down here", order.step));
}

bool ColumnParty::train(const PartyOrder& order) {
  require_possible(order);
  const VerticalPlan& plan = order.plan;
  if (!net_) net_ = make_net_(*alignment_);
  if (order.step == 0)
    net_->reset();
  else
    net_->load(files_->checkpoint(order.step));
  options_.tell(order.step == 0 ? fmt::format("trains: {} steps", plan.steps())
                                : fmt::format("goes on before step {} of {}", order.step, plan.steps()));
  for (std::uint64_t step = order.step;; ++step) {
    if (step != order.step && plan.checkpoint_due(step)) {
      MUSTER_FAILPOINT("vertical.columns.before_checkpoint");
      net_->save(files_->checkpoint(step));
      files_->prune();
      MUSTER_FAILPOINT("vertical.columns.after_checkpoint");
    }
    if (step == plan.steps()) break;
    const VerticalPlan::Place place = plan.at(step);
    const std::vector<float> activations = net_->forward(place.rows, place.train);
    if (!std::ranges::all_of(activations, [](float value) { return std::isfinite(value); }))
      throw Error(ErrorKind::kCompute, "the net gives numbers that are not finite", fmt::format("step {}", step),
                  "Lower optimizer.lr, or set optimizer.clip_norm.");
    MUSTER_FAILPOINT("vertical.columns.before_exchange");
    const auto gradient = exchange(order.session, step, activations);
    if (!gradient) return false;
    if (place.train) {
      if (gradient->size() != activations.size() ||
          !std::ranges::all_of(*gradient, [](float value) { return std::isfinite(value); }))
        throw not_the_protocol("sends no gradient of what it was given");
      net_->backward(*gradient);
    }
    if (place.ends_epoch) options_.tell(fmt::format("epoch {}/{}", place.epoch + 1, plan.epochs));
  }
  net_->save_model(files_->folder() / "model.safetensors");
  try {
    return exchange(order.session, plan.steps(), {}).has_value();
  } catch (const Error& error) {
    if (!error.retryable()) throw;
    options_.tell("all steps are done; the label holder has gone");
    return true;
  }
}

std::optional<std::vector<float>> ColumnParty::exchange(std::uint64_t session, std::uint64_t step,
                                                        std::span<const float> activations) {
  while (true) {
    StepAnswer answer =
        patiently([&] { return calls_.exchange(options_.name, session, step, activations, kCallWait); });
    if (answer.standing == Standing::kMeetAgain) return std::nullopt;
    if (answer.standing == Standing::kDone) return std::move(answer.gradient);
  }
}

}  // namespace muster::federated
