#include "muster/trainer/session.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/heap.h"
#include "muster/base/random.h"
#include "muster/compute/module_binding.h"
#include "muster/compute/threads.h"
#include "muster/launch/stop_signal.h"
#include "muster/model/checkpoint.h"
#include "muster/model/sync_batch_norm.h"
#include "muster/strategies/registry.h"
#include "muster/trainer/batch_tensors.h"
#include "muster/trainer/frozen_parts.h"
#include "muster/trainer/lane_check.h"
#include "muster/trainer/lane_feed.h"
#include "muster/trainer/session_agreement.h"
#include "muster/trainer/session_note.h"
#include "muster/trainer/training_state.h"

namespace muster::trainer {
namespace {

using Seconds = std::chrono::duration<double>;

// Between the moments at which a signal to all workers reaches the first and the last of them.
constexpr std::chrono::seconds kSignalsApart{2};
// Of a fixed group, whose ranks may load for very different times; one that dies is noticed at once.
constexpr std::chrono::hours kMeetingTimeout{1};

// Adds the time until it goes out of scope to a counter.
class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total), start_(system_clock().now()) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { total_ += Seconds(system_clock().now() - start_).count(); }

 private:
  double& total_;
  Clock::Instant start_;
};

// LibTorch reports its failures as exceptions of its own; here they become ours, with the lane.
[[noreturn]] void throw_compute_error(const c10::Error& error, const Lane& lane) {
  throw Error(ErrorKind::kCompute, error.what_without_backtrace(),
              fmt::format("step {}, lane {}", lane.step, lane.index));
}

}  // namespace

void Lane::backward(const torch::Tensor& loss) {
  if (!loss.defined() || loss.numel() != 1) {
    throw Error(ErrorKind::kInvalidInput, "backward() needs one number, the mean loss of the lane", {},
                "Reduce the loss with mean().");
  }
  if (has_backward_ && single_backward_) {
    throw Error(ErrorKind::kInvalidInput, "a second backward() of a lane whose gradients are being summed", {},
                "Add the parts of the loss and call backward() once, or set parallel.overlap = false.");
  }
  try {
    report_.loss_sum += loss.item<double>() * samples_;
    // The weight enters as the seed of backward: gradients come out weighted at no cost, and with one lane untouched.
    loss.backward(torch::full_like(loss, weight_));
  } catch (const c10::Error& error) {
    throw_compute_error(error, *this);
  }
  has_backward_ = true;
}

struct Session::State {
  State(std::shared_ptr<torch::nn::Module> module, const compute::OptimizerOptions& optimizer_options,
        const SessionOptions& session_options)
      : options(session_options),
        lanes(check_options(options)),
        optimizer(compute::make_optimizer(optimizer_options)),
        slot_names(optimizer->slot_names().begin(), optimizer->slot_names().end()),
        base_lr(compute::base_lr(optimizer_options)),
        clip_norm(options.clip_norm),
        frozen(options.tuning, *module),
        binding(std::move(module)),
        rules(tensor_rules(compute::weight_decay(optimizer_options))),
        strategy(make_agreed_strategy(optimizer_options)) {
    if (options.stop_on_signals) stop_signal.emplace();
    if (options.verify_rate > 0 && !strategy->shares_lanes())
      throw Error(ErrorKind::kUnsupported, fmt::format("lanes cannot be verified with {}", options.strategy), {},
                  "Use the strategy shared_sync, or do not verify.");
    meets_in_lanes = model::has_synchronized_batch_norm(binding.module());
    if (meets_in_lanes &&
        (options.strategy != "all_reduce" || lanes != static_cast<std::size_t>(options.group.size()))) {
      throw Error(ErrorKind::kUnsupported, "a synchronized batch norm needs all workers to compute one lane each", {},
                  "Use the strategy all_reduce with as many lanes as workers, or plain batch norm.");
    }
    compute::set_threads(options.threads);
    keep_freed_memory();
    adopt_module();
  }

  std::vector<compute::TensorRule> tensor_rules(double weight_decay) const {
    std::vector<compute::TensorRule> made;
    for (const model::TensorSlot& slot : binding.layout().tensors()) {
      const bool exempt = compute::is_exempt(options.exempt, slot);
      // What the user has frozen by requires_grad_(false) may train later; what the tuning freezes for good may not.
      const bool trainable = compute::frozen_epochs(options.tuning, slot.name) != compute::kFrozenForever;
      made.push_back({exempt ? 0 : weight_decay, !exempt, trainable, compute::lr_factor(options.tuning, slot.name)});
    }
    return made;
  }

