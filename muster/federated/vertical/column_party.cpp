// A step is a pure function of what is on disk and what the label holder sends, so that one that was interrupted is
// simply done again.
#include "muster/federated/vertical/column_party.h"

#include <openssl/err.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/text.h"
#include "muster/federated/enrolments.h"
#include "muster/federated/vertical/party_seat.h"

namespace muster::federated {
namespace {

constexpr std::chrono::milliseconds kCallWait{2000};
constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{2000};
constexpr std::chrono::milliseconds kLook{50};

std::uint64_t drawn_number() {
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
      table_{.rows = ids.size(), .columns = options_.columns, .ids = digest_of_ids(ids), .content = options_.content},
      make_net_(std::move(make_net)),
      clock_(clock),
      life_(drawn_number()),
      patience_(options_.patience),
      last_call_(clock.now()) {
  if (ids_.repeated + ids_.missing > 0)
    options_.tell(fmt::format("{} rows have an id that another one had before, {} have none: left out", ids_.repeated,
                              ids_.missing));
}

void ColumnParty::go_on() const {
  if (!keep_on_()) throw Error(ErrorKind::kInterrupted, "stopped");
}

void ColumnParty::got_to(std::uint64_t place) {
  if (place <= furthest_) return;
  furthest_ = place;
  away_ = {};
}

template <typename Call>
auto ColumnParty::patiently(const Call& call) {
  std::chrono::milliseconds pause = kFirstPause;
  while (true) {
    go_on();
    Clock::Instant before = clock_.now();
    const auto count_away = [&] {
      const Clock::Instant now = clock_.now();
      away_ += now - before;
      before = now;
    };
    try {
      auto answer = call();
      last_call_ = clock_.now();
      return answer;
    } catch (const Error& error) {
      told_to_end_ = !error.retryable();
      if (told_to_end_) throw;
      count_away();
      if (away_ >= patience_) throw;
      if (pause == kFirstPause) options_.tell(fmt::format("{}: {}: trying again", error.where(), error.message()));
    }
    for (const Deadline end = Deadline::after(pause, clock_); !end.passed() && keep_on_();)
      clock_.sleep_for(kLook);
    count_away();
    pause = std::min(pause * 2, kLongestPause);
  }
}

void ColumnParty::stay_heard() {
  go_on();
  if (clock_.now() - last_call_ < kSilentSeat / 4) return;
  last_call_ = clock_.now();
  try {
    calls_.meet(options_.name, {.seat = seat_}, std::chrono::milliseconds(0));
  } catch (const Error& error) {
    if (!error.retryable()) throw;
  }
}

std::filesystem::path ColumnParty::run(const std::function<bool()>& keep_on) {
  keep_on_ = keep_on;
  const PartySeat seat(options_.state, options_.name);
  seat_ = seat.secret();
  try {
    const std::optional<std::string> run = find_run();
    return run ? take_part(*run) : all_is_done();
  } catch (const Error& error) {
    if (has_met_ && !told_to_end_) give_up(error);
    throw;
  }
}

void ColumnParty::give_up(const Error& why) {
  try {
    calls_.give_up(options_.name, seat_, why.kind() == ErrorKind::kInterrupted ? "it was stopped" : why.what());
  } catch (const Error& error) {
    options_.tell(fmt::format("the label holder could not be told: {}", error.message()));
  }
}

std::optional<std::filesystem::path> ColumnParty::nearly_finished() const {
  std::optional<std::filesystem::path> newest;
  std::filesystem::file_time_type newest_time;
  std::error_code none;
  for (std::filesystem::directory_iterator entry(options_.state, none);
       !none && entry != std::filesystem::directory_iterator(); entry.increment(none)) {
    const std::filesystem::path folder = entry->path() / options_.name;
    std::error_code code;
    const auto time = std::filesystem::last_write_time(folder / "alignment.safetensors", code);
    if (code || (newest && time <= newest_time)) continue;
    newest = folder;
    newest_time = time;
  }
  if (!newest) return std::nullopt;
  const auto finished = PartyFiles(*newest).finished();
  return finished && !finished->told ? newest : std::nullopt;
}

// Nothing: the label holder is gone, and all that this party has to do for it is done.
std::optional<std::string> ColumnParty::find_run() {
  const std::optional<std::filesystem::path> done = options_.net ? std::nullopt : nearly_finished();
  patience_ = done ? std::min<std::chrono::nanoseconds>(options_.patience, kLookForTheEnd) : options_.patience;
  try {
    const PartyOrder order = patiently([&] { return calls_.meet(options_.name, {.seat = seat_}, kCallWait); });
    if (!is_client_name(order.run))
      throw not_the_protocol(fmt::format("says its run is called \"{}\"", excerpt(order.run, 80)));
    patience_ = options_.patience;
    return order.run;
  } catch (const Error& error) {
    if (!error.retryable() || !done) throw;
    options_.tell(
        fmt::format("all steps were done, and the label holder has gone ({}); should it still train, start "
                    "this party again",
                    error.message()));
    files_.emplace(*done);
    return std::nullopt;
  }
}

std::filesystem::path ColumnParty::take_part(const std::string& run) {
  files_.emplace(options_.state / run / options_.name);
  options_.enter(files_->folder());
  alignment_ = files_->alignment(table_);
  if (alignment_) got_to(1);
  while (true) {
    const PartyOrder order = meet();
    if (order.what == PartyOrder::What::kDone) return all_is_done();
    if (order.what == PartyOrder::What::kAlign)
      align(order.session);
    else if (train(order))
      return all_is_done();
  }
}

// The label holder has said so, or has gone behind the last step.
std::filesystem::path ColumnParty::all_is_done() {
  const auto finished = files_->finished();
  if (!finished)
    throw Error(ErrorKind::kMismatch, "the label holder has finished, and this party's net is not here",
                files_->folder().string(), "Bring the folder back from a copy, or begin a new run with all parties.");
  files_->finish({.epochs = finished->epochs, .told = true, .alignment = finished->alignment});
  return files_->folder();
}

PartyOrder ColumnParty::meet() {
  PartyWish wish{.attempt = drawn_number(),
                 .width = options_.width,
                 .ids = ids_.ids.size(),
                 .seat = seat_,
                 .life = life_,
                 .net = options_.net};
  if (alignment_) {
    wish.alignment = alignment_->name;
    wish.checkpoints = files_->whole_checkpoints(options_.tell);
    // More are there only if somebody put them there.
    if (wish.checkpoints.size() > kMostCheckpoints)
      wish.checkpoints.erase(wish.checkpoints.begin(), wish.checkpoints.end() - kMostCheckpoints);
  }
  std::string told;
  while (true) {
    PartyOrder order = patiently([&] { return calls_.meet(options_.name, wish, kCallWait); });
    has_met_ = true;
    if (order.what != PartyOrder::What::kWait) return order;
    if (order.reason != told) options_.tell(order.reason);
    told = order.reason;
  }
}

// --- Which rows all have.

void ColumnParty::align(std::uint64_t session) {
  options_.tell(fmt::format("looks for the common rows, with {} ids of its own", ids_.ids.size()));
  const auto between = [&] { stay_heard(); };
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
    Alignment alignment{.name = part.alignment, .table = table_, .train_rows = part.train_rows};
    for (const std::uint64_t id : side.ids_at(places))
      alignment.rows.push_back(ids_.rows[id]);
    files_->keep(alignment);
    got_to(1);
    MUSTER_FAILPOINT("vertical.columns.after_places");
    alignment_ = std::move(alignment);
    return true;
  }
}

// --- Training.

void ColumnParty::require_possible(const PartyOrder& order) const {
  if (!alignment_ || order.alignment != alignment_->name) throw not_the_protocol("trains on rows of another alignment");
  order.plan.check(options_.width);
  if (order.plan.predicts() != options_.net.has_value())
    throw Error(ErrorKind::kMismatch,
                options_.net ? "the label holder trains, and this party was started to predict"
                             : "the label holder predicts, and this party was started to train",
                "vertical training", "Give --predict to all parties, or to none.");
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
  if (order.step < plan.steps()) files_->unfinish();
  options_.tell(plan.words_at(order.step));
  std::uint64_t last_checkpoint = order.step;
  for (std::uint64_t step = order.step;; ++step) {
    if (step != order.step && plan.checkpoint_due(step)) {
      MUSTER_FAILPOINT("vertical.columns.before_checkpoint");
      net_->save(files_->checkpoint(step));
      files_->keep_only(step, std::exchange(last_checkpoint, step));
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
    got_to(step + 2);
    if (place.ends_epoch) options_.tell(fmt::format("epoch {}/{}", place.epoch + 1, plan.epochs));
  }
  if (!plan.predicts()) net_->save_model(files_->model());
  files_->finish({.epochs = plan.epochs, .told = false, .alignment = order.alignment});
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
