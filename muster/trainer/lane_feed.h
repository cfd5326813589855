// LaneFeed: reads lanes ahead of the training loop. The order is known in advance, because the samples of lanes are
// computed (data/lane_order.h); which of them this worker will get is the strategy's guess. A lane that was read in
// vain is dropped. No torch here. Thread safety: one thread; reading happens on threads of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/lane_order.h"
#include "muster/data/lane_plan.h"
#include "muster/data/loader.h"

namespace muster::trainer {

struct LaneFeedOptions {
  std::uint64_t seed = 1;  // of mixup
  int loader_threads = 1;
  std::size_t prefetch = 4;  // lanes that are read ahead
  std::chrono::seconds load_timeout{60};
  std::optional<double> mixup_alpha{};  // data/augment/mixup.h
};

class LaneFeed {
 public:
  // Throws as data::Loader.
  LaneFeed(std::shared_ptr<const data::Dataset> dataset, std::shared_ptr<const data::LaneOrder> order,
           const LaneFeedOptions& options);

  const std::shared_ptr<const data::Dataset>& dataset() const { return dataset_; }
  const data::LaneOrder& order() const { return *order_; }

  // Begins to read these lanes of a step, as far as there is room. Returns at once.
  void expect(const data::StepPlan& plan, const std::vector<std::size_t>& lanes);
  // Whether there is no room for more.
  bool full() const { return tickets_.size() >= options_.prefetch; }

  // The lane's samples, which need not have been expected. Throws what the data set throws, and kTimeout.
  data::Batch take(const data::StepPlan& plan, std::size_t lane);
  // Gives a batch's memory back.
  void recycle(data::Batch batch) { loader_.recycle(std::move(batch)); }
  // Forgets lanes of steps before `step` that were read and not taken. Throws as take().
  void forget_before(std::uint64_t step);

 private:
  using Key = std::pair<std::uint64_t, std::size_t>;  // step, lane

  void request(const Key& key, const data::StepPlan& plan);
  data::Batch wait_for(data::Loader::Ticket ticket) {
    return loader_.take(ticket, Deadline::after(options_.load_timeout));
  }

  const std::shared_ptr<const data::Dataset> dataset_;
  const std::shared_ptr<const data::LaneOrder> order_;
  const LaneFeedOptions options_;
  data::Loader loader_;
  std::map<Key, data::Loader::Ticket> tickets_;
};

}  // namespace muster::trainer
