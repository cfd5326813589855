// One lock for all that calls look at; nothing is computed under it. A session has a number that nobody can have from
// another life of the label holder.
#include "muster/federated/vertical/label_holder.h"

#include <openssl/err.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/deadline.h"
#include "muster/base/failpoint.h"
#include "muster/base/text.h"
#include "muster/data/permutation.h"

namespace muster::federated {
namespace {

constexpr std::chrono::milliseconds kLook{100};  // at keep_on
constexpr std::chrono::seconds kFarewell{10};
constexpr std::uint64_t kLeastRows = 2;  // one to train on, one to test with
constexpr std::size_t kNameDigits = 12;  // of an alignment: enough to tell two apart

std::uint64_t drawn_number() {
  std::uint64_t number = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof number) != 1) {
    ERR_clear_error();
    throw Error(ErrorKind::kResource, "OpenSSL cannot draw random numbers", "vertical training");
  }
  return std::max<std::uint64_t>(number, 1);
}

std::string words_of(const NetMark& net) {
  return fmt::format("epoch {} on alignment {}", net.epochs, excerpt(net.alignment, kNameDigits));
}

Error out_of_turn(const std::string& name, const std::string& what) {
  return {ErrorKind::kInvalidInput, fmt::format("{}: {}", name, what), "vertical training",
          "Both sides need the same version of Muster."};
}

}  // namespace

LabelHolder::LabelHolder(LabelHolderOptions options, std::span<const std::string> ids, MakeNet make_net,
                         const Clock& clock)
    : options_(std::move(options)),
      ids_(distinct_ids(ids)),
      table_{.rows = ids.size(), .columns = options_.columns, .ids = digest_of_ids(ids), .content = options_.content},
      make_net_(std::move(make_net)),
      clock_(clock),
      files_(options_.folder) {
  const MutexLock lock(mutex_);
  for (const std::string& name : options_.parties)
    parties_.push_back({.name = name});
  alignment_ = files_.alignment(table_);
  if (alignment_) require_not_shorter(plan_of(*alignment_), files_.whole_checkpoints(options_.tell));
  open_session();
  if (ids_.repeated + ids_.missing > 0)
    options_.tell(fmt::format("{} rows have an id that another one had before, {} have none: left out", ids_.repeated,
                              ids_.missing));
}

// --- What calls and run() share.

LabelHolder::Party& LabelHolder::party_named(const std::string& name) {
  const auto found = std::ranges::find(parties_, name, &Party::name);
  if (found == parties_.end())
    throw Error(
        ErrorKind::kInvalidInput,
        fmt::format("the job has no party \"{}\": it expects {}", excerpt(name, 80), join_words(options_.parties)),
        "vertical.parties", "The label holder's job names everybody who takes part.");
  return *found;
}

LabelHolder::Party& LabelHolder::enter(const std::string& name) {
  Party& party = party_named(name);
  throw_if_failed(party);
  return party;
}

LabelHolder::Party& LabelHolder::enter(const std::string& name, std::uint64_t session) {
  Party& party = enter(name);
  if (session == session_) party.heard = clock_.now();
  return party;
}

void LabelHolder::throw_if_failed(Party& party) {
  if (!failure_) return;
  party.told_end = true;
  changed_.notify_all();
  // Not to be tried again: whoever ends for it is started again by somebody.
  const ErrorKind kind = failure_->retryable() ? ErrorKind::kIo : failure_->kind();
  throw Error(failure_->exit_code() == 2 ? ErrorKind::kMismatch : kind,
              fmt::format("the label holder has ended: {}", failure_->message()), failure_->where(),
              failure_->remedy());
}