  // Other sizes or options on one of the workers would be met in the middle of something, or never.
  std::unique_ptr<strategies::Strategy> make_agreed_strategy(const compute::OptimizerOptions& optimizer_options) const {
    agree_on("session", describe_session(options, lanes, optimizer_options, binding.layout(), binding.buffer_layout()));
    return strategies::make_strategy(options.strategy, strategy_options(optimizer_options));
  }

  // All workers mean the same by it. Throws kMismatch.
  void agree_on(const std::string& what, const Agreement& mine) const {
    if (options.supervised)
      agree(*options.supervised->store, "agreement/" + what, options.supervised->seat, mine);
    else
      agree(options.group, mine, Deadline::after(kMeetingTimeout));
  }

  strategies::StrategyOptions strategy_options(const compute::OptimizerOptions& optimizer_options) const {
    strategies::StrategyOptions made{binding.layout(), binding.buffer_layout(), optimizer->slots(), lanes};
    made.group = options.group;
    made.claims = options.claims;
    made.all_reduce = options.all_reduce;
    made.local_sgd = options.local_sgd;
    made.parameter_server = options.parameter_server;
    made.supervised = options.supervised;
    if (made.supervised) {
      // Before the first step there is nothing to finish.
      made.supervised->interruption = [this] {
        if (stop_signal && stop_signal->number() != 0)
          throw Error(ErrorKind::kInterrupted, "stopped before the first step");
      };
    }
    made.optimizer = optimizer_options;
    made.rules = rules;
    return made;
  }

  compute::UpdateRule rule() const {
    return {optimizer.get(), compute::lr_at(options.schedule, base_lr, cursor.step), clip_norm, rules};
  }

  // The first version is what the module holds.
  void adopt_module() {
    std::vector<float> parameters(binding.layout().size());
    std::vector<std::byte> buffers(binding.buffer_layout().bytes);
    std::vector<std::uint64_t> updates(binding.layout().tensors().size());
    std::vector<float> zeros(optimizer->slots() > 0 ? binding.layout().size() : 0);
    binding.read_parameters(parameters);
    binding.read_buffers(buffers);
    strategies::CommittedState first{parameters, {}, updates, buffers, {}};
    for (int slot = 0; slot < optimizer->slots(); ++slot)
      first.state[static_cast<std::size_t>(slot)] = zeros;
    strategy->restore(first);
    binding.attach(strategy->parameter_versions(), strategy->memory());
    show_committed();
  }

  void show_committed() {
    binding.show(strategy->committed_version());
    binding.write_buffers(strategy->committed().buffers);
    cursor = strategy->committed().cursor;
    // A worker that came later knows how many steps are committed, and the rest follows.
    if (met && options.supervised) cursor = feed->order().cursor_at_step(cursor.step);
  }

  void meet() {
    if (met) return;
    agree_on("data", describe_data(*feed->dataset(), feed->order()));
    strategy->meet();
    met = true;
    show_committed();
    entered_at = cursor.step;
    leave_note();
  }

  // For those who watch; `muster train`, which says in which order its lanes come, leaves a note of its own.
  void leave_note() {
    if (!options.supervised || options.order || !strategy->members().leads() || !strategy->note().empty()) return;
    strategy->write_note(SessionNote{{feed->dataset()->size(), options.batch, lanes}, options.seed}.to_text());
  }

  std::optional<strategies::StepOutcome> rejoin() {
    abandon();
    std::optional<strategies::StepOutcome> committed = strategy->rejoin();
    if (committed) count(*committed);
    show_committed();
    entered_at = cursor.step;
    return committed;
  }

  // Those with whom this worker can share what all do between two steps. One that has come since the last step may be
  // somewhere else in the program, so until the next one it is nobody.
  comm::Group together() const {
    return options.supervised && cursor.step == entered_at ? comm::Group() : strategy->members().group;
  }

