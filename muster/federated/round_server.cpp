// Calls of clients look at the round under one lock; the thread that computes opens and closes it. While a round is
// closed nobody but that thread touches its files, so aggregation needs no lock.
#include "muster/federated/round_server.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/hash.h"
#include "muster/base/text.h"
#include "muster/federated/chosen_submodels.h"
#include "muster/federated/round_change.h"
#include "muster/federated/secure/fixed_point.h"

namespace muster::federated {
namespace {

constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::milliseconds kAskAgain{1000};
constexpr std::chrono::seconds kSayWaiting{10};  // so long a round waits for clients before people are told
// Between two looks of a server that runs, however busy the machine is. One that was stopped for longer has heard
// nobody meanwhile, and must not take that for their silence.
constexpr std::chrono::seconds kStoodStill{2};
constexpr std::uint64_t kMostSamples = std::uint64_t{1} << 40;
constexpr std::size_t kLongestMetricName = 40;
constexpr std::uint64_t kMostTestsASample = 10;  // more than federated.client_test allows

std::vector<std::unique_ptr<Submodel>> make_submodels(const RoundServerOptions& options, const LocalTraining& whole) {
  std::vector<std::unique_ptr<Submodel>> made;
  for (std::size_t index = 0; index < options.federated.submodels.size(); ++index)
    made.push_back(std::make_unique<Submodel>(whole, options.make_submodel(index)));
  return made;
}

std::uint64_t secret_seed() {
  const NoiseKey key = random_key();
  std::uint64_t seed = 0;
  std::memcpy(&seed, key.data(), sizeof seed);
  return seed;
}

}  // namespace

RoundServer::RoundServer(RoundServerOptions options, LocalTraining& training, const Clock& clock)
    : options_(std::move(options)),
      training_(training),
      clock_(clock),
      controls_(options_.federated.controls() ? training.parameters() : 0),
      update_floats_(training.size() + controls_),
      compression_(parse_compression(options_.federated.compress)),
      kept_(options_.federated.keep, training.tensors(), training.size(), training.parameters()),
      submodels_(make_submodels(options_, training)),
      optimizer_(options_.federated, training.parameters()),
      enrolments_(options_.folder / "clients.txt", static_cast<std::uint64_t>(options_.federated.clients)),
      left_(options_.folder / "left.json"),
      files_(options_.folder / "round"),
      chosen_submodels_(read_chosen_submodels(options_.folder / "submodels.json", submodels_.size())),
      control_(std::make_shared<std::vector<float>>(controls_)),
      last_left_(clock.now()),
      began_(clock.now()) {
  auto first = std::make_shared<std::vector<float>>(training.size());
  training.first_values(*first);
  model_ = std::move(first);
}

void RoundServer::restore(const State& state) {
  if (state.model.size() != training_.size() || state.momentum.size() != optimizer_.momentum().size() ||
      state.squares.size() != optimizer_.squares().size() || state.control.size() != controls_)
    throw Error(ErrorKind::kMismatch, "the state of the run is of another model or another server", {},
                "Begin a new run, or go on with the job that it was made by.");
  optimizer_.momentum() = state.momentum;
  optimizer_.squares() = state.squares;
  const MutexLock lock(mutex_);
  rounds_ = state.rounds;
  seconds_ = state.virtual_seconds;
  model_ = std::make_shared<const std::vector<float>>(state.model);
  control_ = std::make_shared<const std::vector<float>>(state.control);
  counted_ = state.counted;
}

std::uint64_t RoundServer::rounds() const {
  const MutexLock lock(mutex_);
  return rounds_;
}

std::optional<std::string> RoundServer::ending() const {
  const Options& o = options_.federated;
  if (!budget_allows(o, rounds()))
    return fmt::format("the privacy budget is spent: another round would exceed epsilon {} at delta {}", *o.epsilon,
                       o.delta);
  const MutexLock lock(mutex_);
  std::string why = nobody_left();
  // A round that is under way ends with what has come.
  if (why.empty() || files_.is_under_way(rounds_)) return std::nullopt;
  return why;
}

// Once clients have left, one that has not enrolled yet has as long to come as one that is silent.
std::uint64_t RoundServer::may_come() const {
  const bool all = left_.size() == 0 || is_present({.at = last_left_});
  return (all ? static_cast<std::uint64_t>(options_.federated.clients) : enrolments_.size()) - left_.size();
}

std::string RoundServer::nobody_left() const {
  if (left_.size() == 0 || may_come() >= options_.federated.least_updates()) return {};
  return fmt::format("{} of {} clients have left, and too few remain for a round; one of them said: {}", left_.size(),
                     enrolments_.size(), left_.a_reason());
}

ServerStanding RoundServer::standing() const {
  const MutexLock lock(mutex_);
  ServerStanding standing{.rounds = rounds_,
                          .enrolled = enrolments_.size(),
                          .present = present(),
                          .left = left_.size(),
                          .asked = asked_.size()};
  for (const AskedClient& one : asked_) {
    standing.accepted += one.reply == AskedClient::Reply::kAccepted ? 1 : 0;
    standing.refused += one.reply == AskedClient::Reply::kRefused ? 1 : 0;
  }
  standing.doing = finished_ ? *finished_ : open_ ? "clients train" : waiting().reason;
  return standing;
}

std::vector<std::uint64_t> RoundServer::narrower_floats() const {
  std::vector<std::uint64_t> floats;
  for (const auto& submodel : submodels_)
    floats.push_back(submodel->training->size());
  return floats;
}

// --- Calls of clients.

std::uint64_t RoundServer::number_of(const std::string& name) const {
  if (const auto number = enrolments_.number_of(name)) return *number;
  throw Error(ErrorKind::kNotFound, fmt::format("\"{}\" has not enrolled", excerpt(name, 80)), {}, "Call Enrol first.");
}

bool RoundServer::is_present(const Seen& seen) const {
  return std::chrono::duration<double>(clock_.now() - seen.at).count() <= options_.federated.silence_seconds;
}

std::uint64_t RoundServer::present() const {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(seen_, [&](const auto& one) { return is_present(one.second); }));
}