// Of the process that has the seat, or of another once the seat is free or silent.
void LabelHolder::take_seat(Party& party, const PartyWish& wish) {
  if (party.refusal && party.refused_life == wish.life) throw Error(*party.refusal);
  const auto silent = clock_.now() - party.heard;
  if (party.seated && party.seat != wish.seat && silent < kSilentSeat)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} takes part already: another process was heard of {:.1f} s ago", party.name,
                            std::chrono::duration<double>(silent).count()),
                "--name",
                fmt::format("If that one is yours and has ended, come again when it was silent for {} s. If it is "
                            "not, use certificates: `muster certs add`.",
                            kSilentSeat.count()));
  party.seated = true;
  party.seat = wish.seat;
  party.heard = clock_.now();
  party.gave_up.clear();
}

// Its process is told, and anybody may take its seat.
void LabelHolder::refuse(Party& party, const Error& why) {
  party.refused_life = party.wish.life;
  party.refusal = why;
  party.seated = false;
  party.wish.attempt = 0;
  options_.tell(fmt::format("{}; waits for another {}", why.message(), party.name));
  open_session();
}

// To align anew for its sake would be to lose what all have trained: somebody has to want that.
void LabelHolder::refuse_who_has_lost(Party& party) {
  refuse(party,
         Error(ErrorKind::kInvalidInput,
               fmt::format("{} has nothing of the training that it is to go on with (alignment {})", party.name,
                           excerpt(alignment_->name, kNameDigits)),
               "--state",
               "Start it with the --state that it had, or bring that back from a copy. To train from the beginning "
               "instead, start the label holder with --resume --begin-anew."));
}

void LabelHolder::got_to(std::uint64_t place) {
  if (place <= furthest_) return;
  furthest_ = place;
  waited_ = {};
}

void LabelHolder::open_session() {
  session_ = drawn_number();
  phase_ = Phase::kMeeting;
  for (Party& party : parties_) {
    party.met = false;
    party.activations.reset();
    party.gradient.clear();
  }
  changed_.notify_all();
}

std::string LabelHolder::missing() const {
  std::vector<std::string> names;
  for (const Party& party : parties_) {
    const bool missing = phase_ == Phase::kMeeting    ? !party.met
                         : phase_ == Phase::kAligning ? !(party.raised.whole() && party.own.whole())
                                                      : !party.activations;
    if (missing)
      names.push_back(party.gave_up.empty() ? party.name : fmt::format("{} (ended: {})", party.name, party.gave_up));
  }
  return join_words(names);
}

template <typename Done>
void LabelHolder::await(std::uint64_t session, const Done& done) {
  Clock::Instant before = clock_.now();
  while (session_ == session && !done()) {
    if (!keep_on_()) throw Error(ErrorKind::kInterrupted, "stopped");
    if (waited_ >= options_.patience)
      throw Error(ErrorKind::kTimeout,
                  fmt::format("training got no further while {:.0f} s were waited: nothing has come of {}",
                              std::chrono::duration<double>(options_.patience).count(), missing()),
                  "vertical training", "Start them, or wait longer with --wait; then go on with --resume.");
    changed_.wait_for(mutex_, kLook);
    const Clock::Instant now = clock_.now();
    waited_ += now - before;
    before = now;
  }
  if (session_ != session) throw SessionOver();
}

template <typename Done>
bool LabelHolder::await_call(Party& party, std::chrono::milliseconds wait, const Done& done) {
  const Deadline deadline = Deadline::after(wait);
  while (!done()) {
    throw_if_failed(party);
    if (deadline.passed()) return false;
    changed_.wait_for(mutex_, deadline.remaining());
  }
  return true;
}

// Between pieces of its own work.
void LabelHolder::go_on(std::uint64_t session) {
  if (!keep_on_()) throw Error(ErrorKind::kInterrupted, "stopped");
  const MutexLock lock(mutex_);
  if (session_ != session) throw SessionOver();
}

// --- Calls.

