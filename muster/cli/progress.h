// What a person sees of a training run: one live line on a terminal, plain lines at a sensible rate on a pipe, JSON for
// scripts, or nothing.
#pragma once

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/json.h"
#include "muster/trainer/trainer.h"

namespace muster::cli {

// Why a run that came to its end has failed all the same.
constexpr std::string_view kNotSaved =
    "the last checkpoint could not be written: what was trained since the one before is lost";

enum class ProgressStyle { kLive, kPlain, kJson, kQuiet };

// Thread safety: every method from any thread.
class ProgressView final : public trainer::TrainingObserver {
 public:
  // Writes to `out`; warnings go to `err`. `width` gives the terminal's, for the live line; asked each time, because
  // people change it.
  ProgressView(ProgressStyle style, std::FILE* out, std::FILE* err, std::function<int()> width,
               const Clock& clock = system_clock());
  ~ProgressView() override;  // whatever is said next begins a line

  void started(const Start& start) override;
  void step_committed(const Step& step) override;
  void validating(std::uint64_t done, std::uint64_t samples) override;
  void validated(const Validation& validation) override;
  void checkpoint_written(std::uint64_t step, const std::filesystem::path& path) override;
  void warned(const std::string& message) override;
  // The last that is told. Of a result that was not saved: that the run has failed, with the figures it came to.
  void finished(const trainer::TrainingResult& result, const std::string& resume_command);
  // Whether it has been told of a start.
  bool active() const { return active_; }

 private:
  void emit(const std::string& line);  // a line that stays
  void show(const std::string& line);  // the live line
  std::size_t room() const;            // for a line
  void json(const Json& row);
  bool due(std::chrono::nanoseconds interval);

  // constant after construction
  const ProgressStyle style_;
  std::FILE* const out_;
  std::FILE* const err_;
  const std::function<int()> width_;
  const Clock& clock_;
  std::atomic<bool> active_ = false;
  // guarded by mutex_
  std::mutex mutex_;
  Start start_;
  std::optional<Clock::Instant> last_shown_;
  bool live_ = false;  // a live line stands on the terminal
  Clock::Instant first_step_at_;
  std::uint64_t steps_seen_ = 0;
  std::uint64_t samples_seen_ = 0;
  std::chrono::nanoseconds validation_time_{0};  // kept out of the training rate
  std::optional<Clock::Instant> validation_start_;
};

// The style for standard output as it is: live on a terminal, plain elsewhere.
ProgressStyle style_for_output(bool quiet, bool json);
int terminal_width();

}  // namespace muster::cli
