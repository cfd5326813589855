// How the parts of a session go together: what a worker agrees on with the others before it trains, how it becomes one
// of them, again after a loss, and what of the committed state the model is shown.
#include "muster/trainer/session_core.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/heap.h"
#include "muster/base/random.h"
#include "muster/compute/threads.h"
#include "muster/data/sampled_order.h"
#include "muster/model/sync_batch_norm.h"
#include "muster/strategies/registry.h"
#include "muster/strategies/strategy_traits.h"
#include "muster/trainer/compute_error.h"
#include "muster/trainer/kernel_agreement.h"
#include "muster/trainer/recovery.h"
#include "muster/trainer/session_note.h"

namespace muster::trainer {
namespace {

// Between the moments at which a signal to all workers reaches the first and the last of them.
constexpr std::chrono::seconds kSignalsApart{2};
// Of a fixed group, whose ranks may load for very different times; one that dies is noticed at once.
constexpr std::chrono::hours kMeetingTimeout{1};
constexpr std::chrono::minutes kSavingTimeout{10};

std::unique_ptr<StagedLanes> make_staged(const SessionParts& parts, const LaneModel& model,
                                         strategies::Strategy& strategy, std::chrono::seconds step_timeout) {
  return parts.staged ? std::make_unique<StagedLanes>(model, parts.staged, strategy, step_timeout) : nullptr;
}

// One worker alone in a call that all make waits in vain: the error says which call that is.
template <typename Wait>
void wait_for_all(std::string_view call, const Wait& wait) {
  try {
    wait();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
    throw Error(error.kind(),
                fmt::format("{} is called by all workers, and not all have come: {}", call, error.message()),
                error.where(),
                "Only what the program prints and writes itself goes behind session.members().leads(); if all call "
                "it, see whether one is stopped or stuck.");
  }
}

}  // namespace

SessionCore::PartUpdate::PartUpdate(const std::optional<compute::OptimizerOptions>& options) {
  if (!options) return;
  optimizer = compute::make_optimizer(*options);
  base_lr = compute::base_lr(*options);
  weight_decay = compute::weight_decay(*options);
}

std::vector<SessionCore::PartUpdate> SessionCore::part_updates(const ModelParts& model) {
  std::vector<PartUpdate> updates;
  for (std::size_t part = 0; part < model.count(); ++part) {
    updates.emplace_back(model.options(part).optimizer);
    if (model.options(part).schedule) compute::validate(*model.options(part).schedule);
  }
  return updates;
}

std::vector<std::vector<std::string>> SessionCore::slots_of(std::span<const PartUpdate> updates) {
  std::vector<std::vector<std::string>> names;
  for (const PartUpdate& update : updates)
    names.push_back(update.optimizer ? update.optimizer->slot_names() : std::vector<std::string>());
  return names;
}

SessionCore::SessionCore(std::shared_ptr<torch::nn::Module> module, const compute::OptimizerOptions& optimizer,
                         const SessionOptions& options, SessionParts parts)
    : SessionCore(ModelParts(std::move(module), optimizer), options, std::move(parts)) {
}

SessionCore::SessionCore(ModelParts model, const SessionOptions& options, SessionParts parts)
    : options_(options),
      parts_(std::move(parts)),
      lanes_(check_options(options_)),
      model_(std::move(model)),
      updates_(part_updates(model_)),
      slot_names_(slots_of(updates_)),
      clip_norm_(options_.clip_norm),
      frozen_(options_.tuning, *model_.module()),
      binding_(model_.module()),
      rules_(tensor_rules()),
      strategy_(make_agreed_strategy()),
      executor_(lane_model()),
      driver_(driver_parts()),
      staged_(make_staged(parts_, lane_model(), *strategy_, options_.step_timeout)) {
  if (options_.stop_on_signals) stop_signal_.emplace();
  if (options_.after_commit) {
    after_ = [this](std::span<float> parameters, std::span<std::byte> buffers) {
      write_after_update(parameters, buffers);
    };
  }
  check_strategy();
  compute::set_threads(options_.threads);
  keep_freed_memory();
  adopt_module();
}

SessionCore::~SessionCore() {
  if (!met_ || std::uncaught_exceptions() > 0) return;
  if (SessionReport* const to = report())
    to->ended(cursor_, stop_requested_ ? "interrupted" : "finished", skipped_steps().total);
  // Of a worker that is told by nobody else: whoever watches it may not be its parent.
  begin(comm::Activity::kDone);
}

LaneModel SessionCore::lane_model() {
  return {binding_, frozen_, rules_, options_.seed, &model_, options_.strategy.traits().carries_figures()};
}

StepDriver::Parts SessionCore::driver_parts() {
  return {.options = options_,
          .strategy = *strategy_,
          .executor = executor_,
          .check = LaneCheck(binding_.layout(), binding_.buffer_layout()),
          .rule = [this] { return rule(); },
          .begin_step = [this](const data::Cursor& cursor) { frozen_.enter_epoch(cursor.epoch); },
          .stop_asked = [this] { return stop_signal_ && stop_signal_->number() != 0; }};
}

// What the options and the model want of the strategy.
void SessionCore::check_strategy() {
  const strategies::Traits traits = options_.strategy.traits();
  if (options_.verify_rate > 0 && !traits.shares_lanes)
    throw Error(
        ErrorKind::kUnsupported, fmt::format("lanes cannot be verified with {}", options_.strategy.name()), {},
        fmt::format("Use {}, or do not verify.", strategies::strategies_with(&strategies::Traits::shares_lanes)));
  if (parts_.staged && !traits.passes_lanes)
    throw Error(ErrorKind::kUnsupported, fmt::format("{} has no pipelines", options_.strategy.name()), {},
                fmt::format("Use {}.", strategies::strategies_with(&strategies::Traits::passes_lanes)));
  if (parts_.staged && options_.verify_rate > 0)
    throw Error(ErrorKind::kUnsupported, "lanes of a pipeline cannot be verified", {}, "Verify a run without one.");
  meets_in_lanes_ = model::has_synchronized_batch_norm(binding_.module());
  if (meets_in_lanes_ && (!traits.lanes_meet || lanes_ != static_cast<std::size_t>(options_.group.size()))) {
    throw Error(ErrorKind::kUnsupported, "a synchronized batch norm needs all workers to compute one lane each", {},
                fmt::format("Use {} with as many lanes as workers, or plain batch norm.",
                            strategies::strategies_with(&strategies::Traits::lanes_meet)));
  }
}

std::vector<compute::TensorRule> SessionCore::tensor_rules() const {
  std::vector<compute::TensorRule> made;
  for (const model::TensorSlot& slot : binding_.layout().tensors()) {
    const std::size_t part = model_.part_of(slot.name);
    const bool exempt = compute::is_exempt(options_.exempt, slot);
    // What the user has frozen by requires_grad_(false) may train later; what the tuning freezes for good may not.
    const bool trainable =
        updates_[part].optimizer && compute::frozen_epochs(options_.tuning, slot.name) != compute::kFrozenForever;
    const double decay = exempt ? 0 : updates_[part].weight_decay * compute::decay_factor(options_.tuning, slot.name);
    made.push_back({decay, !exempt, trainable, compute::lr_factor(options_.tuning, slot.name), part});
  }
  return made;
}

// What some strategies cannot do, because somebody else makes their updates or because their workers go apart.
void SessionCore::check_own_rules() const {
  if (options_.strategy.traits().takes_own_rules) return;
  const std::optional<compute::OptimizerOptions>& first = model_.options(0).optimizer;
  const char* const what = model_.count() > 1      ? "a model in several parts"
                           : options_.after_commit ? "after_commit"
                           : first && std::holds_alternative<compute::OwnOptimizer>(*first)
                               ? "an optimizer of one's own"
                               : nullptr;
  if (what == nullptr) return;
  throw Error(ErrorKind::kUnsupported, fmt::format("{} does not go with {}", what, options_.strategy.name()), {},
              fmt::format("Use {}.", strategies::strategies_with(&strategies::Traits::takes_own_rules)));
}

// Other sizes or options on one of the workers would be met in the middle of something, or never.
std::unique_ptr<strategies::Strategy> SessionCore::make_agreed_strategy() const {
  check_own_rules();
  const bool hosts = parts_.supervised ? parts_.supervised->host.has_value() : parts_.met != nullptr;
  if (hosts && !options_.strategy.traits().crosses_hosts)
    throw Error(ErrorKind::kUnsupported, fmt::format("{} does not train on several hosts", options_.strategy.name()),
                {},
                fmt::format("Use {}, or one host.", strategies::strategies_with(&strategies::Traits::crosses_hosts)));
  std::vector<PartOptions> parts;
  for (std::size_t part = 0; part < model_.count(); ++part)
    parts.push_back(model_.options(part));
  Agreement mine = describe_session(options_, lanes_, parts, binding_.layout(), binding_.buffer_layout());
  for (const auto& [name, type] : binding_.converted())
    mine.emplace_back(fmt::format("parameter {}'s type", name), type);
  agree_on("session", mine);
  if (parts_.supervised) tell_other_kernels(*parts_.supervised);
  return options_.strategy.make(strategy_options());
}

// All workers mean the same by it. Throws kMismatch.
void SessionCore::agree_on(const std::string& what, const Agreement& mine) const {
  if (!parts_.supervised) return agree(options_.group, mine, Deadline::after(kMeetingTimeout));
  // Seats are a host's own; what the workers of all hosts have to say is in the store that all share.
  const strategies::Supervised& supervised = *parts_.supervised;
  const std::string name = supervised.host ? fmt::format("{}-{}", supervised.host->number, supervised.seat)
                                           : std::to_string(supervised.seat);
  const auto store =
      supervised.host ? comm::with_interruption(supervised.host->store, supervised.interruption) : supervised.store;
  agree(*store, "agreement/" + what, name, mine, [&] { leave_refusal(*supervised.store, supervised.seat); });
}

int SessionCore::slots() const {
  std::size_t most = 0;
  for (const std::vector<std::string>& names : slot_names_)
    most = std::max(most, names.size());
  return static_cast<int>(most);
}

strategies::StrategyOptions SessionCore::strategy_options() const {
  strategies::StrategyOptions made{binding_.layout(), binding_.buffer_layout(), slots(), lanes_};
  made.group = options_.group;
  made.met = parts_.met;
  made.note = parts_.note;
  made.claims = options_.claims;
  made.supervised = parts_.supervised;
  made.step_timeout = options_.step_timeout;
  made.records = parts_.records;
  if (parts_.staged) {
    made.share = [staged = parts_.staged](const strategies::Members& members) { return staged->stages.share(members); };
    made.passage_bytes = parts_.staged->stages.passage_bytes();
  }
  if (made.supervised) {
    // Before the first step there is nothing to finish.
    made.supervised->interruption = [this] {
      if (stop_signal_ && stop_signal_->number() != 0)
        throw Error(ErrorKind::kInterrupted, "stopped before the first step");
    };
  }
  if (model_.options(0).optimizer) made.optimizer = *model_.options(0).optimizer;
  made.rules = rules_;
  return made;
}

compute::UpdateRule SessionCore::rule() {
  more_.clear();
  for (std::size_t part = 1; part < updates_.size(); ++part)
    more_.push_back({updates_[part].optimizer.get(), learning_rate(part)});
  return {updates_.front().optimizer.get(), learning_rate(0), clip_norm_, rules_, more_, after_ ? &after_ : nullptr};
}

double SessionCore::learning_rate(std::size_t part) const {
  const std::optional<compute::Schedule>& own = model_.options(part).schedule;
  return compute::lr_at(own ? *own : options_.schedule, updates_[part].base_lr, cursor_.step);
}

// The last thing of the step that begins at the cursor, in memory that nobody is shown before the commit.
void SessionCore::write_after_update(std::span<float> parameters, std::span<std::byte> buffers) {
  const data::Cursor after = feed_->order().plan(cursor_).next;
  const torch::NoGradGuard no_grad;
  torch::manual_seed(
      derive_seed({.seed = options_.seed, .purpose = Purpose::kCommit, .epoch = cursor_.epoch, .step = cursor_.step}));
  try {
    binding_.change(parameters, buffers, [&] { options_.after_commit(after); });
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kCompute, error.what_without_backtrace(),
                fmt::format("after_commit of step {}", cursor_.step));
  }
}