void LabelHolder::require_possible(const std::string& name, const PartyWish& wish) const {
  if (wish.width == 0 || wish.width > kMostWidth || wish.ids > kMostIds || wish.checkpoints.size() > kMostCheckpoints ||
      wish.seat.size() > kMostSeatBytes)
    throw out_of_turn(name, "says of itself what cannot be");
  if (wish.net.has_value() != options_.net.has_value())
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("the label holder {}, and {} does not", options_.net ? "predicts" : "trains", name),
                "--predict", "Give --predict to all parties, or to none.");
  if (wish.net != options_.net)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("the net of {} is of {}, and the label holder's is of {}: they were not trained together",
                            name, words_of(*wish.net), words_of(*options_.net)),
                "--net", "Give the nets of one run: --run to the label holder, --net STATE/RUN/NAME to the party.");
  if (wish.width * options_.batch > kMostStepFloats)
    throw Error(
        ErrorKind::kInvalidInput,
        fmt::format("{} rows of {} numbers are too much for a step", options_.batch, wish.width), "vertical.width",
        fmt::format("Lower it, or the label holder's data.batch: their product is {} at most.", kMostStepFloats));
}

PartyOrder LabelHolder::meet(const std::string& name, const PartyWish& wish, std::chrono::milliseconds wait) {
  const MutexLock lock(mutex_);
  Party& party = enter(name);
  if (wish.attempt == 0) {
    if (party.seated && party.seat == wish.seat) party.heard = clock_.now();
    return {.run = options_.run};
  }
  require_possible(name, wish);
  take_seat(party, wish);
  if (phase_ == Phase::kDone) {
    party.told_end = true;
    changed_.notify_all();
    return {.what = PartyOrder::What::kDone, .run = options_.run};
  }
  if (party.wish.attempt != wish.attempt && phase_ != Phase::kMeeting) {
    open_session();  // it was away, or has lost its way
  }
  const bool repeats = party.met && party.wish.attempt == wish.attempt;
  if (!repeats) {
    if (party.wish.attempt != wish.attempt) options_.tell(fmt::format("{} is there, with {} ids", name, wish.ids));
    party.wish = wish;
    party.met = true;
    changed_.notify_all();
  }
  await_call(party, wait, [&]() MUSTER_REQUIRES(mutex_) { return phase_ != Phase::kMeeting || !party.met; });
  PartyOrder order{.run = options_.run, .session = session_};
  if (phase_ == Phase::kMeeting || !party.met || party.wish.attempt != wish.attempt) {
    order.reason = fmt::format("waits for {}", missing());
    return order;
  }
  if (phase_ == Phase::kAligning) {
    order.what = PartyOrder::What::kAlign;
    return order;
  }
  order.what = PartyOrder::What::kTrain;
  order.alignment = alignment_->name;
  order.plan = plan_;
  order.step = begin_;
  return order;
}

PointsPart LabelHolder::read_points(const std::string& name, std::uint64_t session, std::uint64_t offset,
                                    std::chrono::milliseconds wait) {
  const MutexLock lock(mutex_);
  Party& party = enter(name, session);
  const bool ready =
      await_call(party, wait, [&]() MUSTER_REQUIRES(mutex_) { return session_ != session || party.points_ready; });
  if (session_ != session || phase_ != Phase::kAligning) return {.standing = Standing::kMeetAgain};
  if (!ready) return {.standing = Standing::kWait};
  if (offset > party.points.size()) throw out_of_turn(name, "reads behind the last point");
  const auto part = std::span(party.points).subspan(offset, std::min(kPointsPartBytes, party.points.size() - offset));
  return {.data = {part.begin(), part.end()}, .total = party.points.size()};
}

PointsTaken LabelHolder::send_points(const std::string& name, std::uint64_t session, PointsKind kind,
                                     std::uint64_t total, std::uint64_t offset, std::span<const std::byte> data) {
  const MutexLock lock(mutex_);
  Party& party = enter(name, session);
  if (session_ != session || phase_ != Phase::kAligning) return {.standing = Standing::kMeetAgain};
  Received& list = kind == PointsKind::kRaised ? party.raised : party.own;
  const std::uint64_t expected = (kind == PointsKind::kRaised ? ids_.ids.size() : party.wish.ids) * kPointBytes;
  if (total != expected || data.size() > kPointsPartBytes || (list.total && *list.total != total))
    throw out_of_turn(name, fmt::format("sends {} bytes of points where {} are due", total, expected));
  if (list.taken) return {.bytes = total};  // it comes again
  list.total = total;
  if (offset == list.points.size()) {
    if (data.size() > total - offset) throw out_of_turn(name, "sends more points than it has said");
    list.points.insert(list.points.end(), data.begin(), data.end());
    if (list.whole()) changed_.notify_all();
  }
  return {.bytes = list.points.size()};
}