AskedClient* RoundServer::asked(std::uint64_t client) {
  const auto found = std::ranges::find(asked_, client, &AskedClient::client);
  return found == asked_.end() ? nullptr : &*found;
}

// It need not have asked for work here: after a restart it goes on with what a server before has given it.
void RoundServer::hear(std::uint64_t client) {
  if (asked(client) != nullptr || seen_.contains(client)) seen_[client].at = clock_.now();
}

Enrolled RoundServer::enrol(const std::string& name, const EnrolWish& wish) {
  const MutexLock lock(mutex_);
  const bool known = enrolments_.number_of(name).has_value();
  if (wish.submodel > submodels_.size())
    throw Error(ErrorKind::kInvalidInput, fmt::format("narrower model {} of {}", wish.submodel, submodels_.size()),
                "federated.submodels", "Ask for one that the server's job has; 0 is the whole model.");
  const std::uint64_t number = enrolments_.enrol(name, wish.number);
  choose_submodel(number, wish.submodel);
  const LocalTraining& trained =
      wish.submodel == 0 ? training_ : static_cast<const LocalTraining&>(*submodels_[wish.submodel - 1]->training);
  if (!known) options_.tell(fmt::format("client {} is {} ({})", number, name, excerpt(wish.software, 40)));
  return {.number = number,
          .run = options_.run,
          .job = options_.job,
          .data_form = options_.data_form,
          .tensors = trained.tensors(),
          .model_floats = trained.size(),
          .parameters = trained.parameters(),
          .chunk_bytes = options_.chunk_bytes,
          .silence_seconds = options_.federated.silence_seconds};
}

std::uint64_t RoundServer::submodel_of(std::uint64_t client) const {
  const auto found = chosen_submodels_.find(client);
  return found == chosen_submodels_.end() ? 0 : found->second;
}

// On disk before the client is told, and not while the round is closed: the thread that computes reads it.
void RoundServer::choose_submodel(std::uint64_t client, std::uint64_t number) {
  if (submodel_of(client) == number) return;
  if (closed_) throw Error(ErrorKind::kPeerLost, "the server is about to go on with the round", {}, "Try again.");
  if (const AskedClient* const one = asked(client); one != nullptr && one->reply != AskedClient::Reply::kNone)
    throw Error(ErrorKind::kPeerLost, "an update of the other model counts in this round", {}, "Try again.");
  ChosenSubmodels next = chosen_submodels_;
  next[client] = number;
  write_chosen_submodels(options_.folder / "submodels.json", next);
  chosen_submodels_ = std::move(next);
}

std::size_t RoundServer::floats_of(std::uint64_t client) const {
  const std::uint64_t number = submodel_of(client);
  return number == 0 ? update_floats_ : submodels_[number - 1]->training->size();
}

std::uint64_t RoundServer::bytes_of(std::uint64_t client) const {
  return encoded_bytes(compression_, floats_of(client)) +
         (options_.federated.secure ? kExtraWords * sizeof(std::uint32_t) : 0);
}

bool RoundServer::counts_still(std::uint64_t round) const {
  if (!options_.federated.buffered()) return round == rounds_;
  return round <= rounds_ && rounds_ - round <= static_cast<std::uint64_t>(options_.federated.most_staleness);
}

void RoundServer::let_begin(std::uint64_t client) {
  if (!open_ || !options_.federated.buffered() || asked(client) != nullptr) return;
  const auto training = std::ranges::count_if(asked_, [&](const AskedClient& one) MUSTER_REQUIRES(mutex_) {
    const auto seen = seen_.find(one.client);
    return one.reply == AskedClient::Reply::kNone && seen != seen_.end() && is_present(seen->second);
  });
  if (static_cast<std::uint64_t>(training) >= options_.federated.in_flight()) return;
  std::vector<std::uint64_t> all;
  for (const AskedClient& one : asked_)
    all.push_back(one.client);
  all.push_back(client);
  files_.add(rounds_, all);
  asked_.push_back({client, AskedClient::Reply::kNone});
}

// Clients that have to be there before a round begins.
std::uint64_t RoundServer::wanted() const {
  const Options& o = options_.federated;
  const std::int64_t of_a_round =
      o.buffered() ? 1 : std::llround(std::ceil(static_cast<double>(o.per_round) * o.over_select));
  const auto wanted = static_cast<std::uint64_t>(o.wait_for.value_or(std::min(o.clients, of_a_round)));
  return std::min(wanted, may_come());
}

TaskAnswer RoundServer::waiting() const {
  const std::uint64_t wanted = closed_ ? 0 : this->wanted();
  return {.reason = present() < wanted ? fmt::format("{} of {} clients are there", present(), wanted)
                                       : fmt::format("round {} is under way", rounds_ + 1),
          .again = std::chrono::milliseconds(0)};
}