// The first version is what the module holds.
void SessionCore::adopt_module() {
  put_state({}, {}, [this](const strategies::StateToFill& to) {
    if (parts_.first_state) {
      parts_.first_state(binding_.layout(), to.version.parameters, to.buffers);
    } else {
      binding_.read_parameters(to.version.parameters);
      binding_.read_buffers(to.buffers);
    }
    for (const std::span<float> slot : to.version.state)
      std::ranges::fill(slot, 0.0F);
    std::ranges::fill(to.version.updates, 0U);
  });
  binding_.attach(strategy_->parameter_versions(), strategy_->memory());
  show_committed();
}

void SessionCore::show_committed() {
  binding_.show(strategy_->committed_version());
  binding_.write_buffers(strategy_->committed().buffers);
  cursor_ = strategy_->committed().cursor;
  // A worker that came later knows how many steps are committed, and the rest follows.
  if (met_ && membership().replaces()) cursor_ = feed_->order().cursor_at_step(cursor_.step);
}

void SessionCore::use(const std::shared_ptr<const data::Dataset>& dataset) {
  if (feed_ && feed_->dataset() == dataset) return;
  if (rows_)
    throw Error(ErrorKind::kInvalidInput, "the session trains on tensors, and not on a data set", "session",
                "Make a session for each.");
  if (!dataset) throw Error(ErrorKind::kInvalidInput, "there is no data set", "session", "Give one that is not null.");
  if (dataset->size() == 0) throw Error(ErrorKind::kInvalidInput, "the data set is empty");
  std::shared_ptr<const data::LaneOrder> order = parts_.order;
  if (options_.sampling) {
    order = std::make_shared<data::SampledOrder>(*options_.sampling, options_.batch, lanes_, dataset->size());
  } else if (!order) {
    const data::BatchShape shape{dataset->size(), options_.batch, lanes_};
    order = std::make_shared<data::GlobalOrder>(shape, options_.seed);
  }
  feed_from(dataset, std::move(order));
}