PlacesPart LabelHolder::read_places(const std::string& name, std::uint64_t session, std::uint64_t offset,
                                    std::chrono::milliseconds wait) {
  const MutexLock lock(mutex_);
  Party& party = enter(name, session);
  const bool ready = await_call(
      party, wait, [&]() MUSTER_REQUIRES(mutex_) { return places_session_ == session || session_ != session; });
  if (!ready) return {.standing = Standing::kWait};
  if (places_session_ != session) return {.standing = Standing::kMeetAgain};
  if (offset > party.places.size()) throw out_of_turn(name, "reads behind the last place");
  const auto part = std::span(party.places).subspan(offset, std::min(kPlacesPart, party.places.size() - offset));
  return {.places = {part.begin(), part.end()},
          .total = party.places.size(),
          .train_rows = alignment_->train_rows,
          .alignment = alignment_->name};
}

std::uint64_t LabelHolder::floats_of(const Party& party, std::uint64_t step) const {
  return step == plan_.steps() ? 0 : plan_.at(step).rows.size() * party.wish.width;
}

StepAnswer LabelHolder::exchange(const std::string& name, std::uint64_t session, std::uint64_t step,
                                 std::span<const float> activations, std::chrono::milliseconds wait) {
  const MutexLock lock(mutex_);
  Party& party = enter(name, session);
  if (session_ != session || (phase_ != Phase::kTraining && phase_ != Phase::kDone))
    return {.standing = Standing::kMeetAgain};
  if (step > step_ || step + 1 < step_ || step < begin_ || step > plan_.steps())
    throw out_of_turn(name, fmt::format("is in step {} where the others are in step {}", step, step_));
  if (step == step_ && !party.activations) {
    if (activations.size() != floats_of(party, step))
      throw out_of_turn(name,
                        fmt::format("sends {} numbers where {} are due", activations.size(), floats_of(party, step)));
    if (!std::ranges::all_of(activations, [](float value) { return std::isfinite(value); }))
      throw out_of_turn(name, "sends numbers that are not finite");
    party.activations.emplace(activations.begin(), activations.end());
    ++arrived_;
    changed_.notify_all();
  }
  const bool ready =
      await_call(party, wait, [&]() MUSTER_REQUIRES(mutex_) { return session_ != session || step_ > step; });
  if (session_ != session) return {.standing = Standing::kMeetAgain};
  if (!ready) return {.standing = Standing::kWait};
  party.told_end = party.told_end || step == plan_.steps();
  changed_.notify_all();
  return {.gradient = party.gradient};
}

void LabelHolder::give_up(const std::string& name, const std::string& seat, const std::string& reason) {
  const MutexLock lock(mutex_);
  Party& party = party_named(name);
  if (!party.seated || party.seat != seat) throw out_of_turn(name, "gives up a seat that it does not have");
  if (failure_ || phase_ == Phase::kDone) return;
  party.seated = false;
  party.gave_up = excerpt(reason, kMostReasonBytes);
  party.wish.attempt = 0;
  options_.tell(fmt::format("{} has ended: {}; it is waited for", name, party.gave_up));
  open_session();
}

// --- The label holder's own way.

