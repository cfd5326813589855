// A line is made of parts that each know how badly they are wanted, and as many as fit are shown. What is written where
// there is no terminal is rate-limited by the clock it was given.
#include "muster/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/counted.h"
#include "muster/base/text.h"

namespace muster::cli {
namespace {

constexpr std::chrono::milliseconds kLiveInterval{100};
constexpr std::chrono::seconds kPlainInterval{10};
constexpr std::size_t kBarWidth = 20;
constexpr std::size_t kNarrowestBar = 5;  // below that it says nothing
constexpr int kNarrowestTerminal = 20;

std::string bar(std::uint64_t done, std::uint64_t all, std::size_t width) {
  const std::size_t filled = all == 0 ? width : std::min<std::size_t>(done * width / all, width);
  std::string text(filled, '=');
  if (filled < width) text += '>';
  text.resize(width, ' ');
  return fmt::format("[{}]", text);
}

// A part of the line, and how badly it is wanted.
struct Part {
  std::string text;
  int worth = 0;
};

// The parts in their order, as many as there is room for: the least wanted go first. A bar stands behind the first one
// where there is room left for it.
std::string fitting_line(std::vector<Part> parts, std::uint64_t done, std::uint64_t all, std::size_t room) {
  const auto length = [&] {
    std::size_t sum = 2 * (parts.size() - 1);
    for (const Part& part : parts)
      sum += part.text.size();
    return sum;
  };
  while (parts.size() > 1 && length() > room)
    parts.erase(
        std::min_element(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.worth < b.worth; }));
  const std::size_t left = room > length() + 4 ? room - length() - 4 : 0;  // without the blanks and the brackets
  if (left >= kNarrowestBar) parts.front().text += "  " + bar(done, all, std::min(left, kBarWidth));
  std::string line;
  for (const Part& part : parts)
    line += (line.empty() ? "" : "  ") + part.text;
  return line;
}

// Of an epoch whose steps were all skipped there is no loss to tell.
std::string loss_in_words(double loss, std::uint64_t steps, std::uint64_t skipped) {
  if (std::isfinite(loss)) return fmt::format("loss {:.4f}", loss);
  if (skipped > 0 && std::isnan(loss)) return fmt::format("all {} steps skipped (gradient not finite)", grouped(steps));
  return std::isnan(loss) ? "loss -" : fmt::format("loss {}", loss);
}

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

}  // namespace

ProgressView::ProgressView(ProgressStyle style, std::FILE* out, std::FILE* err, std::function<int()> width,
                           const Clock& clock)
    : style_(style), out_(out), err_(err), width_(std::move(width)), clock_(clock) {
}

std::size_t ProgressView::room() const {
  // The last column stays free: some terminals break the line there.
  if (style_ == ProgressStyle::kLive) return static_cast<std::size_t>(std::max(kNarrowestTerminal, width_()) - 1);
  return std::numeric_limits<std::size_t>::max() / 2;
}

ProgressView::~ProgressView() {
  if (!live_) return;
  fmt::print(out_, "\r\x1b[K");
  std::fflush(out_);
}

void ProgressView::emit(const std::string& line) {
  if (style_ == ProgressStyle::kQuiet || style_ == ProgressStyle::kJson) return;
  if (live_) fmt::print(out_, "\r\x1b[K");
  live_ = false;
  fmt::print(out_, "{}\n", line);
  std::fflush(out_);
}

void ProgressView::show(const std::string& line) {
  if (style_ == ProgressStyle::kLive) {
    fmt::print(out_, "\r{}\x1b[K", line.substr(0, room()));
    live_ = true;
    std::fflush(out_);
  } else {
    emit(line);
  }
}

void ProgressView::json(const Json& row) {
  if (style_ != ProgressStyle::kJson) return;
  fmt::print(out_, "{}\n", row.dump());
  std::fflush(out_);
}

bool ProgressView::due(std::chrono::nanoseconds interval) {
  const Clock::Instant now = clock_.now();
  if (last_shown_ && now - *last_shown_ < interval) return false;
  last_shown_ = now;
  return true;
}

void ProgressView::started(const Start& start) {
  const std::lock_guard lock(mutex_);
  start_ = start;
  first_step_at_ = clock_.now();
  active_ = true;
  if (start.taken_over) return;
  emit(fmt::format("run    {}", start.run.string()));
  emit(fmt::format("data   {}", start.data));
  emit(fmt::format("model  {}, {} parameters", start.model, grouped(start.parameters)));
  for (const std::string& line : start.init)
    emit(fmt::format("init   {}", line));
  emit(fmt::format("batch  {} in {} lane{}, {} steps an epoch, {} worker{}", start.batch, start.lanes,
                   start.lanes == 1 ? "" : "s", grouped(start.steps_per_epoch), start.workers,
                   start.workers == 1 ? "" : "s"));
  if (start.first_step > 0) {
    // A job may be given fewer steps than it has done.
    if (start.first_step > start.total_steps)
      emit(fmt::format("resume after step {}: the job has {}, and none is left", grouped(start.first_step),
                       counted(start.total_steps, "step")));
    else
      emit(fmt::format("resume from step {} of {}", grouped(start.first_step), grouped(start.total_steps)));
  }
  json({{"event", "started"},
        {"run", start.run.string()},
        {"data", start.data},
        {"model", start.model},
        {"init", start.init},
        {"parameters", start.parameters},
        {"train_samples", start.train_samples},
        {"batch", start.batch},
        {"lanes", start.lanes},
        {"workers", start.workers},
        {"first_step", start.first_step},
        {"total_steps", start.total_steps}});
}