void SessionCore::feed_from(const std::shared_ptr<const data::Dataset>& dataset,
                            std::shared_ptr<const data::LaneOrder> order) {
  // The last step of an epoch may have the fewest.
  const std::size_t fewest = order->plan(order->cursor_at_step(order->steps_per_epoch() - 1)).lanes.size();
  if (meets_in_lanes_ && fewest < lanes_) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("the last batch of an epoch is enough for {} of {} workers, and all meet in every batch "
                            "norm",
                            fewest, lanes_),
                {}, "Choose another batch, or leave samples out.");
  }
  feed_.emplace(dataset, std::move(order),
                LaneFeedOptions{options_.seed, options_.loader_threads, options_.prefetch, options_.load_timeout,
                                options_.mixup_alpha});
  abandon();
}

void SessionCore::meet(const std::shared_ptr<const data::Dataset>& dataset) {
  use(dataset);
  meet();
}

void SessionCore::meet() {
  if (met_) return;
  Agreement data = describe_data(*feed_->dataset(), feed_->order());
  // Hosts of a job have compared theirs file by file.
  const bool alone = !parts_.supervised && options_.group.size() == 1;
  if (parts_.compares_contents && !alone && !rows_) data.push_back(describe_contents(*feed_->dataset()));
  agree_on("data", data);
  // Somebody else may come, or be lost, before this worker has entered: then it meets those who are there next. It has
  // not met anybody before that is done, or it would wait for one more generation when it has.
  survive_losses(
      membership().replaces(), [](const Error&) {},
      [&] {
        membership().meet();
        strategy_->enter_generation();
      });
  met_ = true;
  show_committed();
  entered_at_ = cursor_.step;
  leave_note();
}

