// muster bench tune: what a study costs beside its trials. Trials only wait, so that everything above the ideal time is
// overhead; the same tuner, log and searchers as in muster tune, with threads in the place of processes.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/json.h"
#include "muster/base/temporary_folder.h"
#include "muster/cli/bench/tune.h"
#include "muster/control/write_ahead.h"
#include "muster/tuning/study.h"
#include "muster/tuning/study_log.h"
#include "muster/tuning/tuner.h"

namespace muster::cli {
namespace {

// Proposals for each slot that wait for it: some commits' worth of trials of 10 ms.
constexpr std::size_t kAhead = 4;

struct TuneBench {
  std::uint64_t trials = 10000;
  std::size_t slots = 2;
  double milliseconds = 10;
  std::string searcher = tuning::all_searchers().front().name();
  std::uint64_t calls = 50;
  std::string folder;
  bool bare = false;
  bool json = false;
};

// A valley in four dimensions.
double valley(const tuning::Assignment& values) {
  double sum = 0;
  for (const auto& [name, value] : values.entries()) {
    const double x = std::get<double>(value) - 0.3;
    sum += x * x;
  }
  return sum;
}

tuning::Space bench_space() {
  std::vector<tuning::Parameter> parameters;
  for (const char* name : {"a", "b", "c", "d"})
    parameters.push_back(tuning::Parameter::uniform(name, 0, 1));
  return tuning::Space(std::move(parameters));
}

// As many threads as slots, each of which takes the next trial, waits, and tells.
class WaitingTrials final : public tuning::TrialExecutor {
 public:
  WaitingTrials(std::size_t slots, std::chrono::nanoseconds time) : time_(time) {
    for (std::size_t i = 0; i < slots; ++i)
      threads_.emplace_back([this] { work(); });
  }
  WaitingTrials(const WaitingTrials&) = delete;
  WaitingTrials& operator=(const WaitingTrials&) = delete;
  ~WaitingTrials() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    started_.notify_all();
    for (std::thread& thread : threads_)
      thread.join();
  }

  void start(const tuning::Trial& trial, std::uint64_t) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back({trial.number, valley(trial.values)});
    }
    started_.notify_one();
  }
  void stop(std::uint64_t) override {}
  std::vector<tuning::TrialNews> wait(std::chrono::milliseconds longest) override {
    std::unique_lock lock(mutex_);
    told_.wait_for(lock, longest, [this] { return !news_.empty(); });
    return std::exchange(news_, {});
  }

 private:
  struct Waiting {
    std::uint64_t number = 0;
    double value = 0;
  };

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      started_.wait(lock, [this] { return ends_ || !queue_.empty(); });
      if (ends_) return;
      const Waiting trial = queue_.front();
      queue_.pop_front();
      lock.unlock();
      system_clock().sleep_for(time_);
      lock.lock();
      tuning::TrialNews report;
      report.number = trial.number;
      report.report = {1, {trial.value}};
      news_.push_back(report);
      report.what = tuning::TrialNews::What::kFinished;
      report.seconds = std::chrono::duration<double>(time_).count();
      news_.push_back(std::move(report));
      told_.notify_one();
    }
  }

  const std::chrono::nanoseconds time_;
  std::mutex mutex_;
  std::condition_variable started_;
  std::condition_variable told_;
  // guarded by mutex_
  std::deque<Waiting> queue_;
  std::vector<tuning::TrialNews> news_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

double elapsed_ms(Clock::Instant begin) {
  return std::chrono::duration<double, std::milli>(system_clock().now() - begin).count();
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

std::chrono::nanoseconds time_of_trial(const TuneBench& bench) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double, std::milli>(bench.milliseconds));
}