std::optional<TaskAnswer> RoundServer::task_for(std::uint64_t client) {
  const Options& o = options_.federated;
  if (finished_) {
    told_.insert(client);
    changed_.notify_all();
    return TaskAnswer{.kind = TaskAnswer::Kind::kFinished, .reason = *finished_};
  }
  const AskedClient* const one = open_ ? asked(client) : nullptr;
  if (one == nullptr || one->reply != AskedClient::Reply::kNone) return std::nullopt;
  if (o.secure) {
    // Who has begun and lost what it knew cannot begin again.
    if (secure_->server().stage() != SecureStage::kKeys) return std::nullopt;
    const std::vector<std::uint64_t> awaited = secure_->server().awaited();
    if (std::ranges::find(awaited, client) == awaited.end()) return std::nullopt;
  }
  const auto counted = counted_.find(client);
  return TaskAnswer{.kind = TaskAnswer::Kind::kTask,
                    .task = {.round = rounds_,
                             .local_epochs = o.local_epochs,
                             .rate = std::pow(o.lr_decay, static_cast<double>(rounds_)),
                             .prox = o.algorithm == "fedprox" ? o.prox : 0,
                             .controls = o.controls(),
                             .kept_before = counted == counted_.end() ? 0 : counted->second,
                             .clip = o.clip.value_or(0),
                             .compress = o.compress,
                             .secure = o.secure ? std::optional(secure_task()) : std::nullopt}};
}

TaskAnswer RoundServer::next_task(const std::string& name, std::uint64_t samples, std::chrono::milliseconds wait) {
  const Deadline deadline = Deadline::after(wait, clock_);
  const MutexLock lock(mutex_);
  const std::uint64_t client = number_of(name);
  if (samples == 0 || samples > kMostSamples)
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} samples", samples), {},
                "A client needs samples to train on.");
  if (left_.remove(client)) options_.tell(fmt::format("client {} ({}) is back", client, name));
  // Told once, when it comes: those who wait would wake each other for ever.
  if (const auto before = seen_.find(client); before == seen_.end() || !is_present(before->second))
    changed_.notify_all();
  while (true) {
    seen_[client] = {samples, clock_.now()};
    let_begin(client);
    if (auto task = task_for(client)) return *task;
    if (deadline.passed()) break;
    changed_.wait_for(mutex_, std::min<std::chrono::nanoseconds>(deadline.remaining(), kAskAgain));
  }
  TaskAnswer answer = waiting();
  answer.again = wait.count() > 0 ? std::chrono::milliseconds(0) : kAskAgain;
  return answer;
}

void RoundServer::leave(const std::string& name, const std::string& reason) {
  const MutexLock lock(mutex_);
  const std::uint64_t client = number_of(name);
  if (left_.add(client, reason))
    options_.tell(fmt::format("client {} ({}) leaves: {}", client, name, excerpt(reason, 200)));
  last_left_ = clock_.now();
  seen_.erase(client);
  changed_.notify_all();
}

ModelChunk RoundServer::read_model(const std::string& name, std::uint64_t round, ModelPart part, std::uint64_t offset,
                                   std::uint64_t bytes) {
  Floats floats;
  {
    const MutexLock lock(mutex_);
    const std::uint64_t client = number_of(name);
    hear(client);
    if (!open_ || round != rounds_ || asked(client) == nullptr)
      throw Error(ErrorKind::kMismatch, fmt::format("round {} does not wait for {}", round + 1, name), {},
                  "Ask NextTask.");
    floats = part == ModelPart::kModel ? model_ : control_;
    if (const std::uint64_t number = submodel_of(client); number > 0 && part == ModelPart::kModel) {
      Floats& slice = slices_[number];
      if (!slice) {
        std::vector<float> taken(submodels_[number - 1]->training->size());
        submodels_[number - 1]->map.take(*model_, taken);
        slice = std::make_shared<const std::vector<float>>(std::move(taken));
      }
      floats = slice;
    }
  }
  const auto all = std::as_bytes(std::span(*floats));
  if (offset > all.size())
    throw Error(ErrorKind::kInvalidInput, fmt::format("byte {} of {}", offset, all.size()), {}, "Ask for less.");
  const auto wanted = all.subspan(offset, std::min({bytes, options_.chunk_bytes, all.size() - offset}));
  return {{wanted.begin(), wanted.end()}, all.size()};
}

UpdateAnswer RoundServer::refuse(std::uint64_t client, const std::string& reason) {
  files_.refuse(client, reason);
  asked(client)->reply = AskedClient::Reply::kRefused;
  options_.tell(fmt::format("round {}: the update of client {} ({}) is refused: {}", rounds_ + 1, client,
                            enrolments_.name_of(client), reason));
  changed_.notify_all();
  return {.verdict = UpdateAnswer::Verdict::kRefused, .reason = reason};
}

