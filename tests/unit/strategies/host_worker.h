// A worker process of a job of several hosts: it meets the others, trains, survives, and says in the end whether it has
// the bits and the losses of one worker on one host. What it has seen on the way it writes into files of the test.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/eventually.h"
#include "muster/base/failpoint.h"
#include "muster/base/files.h"
#include "muster/strategies/strategy.h"
#include "unit/strategies/replica_training.h"

namespace muster::strategies {

using namespace std::chrono_literals;
using testing::Trained;
using testing::Training;

constexpr std::uint64_t kHostSteps = 8;
constexpr auto kHostPatience = 60s;

inline data::Cursor host_cursor(const data::BatchShape& shape, std::uint64_t step) {
  return data::cursor_at_step(step, shape);
}

constexpr const char* kSumsSent = "hosts.sums.sent";

// How a worker process ends.
enum HostExit : int { kGoodBits = 0, kOtherHostBits = 10, kOtherHostLosses = 11, kHostFailed = 12 };

struct WorkerPlace {
  std::uint64_t host = 1;
  int seat = 0;
  int seats = 1;
  int attempt = 0;
  std::string arena{};
  std::filesystem::path store;    // of the host
  std::filesystem::path cluster;  // of all
  std::filesystem::path notes;
  std::string backend;
  std::optional<std::uint64_t> breaks_at{};
  bool waits_for_sums = false;  // in backward: some leave for other hosts when the first gradient is there
  bool holds = false;           // goes no further than half-way before those who come late are there
  std::chrono::seconds step_timeout = kHostPatience;
};

// A worker's life in its process.
class HostWorker {
 public:
  HostWorker(const WorkerPlace& place, const Training& training, const Trained& expected)
      : place_(place), training_(training), expected_(expected) {
    options_ = {training_.layout, testing::one_mean_and_one_count(), optimizer_->slots(), training_.shape.lanes};
    Supervised supervised;
    supervised.store = comm::make_file_store(place.store);
    supervised.seat = place.seat;
    supervised.seats = place.seats;
    supervised.founder = place.seat == 0 && place.arena.empty();
    supervised.arena = place.arena;
    supervised.attempt = place.attempt;
    supervised.patience = kHostPatience;
    supervised.host = HostPlace{comm::make_file_store(place.cluster), place.host, "lo", place.backend};
    options_.supervised = supervised;
    options_.claims = training.claims;
    options_.step_timeout = place.step_timeout;
    strategy_ = training.strategy.make(options_);
    for (const model::TensorSlot& slot : options_.layout.tensors())
      rules_.push_back({compute::weight_decay(training_.optimizer), true, slot.trainable});
  }

  int run() {
    // Only the first values of the first host's founder may count.
    testing::start(*strategy_, options_, options_.supervised->founds_job() ? 0 : 1);
    for (bool met = false;;) {
      try {
        if (!std::exchange(met, true))
          strategy_->membership().meet();
        else
          strategy_->membership().rejoin();
        enter();
        while (strategy_->committed().cursor.step < kHostSteps)
          step();
        comm::Group group = strategy_->membership().members().group;
        group.barrier();
        return judge();
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kPeerLost) throw;
      }
    }
  }

 private:
  void append(const char* name, const std::string& line) const {
    const FileDescriptor file(::open((place_.notes / name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    (void)!::write(file.get(), line.data(), line.size());
  }
  void enter() {
    const std::optional<StepOutcome> outcome = strategy_->enter_generation();
    if (!began_) {
      began_ = strategy_->committed().cursor.step;
    } else if (outcome) {
      losses_.push_back(outcome->loss);
      append("committed_after_all", fmt::format("{}\n", place_.host));
    }
    const Members members = strategy_->membership().members();
    if (members.leads())
      append("leaders", fmt::format("{} {}.{}.{}\n", members.generation, place_.host, place_.seat, place_.attempt));
  }
  void step() {
    const CommittedState state = strategy_->committed();
    const data::StepPlan plan = data::plan_step(host_cursor(training_.shape, state.cursor.step), training_.shape);
    // However slow the machine is.
    if (place_.holds && plan.at.step >= kHostSteps / 2)
      wait_until([&] { return std::filesystem::exists(place_.notes / "all_joined"); });
    strategy_->begin_step(plan);
    if (place_.breaks_at == plan.at.step && !std::exchange(broke_, true)) {
      comm::Group group = strategy_->membership().members().group;
      group.abort(group.rank(), "somebody pulled the cable");
    }
    while (const auto lane = strategy_->claim()) {
      append("lanes", fmt::format("{} {} {}\n", plan.at.step, *lane, place_.host));
      const bool early = strategy_->uses_ready_gradients(*lane);
      training_.work(options_, state, plan, *lane, strategy_->area(*lane));
      if (early) {
        append("early", fmt::format("{} {}\n", plan.at.step, place_.host));
        // As backward gives them.
        const std::uint64_t sent = failpoint_hits(kSumsSent);
        for (std::size_t tensor = 0; tensor < options_.layout.tensors().size(); ++tensor) {
          if (strategy_->area(*lane).present[tensor] != 0) strategy_->gradient_ready(*lane, tensor);
          if (tensor > 0 || !place_.waits_for_sums) continue;
          wait_until([&] { return failpoint_hits(kSumsSent) > sent; });
          append("left_early", fmt::format("{}\n", place_.host));
        }
      }
      strategy_->finish(
          *lane, {.report = {.loss_sum = 0.3 * static_cast<double>(*lane + plan.at.step), .score = 1}, .wishes = {}});
    }
    losses_.push_back(
        strategy_
            ->commit({optimizer_.get(), compute::base_lr(training_.optimizer), training_.clip_norm, rules_},
                     Deadline::after(place_.step_timeout))
            .loss);
  }
  template <typename Condition>
  void wait_until(const Condition& condition) {
    const auto look = [&] {
      strategy_->membership().throw_if_interrupted();
      return condition();
    };
    if (!eventually(look, Deadline::after(kHostPatience))) throw Error(ErrorKind::kTimeout, "it does not come");
  }
  int judge() const {
    if (!std::equal(losses_.begin(), losses_.end(), expected_.losses.begin() + static_cast<std::ptrdiff_t>(*began_),
                    expected_.losses.end()))
      return kOtherHostLosses;
    const std::vector<std::byte> bits = testing::bits_of(strategy_->committed());
    return std::equal(bits.begin(), bits.end() - sizeof(data::Cursor), expected_.bits.begin()) ? kGoodBits
                                                                                               : kOtherHostBits;
  }

  const WorkerPlace place_;
  const Training& training_;
  const Trained& expected_;
  const std::unique_ptr<const compute::Optimizer> optimizer_ = compute::make_optimizer(training_.optimizer);
  StrategyOptions options_;
  std::unique_ptr<Strategy> strategy_;
  std::vector<compute::TensorRule> rules_;
  std::vector<double> losses_;
  std::optional<std::uint64_t> began_;
  bool broke_ = false;
};

}  // namespace muster::strategies