  // After a commit: what `muster stop` asks for.
  void stop_if_asked(const Session& session) {
    if (!outcome.stop || !stop_signal || wishes_to_stop) return;
    // Somebody was told, so all are, a moment earlier or later. Else it is a wish of the program's own.
    if (stop_signal->wait(kSignalsApart) == 0) {
      wishes_to_stop = true;
      return;
    }
    std::string kept = "no checkpoint was written, because the program has not named a folder for them";
    if (checkpoint_folder) {
      if (!outcome.synchronized) strategy->synchronize(Deadline::after(options.step_timeout));
      session.checkpoint(*checkpoint_folder);
      kept = fmt::format("a checkpoint is in {}", checkpoint_folder->string());
    }
    strategy->begin(comm::Activity::kDone);
    throw Error(ErrorKind::kInterrupted, fmt::format("stopped after step {}; {}", cursor.step, kept));
  }

  void use(const std::shared_ptr<const data::Dataset>& dataset) {
    if (feed && feed->dataset() == dataset) return;
    if (dataset->size() == 0) throw Error(ErrorKind::kInvalidInput, "the data set is empty");
    std::shared_ptr<const data::LaneOrder> order = options.order;
    if (!order) {
      const data::BatchShape shape{dataset->size(), options.batch, lanes};
      order = std::make_shared<data::GlobalOrder>(shape, options.seed);
    }
    // The last step of an epoch may have the fewest.
    const std::size_t fewest = order->plan(order->cursor_at_step(order->steps_per_epoch() - 1)).lanes.size();
    if (meets_in_lanes && fewest < lanes) {
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("the last batch of an epoch is enough for {} of {} workers, and all meet in every batch "
                              "norm",
                              fewest, lanes),
                  {}, "Choose another batch, or leave samples out.");
    }
    feed.emplace(dataset, std::move(order),
                 LaneFeedOptions{options.seed, options.loader_threads, options.prefetch, options.load_timeout,
                                 options.mixup_alpha});
    plan.reset();
  }

  void begin_step() {
    plan = feed->order().plan(cursor);
    next_to_verify = 0;
    frozen.enter_epoch(cursor.epoch);
    strategy->announce_rule(rule());
    strategy->begin_step(*plan);
    feed->forget_before(cursor.step);
    read_ahead();
  }

  // Keeps `prefetch` lanes in reading, over the ends of steps and epochs.
  void read_ahead() {
    data::StepPlan ahead = *plan;
    // Lanes of this step that are done are not read again.
    std::vector<std::size_t> expected;
    for (const std::size_t lane : strategy->expected_lanes(ahead)) {
      if (std::find(done.begin(), done.end(), lane) == done.end()) expected.push_back(lane);
    }
    feed->expect(ahead, expected);
    // A strategy that cannot guess gives no lanes; looking further than prefetch steps is never needed.
    for (std::size_t steps = 0; steps < options.prefetch && !feed->full(); ++steps) {
      ahead = feed->order().plan(ahead.next);
      feed->expect(ahead, strategy->expected_lanes(ahead));
    }
  }

  // Forgets the step in work: a loop that was left early, or a state that was restored.
  void abandon() {
    binding.abandon_lane();
    active = false;
    plan.reset();
    done.clear();
  }

  // The next lane of this step that this worker computes once more: the choice is the seed's, and the worker is the one
  // after the one that has computed it.
  std::optional<std::size_t> next_verification() {
    if (options.verify_rate <= 0) return std::nullopt;
    strategy->wait_lanes(Deadline::after(options.step_timeout));
    while (next_to_verify < plan->lanes.size()) {
      const std::size_t index = next_to_verify++;
      RandomStream random({.seed = options.seed,
                           .purpose = Purpose::kVerify,
                           .epoch = plan->at.epoch,
                           .step = plan->at.step,
                           .lane = index});
      if (random.uniform() >= options.verify_rate) continue;
      // Lanes of a worker that is gone are the first one's.
      const comm::Group group = strategy->members().group;
      if ((strategy->lane_worker(index) + 1) % group.size() == group.rank()) return index;
    }
    return std::nullopt;
  }

  void compare_with_first() const {
    const std::string what = check.difference(strategy->area(lane.index));
    if (what.empty()) return;
    throw Error(
        ErrorKind::kMismatch,
        fmt::format("lane {} of step {} is not the same when it is computed again (first by worker {}, then by "
                    "worker {}): {}",
                    lane.index, lane.step, strategy->lane_worker(lane.index), strategy->members().group.rank(), what),
        {}, "Draw random numbers with LibTorch's default generator only, and keep nothing from lane to lane.");
  }

  void prepare(std::size_t index, bool repeated = false) {
    lane = Lane();
    lane.index = index;
    lane.repeated = repeated;
    lane.epoch = plan->at.epoch;
    lane.step = plan->at.step;
    {
      const Stopwatch watch(times.load);
      strategy->begin(comm::Activity::kLoading);
      batch = feed->take(*plan, index);
      done.push_back(index);
      read_ahead();
    }
    compute_start = system_clock().now();
    strategy->begin(comm::Activity::kComputing);
    lane.samples_ = static_cast<double>(batch.size());
    lane.weight_ = plan->weight(index);
    if (stop_signal && stop_signal->number() != 0) lane.request_stop();
    lane.ids = batch.ids;
    lane.data = input_tensor(batch);
    lane.target = target_tensor(batch);
    // Every lane starts from the committed parameters and buffers and from its own random numbers.
    binding.write_buffers(strategy->committed().buffers);
    lane.single_backward_ = !repeated && strategy->uses_ready_gradients(index);
    std::function<void(std::size_t)> ready;
    if (lane.single_backward_) ready = [this, index](std::size_t tensor) { strategy->gradient_ready(index, tensor); };
    binding.begin_lane(repeated ? check.area() : strategy->area(index), std::move(ready));
    torch::manual_seed(derive_seed({.seed = options.seed,
                                    .purpose = Purpose::kLane,
                                    .epoch = plan->at.epoch,
                                    .step = plan->at.step,
                                    .lane = index}));
    active = true;
  }

  // What the lane made of the buffers; frozen ones are as they were committed.
  void read_buffers(std::span<std::byte> bytes) {
    binding.read_buffers(bytes);
    const std::span<const std::byte> committed = strategy->committed().buffers;
    for (const compute::BufferSlot& slot : binding.buffer_layout().slots) {
      if (!frozen.holds(slot.name)) continue;
      const auto kept = committed.subspan(slot.offset, slot.bytes);
      std::copy(kept.begin(), kept.end(), bytes.begin() + static_cast<std::ptrdiff_t>(slot.offset));
    }
  }

  void refuse_gradients_of_frozen(std::span<const std::uint8_t> present) const {
    for (std::size_t tensor = 0; tensor < present.size(); ++tensor) {
      if (present[tensor] == 0 || rules[tensor].trainable) continue;
      throw Error(
          ErrorKind::kInvalidInput,
          fmt::format("parameter {} has a gradient, although SessionOptions::tuning freezes it for the whole job",
                      binding.layout().tensors()[tensor].name),
          {}, "Leave its requires_grad alone, or say in tuning.unfreeze from which epoch on it trains.");
    }
  }

  void complete() {
    active = false;
    if (!lane.has_backward_) {
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("lane {} of step {} ended without backward()", lane.index, lane.step), {},
                  "Call lane.backward(loss) in every turn of the loop.");
    }
    binding.collect();
    if (lane.repeated) {
      read_buffers(check.buffers());
      compare_with_first();
    } else {
      refuse_gradients_of_frozen(strategy->area(lane.index).present);
      read_buffers(strategy->area(lane.index).buffers);
      strategy->finish(lane.index, lane.report_);
    }
    lane.data = torch::Tensor();
    lane.target = torch::Tensor();
    feed->recycle(std::move(batch));
    times.compute += Seconds(system_clock().now() - compute_start).count();
    strategy->begin(comm::Activity::kWaiting);
  }

  void commit() {
    const Stopwatch watch(times.update);
    count(strategy->commit(rule(), Deadline::after(options.step_timeout)));
    times.wait += outcome.waited;
    times.update -= outcome.waited;
    plan.reset();
    done.clear();
    show_committed();
  }

  void count(const strategies::StepOutcome& committed) {
    outcome = committed;
    if (!outcome.applied) ++skipped;
  }

  // The next lane to compute, committing the step and starting another as needed; null at the end of the epoch.
  Lane* advance(const Session& session) {
    if (active) complete();
    while (true) {
      if (!plan) begin_step();
      if (const std::optional<std::size_t> index = strategy->claim()) {
        prepare(*index);
        return &lane;
      }
      if (const std::optional<std::size_t> index = next_verification()) {
        prepare(*index, true);
        return &lane;
      }
      commit();
      stop_if_asked(session);
      if (cursor.position == 0) return nullptr;
    }
  }

  // constant after construction
  const SessionOptions options;
  const std::size_t lanes;
  // the same between two calls of change_optimizer()
  std::unique_ptr<const compute::Optimizer> optimizer;
  const std::vector<std::string> slot_names;
  double base_lr;
  std::optional<double> clip_norm;
  bool meets_in_lanes = false;  // a lane of one worker waits for the lanes of all others
  // the model and its state
  FrozenParts frozen;  // before the binding, which looks at what trains at all
  compute::ModuleBinding binding;
  std::vector<compute::TensorRule> rules;  // the same between two calls of change_optimizer()
  std::unique_ptr<strategies::Strategy> strategy;
  data::Cursor cursor;
  bool met = false;              // one of those who train
  std::uint64_t entered_at = 0;  // committed steps when this worker met those who train with it now
  std::optional<launch::StopSignal> stop_signal;
  bool wishes_to_stop = false;                             // a lane has said so without a signal
  std::optional<std::filesystem::path> checkpoint_folder;  // that the program has named last
  // the step in work
  std::optional<LaneFeed> feed;
  std::optional<data::StepPlan> plan;
  std::vector<std::size_t> done;  // lanes of it that this worker has taken
  Lane lane;
  data::Batch batch;
  bool active = false;
  Clock::Instant compute_start;
  std::size_t next_to_verify = 0;
  LaneCheck check{binding.layout(), binding.buffer_layout()};
  // what happened
  strategies::StepOutcome outcome;
  std::uint64_t skipped = 0;
  PhaseTimes times;
};