UpdateAnswer RoundServer::send_update(const std::string& name, const UpdateChunk& chunk) {
  using Verdict = UpdateAnswer::Verdict;
  const MutexLock lock(mutex_);
  const std::uint64_t client = number_of(name);
  hear(client);
  if (finished_) return {.verdict = Verdict::kLate, .reason = *finished_};
  if (counts_still(chunk.round) && !open_ && (!closed_ || options_.federated.buffered()))
    throw Error(ErrorKind::kPeerLost, "the server is about to go on with the round", {}, "Try again.");
  if (!counts_still(chunk.round) || !open_) {
    if (chunk.offset == 0) {
      ++late_;
      if (spoken_of_.insert(client).second)
        options_.tell(fmt::format("an update of client {} ({}) for round {} came late: it does not count", client, name,
                                  chunk.round + 1));
    }
    return {.verdict = Verdict::kLate, .reason = fmt::format("round {} is over", chunk.round + 1)};
  }
  // A client begins again only when its last update has counted: what began before that is the same one again, whose
  // acknowledgement was lost.
  if (const auto counted = counted_.find(client);
      options_.federated.buffered() && counted != counted_.end() && chunk.round < counted->second) {
    repeated_ += chunk.offset == 0 ? 1 : 0;
    return {.verdict = Verdict::kAccepted, .received = chunk.total_bytes, .reason = "has counted before"};
  }
  // It began in a round before this one, or with a server before this one.
  if (asked(client) == nullptr) let_begin(client);
  const AskedClient* const one = asked(client);
  if (one == nullptr && options_.federated.buffered())
    throw Error(ErrorKind::kPeerLost, "others train in its place", {}, "Try again.");
  if (one == nullptr) return {.verdict = Verdict::kRefused, .reason = "was not asked in this round"};
  if (one->reply == AskedClient::Reply::kRefused)
    return {.verdict = Verdict::kRefused, .reason = *files_.refused(client)};
  if (one->reply == AskedClient::Reply::kAccepted) {
    ++repeated_;
    const bool same = files_.accepted(client)->digest == chunk.digest;
    if (!same && spoken_of_.insert(client).second)
      options_.tell(fmt::format("round {}: client {} ({}) sends another update: the first one counts", rounds_ + 1,
                                client, name));
    return {.verdict = same ? Verdict::kAccepted : Verdict::kRefused,
            .received = chunk.total_bytes,
            .reason = same ? "was there before" : "an update of this round is here already"};
  }
  if (options_.federated.secure) {
    const SecureTaken turn = secure_->server().judge_masked(client);
    if (turn.verdict != SecureTaken::Verdict::kTaken) {
      const bool late = turn.verdict == SecureTaken::Verdict::kLate;
      late_ += late && chunk.offset == 0 ? 1 : 0;
      return {.verdict = late ? Verdict::kLate : Verdict::kRefused, .reason = turn.reason};
    }
  }
  if (chunk.total_bytes != bytes_of(client))
    return refuse(client, fmt::format("has {} bytes instead of {}: it is of another model, or compressed otherwise",
                                      chunk.total_bytes, bytes_of(client)));
  if (chunk.digest.size() != 64 || chunk.digest.find_first_not_of("0123456789abcdef") != std::string::npos)
    return refuse(client, "has no SHA-256 as its digest");
  if (chunk.samples == 0 || chunk.samples > kMostSamples)
    return refuse(client, fmt::format("says it is of {} samples", chunk.samples));
  const std::uint64_t received = files_.received(client, chunk.digest);
  if (chunk.offset != received || chunk.data.empty() || received + chunk.data.size() > chunk.total_bytes) {
    if (received < chunk.total_bytes) return {.received = received};
  } else {
    files_.append(client, chunk.digest, chunk.data);
  }
  if (received + chunk.data.size() < chunk.total_bytes) return {.received = received + chunk.data.size()};
  return take_whole(client, chunk);
}

UpdateAnswer RoundServer::take_whole(std::uint64_t client, const UpdateChunk& chunk) {
  std::vector<std::byte> bytes(bytes_of(client));
  files_.read_part(client, bytes);
  if (sha256(bytes) != chunk.digest) {
    // Bytes that were not yet on disk when the machine lost power, for one.
    files_.drop_part(client);
    return {.received = 0, .reason = "what came is not what the digest says: send it again"};
  }
  if (options_.federated.secure) {
    // What cannot be looked into, and is nothing without the others.
    files_.accept(client, {.samples = 1, .loss = 0, .digest = chunk.digest});
    secure_->server().take_masked(client);
    asked(client)->reply = AskedClient::Reply::kAccepted;
    changed_.notify_all();
    return {.verdict = UpdateAnswer::Verdict::kAccepted, .received = chunk.total_bytes};
  }
  std::vector<float> update(floats_of(client));
  try {
    decode_update(compression_, bytes, update);
  } catch (const Error& error) {
    return refuse(client, error.message());
  }
  if (!all_finite(update)) return refuse(client, "is not finite");
  const std::span<float> moved = std::span(update).first(update.size() - controls_);
  leave_out(options_.federated, kept_, std::min(training_.parameters(), moved.size()), moved);
  const double length = norm(moved);
  if (options_.federated.most_norm && length > *options_.federated.most_norm)
    return refuse(client, fmt::format("its norm is {:.4g}, more than federated.most_norm", length));
  // The first ones count, and nobody else, however long the thread that computes takes to close the round.
  const auto accepted = std::ranges::count(asked_, AskedClient::Reply::kAccepted, &AskedClient::reply);
  if (!(options_.federated.noise > 0) && accepted >= options_.federated.per_round) {
    files_.drop_part(client);
    ++late_;
    return {.verdict = UpdateAnswer::Verdict::kLate, .reason = "enough others were faster"};
  }
  UpdateTest test = chunk.test;
  if (test.samples > chunk.samples * kMostTestsASample || !std::isfinite(test.loss) || !std::isfinite(test.metric) ||
      test.metric_name.size() > kLongestMetricName)
    test = {};
  files_.accept(client, {chunk.samples, chunk.loss, chunk.digest, chunk.round, std::move(test)});
  asked(client)->reply = AskedClient::Reply::kAccepted;
  changed_.notify_all();
  return {.verdict = UpdateAnswer::Verdict::kAccepted, .received = chunk.total_bytes};
}