// For those who watch; `muster train`, which says in which order its lanes come, leaves a note of its own.
void SessionCore::leave_note() {
  if (parts_.order || !members().leads() || !membership().wants_note(true) || !membership().note().empty()) return;
  const std::uint64_t samples = options_.sampling ? options_.sampling->samples : feed_->dataset()->size();
  membership().write_note(SessionNote{{samples, options_.batch, lanes_}, options_.seed}.to_text());
}

std::optional<strategies::StepOutcome> SessionCore::rejoin() {
  abandon();
  membership().rejoin();
  synchronized_ = false;
  std::optional<strategies::StepOutcome> committed = strategy_->enter_generation();
  count_after_all(committed);
  show_committed();
  entered_at_ = cursor_.step;
  if (committed) throw_if_diverged();
  return committed;
}

// The step in work, which began at the cursor, if it was committed although this worker has not seen it.
void SessionCore::count_after_all(const std::optional<strategies::StepOutcome>& committed) {
  if (!committed) return;
  driver_.count(*committed);
  synchronized_ = false;
  report_step();
}

std::optional<strategies::StepOutcome> SessionCore::settle_step() {
  std::optional<strategies::StepOutcome> committed = strategy_->settle_step();
  count_after_all(committed);
  if (committed) show_committed();
  return committed;
}