void ProgressView::step_committed(const Step& step) {
  const std::lock_guard lock(mutex_);
  ++steps_seen_;
  samples_seen_ += step.samples;
  const bool live = style_ == ProgressStyle::kLive;
  if (steps_seen_ == 1 && !live) last_shown_ = clock_.now();  // the first plain line comes after the first interval
  if (!due(live ? std::chrono::nanoseconds(kLiveInterval) : std::chrono::nanoseconds(kPlainInterval))) return;

  const double seconds = std::chrono::duration<double>(clock_.now() - first_step_at_ - validation_time_).count();
  const double rate = seconds > 0 ? static_cast<double>(samples_seen_) / seconds : 0;
  const double per_step = seconds / static_cast<double>(steps_seen_);
  const double left = per_step * static_cast<double>(start_.total_steps - std::min(step.step, start_.total_steps));
  const std::uint64_t epochs = (start_.total_steps + start_.steps_per_epoch - 1) / start_.steps_per_epoch;
  // The last epoch may be a part of one (job.steps).
  const std::uint64_t before = step.step - std::min(step.step, step.step_in_epoch);
  const std::uint64_t in_epoch =
      std::min(start_.steps_per_epoch, start_.total_steps - std::min(before, start_.total_steps));
  std::vector<Part> parts{
      {fmt::format("epoch {}/{}", step.epoch + 1, epochs), 9},
      {fmt::format("step {}/{}", step.step_in_epoch, in_epoch), 5},
      {loss_in_words(step.loss, step.step_in_epoch, step.skipped), 6},
      {fmt::format("{} {:.4f}", start_.score, step.score), 3},
      {fmt::format("{} samples/s", grouped(static_cast<std::uint64_t>(rate))), 7},
      {human_duration(std::chrono::nanoseconds(static_cast<std::int64_t>(left * 1e9))) + " left", 8}};
  if (!std::isfinite(step.score)) parts.erase(parts.begin() + 3);
  if (step.skipped > 0 && std::isfinite(step.loss)) parts.push_back({fmt::format("{} skipped", step.skipped), 4});
  show(fitting_line(std::move(parts), step.step_in_epoch, in_epoch, room()));
  json({{"event", "progress"},
        {"epoch", step.epoch},
        {"step", step.step},
        {"loss", number(step.loss)},
        {start_.score, number(step.score)},
        {"lr", step.lr},
        {"samples_per_s", number(rate)},
        {"seconds_left", number(left)},
        {"skipped", step.skipped}});
}

void ProgressView::validating(std::uint64_t done, std::uint64_t samples) {
  const std::lock_guard lock(mutex_);
  if (!validation_start_) validation_start_ = clock_.now();
  if (style_ != ProgressStyle::kLive || !due(kLiveInterval)) return;
  show(fitting_line({{"validating", 2}, {fmt::format("{}/{}", done, samples), 1}}, done, samples, room()));
}

void ProgressView::validated(const Validation& v) {
  const std::lock_guard lock(mutex_);
  if (validation_start_) validation_time_ += clock_.now() - *validation_start_;
  validation_start_.reset();
  const std::uint64_t epochs = (start_.total_steps + start_.steps_per_epoch - 1) / start_.steps_per_epoch;
  const std::string trained =
      std::isnan(v.train_loss) ? "no step of this epoch was applied"
                               : fmt::format("train loss {:.4f}, {} {:.4f}", v.train_loss, start_.score, v.train_score);
  emit(fmt::format("epoch {}/{}  step {}  {}  {} {}{}", v.epoch, epochs, v.step, trained, v.set, describe(v.result),
                   v.best ? "  best so far" : ""));
  Json row{{"event", "validation"},
           {"set", v.set},
           {"epoch", v.epoch},
           {"step", v.step},
           {"train_loss", number(v.train_loss)},
           {"train_" + start_.score, number(v.train_score)},
           {"loss", number(v.result.loss)},
           {"best", v.best}};
  for (const trainer::Metric& metric : v.result.metrics)
    row[metric.name] = number(metric.value);
  json(row);
}

