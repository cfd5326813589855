// The parent plans, adds up and applies; workers train, measure and save. What they share is one region of memory,
// whose size the first worker tells, because only it knows the model.
#include "muster/federated/simulation.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/process_memory.h"
#include "muster/base/random.h"
#include "muster/compute/reduce.h"
#include "muster/federated/accountant.h"
#include "muster/federated/aggregate.h"
#include "muster/federated/client_states.h"
#include "muster/federated/kept_parts.h"
#include "muster/federated/noise.h"
#include "muster/federated/own_state.h"
#include "muster/federated/round_change.h"
#include "muster/federated/secure/fixed_point.h"
#include "muster/federated/submodel.h"
#include "muster/federated/update_codec.h"

namespace muster::federated {
namespace {

enum What : std::uint32_t { kProbe, kFirstValues, kTrain, kMeasure, kJudge, kSave, kShare };

struct Sizes {
  std::size_t model = 0;
  std::size_t parameters = 0;
  std::size_t evaluation_pieces = 0;
  std::size_t figures = 0;    // of one
  std::uint64_t trained = 0;  // parameters without what lies between tensors
  std::uint64_t batch = 1;
};

Sizes sizes_of(const LocalTraining& training) {
  return {training.size(),
          training.parameters(),
          training.evaluation_pieces(),
          training.figures_of_piece(),
          trained_numbers(training.tensors(), training.parameters()),
          training.batch()};
}

Answer told(const Order& order, const Json& json) {
  Answer answer{.piece = order.piece};
  put_text(answer.text, json.dump());
  return answer;
}

Json to_json(const Figures& figures) {
  Json json{{"loss", figures.loss}, {"samples", figures.samples}, {"metrics", Json::object()}};
  for (const auto& [name, value] : figures.metrics)
    json["metrics"][name] = value;
  return json;
}

Figures figures_from(const Json& json) {
  const auto number = [](const Json& value) {
    return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  };
  Figures figures{.loss = number(json.at("loss")), .samples = json.at("samples").get<std::uint64_t>()};
  for (const auto& [name, value] : json.at("metrics").items())
    figures.metrics.emplace_back(name, number(value));
  return figures;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// With federated.secure: the sums of words, as a server gets them when all masks are taken away. Masks cancel, so no
// virtual client makes any.
FixedPoint fixed_point_of(const Options& options, const RoundPlan& plan) {
  const std::uint64_t most =
      options.noise > 0 ? std::max<std::uint64_t>(plan.asked, 1) : static_cast<std::uint64_t>(options.per_round);
  return {options.secure_range(), most};
}

void add_words(std::span<const std::uint32_t> words, std::span<float> sum) {
  std::vector<std::uint32_t> total(sum.size());
  std::memcpy(total.data(), sum.data(), sum.size_bytes());
  for (std::size_t i = 0; i < total.size(); ++i)
    total[i] += words[i];
  std::memcpy(sum.data(), total.data(), sum.size_bytes());
}

// What false clients send instead of `update`.
void falsify(const std::string& attack, RandomStream draws, std::span<float> update) {
  constexpr float kFlip = -4;
  constexpr float kHuge = 1e6F;
  for (float& value : update) {
    if (attack == "sign_flip") value *= kFlip;
    if (attack == "noise") value = static_cast<float>(draws.normal());
    if (attack == "huge") value *= kHuge;
    if (attack == "nan") value = std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace

// The model (with fedbuff those of the last rounds, too), scaffold's control, a piece's sum of updates (and of
// controls) for each piece, and the figures of an evaluation; with narrower models also by what each number of the sum
// is to be divided.
struct Simulation::Memory {
  Memory(const Options& options, const Sizes& given)
      : sizes(given),
        pieces(pieces_of_round(options)),
        versions(options.buffered() ? static_cast<std::size_t>(options.most_staleness) + 1 : 1),
        shared(options.submodels.empty() ? 0 : given.model),
        controls(options.controls() ? given.parameters : 0),
        region(make_region()) {}

  comm::SharedRegion make_region() const {
    const std::size_t floats = padded(sizes.model) * (pieces + versions) + padded(controls) * (pieces + 1);
    try {
      return comm::SharedRegion::create(floats * sizeof(float) + doubles() * sizeof(double));
    } catch (const Error& error) {
      throw Error(error.kind(),
                  fmt::format("{} updates of {:.1f} MB at once: {}", pieces,
                              static_cast<double>(sizes.model) * sizeof(float) / 1e6, error.message()),
                  "federated.per_round", "Fewer clients a round, a smaller model, or aggregate = \"mean\".");
    }
  }

  static std::size_t padded(std::size_t count) { return (count + 15) / 16 * 16; }
  std::size_t doubles() const { return sizes.evaluation_pieces * sizes.figures + shared; }
  float* floats() const { return reinterpret_cast<float*>(region.bytes().data() + doubles() * sizeof(double)); }

  std::span<double> all_doubles() const { return {reinterpret_cast<double*>(region.bytes().data()), doubles()}; }
  std::span<double> figures() const { return all_doubles().first(doubles() - shared); }
  std::span<double> shares() const { return all_doubles().last(shared); }
  std::span<double> figures(std::size_t piece) const { return figures().subspan(piece * sizes.figures, sizes.figures); }
  // The model after so many rounds; earlier ones only as far as `versions` reach.
  std::span<float> model(std::uint64_t rounds) const {
    return {floats() + padded(sizes.model) * (rounds % versions), sizes.model};
  }
  std::span<float> update(std::size_t piece) const {
    return {floats() + padded(sizes.model) * (piece + versions), sizes.model};
  }
  std::span<float> control() const { return {floats() + padded(sizes.model) * (pieces + versions), controls}; }
  std::span<float> control_change(std::size_t piece) const {
    return {control().data() + padded(controls) * (piece + 1), controls};
  }

  const Sizes sizes;
  const std::size_t pieces;
  const std::size_t versions;
  const std::size_t shared;
  const std::size_t controls;
  const comm::SharedRegion region;
};

// In a process of its own. What it does follows from the order and from what is shared.
class Simulation::Worker {
 public:
  Worker(const SimulationOptions& options, const ClientSplit& split, const Memory& memory)
      : options_(options),
        federated_(options.federated),
        split_(split),
        memory_(memory),
        training_(options.make_training()),
        compression_(parse_compression(federated_.compress)),
        kept_(federated_.keep, training_->tensors(), training_->size(), training_->parameters()),
        own_({.control = memory.controls,
              .kept = kept_.floats(),
              .residual = federated_.keeps_residual() ? training_->size() : 0},
             options.client_states),
        submodels_(federated_.submodels.size()),
        plans_(federated_, split_, options_.seed, memory.sizes.batch) {
    correction_.resize(memory_.controls);
    update_.resize(memory_.sizes.model);
  }

  Answer carry_out(const Order& order) {
    Answer answer{.piece = order.piece};
    switch (static_cast<What>(order.what)) {
      case kProbe:
        break;
      case kFirstValues:
        training_->first_values(memory_.model(0));
        break;
      case kTrain:
        return train(order);
      case kMeasure:
        training_->measure(memory_.model(order.round), order.piece, memory_.figures(order.piece));
        break;
      case kJudge:
        return told(order, to_json(training_->judge(memory_.figures())));
      case kSave:
        training_->save(memory_.model(order.round), order.text.data());
        break;
      case kShare:
        share(parse_json(order.text.data(), "an order"));
        break;
    }
    return answer;
  }

 private:
  Answer train(const Order& order) {
    const RoundPlan& plan = plans_.of(order.round);
    const std::size_t count = plan.counts.size();
    Answer answer{.piece = order.piece};
    const std::span<float> sum = memory_.update(order.piece);
    std::ranges::fill(sum, 0.0F);
    std::ranges::fill(memory_.control_change(order.piece), 0.0F);
    const std::size_t last = count * (order.piece + 1) / memory_.pieces;
    for (std::size_t i = count * order.piece / memory_.pieces; i < last; ++i)
      add_client(plan.counts[i], order, answer, sum);
    return answer;
  }

  void add_client(const Participant& who, const Order& order, Answer& answer, std::span<float> sum) {
    Submodel* const narrower = who.submodel > 0 ? &submodel(who.submodel) : nullptr;
    const std::span<float> update = narrower != nullptr ? std::span(narrower->update) : std::span(update_);
    own_.load(who.client, order.round);
    const LocalResult result = train_client(who, order.round, narrower, update, answer);
    if (who.false_one)
      falsify(federated_.attack,
              RandomStream({.seed = options_.seed,
                            .purpose = Purpose::kFederated,
                            .epoch = order.round + 1,
                            .step = 1,
                            .sample = who.client}),
              update);
    answer.update_bytes += encoded_bytes(compression_, update.size() + memory_.controls) +
                           (federated_.secure ? kExtraWords * sizeof(std::uint32_t) : 0);
    const bool finite = all_finite(update);  // also where nothing is taken: its client has gone astray
    leave_out(federated_, kept_, narrower != nullptr ? narrower->training->parameters() : memory_.sizes.parameters,
              update);
    if (!finite || (federated_.most_norm && norm(update) > *federated_.most_norm)) {
      if (answer.refused++ == 0) answer.refused_client = who.client;
      return;
    }
    // Before it is shortened: the control follows from how far the client has moved.
    if (federated_.controls()) add_control(order, result);
    if (federated_.clip) clip_to(update, *federated_.clip);
    ++answer.count;
    answer.samples += who.samples;
    if (federated_.secure) {
      add_securely(who, order.round, result.loss, answer, sum);
      own_.save(who.client, order.round);
      return;
    }
    answer.weight += who.weight;
    answer.weights[who.submodel] += who.weight;
    answer.loss += result.loss * static_cast<double>(who.samples);
    const auto weight = static_cast<float>(who.weight);
    if (federated_.needs_all_updates()) {
      std::ranges::copy(update, sum.begin());
    } else if (narrower != nullptr) {
      narrower->map.add(update, weight, sum);
    } else {
      for (std::size_t i = 0; i < sum.size(); ++i)
        sum[i] += weight * update[i];
    }
    own_.save(who.client, order.round);
  }

  // The two words behind the update travel in the answer: whole numbers, exact in a double.
  void add_securely(const Participant& who, std::uint64_t round, double loss, Answer& answer, std::span<float> sum) {
    const double weight = federated_.noise > 0 ? 1 : who.weight / static_cast<double>(*federated_.most_samples);
    if (federated_.clients_add_noise()) {
      add_noise(simulated_key(options_.seed, round, who.client), federated_.noise_of_client(),
                std::span(update_).first(memory_.sizes.parameters));
      loss = 0;  // no noise is on it
    }
    std::vector<std::uint32_t> words(update_.size() + kExtraWords);
    fixed_point_of(federated_, plans_.of(round)).encode(update_, weight, loss, words);
    add_words(std::span(words).first(sum.size()), sum);
    answer.weight += static_cast<double>(static_cast<std::int32_t>(words[update_.size()]));
    answer.loss += static_cast<double>(static_cast<std::int32_t>(words[update_.size() + 1]));
  }

  LocalResult train_client(const Participant& who, std::uint64_t round, Submodel* narrower, std::span<float> update,
                           Answer& answer) {
    std::vector<std::uint64_t> all = split_.samples(who.client);
    const std::uint64_t held_out = federated_.held_out(all.size());
    ClientSamples samples = hold_out(std::move(all), held_out, options_.seed, who.client);
    LocalTask task{.round = round,
                   .client = who.client,
                   .samples = std::move(samples.train),
                   .epochs = federated_.local_epochs,
                   .rate = std::pow(federated_.lr_decay, static_cast<double>(who.version)),
                   .prox = federated_.algorithm == "fedprox" ? federated_.prox : 0};
    if (federated_.sample_noise > 0) {
      task.privacy = federated_.sample_privacy();
      task.key = simulated_key(options_.seed, round, who.client);
    }
    if (federated_.controls()) {
      const std::span<const float> control = memory_.control();
      for (std::size_t i = 0; i < control.size(); ++i)
        correction_[i] = control[i] - own_.control()[i];
      task.correction = correction_;
    }
    std::span<const float> model = memory_.model(who.version);
    LocalTraining& training = narrower != nullptr ? *narrower->training : *training_;
    if (narrower != nullptr) {
      narrower->map.take(model, narrower->model);
      model = narrower->model;
    } else if (kept_.floats() > 0) {
      entered_.assign(model.begin(), model.end());
      kept_.enter(own_.kept(), entered_);
      model = entered_;
    }
    if (!samples.test.empty()) add_figures(training.evaluate(samples.test, model), answer);
    const LocalResult result = training.train(task, model, update);
    if (!all_finite(update)) return result;  // is refused; what the client has stays as it was
    kept_.leave(update, own_.kept());
    if (compression_.kind != Compression::Kind::kNone)
      decode_update(compression_, encode_update(compression_, update, own_.residual()), update);
    return result;
  }

  static void add_figures(const Figures& figures, Answer& answer) {
    const auto samples = static_cast<double>(figures.samples);
    answer.tested += figures.samples;
    answer.test_loss += figures.loss * samples;
    if (figures.metrics.empty()) return;
    answer.test_metric += figures.metrics.front().second * samples;
    put_text(answer.text, figures.metrics.front().first);
  }

  // Option II of the paper: c_i' = c_i - c + (x - y_i) / (K lr), of which c_i' - c_i goes to the server.
  void add_control(const Order& order, const LocalResult& result) {
    const float scale = -1.0F / static_cast<float>(static_cast<double>(result.steps) * result.lr);
    if (!std::isfinite(scale)) return;  // its rate is nothing any more: it has not moved
    const std::span<const float> control = memory_.control();
    const std::span<float> own = own_.control();
    const std::span<float> change = memory_.control_change(order.piece);
    for (std::size_t i = 0; i < control.size(); ++i) {
      const float difference = scale * update_[i] - control[i];
      own[i] += difference;
      change[i] += difference;
    }
  }

  Submodel& submodel(std::uint64_t number) {
    std::unique_ptr<Submodel>& made = submodels_.at(number - 1);
    if (!made) made = std::make_unique<Submodel>(*training_, options_.make_submodel(number - 1));
    return *made;
  }

  // What each number of a round's sum is to be divided by.
  void share(const Json& weights) {
    const std::span<double> shares = memory_.shares();
    std::ranges::fill(shares, weights.at(0).get<double>());
    for (std::size_t number = 1; number < weights.size(); ++number)
      submodel(number).map.cover(weights.at(number).get<double>(), shares);
  }

  const SimulationOptions& options_;
  const Options& federated_;
  const ClientSplit& split_;
  const Memory& memory_;
  const std::unique_ptr<LocalTraining> training_;
  const Compression compression_;
  const KeptParts kept_;
  OwnState own_;
  std::vector<std::unique_ptr<Submodel>> submodels_;  // made when they are needed
  PlannedRounds plans_;
  std::vector<float> update_;
  std::vector<float> entered_;  // the round's model with what a client keeps
  std::vector<float> correction_;
};

namespace {

// Asks a process that makes the model how large everything is: this one must not.
Sizes probe(const SimulationOptions& options, const std::function<bool()>& keep_on) {
  WorkerPool pool({.workers = 1}, [&options]() -> WorkerPool::Work {
    const std::shared_ptr<LocalTraining> training = options.make_training();
    return [training, &options](const Order& order) {
      const Sizes sizes = sizes_of(*training);
      const Options& o = options.federated;
      const KeptParts kept(o.keep, training->tensors(), training->size(), training->parameters());
      for (std::size_t index = 0; index < o.submodels.size(); ++index)
        const Submodel checked(*training, options.make_submodel(index));
      return told(order, {{"model", sizes.model},
                          {"parameters", sizes.parameters},
                          {"evaluation_pieces", sizes.evaluation_pieces},
                          {"figures", sizes.figures},
                          {"trained", sizes.trained},
                          {"batch", sizes.batch}});
    };
  });
  Sizes sizes;
  const Order order{.what = kProbe};
  pool.run(
      std::span(&order, 1),
      [&](const Answer& answer) {
        const Json json = parse_json(answer.text.data(), "a worker's answer");
        sizes = {json.at("model"),   json.at("parameters"), json.at("evaluation_pieces"),
                 json.at("figures"), json.at("trained"),    json.at("batch")};
      },
      keep_on);
  return sizes;
}

std::vector<Order> orders_of(What what, std::uint64_t round, std::size_t pieces) {
  std::vector<Order> orders(pieces);
  for (std::size_t piece = 0; piece < pieces; ++piece)
    orders[piece] = {.what = what, .round = round, .piece = piece};
  return orders;
}

}  // namespace

Simulation::Simulation(SimulationOptions options, const ClientSplit& split, const std::function<bool()>& keep_on)
    : options_(std::move(options)),
      split_(split),
      memory_(std::make_unique<Memory>(options_.federated, probe(options_, keep_on))),
      pool_({.workers = options_.workers},
            [this]() -> WorkerPool::Work {
              const auto worker = std::make_shared<Worker>(options_, split_, *memory_);
              return [worker](const Order& order) { return worker->carry_out(order); };
            }),
      server_(std::in_place, options_.federated, memory_->sizes.parameters),
      plans_(options_.federated, split_, options_.seed, memory_->sizes.batch) {
  const std::vector<Order> first = orders_of(kFirstValues, 0, 1);
  pool_.run(
      first, [](const Answer&) {}, keep_on);
}

Simulation::~Simulation() = default;

void Simulation::restore(const State& state) {
  if (state.model.size() != memory_->sizes.model || state.momentum.size() != server_->momentum().size() ||
      state.squares.size() != server_->squares().size() || state.control.size() != memory_->controls ||
      state.past.size() != memory_->sizes.model * std::min<std::size_t>(state.rounds, memory_->versions - 1))
    throw Error(ErrorKind::kMismatch, "the state of the run is of another model or another server", {},
                "Begin a new run, or go on with the job that it was made by.");
  rounds_ = state.rounds;
  virtual_seconds_ = state.virtual_seconds;
  std::ranges::copy(state.model, memory_->model(rounds_).begin());
  const std::size_t floats = memory_->sizes.model;
  for (std::size_t back = 1; back * floats <= state.past.size(); ++back)
    std::ranges::copy(std::span(state.past).subspan((back - 1) * floats, floats),
                      memory_->model(rounds_ - back).begin());
  server_->momentum() = state.momentum;
  server_->squares() = state.squares;
  std::ranges::copy(state.control, memory_->control().begin());
}

State Simulation::state() {
  const std::span<const float> model = memory_->model(rounds_);
  const std::span<const float> control = memory_->control();
  std::vector<float> past;
  for (std::uint64_t back = 1; back < memory_->versions && back <= rounds_; ++back) {
    const std::span<const float> before = memory_->model(rounds_ - back);
    past.insert(past.end(), before.begin(), before.end());
  }
  return {.rounds = rounds_,
          .virtual_seconds = virtual_seconds_,
          .model = {model.begin(), model.end()},
          .momentum = server_->momentum(),
          .squares = server_->squares(),
          .control = {control.begin(), control.end()},
          .past = std::move(past)};
}

std::uint64_t Simulation::parameter_count() const {
  return memory_->sizes.trained;
}

std::optional<std::string> Simulation::ending() {
  const Options& o = options_.federated;
  if (!budget_allows(o, rounds_))
    return fmt::format("the privacy budget is spent: another round would exceed epsilon {} at delta {}", *o.epsilon,
                       o.delta);
  const auto samples = plans_.spent_after(rounds_);
  if (!samples || !samples->all) return std::nullopt;
  return fmt::format(
      "the privacy budget of the clients' samples is spent: another round would exceed epsilon {} at "
      "delta {}",
      *o.sample_epsilon, o.delta);
}

std::optional<double> Simulation::sample_epsilon() {
  const auto samples = plans_.spent_after(rounds_);
  return samples ? std::optional(samples->epsilon) : std::nullopt;
}

RoundReport Simulation::round(const std::function<bool()>& keep_on) {
  const auto start = std::chrono::steady_clock::now();
  const Options& o = options_.federated;
  RoundReport report{.round = rounds_ + 1, .plan = plans_.of(rounds_)};
  const RoundPlan& plan = report.plan;
  std::vector<Answer> answers(memory_->pieces);
  if (!plan.counts.empty()) {
    const std::vector<Order> orders = orders_of(kTrain, rounds_, memory_->pieces);
    pool_.run(
        orders, [&](const Answer& answer) { answers[answer.piece] = answer; }, keep_on);
  }
  // From here on nothing asks whether to go on: the round counts whole.
  const std::span<float> model = memory_->model(rounds_ + 1);
  if (memory_->versions > 1) std::ranges::copy(memory_->model(rounds_), model.begin());
  if (!plan.counts.empty() || o.noise > 0) {
    const std::vector<float> control(memory_->control().begin(), memory_->control().end());
    const auto change = aggregate(report, answers);
    const double change_norm = change ? norm(change->first(memory_->sizes.parameters)) : 0;
    if (change && all_finite(memory_->control()) &&
        apply_change(o, *server_, memory_->sizes.parameters, *change, model)) {
      report.change_norm = change_norm;
    } else {
      if (change) report.plan.reason = kNotFinite;
      std::ranges::copy(control, memory_->control().begin());
      forget(plan);
      report.plan.counts.clear();
    }
  }
  ++rounds_;
  virtual_seconds_ += plan.seconds;
  report.epsilon = epsilon_after(o, rounds_);
  if (const auto samples = plans_.spent_after(rounds_)) {
    report.spent = samples->clients;
    report.sample_epsilon = samples->epsilon;
  }
  const bool last = rounds_ == static_cast<std::uint64_t>(o.rounds) || ending();
  if (rounds_ % static_cast<std::uint64_t>(o.evaluate_every) == 0 || last) {
    try {
      report.test = evaluate(keep_on);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInterrupted) throw;  // the round counts all the same
    }
  }
  report.virtual_seconds = virtual_seconds_;
  report.workers_replaced = pool_.replaced();
  report.peak_memory = peak_bytes(::getpid()) + pool_.peak_memory();
  report.seconds = seconds_since(start);
  return report;
}

std::optional<std::span<float>> Simulation::aggregate(RoundReport& report, const std::vector<Answer>& answers) {
  double samples = 0;
  double loss = 0;
  std::uint64_t count = 0;
  for (const Answer& answer : answers) {
    count += answer.count;
    report.refused += answer.refused;
    if (answer.refused > 0 && !report.refused_client) report.refused_client = answer.refused_client;
    loss += answer.loss;
    samples += static_cast<double>(answer.samples);
  }
  const Options& o = options_.federated;
  if (samples > 0 && !o.secure && clients_say_loss(o)) report.client_loss = loss / samples;
  Figures tested;
  const char* metric = nullptr;
  for (const Answer& answer : answers) {
    report.update_bytes += answer.update_bytes;
    tested.samples += answer.tested;
    tested.loss += answer.test_loss;
    if (answer.tested > 0 && answer.text[0] != 0) metric = answer.text.data();
  }
  if (tested.samples > 0) {
    tested.loss /= static_cast<double>(tested.samples);
    double sum = 0;
    for (const Answer& answer : answers)
      sum += answer.test_metric;
    if (metric != nullptr) tested.metrics.emplace_back(metric, sum / static_cast<double>(tested.samples));
    report.on_clients = std::move(tested);
  }
  if (options_.federated.secure) return secure_change(report, answers);
  if (const auto reason = too_few(options_.federated, count, report.refused)) {
    report.plan.reason = *reason;
    return std::nullopt;
  }
  return options_.federated.needs_all_updates() ? robust_change(report, answers) : mean_of_pieces(answers);
}

void Simulation::forget(const RoundPlan& plan) {
  if (!options_.federated.stateful()) return;
  const ClientStates states(options_.client_states);
  for (const Participant& who : plan.counts)
    states.forget_from(who.client, rounds_);
}

std::optional<std::span<float>> Simulation::mean_of_pieces(const std::vector<Answer>& answers) {
  const Options& o = options_.federated;
  double weight = 0;
  std::uint64_t count = 0;
  std::vector<const float*> sums(memory_->pieces, nullptr);
  std::vector<const float*> controls(memory_->pieces, nullptr);
  for (std::size_t piece = 0; piece < memory_->pieces; ++piece) {
    weight += answers[piece].weight;
    count += answers[piece].count;
    if (answers[piece].count == 0) continue;
    sums[piece] = memory_->update(piece).data();
    controls[piece] = memory_->control_change(piece).data();
  }
  const std::span<float> change = memory_->update(0);
  std::vector<float> scratch(memory_->sizes.model);
  const std::span<const float> sum = compute::reduce_lanes(sums, 0, scratch);
  if (sum.empty() && !(o.noise > 0)) return std::nullopt;
  if (sum.empty())
    std::ranges::fill(change, 0.0F);
  else if (sum.data() != change.data())
    std::ranges::copy(sum, change.begin());
  if (o.submodels.empty())
    finish_mean(o, simulated_key(options_.seed, rounds_), o.divisor(weight, count), change);
  else
    divide_by_weights(answers, change);
  if (o.controls()) {
    std::vector<float> room(memory_->controls);
    const std::span<const float> all = compute::reduce_lanes(controls, 0, room);
    add_controls(o, all, memory_->control());
  }
  return change;
}

void Simulation::divide_by_weights(const std::vector<Answer>& answers, std::span<float> change) {
  std::vector<double> weights(options_.federated.submodels.size() + 1);
  for (const Answer& answer : answers) {
    for (std::size_t number = 0; number < weights.size(); ++number)
      weights[number] += answer.weights[number];
  }
  std::vector<Order> order = orders_of(kShare, rounds_, 1);
  put_text(order[0].text, Json(weights).dump());
  pool_.run(
      order, [](const Answer&) {}, [] { return true; });
  divide_by_cover(change, memory_->shares());
}

std::optional<std::span<float>> Simulation::secure_change(RoundReport& report, const std::vector<Answer>& answers) {
  const Options& o = options_.federated;
  const FixedPoint fixed = fixed_point_of(o, report.plan);
  const std::span<float> change = memory_->update(0);
  std::vector<std::uint32_t> sum(change.size() + kExtraWords);
  std::uint64_t count = 0;
  for (std::size_t piece = 0; piece < memory_->pieces; ++piece) {
    if (answers[piece].count == 0) continue;
    count += answers[piece].count;
    std::vector<std::uint32_t> words(change.size());
    std::memcpy(words.data(), memory_->update(piece).data(), memory_->update(piece).size_bytes());
    for (std::size_t i = 0; i < words.size(); ++i)
      sum[i] += words[i];
    sum[change.size()] += static_cast<std::uint32_t>(static_cast<std::int64_t>(answers[piece].weight));
    sum[change.size() + 1] += static_cast<std::uint32_t>(static_cast<std::int64_t>(answers[piece].loss));
  }
  const bool few = count < o.least_updates();
  if (!few && clients_say_loss(o)) report.client_loss = fixed.loss(sum);
  if (few)
    report.plan.reason = fmt::format("{} clients are left, and {} are the least: nothing is revealed{}", count,
                                     o.least_updates(), o.noise > 0 && !o.clients_add_noise() ? kNoiseAlone : "");
  if (!finish_secure_mean(o, fixed, simulated_key(options_.seed, rounds_), few, sum, change)) return std::nullopt;
  if (few) report.plan.counts.clear();
  return change;
}

std::optional<std::span<float>> Simulation::robust_change(RoundReport& report, const std::vector<Answer>& answers) {
  std::vector<std::span<const float>> updates;
  for (std::size_t piece = 0; piece < memory_->pieces; ++piece) {
    if (answers[piece].count > 0) updates.emplace_back(memory_->update(piece));
  }
  std::vector<float> change(memory_->sizes.model);
  if (const auto reason = robust_mean(options_.federated, updates, change, options_.workers)) {
    report.plan.reason = *reason;
    return std::nullopt;
  }
  std::ranges::copy(change, memory_->update(0).begin());
  return memory_->update(0);
}

Figures Simulation::evaluate(const std::function<bool()>& keep_on) {
  const std::vector<Order> pieces = orders_of(kMeasure, rounds_, memory_->sizes.evaluation_pieces);
  pool_.run(
      pieces, [](const Answer&) {}, keep_on);
  Figures figures;
  const std::vector<Order> judge = orders_of(kJudge, rounds_, 1);
  pool_.run(
      judge, [&](const Answer& answer) { figures = figures_from(parse_json(answer.text.data(), "a worker's answer")); },
      keep_on);
  return figures;
}

void Simulation::save(const std::filesystem::path& path, const std::function<bool()>& keep_on) {
  std::vector<Order> order = orders_of(kSave, rounds_, 1);
  if (path.string().size() >= order[0].text.size())
    throw Error(ErrorKind::kInvalidInput, "the path is too long", path.string(), "Choose a shorter one.");
  put_text(order[0].text, path.string());
  pool_.run(
      order, [](const Answer&) {}, keep_on);
}

}  // namespace muster::federated
