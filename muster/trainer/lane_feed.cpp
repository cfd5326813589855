// A loader and a table of what was asked of it by step and lane. Lanes of steps that are over are dropped from it, read
// or not.
#include "muster/trainer/lane_feed.h"

#include "muster/base/random.h"
#include "muster/data/augment/mixup.h"

namespace muster::trainer {

LaneFeed::LaneFeed(std::shared_ptr<const data::Dataset> dataset, std::shared_ptr<const data::LaneOrder> order,
                   const LaneFeedOptions& options)
    : dataset_(std::move(dataset)),
      order_(std::move(order)),
      options_(options),
      loader_(dataset_, {.threads = options.loader_threads}) {
}

void LaneFeed::expect(const data::StepPlan& plan, const std::vector<std::size_t>& lanes) {
  for (const std::size_t lane : lanes) {
    if (full()) return;
    request({plan.at.step, lane}, plan);
  }
}

data::Batch LaneFeed::take(const data::StepPlan& plan, std::size_t lane) {
  const Key key{plan.at.step, lane};
  request(key, plan);
  const data::Loader::Ticket ticket = tickets_.at(key);
  tickets_.erase(key);
  data::Batch batch = wait_for(ticket);
  if (options_.mixup_alpha) {
    data::mix_lane(batch, *options_.mixup_alpha, dataset_->spec(),
                   {.seed = options_.seed, .purpose = Purpose::kMixup, .step = plan.at.step, .lane = lane});
  }
  return batch;
}

void LaneFeed::forget_before(std::uint64_t step) {
  while (!tickets_.empty() && tickets_.begin()->first.first < step) {
    recycle(wait_for(tickets_.begin()->second));
    tickets_.erase(tickets_.begin());
  }
}

void LaneFeed::request(const Key& key, const data::StepPlan& plan) {
  if (tickets_.contains(key)) return;
  std::vector<std::uint64_t> ids = order_->ids(plan, key.second);
  dataset_->expect(ids);
  tickets_.emplace(key, loader_.submit(std::move(ids), plan.at.epoch));
}

}  // namespace muster::trainer