Session::Session(std::shared_ptr<torch::nn::Module> module, const compute::OptimizerOptions& optimizer,
                 const SessionOptions& options)
    : state_(std::make_unique<State>(std::move(module), optimizer, options)) {
}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() {
  // Of a worker that is told by nobody else: whoever watches it may not be its parent.
  if (state_ && state_->met && std::uncaught_exceptions() == 0) state_->strategy->begin(comm::Activity::kDone);
}

Session::LaneRange Session::lanes(std::shared_ptr<const data::Dataset> dataset) {
  state_->use(dataset);
  state_->abandon();
  return {this, std::move(dataset)};
}

Session::LaneRange Session::lanes(const data::Dataset& dataset) {
  if (state_->feed && state_->feed->dataset().get() == &dataset) return lanes(state_->feed->dataset());
  return lanes(std::shared_ptr<const data::Dataset>(std::shared_ptr<void>(), &dataset));
}

Lane* Session::next_lane(const std::shared_ptr<const data::Dataset>& dataset) {
  State& state = *state_;
  state.use(dataset);
  state.meet();
  while (true) {
    try {
      return state.advance(*this);
    } catch (const Error& error) {
      if (!state.options.supervised || error.kind() != ErrorKind::kPeerLost) throw;
    }
    if (state.rejoin() && state.cursor.position == 0) return nullptr;
  }
}