// Of the step in work; null when it has been committed.
Lane* SessionCore::next_lane_of_step() {
  if (Lane* const lane = driver_.next(*feed_, cursor_)) return lane;
  end_step();
  return nullptr;
}

// After a commit.
void SessionCore::end_step() {
  synchronized_ = false;
  report_step();
  show_committed();
  stop_if_asked();
  throw_if_diverged();
}

void SessionCore::abandon() {
  driver_.abandon();
  if (staged_) staged_->abandon();
}

Lane* SessionCore::next_lane(const std::shared_ptr<const data::Dataset>& dataset) {
  meet(dataset);
  bool ended = false;  // the epoch, with a step that was committed after all
  return survive_losses(
      membership().replaces(), [&](const Error&) { ended = rejoin() && cursor_.position == 0; },
      [&]() -> Lane* {
        while (!ended && !stop_requested_) {
          if (Lane* const lane = next_lane_of_step()) return lane;
          ended = cursor_.position == 0;
        }
        return nullptr;
      });
}

strategies::StepOutcome SessionCore::step(const std::shared_ptr<const data::Dataset>& dataset,
                                          const std::function<void(Lane&)>& compute) {
  meet(dataset);
  abandon();
  while (Lane* const lane = next_lane_of_step()) {
    try {
      compute(*lane);
    } catch (const c10::Error& error) {
      throw compute_error(error, *lane);
    }
  }
  return last_outcome();
}

strategies::StepOutcome SessionCore::step(const std::shared_ptr<const data::Dataset>& dataset, const StagedCode& code) {
  meet(dataset);
  abandon();
  const auto give_back = [&](data::Batch batch) { feed_->recycle(std::move(batch)); };
  try {
    driver_.run(*feed_, cursor_, [&](const data::StepPlan& plan, const StepDriver::Take& take, PhaseTimes& times) {
      staged_->compute(plan, take, give_back, code, times);
    });
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kCompute, error.what_without_backtrace(), fmt::format("step {}", cursor_.step));
  }
  end_step();
  return last_outcome();
}

