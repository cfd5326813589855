// A task is a pure function of the round's model and the client's samples, so that one that was interrupted is simply
// done again when the server asks for it again.
#include "muster/federated/federated_client.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/files.h"
#include "muster/base/hash.h"
#include "muster/base/json.h"
#include "muster/federated/accountant.h"
#include "muster/federated/aggregate.h"
#include "muster/federated/is_there.h"
#include "muster/federated/noise.h"
#include "muster/federated/secure/fixed_point.h"

namespace muster::federated {
namespace {

constexpr std::chrono::milliseconds kTaskWait{2000};
constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{2000};
constexpr std::chrono::milliseconds kLook{50};
constexpr std::chrono::seconds kLeaving{5};  // so long it tries to say that it leaves
constexpr int kMostDamagedSends = 3;
constexpr std::uint64_t kMostPrivacyBytes = 64 << 10;

}  // namespace

// Asks for the task that is being worked on, which says to the server: this one lives.
class FederatedClient::Heartbeat {
 public:
  Heartbeat(FederatedCalls& calls, const std::string& name, std::uint64_t samples, double silence_seconds)
      : thread_([this, &calls, name, samples, pause = std::chrono::duration<double>(silence_seconds / 4)] {
          std::unique_lock<std::mutex> lock(mutex_);
          while (!ended_.wait_for(lock, pause, [this] { return end_; })) {
            lock.unlock();
            try {
              calls.next_task(name, samples, std::chrono::milliseconds(0));
            } catch (const Error&) {  // a server that is away is tried again by who sends the update
            }
            lock.lock();
          }
        }) {}
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;
  ~Heartbeat() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      end_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

FederatedClient::FederatedClient(FederatedCalls& calls, ClientOptions options, const Clock& clock)
    : calls_(calls), options_(std::move(options)), clock_(clock) {
}

template <typename Call>
auto FederatedClient::patiently(const std::function<bool()>& keep_on, const Call& call) {
  const Deadline deadline = Deadline::after(options_.patience, clock_);
  std::chrono::milliseconds pause = kFirstPause;
  while (true) {
    if (!keep_on()) throw Error(ErrorKind::kInterrupted, "stopped");
    try {
      return call();
    } catch (const Error& error) {
      if (!error.retryable() || deadline.passed()) throw;
      if (pause == kFirstPause) options_.tell(fmt::format("{}: {}: trying again", error.where(), error.message()));
    }
    for (const Deadline end = Deadline::after(pause, clock_); !end.passed() && keep_on();)
      clock_.sleep_for(kLook);
    pause = std::min(pause * 2, kLongestPause);
  }
}

Enrolled FederatedClient::enrol(const EnrolWish& wish, const std::function<bool()>& keep_on) {
  return patiently(keep_on, [&] { return calls_.enrol(options_.name, wish); });
}

ClientSummary FederatedClient::run(const Enrolled& enrolled, LocalTraining& training,
                                   const std::vector<std::uint64_t>& samples, const std::function<bool()>& keep_on,
                                   const std::vector<std::uint64_t>& tests) {
  begin(enrolled, training, samples, tests);
  while (step(keep_on, kTaskWait)) {
  }
  return summary_;
}

void FederatedClient::begin(const Enrolled& enrolled, LocalTraining& training,
                            const std::vector<std::uint64_t>& samples, const std::vector<std::uint64_t>& tests) {
  if (enrolled.model_floats != training.size() || enrolled.parameters != training.parameters())
    throw Error(
        ErrorKind::kMismatch,
        fmt::format("the server's model has {} numbers and the one here {}", enrolled.model_floats, training.size()),
        {}, "Both need the same version of Muster, and data of the same form.");
  enrolled_ = enrolled;
  training_ = &training;
  samples_ = samples;
  tests_ = tests;
  model_.resize(training.size());
  if (!options_.keep.empty())
    kept_ = KeptParts(options_.keep, training.tensors(), training.size(), training.parameters());
  summary_ = {};
}

bool FederatedClient::step(const std::function<bool()>& keep_on, std::chrono::milliseconds wait) {
  const TaskAnswer answer = patiently(keep_on, [&] { return calls_.next_task(options_.name, samples_.size(), wait); });
  if (answer.kind == TaskAnswer::Kind::kFinished) {
    summary_.ending = answer.reason;
    return false;
  }
  if (answer.kind == TaskAnswer::Kind::kTask) {
    carry_out(answer.task, keep_on);
    if (spent_) leave(keep_on);
    return !spent_;
  } else {
    for (const Deadline end = Deadline::after(answer.again, clock_); !end.passed() && keep_on();)
      clock_.sleep_for(kLook);
  }
  return true;
}

// So that the server does not wait for it. One that does not hear it notices the silence.
void FederatedClient::leave(const std::function<bool()>& keep_on) {
  const Deadline deadline = Deadline::after(std::min<std::chrono::nanoseconds>(options_.patience, kLeaving), clock_);
  for (bool told = false; !told && keep_on();) {
    try {
      calls_.leave(options_.name, summary_.ending);
      told = true;
    } catch (const Error& error) {
      if (!error.retryable() || deadline.passed()) break;
      clock_.sleep_for(kLook);
    }
  }
  if (allows_nothing_)
    throw Error(ErrorKind::kInvalidInput, "the budget of its samples allows not a single round: " + summary_.ending,
                "federated.sample_epsilon", "Raise it, or federated.sample_noise.");
}

bool FederatedClient::read(const RoundTask& task, ModelPart part, std::span<float> floats,
                           const std::function<bool()>& keep_on) {
  const auto bytes = std::as_writable_bytes(floats);
  try {
    for (std::size_t offset = 0; offset < bytes.size();) {
      const ModelChunk chunk = patiently(
          keep_on, [&] { return calls_.read_model(options_.name, task.round, part, offset, enrolled_.chunk_bytes); });
      if (chunk.total_bytes != bytes.size() || chunk.data.empty() || chunk.data.size() > bytes.size() - offset)
        throw Error(ErrorKind::kDamaged,
                    fmt::format("the server sends {} bytes of {} at {}", chunk.data.size(), chunk.total_bytes, offset));
      std::ranges::copy(chunk.data, bytes.begin() + static_cast<std::ptrdiff_t>(offset));
      offset += chunk.data.size();
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kMismatch) return false;
    throw;
  }
  return true;
}

void FederatedClient::carry_out(const RoundTask& task, const std::function<bool()>& keep_on) {
  if (options_.require_secure && !task.secure)
    throw Error(ErrorKind::kMismatch, "the server asks for an update as it is, without secure aggregation", "--secure",
                "Nothing was sent. Talk to who runs it: federated.secure = true.");
  const std::size_t controls = task.controls ? training_->parameters() : 0;
  control_.resize(controls);
  if (!read(task, ModelPart::kModel, model_, keep_on)) return;
  if (task.controls && !read(task, ModelPart::kControl, control_, keep_on)) return;
  update_.assign(training_->size() + controls, 0.0F);
  if (!spend(task)) return;
  LocalTask local{.round = task.round,
                  .client = enrolled_.number,
                  .samples = samples_,
                  .epochs = task.local_epochs,
                  .rate = task.rate,
                  .prox = task.prox,
                  .privacy = options_.privacy};
  if (options_.privacy.noise > 0) local.key = random_key();
  std::vector<float> correction(controls);
  open_state(task);
  if (task.controls) {
    for (std::size_t i = 0; i < controls; ++i)
      correction[i] = control_[i] - own_->control()[i];
    local.correction = correction;
  }
  kept_.enter(own_->kept(), model_);
  LocalResult result;
  UpdateTest test;
  {
    const Heartbeat heartbeat(calls_, options_.name, samples_.size(), enrolled_.silence_seconds);
    if (!tests_.empty()) {
      const Figures figures = training_->evaluate(tests_, model_);
      test = {.samples = figures.samples, .loss = figures.loss};
      if (!figures.metrics.empty()) std::tie(test.metric_name, test.metric) = figures.metrics.front();
    }
    result = training_->train(local, model_, std::span(update_).first(training_->size()));
  }
  ++summary_.trained;
  // What has gone astray is told to the server, which refuses and counts it; what the client has stays as it was.
  const bool finite = all_finite(update_);
  if (finite) kept_.leave(update_, own_->kept());
  if (finite && task.controls) add_control_change(result);
  const std::vector<std::byte> encoded = encode_update(compression_, update_, own_->residual());
  own_->save(enrolled_.number, task.round);
  // No noise would be on it: it says none.
  const double loss = options_.privacy.noise > 0 ? std::nan("") : result.loss;
  if (task.secure) {
    send_securely(task, loss, keep_on);
  } else if (send(task, encoded, samples_.size(), loss, keep_on, test)) {
    ++summary_.accepted;
    options_.tell(words_of_round(task, loss));
  }
}

std::string FederatedClient::words_of_round(const RoundTask& task, double loss) const {
  return fmt::format("round {}: trained on {} samples{}", task.round + 1, samples_.size(),
                     std::isfinite(loss) ? fmt::format(", loss {:.4f}", loss) : "");
}

void FederatedClient::open_state(const RoundTask& task) {
  if (!own_) {
    compression_ = parse_compression(task.compress);
    const bool residual = compression_.kind != Compression::Kind::kNone && options_.error_feedback;
    own_.emplace(
        OwnSizes{.control = control_.size(), .kept = kept_.floats(), .residual = residual ? training_->size() : 0},
        options_.states);
  }
  own_->forget_from(enrolled_.number, task.kept_before);
  own_->load(enrolled_.number, task.round);
}

bool FederatedClient::spend(const RoundTask& task) {
  const SamplePrivacy& privacy = options_.privacy;
  if (!(privacy.noise > 0)) return true;
  const std::uint64_t of_epoch = steps_of_epoch(samples_.size(), training_->batch());
  Mechanism mechanism{.noise = privacy.noise, .part = 1 / static_cast<double>(of_epoch)};
  std::uint64_t steps = of_epoch * static_cast<std::uint64_t>(std::max<std::int64_t>(task.local_epochs, 1));
  // Steps of before may have been with less noise or of fewer samples: all count as the worst of them.
  const std::filesystem::path& path = options_.ledger;
  const bool first = !is_there(path);
  if (!first) {
    const Json before = parse_json(read_text(path, kMostPrivacyBytes), path.string());
    steps += json_get<std::uint64_t>(before, "steps", path.string());
    mechanism.noise = std::min(mechanism.noise, json_get<double>(before, "noise", path.string()));
    mechanism.part = std::max(mechanism.part, json_get<double>(before, "part", path.string()));
  }
  const double epsilon = spent_after(mechanism, steps, privacy.delta).epsilon;
  if (privacy.epsilon && epsilon > *privacy.epsilon) {
    spent_ = true;
    allows_nothing_ = first;
    summary_.ending =
        fmt::format("the privacy budget of its samples is spent: another round would exceed epsilon {} at delta {}",
                    *privacy.epsilon, privacy.delta);
    return false;
  }
  make_folder(std::filesystem::absolute(path).parent_path());
  write_atomically(path, Json{{"steps", steps}, {"noise", mechanism.noise}, {"part", mechanism.part}}.dump());
  options_.tell(
      fmt::format("round {}: epsilon of its samples {:.3f} at delta {}", task.round + 1, epsilon, privacy.delta));
  return true;
}

std::optional<SecureAnswer> FederatedClient::step(SecureMessage message, const std::function<bool()>& keep_on) {
  while (true) {
    SecureAnswer answer = patiently(keep_on, [&] { return calls_.secure_step(options_.name, message, kTaskWait); });
    switch (answer.verdict) {
      case SecureAnswer::Verdict::kWait:
        message.says = false;
        break;
      case SecureAnswer::Verdict::kGoOn:
        return answer;
      case SecureAnswer::Verdict::kRefused:
        ++summary_.refused;
        options_.tell(fmt::format("round {}: the server refuses: {}", message.round + 1, answer.reason));
        return std::nullopt;
      case SecureAnswer::Verdict::kOver:
        ++summary_.late;
        options_.tell(fmt::format("round {}: does not count: {}", message.round + 1, answer.reason));
        return std::nullopt;
    }
  }
}

std::vector<std::uint32_t> FederatedClient::words_of_update(const RoundTask& task, double loss) {
  const SecureTask& secure = *task.secure;
  if (!(task.clip > 0) || !(secure.range >= task.clip) || secure.most_clients == 0 || secure.most_clients > 0x7fffffff)
    throw Error(ErrorKind::kMismatch, "the server says no range for sums", "secure aggregation", "Do not trust it.");
  if (!std::isfinite(norm(update_)))
    throw Error(ErrorKind::kMismatch, "the update is not finite", "secure aggregation", "Lower optimizer.lr.");
  const std::span<float> parameters = std::span(update_).first(training_->parameters());
  // All weigh alike where there is noise, and then nothing is taken of buffers (round_change.h).
  if (secure.most_samples == 0) std::ranges::fill(std::span(update_).subspan(parameters.size()), 0.0F);
  clip_to(update_, task.clip);
  if (secure.noise > 0) add_noise(random_key(), secure.noise, parameters);
  if (secure.noise > 0 || !std::isfinite(loss)) loss = 0;  // no noise is on it: the sum says none
  const double weight = secure.most_samples == 0
                            ? 1
                            : static_cast<double>(std::min<std::uint64_t>(samples_.size(), secure.most_samples)) /
                                  static_cast<double>(secure.most_samples);
  std::vector<std::uint32_t> words(update_.size() + kExtraWords);
  FixedPoint(secure.range, secure.most_clients).encode(update_, weight, loss, words);
  return words;
}

void FederatedClient::send_securely(const RoundTask& task, double loss, const std::function<bool()>& keep_on) {
  SecureMessage message{.round = task.round, .says = true};
  try {
    // Two sums of one update over different clients would tell the difference between them.
    if (unmasked_ && *unmasked_ >= task.round)
      throw Error(ErrorKind::kMismatch, "the server begins a round again whose sum was unmasked");
    std::vector<std::uint32_t> words = words_of_update(task, loss);
    SecureClient client({.run = enrolled_.run,
                         .round = task.round,
                         .words = words.size(),
                         .most_clients = task.secure->most_clients,
                         .threshold = task.secure->threshold},
                        enrolled_.number, options_.identity);
    message.keys = client.advert();
    MUSTER_FAILPOINT("federated.client.before_keys");
    const auto keys = step(message, keep_on);
    if (!keys) return;
    message.step = SecureStep::kShares;
    message.shares = client.share_out(keys->keys);
    MUSTER_FAILPOINT("federated.client.before_shares");
    const auto shares = step(message, keep_on);
    message.shares.clear();
    if (!shares) return;
    client.take_shares(shares->shares);
    client.mask(words);
    MUSTER_FAILPOINT("federated.client.before_masked");
    if (!send(task, std::as_bytes(std::span(words)), 1, 0, keep_on)) return;
    message.step = SecureStep::kSurvivors;
    message.says = false;
    const auto survivors = step(message, keep_on);
    if (!survivors) return;
    message.says = true;
    message.signature = client.agree_on(survivors->survivors);
    std::vector<SignedAgreement> agreements;
    if (options_.identity.checked()) {
      message.step = SecureStep::kAgreement;
      MUSTER_FAILPOINT("federated.client.before_agreement");
      const auto agreed = step(message, keep_on);
      if (!agreed) return;
      agreements = agreed->agreements;
    }
    message.step = SecureStep::kUnmask;
    message.signature.clear();
    message.unmask = client.unmask(agreements);
    unmasked_ = task.round;
    MUSTER_FAILPOINT("federated.client.before_unmask");
    if (!step(message, keep_on)) return;
    ++summary_.accepted;
    options_.tell(fmt::format("{}; in a sum of {} clients", words_of_round(task, loss), survivors->survivors.size()));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMismatch) throw;
    options_.tell(fmt::format("round {}: {}", task.round + 1, error.what()));
    step({.round = task.round, .step = SecureStep::kLeave, .says = true, .reason = error.message()}, keep_on);
  }
}

// Option II of the paper, as simulation.cpp has it: how far the client has moved, before the server shortens that.
void FederatedClient::add_control_change(const LocalResult& result) {
  const float scale = -1.0F / static_cast<float>(static_cast<double>(result.steps) * result.lr);
  if (!std::isfinite(scale)) return;
  const std::span<float> change = std::span(update_).subspan(training_->size());
  for (std::size_t i = 0; i < change.size(); ++i) {
    const float difference = scale * update_[i] - control_[i];
    own_->control()[i] += difference;
    change[i] = difference;
  }
}

bool FederatedClient::send(const RoundTask& task, std::span<const std::byte> bytes, std::uint64_t samples, double loss,
                           const std::function<bool()>& keep_on, const UpdateTest& test) {
  UpdateChunk chunk{.round = task.round,
                    .digest = sha256(bytes),
                    .total_bytes = bytes.size(),
                    .samples = samples,
                    .loss = loss,
                    .test = test};
  for (int damaged = 0; damaged < kMostDamagedSends;) {
    const std::size_t most = std::min<std::size_t>(enrolled_.chunk_bytes, bytes.size() - chunk.offset);
    chunk.data = bytes.subspan(chunk.offset, most);
    const UpdateAnswer answer = patiently(keep_on, [&] { return calls_.send_update(options_.name, chunk); });
    switch (answer.verdict) {
      case UpdateAnswer::Verdict::kPartial:
        // The server says where to go on; back at the beginning after all was sent means that it was damaged.
        damaged += answer.received == 0 ? 1 : 0;
        chunk.offset = std::min<std::uint64_t>(answer.received, bytes.size() - 1);
        continue;
      case UpdateAnswer::Verdict::kAccepted:
        return true;
      case UpdateAnswer::Verdict::kRefused:
        ++summary_.refused;
        options_.tell(fmt::format("round {}: the server refuses the update: {}", task.round + 1, answer.reason));
        return false;
      case UpdateAnswer::Verdict::kLate:
        ++summary_.late;
        options_.tell(fmt::format("round {}: the update came late", task.round + 1));
        return false;
    }
  }
  throw Error(ErrorKind::kDamaged, fmt::format("the update of round {} does not arrive as it was sent", task.round + 1),
              {}, "Something between here and the server changes what is sent.");
}

}  // namespace muster::federated