SecureAnswer RoundServer::secure_step(const std::string& name, const SecureMessage& message,
                                      std::chrono::milliseconds wait) {
  using Verdict = SecureAnswer::Verdict;
  const Deadline deadline = Deadline::after(wait, clock_);
  const MutexLock lock(mutex_);
  const std::uint64_t client = number_of(name);
  SecureMessage say = message;
  while (true) {
    hear(client);
    if (!options_.federated.secure)
      return {.verdict = Verdict::kRefused, .reason = "this server adds updates as they are"};
    if (message.round == rounds_ && !open_ && !closed_)
      throw Error(ErrorKind::kPeerLost, "the server is about to go on with the round", {}, "Try again.");
    // Whose last word was taken, and the acknowledgement lost: the sum is made.
    if (message.step == SecureStep::kUnmask && message.round < rounds_) return {.verdict = Verdict::kGoOn};
    if (message.round != rounds_ || asked(client) == nullptr)
      return {.verdict = Verdict::kOver,
              .reason = fmt::format("round {} is over, or did not ask it", message.round + 1)};
    if (closed_) {
      // The state machine is the other thread's now. Who still asks has told all, or was not needed.
      const bool ends = message.step == SecureStep::kUnmask;
      return {.verdict = ends ? Verdict::kGoOn : Verdict::kOver, .reason = "the stages are over"};
    }
    const auto stage = secure_->server().stage();
    SecureAnswer answer = secure_->step(client, say);
    if (say.says) changed_.notify_all();
    say.says = false;
    AskedClient& one = *asked(client);
    if (answer.verdict == Verdict::kRefused && secure_->server().refused().contains(client) &&
        spoken_of_.insert(client).second) {
      options_.tell(fmt::format("round {}: client {} ({}) is refused: {}", rounds_ + 1, client, name, answer.reason));
      // A survivor's update is in the sum, whatever it does then.
      if (stage <= SecureStage::kMasked) one.reply = AskedClient::Reply::kRefused;
    }
    if (answer.verdict != Verdict::kWait || deadline.passed()) return answer;
    changed_.wait_for(mutex_, std::min<std::chrono::nanoseconds>(deadline.remaining(), kAskAgain));
  }
}

// --- The thread that computes.

SecureTask RoundServer::secure_task() const {
  const Options& o = options_.federated;
  const SecureSetup& setup = secure_->server().setup();
  return {.threshold = setup.threshold,
          .most_clients = setup.most_clients,
          .range = o.secure_range(),
          .most_samples = o.noise > 0 ? 0 : static_cast<std::uint64_t>(*o.most_samples),
          .noise = o.noise_of_client()};
}

void RoundServer::begin_secure_round(const std::vector<std::uint64_t>& chosen) {
  const Options& o = options_.federated;
  SecureSetup setup{
      .run = options_.run,
      .round = rounds_,
      .words = update_floats_ + kExtraWords,
      .most_clients = o.noise > 0 ? std::max<std::uint64_t>(chosen.size(), 1) : static_cast<std::uint64_t>(o.per_round),
      .threshold = static_cast<std::uint64_t>(o.secure_threshold.value_or(0))};
  secure_ = std::make_unique<SecureRound>(std::move(setup), chosen, options_.authorities,
                                          options_.folder / "round" / "secure.journal");
  SecureServer& server = secure_->server();
  for (AskedClient& one : asked_) {
    // Between the last thing in the journal and the end of the server before, masked updates may have come.
    if (one.reply == AskedClient::Reply::kRefused)
      server.refuse(one.client, *files_.refused(one.client));
    else if (one.reply == AskedClient::Reply::kAccepted && server.stage() == SecureStage::kMasked &&
             server.judge_masked(one.client).verdict == SecureTaken::Verdict::kTaken)
      server.take_masked(one.client);
    else if (one.reply == AskedClient::Reply::kNone && server.refused().contains(one.client))
      one.reply = AskedClient::Reply::kRefused;
  }
  stage_began_ = clock_.now();
}

std::uint64_t RoundServer::alive(const std::vector<std::uint64_t>& awaited) const {
  return static_cast<std::uint64_t>(std::ranges::count_if(awaited, [&](std::uint64_t client) MUSTER_REQUIRES(mutex_) {
    const auto one = std::ranges::find(asked_, client, &AskedClient::client);
    return one != asked_.end() && !one->silent;
  }));
}

// Closes stages that nobody is left in or that have lasted too long; it is over when the last one is.
RoundVerdict RoundServer::judge_secure_round() {
  const Options& o = options_.federated;
  SecureServer& server = secure_->server();
  const auto since = [&](Clock::Instant begin) { return std::chrono::duration<double>(clock_.now() - begin).count(); };
  while (server.stage() != SecureStage::kOver) {
    const bool first = server.stage() == SecureStage::kKeys;
    const bool enough = first && !(o.noise > 0) && server.answered() >= server.setup().most_clients;
    const bool at_end = first ? o.deadline_seconds && since(began_) >= *o.deadline_seconds
                              : since(stage_began_) >= o.secure_stage_seconds;
    if (!enough && !at_end && alive(server.awaited()) > 0) break;
    secure_->close_stage();
    stage_began_ = clock_.now();
    changed_.notify_all();
  }
  RoundVerdict verdict;
  verdict.over = server.stage() == SecureStage::kOver;
  if (!verdict.over) return verdict;
  for (AskedClient& one : asked_) {
    const bool counts = !server.failed() && std::ranges::binary_search(server.survivors(), one.client);
    if (one.reply != AskedClient::Reply::kRefused)
      one.reply = counts ? AskedClient::Reply::kAccepted : AskedClient::Reply::kNone;
    verdict.accepted += one.reply == AskedClient::Reply::kAccepted ? 1 : 0;
    verdict.refused += one.reply == AskedClient::Reply::kRefused ? 1 : 0;
  }
  verdict.dropped = asked_.size() - verdict.accepted - verdict.refused;
  const bool few = verdict.accepted < static_cast<std::uint64_t>(o.least);
  const bool noise_alone = o.noise > 0 && !o.clients_add_noise();
  verdict.changes = noise_alone || (!server.failed() && !few);
  verdict.reason = server.failed() ? server.failure() + (noise_alone ? kNoiseAlone : "")
                   : few ? fmt::format("{} clients are in the sum, and federated.least is {}: nothing changes",
                                       verdict.accepted, o.least)
                         : fmt::format("{} clients asked, {} count", asked_.size(), verdict.accepted);
  return verdict;
}