template <typename Code>
strategies::StepOutcome SessionCore::make_step(const std::shared_ptr<const data::Dataset>& dataset, const Code& code) {
  meet(dataset);
  std::optional<strategies::StepOutcome> after_all;  // of a step that was committed before its loss was noticed
  return survive_losses(
      membership().replaces(), [&](const Error&) { after_all = rejoin(); },
      [&] { return after_all ? *after_all : step(dataset, code); });
}

strategies::StepOutcome SessionCore::step_through_losses(const std::shared_ptr<const data::Dataset>& dataset,
                                                         const std::function<void(Lane&)>& compute) {
  return make_step(dataset, compute);
}

strategies::StepOutcome SessionCore::step_through_losses(const std::shared_ptr<const data::Dataset>& dataset,
                                                         const StagedCode& code) {
  return make_step(dataset, code);
}

template <typename Code>
void SessionCore::make_steps_until(std::uint64_t step, const std::shared_ptr<const data::Dataset>& dataset,
                                   const Code& code) {
  meet(dataset);
  survive_losses(
      membership().replaces(), [&](const Error&) { rejoin(); },
      [&] {
        while (cursor_.step < step && !stop_requested_)
          this->step(dataset, code);
      });
}

void SessionCore::train_until(std::uint64_t step, const std::shared_ptr<const data::Dataset>& dataset,
                              const std::function<void(Lane&)>& compute) {
  make_steps_until(step, dataset, compute);
}

void SessionCore::train_until(std::uint64_t step, const std::shared_ptr<const data::Dataset>& dataset,
                              const StagedCode& code) {
  make_steps_until(step, dataset, code);
}

SessionReport* SessionCore::report() {
  if (options_.metrics.empty() || !members().leads()) return nullptr;
  if (!report_) {
    report_ = std::make_unique<SessionReport>(options_.metrics, [](const std::string& why) {
      std::fprintf(stderr, "muster: warning: figures are not written down: %s\n", why.c_str());
    });
  }
  return report_.get();
}

// Of the step that began at the cursor and is committed.
void SessionCore::report_step() {
  if (options_.metrics.empty()) return;
  const PhaseTimes& times = driver_.times();
  const double seconds = times.load + times.compute + times.update + times.wait;
  const double its = seconds - std::exchange(reported_seconds_, seconds);
  if (SessionReport* const to = report())
    to->step({cursor_, feed_->order().steps_per_epoch(), learning_rate(0), its, skipped_steps().total}, last_outcome());
}

// After a commit: what `muster stop` asks for.
void SessionCore::stop_if_asked() {
  if (!last_outcome().stop || !stop_signal_ || wishes_to_stop_ || stop_requested_) return;
  // Somebody was told, so all are, a moment earlier or later. Else it is a wish of the program's own.
  if (stop_signal_->wait(kSignalsApart) == 0) {
    wishes_to_stop_ = true;
    return;
  }
  stop_requested_ = true;
  if (!options_.throw_when_stopped) return;
  std::string kept = "no checkpoint was written, because the program has not named a folder for them";
  if (checkpoint_folder_) {
    checkpoint(std::filesystem::path(*checkpoint_folder_));
    kept = fmt::format("a checkpoint is in {}", checkpoint_folder_->string());
  }
  if (SessionReport* const to = report()) to->ended(cursor_, "interrupted", skipped_steps().total);
  begin(comm::Activity::kDone);
  throw Error(ErrorKind::kInterrupted, fmt::format("stopped after step {}; {}", cursor_.step, kept));
}

