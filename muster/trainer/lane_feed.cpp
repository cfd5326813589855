#include "muster/trainer/lane_feed.h"

namespace muster::trainer {

LaneFeed::LaneFeed(std::shared_ptr<const data::Dataset> dataset, const LaneFeedOptions& options)
    : dataset_(std::move(dataset)), options_(options), loader_(dataset_, {.threads = options.loader_threads}) {
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
  return wait_for(ticket);
}

void LaneFeed::forget_before(std::uint64_t step) {
  while (!tickets_.empty() && tickets_.begin()->first.first < step) {
    recycle(wait_for(tickets_.begin()->second));
    tickets_.erase(tickets_.begin());
  }
}

void LaneFeed::request(const Key& key, const data::StepPlan& plan) {
  if (tickets_.contains(key)) return;
  if (!permutation_ || permutation_epoch_ != plan.at.epoch) {
    permutation_.emplace(dataset_->size(), options_.seed, plan.at.epoch);
    permutation_epoch_ = plan.at.epoch;
  }
  const data::LaneRange range = plan.lanes[key.second];
  tickets_.emplace(key, loader_.submit(permutation_->range(range.begin, range.end)));
}

}  // namespace muster::trainer