std::optional<std::vector<float>> RoundServer::secure_change(RoundReport& report) {
  const Options& o = options_.federated;
  SecureServer& server = secure_->server();
  const FixedPoint fixed(o.secure_range(), server.setup().most_clients);
  std::vector<std::uint32_t> sum(server.setup().words);
  const auto add = [&](std::uint64_t survivor) {
    std::vector<std::uint32_t> words(sum.size());
    files_.read(survivor, std::as_writable_bytes(std::span(words)));
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += words[i];
  };
  if (!server.failed()) {
    std::ranges::for_each(server.survivors(), add);
    const auto start = std::chrono::steady_clock::now();
    server.unmask(sum);  // else failed() says so
    report.unmask_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (const std::string& doubt : server.doubts())
      options_.tell(fmt::format("round {}: {}", report.round, doubt));
  }
  const bool none = server.failed() || !(fixed.weight(sum) > 0);
  if (none) {
    const bool noise_alone = o.noise > 0 && !o.clients_add_noise();
    report.plan.reason = server.failed() ? server.failure() + (noise_alone ? kNoiseAlone : "")
                                         : "the weights of the sum are not above 0: nothing changes";
    if (o.noise > 0) options_.tell(fmt::format("round {}: {}", report.round, report.plan.reason));  // and goes on
  }
  if (!none && clients_say_loss(o)) report.client_loss = fixed.loss(sum);
  std::vector<float> change(training_.size());
  if (!finish_secure_mean(o, fixed, random_key(), none, sum, change)) return std::nullopt;
  return change;
}

std::vector<std::uint64_t> RoundServer::choose() {
  const Options& o = options_.federated;
  const std::uint64_t seed = o.noise > 0 ? secret_seed() : options_.seed;
  return ask_present(o, seed, rounds_, [&](std::uint64_t client) MUSTER_REQUIRES(mutex_) {
    const auto seen = seen_.find(client);
    return seen != seen_.end() && is_present(seen->second) ? seen->second.samples : 0;
  });
}

void RoundServer::wait_for_clients(const std::function<bool()>& keep_on) {
  const Clock::Instant began = clock_.now();
  for (bool said = false; true;) {
    if (const std::string why = nobody_left(); !why.empty()) throw Error(ErrorKind::kInterrupted, why);
    if (present() >= wanted()) return;
    if (!keep_on()) throw Error(ErrorKind::kInterrupted, "stopped while waiting for clients");
    if (!said && clock_.now() - began >= kSayWaiting) {
      said = true;
      options_.tell(fmt::format("round {} waits: {}", rounds_ + 1, waiting().reason));
    }
    changed_.wait_for(mutex_, kLook);
  }
}

void RoundServer::begin_round(const std::function<bool()>& keep_on) {
  const MutexLock lock(mutex_);
  std::optional<std::vector<std::uint64_t>> chosen = files_.open(rounds_);
  if (!chosen) {
    wait_for_clients(keep_on);
    if (!options_.federated.buffered())
      chosen = choose();
    else
      chosen = training_on_;  // beside them whoever asks begins
    files_.begin(rounds_, *chosen);
  }
  asked_.clear();
  for (const std::uint64_t client : *chosen) {
    using Reply = AskedClient::Reply;
    asked_.push_back({client, files_.accepted(client)  ? Reply::kAccepted
                              : files_.refused(client) ? Reply::kRefused
                                                       : Reply::kNone});
  }
  spoken_of_.clear();
  if (options_.federated.secure) begin_secure_round(*chosen);
  began_ = clock_.now();
  open_ = true;
  changed_.notify_all();
}

// A buffer waits for whoever comes; once clients have left, those who remain may be too few to fill it. What is there
// then waits for nobody who is silent.
bool RoundServer::buffer_ends_early() {
  if (!options_.federated.buffered() || left_.size() == 0) return false;
  const auto answered = std::ranges::count_if(asked_, [&](const AskedClient& one) MUSTER_REQUIRES(mutex_) {
    return one.reply != AskedClient::Reply::kNone && !left_.contains(one.client);
  });
  if (static_cast<std::uint64_t>(answered) + left_.size() >= enrolments_.size()) return true;
  const bool one_trains = std::ranges::any_of(seen_, [&](const auto& one) MUSTER_REQUIRES(mutex_) {
    const AskedClient* const asked = this->asked(one.first);
    return is_present(one.second) && (asked == nullptr || asked->reply == AskedClient::Reply::kNone);
  });
  return answered > 0 && !one_trains && !is_present({.at = last_left_});
}