// The same waits on threads that share nothing: what the machine makes of them without a study.
double bare_seconds(const TuneBench& bench) {
  const Clock::Instant begin = system_clock().now();
  std::vector<std::thread> threads;
  for (std::size_t slot = 0; slot < bench.slots; ++slot) {
    threads.emplace_back([&bench, slot] {
      for (std::uint64_t trial = slot; trial < bench.trials; trial += bench.slots)
        system_clock().sleep_for(time_of_trial(bench));
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  return elapsed_ms(begin) / 1e3;
}

void run_bench(const TuneBench& bench) {
  std::optional<TemporaryFolder> temporary;
  if (bench.folder.empty()) temporary.emplace("muster-bench-tune-");
  const std::filesystem::path folder = bench.folder.empty() ? temporary->path() : std::filesystem::path(bench.folder);
  const std::filesystem::path file = folder / "bench-study.db";
  tuning::StudyPlan plan;
  plan.name = "bench";
  plan.space = bench_space();
  plan.searcher = tuning::searcher_named(bench.searcher);
  plan.budget.trials = bench.trials;
  const double bare = bench.bare ? bare_seconds(bench) : 0;
  double seconds = 0;
  {
    tuning::StudyLog log(control::make_write_ahead_store(file), plan);
    WaitingTrials trials(bench.slots, time_of_trial(bench));
    tuning::TunerObserver nobody;
    tuning::TunerOptions options;
    options.slots = bench.slots;
    options.ahead = kAhead * bench.slots;
    tuning::Tuner tuner(log, trials, nobody, options);
    const Clock::Instant begin = system_clock().now();
    tuner.run();
    seconds = elapsed_ms(begin) / 1e3;
  }
  plan.budget.trials = bench.trials + bench.calls;
  const Clock::Instant opening = system_clock().now();
  tuning::Study study(file, plan);
  const double open_ms = elapsed_ms(opening);
  std::vector<double> asks;
  std::vector<double> tells;
  for (std::uint64_t i = 0; i < bench.calls; ++i) {
    Clock::Instant begin = system_clock().now();
    const auto trial = study.ask();
    asks.push_back(elapsed_ms(begin));
    if (!trial) break;
    begin = system_clock().now();
    study.tell(*trial, valley(trial->values));
    tells.push_back(elapsed_ms(begin));
  }
  const double ideal = static_cast<double>(bench.trials) * bench.milliseconds / 1e3 / static_cast<double>(bench.slots);
  if (bench.json) {
    Json row{{"bench", "tune"},
             {"searcher", bench.searcher},
             {"trials", bench.trials},
             {"slots", bench.slots},
             {"trial_ms", bench.milliseconds},
             {"seconds", seconds},
             {"ideal_seconds", ideal},
             {"ratio", seconds / ideal},
             {"open_ms", open_ms},
             {"ask_ms", quantile(asks, 0.5)},
             {"ask_p95_ms", quantile(asks, 0.95)},
             {"tell_ms", quantile(tells, 0.5)},
             {"tell_p95_ms", quantile(tells, 0.95)}};
    if (bench.bare) {
      row["bare_seconds"] = bare;
      row["ratio_to_bare"] = seconds / bare;
    }
    fmt::print("{}\n", row.dump());
    return;
  }
  fmt::print("{} trials of {} ms on {} slots, searcher {}: {:.2f} s, ideal {:.2f} s, ratio {:.3f}\n", bench.trials,
             bench.milliseconds, bench.slots, bench.searcher, seconds, ideal, seconds / ideal);
  if (bench.bare) fmt::print("the same waits without a study: {:.2f} s; ratio to them {:.3f}\n", bare, seconds / bare);
  fmt::print("with {} finished: ask {:.2f} ms (95 %: {:.2f}), tell {:.2f} ms (95 %: {:.2f}), opening {:.0f} ms\n",
             bench.trials, quantile(asks, 0.5), quantile(asks, 0.95), quantile(tells, 0.5), quantile(tells, 0.95),
             open_ms);
}

}  // namespace

void add_tune_bench(CLI::App& bench) {
  CLI::App* command =
      bench.add_subcommand("tune", "What a study costs beside its trials, and the time of ask and tell.");
  auto flags = std::make_shared<TuneBench>();
  command->add_option("--trials", flags->trials, "Trials of the study")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000000));
  command->add_option("--slots", flags->slots, "Trials at once")->capture_default_str()->check(CLI::Range(1, 1024));
  command->add_option("--milliseconds", flags->milliseconds, "Time of a trial, which only waits")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 1e6));
  command->add_option("--searcher", flags->searcher, "Who proposes")
      ->capture_default_str()
      ->check(CLI::IsMember(tuning::searcher_names()));
  command->add_option("--calls", flags->calls, "Calls of ask and tell that are timed afterwards")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  command->add_option("--folder", flags->folder,
                      "Where the study's file goes: the disk to measure. Default: temporary");
  command->add_flag("--bare", flags->bare, "First the same waits without a study: what this machine makes of them");
  command->add_flag("--json", flags->json, "One JSON object a line");
  command->footer(
      "ratio is the time of the study by the ideal one, trials * time / slots. The next trials are proposed ahead,\n"
      "four for each slot, so that no slot waits for the disk. The time of ask is the searcher's; that of tell, which\n"
      "is durable when it returns, the disk's.");
  command->callback([flags] { run_bench(*flags); });
}

}  // namespace muster::cli