void LabelHolder::run(const std::function<bool()>& keep_on, const OnEpoch& on_epoch) {
  keep_on_ = keep_on;
  try {
    while (true) {
      try {
        gather();
        const std::vector<std::uint64_t> checkpoints = files_.whole_checkpoints(options_.tell);
        bool agreed = false;
        std::uint64_t session = 0;
        {
          const MutexLock lock(mutex_);
          session = session_;
          agreed = agree(checkpoints);
        }
        if (agreed) {
          train(session, on_epoch);
          farewell();
          return;
        }
        align(session);
      } catch (const SessionOver&) {  // all meet again
      }
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInterrupted) tell_failure(error);
    throw;
  }
}

// Those that are there hear of it before this process ends: later nobody would answer them.
void LabelHolder::tell_failure(const Error& error) {
  const MutexLock lock(mutex_);
  failure_ = error;
  changed_.notify_all();
  const Deadline deadline = Deadline::after(kFarewell);
  const auto all_know = [&]() MUSTER_REQUIRES(mutex_) {
    return std::ranges::all_of(parties_, [&](const Party& party) {
      return party.told_end || !party.seated || clock_.now() - party.heard >= kSilentSeat;
    });
  };
  while (!deadline.passed() && keep_on_() && !all_know())
    changed_.wait_for(mutex_, kLook);
}

VerticalPlan LabelHolder::plan_of(const Alignment& alignment) const {
  return {.train_rows = alignment.train_rows,
          .test_rows = alignment.rows.size() - alignment.train_rows,
          .batch = options_.batch,
          .epochs = options_.net ? 1 : options_.epochs,
          .seed = options_.seed,
          .checkpoint_steps = options_.checkpoint_steps};
}

// To begin anew would be to lose what was trained.
void LabelHolder::require_not_shorter(const VerticalPlan& plan, std::span<const std::uint64_t> checkpoints) const {
  if (checkpoints.empty() || checkpoints.back() <= plan.steps()) return;
  const std::uint64_t trained = plan.epochs_at(checkpoints.back());
  throw Error(ErrorKind::kMismatch,
              fmt::format("the run is in epoch {} already, and is to end with epoch {}", trained, plan.epochs),
              "job.epochs",
              fmt::format("Set it to {} or more to go on, or start a new run without --resume.", trained));
}

void LabelHolder::gather() {
  const MutexLock lock(mutex_);
  const auto all_met = [&]() MUSTER_REQUIRES(mutex_) { return std::ranges::all_of(parties_, &Party::met); };
  if (!all_met()) options_.tell(fmt::format("waits for {}", missing()));
  while (!all_met()) {
    try {
      await(session_, all_met);
    } catch (const SessionOver&) {
    }
  }
}

// Decides what the session is for: true, to train. From then on calls are told so.
bool LabelHolder::agree(std::span<const std::uint64_t> checkpoints) {
  if (!std::ranges::all_of(parties_, &Party::met)) throw SessionOver();
  const auto other = std::ranges::find_if(parties_, [&](const Party& party) MUSTER_REQUIRES(mutex_) {
    return !alignment_ || party.wish.alignment != alignment_->name;
  });
  if (other != parties_.end()) {
    if (alignment_ && !checkpoints.empty() && !options_.begin_anew) {
      refuse_who_has_lost(*other);
      throw SessionOver();
    }
    for (Party& party : parties_) {
      party.points.clear();
      party.points_ready = false;
      party.raised = {};
      party.own = {};
    }
    phase_ = Phase::kAligning;
    changed_.notify_all();
    return false;
  }
  plan_ = plan_of(*alignment_);
  require_not_shorter(plan_, checkpoints);
  begin_ = 0;
  for (const std::uint64_t step : checkpoints) {
    const bool everybodys = std::ranges::all_of(parties_, [&](const Party& party) {
      return std::ranges::find(party.wish.checkpoints, step) != party.wish.checkpoints.end();
    });
    if (everybodys) begin_ = std::max(begin_, step);
  }
  step_ = begin_;
  arrived_ = 0;
  phase_ = Phase::kTraining;
  changed_.notify_all();
  return true;
}