RoundVerdict RoundServer::wait_for_updates(const std::function<bool()>& keep_on) {
  const MutexLock lock(mutex_);
  for (Clock::Instant last = clock_.now();;) {
    const auto between = clock_.now() - std::exchange(last, clock_.now());
    if (between > kStoodStill) {
      began_ += between;
      stage_began_ += between;
      last_left_ += between;
      for (auto& [client, seen] : seen_)
        seen.at += between;
    }
    if (!keep_on()) {
      open_ = false;
      throw Error(ErrorKind::kInterrupted, "stopped while clients trained");
    }
    const double seconds = std::chrono::duration<double>(clock_.now() - began_).count();
    for (AskedClient& one : asked_) {
      // One that was asked by a server of before is waited for as one that was seen when this one began.
      const auto seen = seen_.find(one.client);
      one.silent = left_.contains(one.client) ||
                   (seen == seen_.end() ? seconds > options_.federated.silence_seconds : !is_present(seen->second));
    }
    RoundVerdict verdict =
        options_.federated.secure ? judge_secure_round() : judge_round(options_.federated, asked_, seconds);
    if (!verdict.over && buffer_ends_early()) {
      verdict.over = true;
      verdict.reason = fmt::format("{} updates, and nobody is left who could send another", verdict.accepted);
    }
    if (verdict.over) {
      open_ = false;
      closed_ = true;
      return verdict;
    }
    changed_.wait_for(mutex_, kLook);
  }
}

RoundReport RoundServer::round(const std::function<bool()>& keep_on,
                               const std::function<void(State&, const RoundReport&)>& commit) {
  const Options& o = options_.federated;
  begin_round(keep_on);
  const RoundVerdict verdict = wait_for_updates(keep_on);
  RoundReport report;
  State state;
  std::vector<AskedClient> answered;
  {
    const MutexLock lock(mutex_);
    report.round = rounds_ + 1;
    report.repeated = std::exchange(repeated_, 0);
    report.late_updates = std::exchange(late_, 0);
    report.seconds = std::chrono::duration<double>(clock_.now() - began_).count();
    for (const AskedClient& one : asked_) {
      if (one.reply == AskedClient::Reply::kRefused && !report.refused_client) report.refused_client = one.client;
      if (one.reply != AskedClient::Reply::kNone) answered.push_back(one);
    }
    state = {.rounds = rounds_ + 1,
             .virtual_seconds = seconds_ + report.seconds,
             .model = *model_,
             .control = *control_,
             .counted = counted_};
    report.plan.asked = asked_.size();
  }
  report.plan.round = report.round - 1;
  report.plan.dropped = verdict.dropped;
  report.plan.late = verdict.late;
  report.plan.reason = verdict.reason;
  report.refused = verdict.refused;
  report.virtual_seconds = state.virtual_seconds;
  const ServerOptimizer before = optimizer_;
  try {
    // With too few, `plan` has none that count, and the reason.
    if (verdict.changes) aggregate(answered, state, report);
    state.momentum = optimizer_.momentum();
    state.squares = optimizer_.squares();
    report.epsilon = epsilon_after(o, state.rounds);
    const bool last = state.rounds == static_cast<std::uint64_t>(o.rounds) || !budget_allows(o, state.rounds);
    if (state.rounds % static_cast<std::uint64_t>(o.evaluate_every) == 0 || last) report.test = evaluate(state.model);
    MUSTER_FAILPOINT("federated.round.before_commit");
    commit(state, report);
    MUSTER_FAILPOINT("federated.round.after_commit");
  } catch (...) {
    optimizer_ = before;
    throw;
  }
  const MutexLock lock(mutex_);
  closed_ = false;
  rounds_ = state.rounds;
  seconds_ = state.virtual_seconds;
  model_ = std::make_shared<const std::vector<float>>(std::move(state.model));
  slices_.clear();
  control_ = std::make_shared<const std::vector<float>>(std::move(state.control));
  counted_ = std::move(state.counted);
  training_on_.clear();
  for (const AskedClient& one : asked_) {
    if (o.buffered() && one.reply == AskedClient::Reply::kNone && !one.silent) training_on_.push_back(one.client);
  }
  asked_.clear();
  return report;
}

void RoundServer::aggregate(const std::vector<AskedClient>& answered, State& state, RoundReport& report) {
  const Options& o = options_.federated;
  const std::vector<float> control = state.control;
  Sum sum;
  auto change = o.secure                ? secure_change(report)
                : o.needs_all_updates() ? robust_change(answered, sum, report)
                                        : mean_change(answered, sum, state);
  for (const AskedClient& one : answered) {
    const bool accepted = one.reply == AskedClient::Reply::kAccepted;
    const std::uint64_t samples = accepted && !o.secure ? files_.accepted(one.client)->samples : 0;
    report.plan.counts.push_back({.client = one.client, .samples = samples, .weight = o.weight(samples)});
    report.update_bytes += bytes_of(one.client);
  }
  if (sum.samples > 0 && clients_say_loss(o)) report.client_loss = sum.loss / sum.samples;
  if (sum.tests.samples > 0) {
    const auto tested = static_cast<double>(sum.tests.samples);
    sum.tests.loss /= tested;
    for (auto& [name, value] : sum.tests.metrics)
      value /= tested;
    report.on_clients = sum.tests;
  }
  if (!change || !all_finite(state.control) ||
      !apply_change(o, optimizer_, training_.parameters(), *change, state.model)) {
    if (change) report.plan.reason = kNotFinite;
    options_.tell(fmt::format("round {}: {}", report.round, report.plan.reason));
    report.plan.counts.clear();
    state.control = control;
    return;
  }
  report.change_norm = norm(std::span<const float>(*change).first(training_.parameters()));
  if (!o.stateful() && !o.buffered()) return;
  for (const AskedClient& one : answered) {
    if (one.reply == AskedClient::Reply::kAccepted) state.counted[one.client] = state.rounds;
  }
}