void Session::meet(const std::shared_ptr<const data::Dataset>& dataset) {
  state_->use(dataset);
  state_->meet();
}

strategies::Members Session::members() const {
  return state_->strategy->members();
}

std::optional<Evaluation> Session::evaluate(const ForwardFunction& forward,
                                            const std::shared_ptr<const data::Dataset>& dataset,
                                            EvaluationOptions options) {
  options.alone_if_lost = false;
  for (;;) {
    options.group = state_->together();
    try {
      return trainer::evaluate(state_->binding.module(), forward, dataset, options);
    } catch (const Error& error) {
      if (!state_->options.supervised || error.kind() != ErrorKind::kPeerLost) throw;
    }
    // Who was lost may have been the one that writes and speaks for all.
    state_->rejoin();
  }
}

void Session::begin(comm::Activity activity) {
  state_->strategy->begin(activity);
}

std::chrono::nanoseconds Session::abandoned_for() const {
  return state_->strategy->abandoned_for();
}

void Session::write_note(const std::string& text) {
  state_->strategy->write_note(text);
}

std::string Session::note() const {
  return state_->strategy->note();
}

std::optional<strategies::StepOutcome> Session::rejoin() {
  return state_->rejoin();
}

strategies::StepOutcome Session::step(const std::shared_ptr<const data::Dataset>& dataset,
                                      const LaneFunction& compute) {
  State& state = *state_;
  state.use(dataset);
  state.meet();
  state.abandon();
  state.begin_step();
  const auto compute_lane = [&](std::size_t index, bool repeated) {
    state.prepare(index, repeated);
    try {
      compute(state.lane);
    } catch (const c10::Error& error) {
      throw_compute_error(error, state.lane);
    }
    state.complete();
  };
  while (const std::optional<std::size_t> index = state.strategy->claim())
    compute_lane(*index, false);
  while (const std::optional<std::size_t> index = state.next_verification())
    compute_lane(*index, true);
  state.commit();
  state.stop_if_asked(*this);
  return state.outcome;
}

