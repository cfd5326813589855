// No stopping: new trials until there are enough, and none is asked about on its way.
// Reports are kept by the history and decide nothing.
#include "muster/tuning/schedulers/none.h"

#include "muster/tuning/turns.h"

namespace muster::tuning {
namespace {

class NoScheduler final : public Scheduler {
 public:
  explicit NoScheduler(const ScheduleProblem& problem) : problem_(problem) {}

  Decision after_report(const History&, std::uint64_t) override { return {.reason = "runs to its end"}; }
  Next next(const History& history) override { return plain_next(history, problem_.trials); }
  std::uint64_t next_decision(const Trial&) const override { return problem_.max_resource; }

 private:
  ScheduleProblem problem_;
};

}  // namespace

std::unique_ptr<Scheduler> NoStopping::make(const ScheduleProblem& problem) const {
  return std::make_unique<NoScheduler>(problem);
}

}  // namespace muster::tuning