// Loops that do not ask would go on for ever, and make no step.
void SessionCore::require_going_on() const {
  if (!stop_requested_) return;
  throw Error(ErrorKind::kInterrupted,
              fmt::format("the session was stopped after step {}, and trains no more", cursor_.step), {},
              "Ask session.stop_requested() in the condition of the loop.");
}

// After a commit. A worker that came later has counted fewer: those who have not end it for all.
void SessionCore::throw_if_diverged() const {
  const std::uint64_t in_a_row = skipped_steps().in_a_row;
  if (options_.most_skipped == 0 || in_a_row < options_.most_skipped) return;
  throw Error(ErrorKind::kCompute, fmt::format("{} steps in a row had gradients that are not finite", in_a_row),
              fmt::format("step {}", cursor_.step),
              !parts_.skipped_remedy.empty()
                  ? parts_.skipped_remedy
                  : "Lower the optimizer's lr, set SessionOptions::clip_norm, or look at the data. "
                    "SessionOptions::most_skipped says how many there may be.");
}

// Those with whom this worker can share what all do between two steps. One that has come since the last step may be
// somewhere else in the program, so until the next one it is nobody.
comm::Group SessionCore::together() const {
  return membership().replaces() && cursor_.step == entered_at_ ? comm::Group() : members().group;
}

std::optional<Evaluation> SessionCore::evaluate(const ForwardFunction& forward,
                                                const std::shared_ptr<const data::Dataset>& dataset,
                                                EvaluationOptions options) {
  synchronize_if_apart("evaluate()");
  options.alone_if_lost = false;
  // Who is lost may have been the one that writes and speaks for all.
  return survive_losses(
      membership().replaces(), [&](const Error&) { rejoin(); },
      [&] {
        options.group = together();
        const std::optional<Evaluation> result = trainer::evaluate(binding_.module(), forward, dataset, options);
        if (SessionReport* const to = result ? report() : nullptr) to->evaluation(cursor_, *result);
        return result;
      });
}

compute::Figures SessionCore::measure(const MeasureFunction& function,
                                      const std::shared_ptr<const data::Dataset>& dataset, EvaluationOptions options) {
  synchronize_if_apart("measure()");
  return survive_losses(
      membership().replaces(), [&](const Error&) { rejoin(); },
      [&] {
        options.group = together();
        const compute::Figures figures = trainer::measure(binding_.module(), function, dataset, options_.seed, options);
        if (SessionReport* const to = report()) to->measured(cursor_, figures);
        return figures;
      });
}

void SessionCore::save_together(const std::filesystem::path& path) {
  synchronize_if_apart("save()");
  survive_losses(
      membership().replaces(), [&](const Error&) { rejoin(); },
      [&] {
        // Who writes comes last as a rule, and then waits for the others' part of a step at most.
        const bool writes = members().leads();
        if (writes) save(path);
        const Deadline deadline = Deadline::after(writes ? options_.step_timeout : kSavingTimeout);
        wait_for_all("save()", [&] { together().barrier(deadline); });
      });
}

void SessionCore::synchronize() {
  abandon();
  strategy_->synchronize(Deadline::after(options_.step_timeout));
  show_committed();
  synchronized_ = true;
}

// Outside of survive_losses(): where workers are replaced no step of a program leaves them apart (worker_session()).
void SessionCore::synchronize_if_apart(std::string_view call) {
  if (last_outcome().synchronized || synchronized_) return;
  wait_for_all(call, [&] { synchronize(); });
}

void SessionCore::change_optimizer(const compute::OptimizerOptions& optimizer, const std::optional<double>& clip_norm) {
  check_clip_norm(clip_norm);
  PartUpdate made(optimizer);
  MUSTER_CHECK(updates_.size() == 1 && std::ranges::equal(made.optimizer->slot_names(), slot_names()),
               "an optimizer with other state");
  updates_.front() = std::move(made);
  clip_norm_ = clip_norm;
  rules_ = tensor_rules();
}

}  // namespace muster::trainer