void ProgressView::checkpoint_written(std::uint64_t step, const std::filesystem::path& path) {
  const std::lock_guard lock(mutex_);
  json({{"event", "checkpoint"}, {"step", step}, {"path", path.string()}});
}

void ProgressView::warned(const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (live_) fmt::print(out_, "\r\x1b[K");
  live_ = false;
  std::fflush(out_);
  fmt::print(err_, "muster: {}\n", message);
  std::fflush(err_);
}

namespace {

// What parameter servers have counted: how old gradients were, and what was lost or dropped.
std::string describe_servers(const Json& counted) {
  std::uint64_t updates = 0;
  double sum = 0;
  std::string histogram;
  const Json staleness = counted.value("staleness", Json::array());
  for (std::size_t age = 0; age < staleness.size(); ++age) {
    const auto count = staleness[age].get<std::uint64_t>();
    if (count == 0) continue;
    updates += count;
    sum += static_cast<double>(age) * static_cast<double>(count);
    if (histogram.size() < 100)
      histogram += fmt::format("{}{}: {}", histogram.empty() ? "" : ", ", age, grouped(count));
  }
  return fmt::format(
      "servers: {} updates, staleness {:.2f} in the mean ({}); {} lanes dropped, {} sent twice, {} updates lost",
      grouped(updates), updates > 0 ? sum / static_cast<double>(updates) : 0.0, histogram, counted.value("dropped", 0),
      counted.value("repeated", 0), counted.value("lost_updates", 0));
}

}  // namespace

void ProgressView::finished(const trainer::TrainingResult& r, const std::string& resume_command) {
  using End = trainer::TrainingResult::End;
  const std::lock_guard lock(mutex_);
  if (r.end == End::kInterrupted || r.end == End::kPaused || r.end == End::kAbandoned) {
    if (r.end == End::kAbandoned)
      emit("the coordinator is gone, and none has taken over in time (parallel.orphan_seconds)");
    emit(fmt::format("{} at step {}; {}", r.end == End::kPaused ? "paused" : "stopped", grouped(r.steps),
                     r.checkpoint.empty() ? "no checkpoint could be written" : "checkpoint " + r.checkpoint.string()));
    emit(fmt::format("resume with: {}", resume_command));
    Json row{{"event", !r.saved                ? "failed"
                       : r.end == End::kPaused ? "paused"
                                               : "interrupted"},
             {"step", r.steps},
             {"checkpoint", r.checkpoint.string()},
             {"resume", resume_command}};
    if (!r.saved) row["reason"] = kNotSaved;
    json(row);
    return;
  }
  if (r.end == End::kEarly) emit("stopped early: the validation loss no longer improves");
  emit(fmt::format("{}: {} steps in {} of training, {} samples/s{}", r.saved ? "done" : "trained, and not saved",
                   grouped(r.steps),
                   human_duration(std::chrono::nanoseconds(static_cast<std::int64_t>(r.seconds * 1e9))),
                   grouped(static_cast<std::uint64_t>(r.samples_per_s)),
                   r.skipped > 0 ? fmt::format(", {} steps skipped (gradient not finite)", r.skipped) : ""));
  if (r.steps > 0 && r.skipped >= r.steps)
    emit("every step was skipped: the weights are those that training began with");
  emit(fmt::format("last checkpoint {}; best at step {} (validation loss {:.4f})",
                   r.checkpoint.empty() ? "not written" : r.checkpoint.string(), r.best_step, r.best_loss));
  emit(fmt::format("test {} (step {}, the last)", describe(r.test), grouped(r.steps)));
  if (!r.counted.empty()) emit(describe_servers(Json::parse(r.counted)));
  Json row{{"event", r.saved ? "finished" : "failed"},
           {"run", r.run.string()},
           {"checkpoint", r.checkpoint.string()},
           {"step", r.steps},
           {"epochs", r.epochs},
           {"early", r.end == End::kEarly},
           {"test_loss", number(r.test.loss)},
           {"best_step", r.best_step},
           {"best_loss", number(r.best_loss)},
           {"best_" + start_.score, number(r.best_score)},
           {"skipped", r.skipped},
           {"seconds", r.seconds},
           {"samples_per_s", number(r.samples_per_s)},
           {"weights", r.weights_hash}};
  for (const trainer::Metric& metric : r.test.metrics)
    row["test_" + metric.name] = number(metric.value);
  if (!r.counted.empty()) row["servers"] = Json::parse(r.counted);
  if (!r.saved) {
    row["reason"] = kNotSaved;
    row["resume"] = resume_command;
  }
  json(row);
}

ProgressStyle style_for_output(bool quiet, bool json) {
  if (json) return ProgressStyle::kJson;
  if (quiet) return ProgressStyle::kQuiet;
  return ::isatty(STDOUT_FILENO) == 1 ? ProgressStyle::kLive : ProgressStyle::kPlain;
}

int terminal_width() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 120;
}

}  // namespace muster::cli