void LabelHolder::align(std::uint64_t session) {
  std::vector<std::unique_ptr<AskingSide>> sides;
  const auto between = [&] { go_on(session); };
  for (std::size_t i = 0; i < options_.parties.size(); ++i) {
    options_.tell(fmt::format("hides {} ids for {}", ids_.ids.size(), options_.parties[i]));
    sides.push_back(std::make_unique<AskingSide>(ids_.ids, between));
    const MutexLock lock(mutex_);
    parties_[i].points = sides[i]->points();
    parties_[i].points_ready = true;
    changed_.notify_all();
  }
  std::vector<std::vector<AskingSide::Common>> common;
  for (std::size_t i = 0; i < options_.parties.size(); ++i) {
    PointList raised;
    PointList own;
    {
      const MutexLock lock(mutex_);
      Party& party = parties_[i];
      await(session, [&]() MUSTER_REQUIRES(mutex_) { return party.raised.whole() && party.own.whole(); });
      raised = std::exchange(party.raised.points, {});
      own = std::exchange(party.own.points, {});
      party.raised.taken = party.own.taken = true;
    }
    try {
      common.push_back(sides[i]->intersect(raised, own, between));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kDamaged) throw;
      const MutexLock lock(mutex_);
      refuse(parties_[i], Error(ErrorKind::kInvalidInput,
                                fmt::format("what {} sent is refused: {}", options_.parties[i], error.message()),
                                error.where(), "Both sides need the same version of Muster."));
      throw SessionOver();
    }
    options_.tell(
        fmt::format("{} of {} ids are known to {}", common.back().size(), ids_.ids.size(), options_.parties[i]));
  }
  std::vector<std::vector<std::uint64_t>> places(common.size());
  Alignment alignment = choose_rows(common, places);
  go_on(session);
  files_.keep(alignment);
  got_to(1);
  MUSTER_FAILPOINT("vertical.labels.before_places");
  options_.tell(fmt::format("{} rows are common to all: {} to train on, {} to test with", alignment.rows.size(),
                            alignment.train_rows, alignment.rows.size() - alignment.train_rows));
  const MutexLock lock(mutex_);
  alignment_ = std::move(alignment);
  if (session_ != session) throw SessionOver();
  for (std::size_t i = 0; i < places.size(); ++i)
    parties_[i].places = std::move(places[i]);
  places_session_ = session;
  open_session();
}

Alignment LabelHolder::choose_rows(const std::vector<std::vector<AskingSide::Common>>& common,
                                   std::vector<std::vector<std::uint64_t>>& places) const {
  std::vector<std::uint64_t> known(ids_.ids.size());
  std::vector<std::vector<std::uint64_t>> place_of(common.size(), std::vector<std::uint64_t>(ids_.ids.size()));
  for (std::size_t i = 0; i < common.size(); ++i) {
    for (const AskingSide::Common& one : common[i]) {
      ++known[one.own];
      place_of[i][one.own] = one.place;
    }
  }
  std::vector<std::uint64_t> chosen;
  for (std::uint64_t id = 0; id < known.size(); ++id) {
    if (known[id] == common.size()) chosen.push_back(id);
  }
  if (chosen.size() < (options_.net ? 1 : kLeastRows))
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} rows are common to all parties", chosen.size()),
                "vertical.id", "Is it the same column everywhere, with ids that are written alike?");
  // The ids decide the order, which all parties know of these rows anyway; that of the table would tell more.
  std::ranges::sort(chosen, {}, [&](std::uint64_t id) -> const std::string& { return ids_.ids[id]; });
  const auto count = static_cast<double>(chosen.size());
  const auto wished = static_cast<std::uint64_t>(std::llround(count * options_.test_fraction));
  const auto tests = options_.net ? chosen.size() : std::clamp<std::uint64_t>(wished, 1, chosen.size() - 1);
  const data::Permutation order(chosen.size(), {.seed = options_.seed, .purpose = Purpose::kSplit});
  std::vector<bool> tested(chosen.size());
  for (std::uint64_t i = 0; i < tests; ++i)
    tested[order(i)] = true;
  Alignment alignment{.name = fmt::format("{:016x}{:016x}", drawn_number(), drawn_number()),
                      .table = table_,
                      .train_rows = chosen.size() - tests};
  for (const bool test : {false, true}) {
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (tested[i] != test) continue;
      alignment.rows.push_back(ids_.rows[chosen[i]]);
      for (std::size_t party = 0; party < common.size(); ++party)
        places[party].push_back(place_of[party][chosen[i]]);
    }
  }
  return alignment;
}