void RoundServer::read_update(std::uint64_t client, std::vector<float>& update) const {
  std::vector<std::byte> bytes(bytes_of(client));
  files_.read(client, bytes);
  update.resize(floats_of(client));
  decode_update(compression_, bytes, update);
  const std::span<float> moved = std::span(update).first(update.size() - controls_);
  leave_out(options_.federated, kept_, std::min(training_.parameters(), moved.size()), moved);
  if (options_.federated.clip) clip_to(moved, *options_.federated.clip);
}

void RoundServer::add_facts(const UpdateFacts& facts, Sum& sum) const {
  ++sum.count;
  if (std::isfinite(facts.loss)) sum.samples += static_cast<double>(facts.samples);
  if (facts.test.samples == 0) return;
  const auto tested = static_cast<double>(facts.test.samples);
  sum.tests.samples += facts.test.samples;
  sum.tests.loss += facts.test.loss * tested;
  if (facts.test.metric_name.empty()) return;
  if (sum.tests.metrics.empty()) sum.tests.metrics.emplace_back(facts.test.metric_name, 0);
  sum.tests.metrics.front().second += facts.test.metric * tested;
}

std::optional<std::vector<float>> RoundServer::mean_change(const std::vector<AskedClient>& answered, Sum& sum,
                                                           State& state) {
  const Options& o = options_.federated;
  const std::size_t pieces = pieces_of_round(o);
  const std::size_t count = answered.size();
  const std::size_t floats = training_.size();
  const std::uint64_t rounds = state.rounds - 1;
  std::vector<float> update;
  sum.weights.resize(submodels_.size() + 1);
  auto all = sum_pieces(pieces, [&](std::size_t piece) -> std::optional<std::vector<float>> {
    std::optional<std::vector<float>> total;
    double loss = 0;
    for (std::size_t i = count * piece / pieces; i < count * (piece + 1) / pieces; ++i) {
      if (answered[i].reply != AskedClient::Reply::kAccepted) continue;
      const UpdateFacts facts = *files_.accepted(answered[i].client);
      read_update(answered[i].client, update);
      if (!total) total.emplace(update_floats_, 0.0F);
      const double of_client = o.buffered() ? Options::staleness_weight(rounds - facts.base) : o.weight(facts.samples);
      const auto weight = static_cast<float>(of_client);
      const std::uint64_t number = submodel_of(answered[i].client);
      if (number > 0) {
        submodels_[number - 1]->map.add(update, weight, *total);
      } else {
        for (std::size_t k = 0; k < floats; ++k)
          (*total)[k] += weight * update[k];
        for (std::size_t k = floats; k < update_floats_; ++k)
          (*total)[k] += update[k];
      }
      sum.weight += of_client;
      sum.weights[number] += of_client;
      add_facts(facts, sum);
      if (std::isfinite(facts.loss)) loss += facts.loss * static_cast<double>(facts.samples);
    }
    sum.loss += loss;
    return total;
  });
  if (!all && !(o.noise > 0)) return std::nullopt;
  if (!all) all.emplace(update_floats_, 0.0F);
  add_controls(o, std::span<const float>(*all).subspan(floats), state.control);
  all->resize(floats);
  if (submodels_.empty()) {
    finish_mean(o, random_key(), o.divisor(sum.weight, sum.count), *all);
    return all;
  }
  std::vector<double> cover(floats, sum.weights[0]);
  for (std::size_t index = 0; index < submodels_.size(); ++index)
    submodels_[index]->map.cover(sum.weights[index + 1], cover);
  divide_by_cover(*all, cover);
  return all;
}

std::optional<std::vector<float>> RoundServer::robust_change(const std::vector<AskedClient>& answered, Sum& sum,
                                                             RoundReport& report) {
  const Options& o = options_.federated;
  std::vector<std::vector<float>> updates;
  for (const AskedClient& one : answered) {
    if (one.reply != AskedClient::Reply::kAccepted) continue;
    const UpdateFacts facts = *files_.accepted(one.client);
    read_update(one.client, updates.emplace_back());
    add_facts(facts, sum);
    if (std::isfinite(facts.loss)) sum.loss += facts.loss * static_cast<double>(facts.samples);
  }
  const std::vector<std::span<const float>> views(updates.begin(), updates.end());
  std::vector<float> change(training_.size());
  if (const auto reason = robust_mean(o, views, change, 1)) {
    report.plan.reason = *reason;
    return std::nullopt;
  }
  return change;
}

Figures RoundServer::evaluate(std::span<const float> model) {
  const std::size_t figures = training_.figures_of_piece();
  std::vector<double> all(training_.evaluation_pieces() * figures);
  for (std::size_t piece = 0; piece < training_.evaluation_pieces(); ++piece)
    training_.measure(model, piece, std::span(all).subspan(piece * figures, figures));
  return training_.judge(all);
}

Figures RoundServer::evaluate() {
  Floats model;
  {
    const MutexLock lock(mutex_);
    model = model_;
  }
  return evaluate(*model);
}

void RoundServer::finish(const std::string& reason, std::chrono::nanoseconds longest) {
  const Deadline deadline = Deadline::after(longest, clock_);
  const MutexLock lock(mutex_);
  finished_ = reason;
  changed_.notify_all();
  const auto knows = [&](const auto& one)
                         MUSTER_REQUIRES(mutex_) { return !is_present(one.second) || told_.contains(one.first); };
  while (!deadline.passed() && !std::ranges::all_of(seen_, knows))
    changed_.wait_for(mutex_, kLook);
}

void RoundServer::save(const std::filesystem::path& path) {
  Floats model;
  {
    const MutexLock lock(mutex_);
    model = model_;
  }
  training_.save(*model, path);
}

}  // namespace muster::federated