void Session::change_optimizer(const compute::OptimizerOptions& optimizer, const std::optional<double>& clip_norm) {
  check_clip_norm(clip_norm);
  auto made = compute::make_optimizer(optimizer);
  MUSTER_CHECK(std::ranges::equal(made->slot_names(), state_->slot_names), "an optimizer with other state");
  state_->optimizer = std::move(made);
  state_->base_lr = compute::base_lr(optimizer);
  state_->clip_norm = clip_norm;
  state_->rules = state_->tensor_rules(compute::weight_decay(optimizer));
}

void Session::synchronize() {
  state_->abandon();
  state_->strategy->synchronize(Deadline::after(state_->options.step_timeout));
  state_->show_committed();
}

std::string Session::counted() {
  return state_->strategy->counted();
}

const data::Cursor& Session::cursor() const {
  return state_->cursor;
}
const strategies::StepOutcome& Session::last_outcome() const {
  return state_->outcome;
}
double Session::learning_rate() const {
  return compute::lr_at(state_->options.schedule, state_->base_lr, state_->cursor.step);
}
std::uint64_t Session::lane_count() const {
  return state_->lanes;
}
std::uint64_t Session::batch() const {
  return state_->options.batch;
}
std::uint64_t Session::parameter_count() const {
  return state_->binding.layout().parameter_count();
}
std::size_t Session::state_bytes() const {
  return state_->strategy->state_bytes();
}
std::uint64_t Session::skipped_steps() const {
  return state_->skipped;
}
PhaseTimes Session::times() const {
  return state_->times;
}

strategies::CommittedState Session::committed() const {
  return state_->strategy->committed();
}

void Session::restore(const strategies::CommittedState& state) {
  state_->abandon();
  state_->feed.reset();
  state_->strategy->restore(state);
  state_->show_committed();
}

const model::FlatLayout& Session::layout() const {
  return state_->binding.layout();
}
const compute::BufferLayout& Session::buffer_layout() const {
  return state_->binding.buffer_layout();
}
std::span<const std::string> Session::slot_names() const {
  return state_->slot_names;
}

void Session::save(const std::filesystem::path& path) const {
  const std::vector<model::TensorView> tensors = model_tensors(*this, committed());
  model::write_safetensors(path, tensors, {{"format", "pt"}});
}

void Session::checkpoint(const std::filesystem::path& folder) const {
  state_->checkpoint_folder = folder;
  if (!state_->strategy->members().leads()) return;
  TrainingState snapshot = capture(*this);
  snapshot.manifest.seed = state_->options.seed;
  snapshot.manifest.progress["batch"] = state_->options.batch;
  snapshot.manifest.progress["lanes"] = state_->lanes;
  model::CheckpointStore(folder).save(snapshot.content());
}

bool Session::resume(const std::filesystem::path& folder) {
  state_->checkpoint_folder = folder;
  std::vector<model::RejectedCheckpoint> rejected;
  const std::optional<model::LoadedCheckpoint> loaded = model::CheckpointStore(folder).load_newest(rejected);
  if (!loaded) {
    if (rejected.empty()) return false;
    throw Error(ErrorKind::kDamaged, rejected.front().reason, rejected.front().path.string(),
                "No other checkpoint in this folder is whole.");
  }
  const std::string where = loaded->path.string();
  const auto agree = [&](const char* what, std::uint64_t was, std::uint64_t is) {
    if (was != is) throw Error(ErrorKind::kMismatch, fmt::format("{} was {} and is {} now", what, was, is), where);
  };
  agree("batch", json_get<std::uint64_t>(loaded->manifest.progress, "batch", where), state_->options.batch);
  agree("lanes", json_get<std::uint64_t>(loaded->manifest.progress, "lanes", where), state_->lanes);
  agree("seed", loaded->manifest.seed, state_->options.seed);
  trainer::restore(*this, *loaded);
  return true;
}

std::string Session::weights_hash() const {
  std::vector<model::TensorView> tensors = model_tensors(*this, committed());
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  Sha256 hash;
  for (const model::TensorView& tensor : tensors) {
    hash.update(std::as_bytes(std::span(tensor.name)));
    hash.update(tensor.data);
  }
  return hash.finish();
}

}  // namespace muster::trainer