void LabelHolder::train(std::uint64_t session, const OnEpoch& on_epoch) {
  std::vector<std::uint64_t> widths;
  Alignment alignment;
  VerticalPlan plan;
  std::uint64_t begin = 0;
  {
    const MutexLock lock(mutex_);
    if (session_ != session) throw SessionOver();
    for (const Party& party : parties_)
      widths.push_back(party.wish.width);
    alignment = *alignment_;
    plan = plan_;
    begin = begin_;
  }
  if (!net_ || net_alignment_ != alignment.name || widths_ != widths) {
    net_ = make_net_(alignment, widths);
    net_alignment_ = alignment.name;
    widths_ = widths;
  }
  if (begin == 0)
    net_->reset();
  else
    net_->load(files_.checkpoint(begin));
  if (begin < plan.steps()) files_.unfinish();
  options_.aligned(alignment);
  options_.tell(plan.words_at(begin));
  std::vector<std::vector<float>> activations(widths.size());
  std::uint64_t last_checkpoint = begin;
  for (std::uint64_t step = begin;; ++step) {
    if (step != begin && plan.checkpoint_due(step)) {
      MUSTER_FAILPOINT("vertical.labels.before_checkpoint");
      net_->save(files_.checkpoint(step));
      files_.keep_only(step, std::exchange(last_checkpoint, step));
      MUSTER_FAILPOINT("vertical.labels.after_checkpoint");
    }
    if (step == plan.steps() && !plan.predicts()) net_->save_model(files_.model());
    {
      const MutexLock lock(mutex_);
      await(session, [&]() MUSTER_REQUIRES(mutex_) { return arrived_ == parties_.size(); });
      for (std::size_t i = 0; i < parties_.size(); ++i)
        activations[i] = std::move(*parties_[i].activations);
    }
    std::vector<std::vector<float>> gradients(widths.size());
    if (step < plan.steps()) {
      const VerticalPlan::Place place = plan.at(step);
      std::vector<std::vector<float>> given = net_->step(place.rows, activations, place.train);
      if (place.train) gradients = std::move(given);
      if (place.ends_epoch && !plan.predicts()) on_epoch(place.epoch, net_->end_epoch());
    }
    if (step == plan.steps()) {
      options_.before_end();
      files_.finish({.epochs = plan.epochs, .told = true, .alignment = alignment.name});
    }
    MUSTER_FAILPOINT("vertical.labels.before_gradients");
    got_to(step + 2);
    const MutexLock lock(mutex_);
    if (session_ != session) throw SessionOver();
    for (std::size_t i = 0; i < parties_.size(); ++i) {
      parties_[i].gradient = std::move(gradients[i]);
      parties_[i].activations.reset();
    }
    arrived_ = 0;
    step_ = step + 1;
    if (step == plan.steps()) phase_ = Phase::kDone;
    changed_.notify_all();
    if (step == plan.steps()) return;
  }
}

// Everybody's weights are on disk: who does not hear of it finds that out by itself.
void LabelHolder::farewell() {
  const MutexLock lock(mutex_);
  const Deadline deadline = Deadline::after(kFarewell);
  while (!deadline.passed() && keep_on_() && !std::ranges::all_of(parties_, &Party::told_end))
    changed_.wait_for(mutex_, kLook);
  for (const Party& party : parties_) {
    if (!party.told_end)
      options_.tell(fmt::format("{} was not told that all is done: started once more, it finds out", party.name));
  }
}

}  // namespace muster::federated
