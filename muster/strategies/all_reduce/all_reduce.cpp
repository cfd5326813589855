// Gradients travel in buckets, everything else of a step in one gathered message a worker; from there on every worker
// does the same update on its own replica. With overlap a second thread has a group of its own.
#include "muster/strategies/all_reduce/all_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "muster/strategies/all_reduce/bucket_pipeline.h"
#include "muster/strategies/replica/bucket_reducer.h"
#include "muster/strategies/replica/replica_strategy.h"
#include "muster/strategies/strategy_kind.h"

namespace muster::strategies {
namespace {

// What a worker tells all others of a step beside its gradient, as bytes: a mark for each tensor of which one of its
// lanes has a gradient; then the reports and then the buffers of its lanes, with room for the longest share.
class StepMessage {
 public:
  explicit StepMessage(const StrategyOptions& options)
      : tensors_(options.layout.tensors().size()),
        buffer_bytes_(options.buffers.bytes),
        lanes_(share_of(options.lanes, 0, static_cast<std::size_t>(options.group.size())).size()) {}

  std::size_t bytes() const { return tensors_ + lanes_ * (sizeof(LaneResult) + buffer_bytes_); }

  // The parts of one worker's message; lanes are counted from the first of its share.
  template <typename Byte>
  std::span<Byte> marks(std::span<Byte> message) const {
    return message.subspan(0, tensors_);
  }
  template <typename Byte>
  std::span<Byte> result(std::span<Byte> message, std::size_t lane) const {
    return message.subspan(tensors_ + lane * sizeof(LaneResult), sizeof(LaneResult));
  }
  template <typename Byte>
  std::span<Byte> buffers(std::span<Byte> message, std::size_t lane) const {
    return message.subspan(tensors_ + lanes_ * sizeof(LaneResult) + lane * buffer_bytes_, buffer_bytes_);
  }

 private:
  std::size_t tensors_;
  std::size_t buffer_bytes_;
  std::size_t lanes_;
};

// What all workers told, put together: in lane order, as if one worker had computed every lane.
struct Gathered {
  std::vector<std::uint8_t> present;
  std::vector<LaneResult> results;
  std::vector<std::span<const std::byte>> buffers;
};

class AllReduceStrategy final : public ReplicaStrategy {
 public:
  AllReduceStrategy(const AllReduce& chosen, StrategyOptions options)
      : ReplicaStrategy(std::move(options)),
        // With overlap two threads talk to the other workers at the same time: each through a group of its own.
        overlap_(chosen.overlap && workers() > 1),
        reduce_group_(overlap_ ? group().split(0, group().rank()) : group()),
        reducer_(reduce_group_, this->options().layout, static_cast<std::size_t>(chosen.bucket_kb) << 10,
                 chosen.codec ? chosen.codec : std::make_shared<PlainCodec>()),
        message_(this->options()),
        sent_(message_.bytes()),
        received_(message_.bytes() * workers()) {
    place_sum(reducer_.values());
    if (overlap_) {
      pipeline_.emplace(this->options().layout, reducer_.buckets(), [this](std::size_t index) {
        sum_bucket(index);
        reducer_.reduce(index, Deadline::after(this->options().step_timeout));
      });
    }
  }
  AllReduceStrategy(const AllReduceStrategy&) = delete;
  AllReduceStrategy& operator=(const AllReduceStrategy&) = delete;
  ~AllReduceStrategy() override {
    // The thread may wait for workers that wait for this one.
    if (pipeline_ && pipeline_->busy()) reduce_group_.abort(group().rank(), "left a step that it had begun");
  }

  std::size_t state_bytes() const override { return ReplicaStrategy::state_bytes() + reducer_.values().size_bytes(); }
  void begin_step(const data::StepPlan& plan) override {
    if (pipeline_) pipeline_->begin();
    ReplicaStrategy::begin_step(plan);
    own_gradients_ = own_gradients();
  }
  // The last of this worker's lanes: with its gradients those of all its lanes are there.
  bool uses_ready_gradients(std::size_t lane) const override {
    return pipeline_.has_value() && lane + 1 == lanes_of(rank()).last;
  }
  void gradient_ready(std::size_t lane, std::size_t tensor) override {
    if (uses_ready_gradients(lane)) pipeline_->tensor_ready(tensor);
  }
  StepOutcome commit(const compute::UpdateRule& rule, Deadline deadline) override;

 private:
  // May be called while backward goes on, once all of this worker's lanes have the bucket's tensors: it reads nothing
  // else.
  void sum_bucket(std::size_t index) {
    sum_lanes(options().layout, own_gradients_, reducer_.bucket(index).blocks, reducer_.values());
  }
  Gathered gather(const Deadline& deadline);

  const bool overlap_;
  comm::Group reduce_group_;
  BucketReducer reducer_;
  const StepMessage message_;
  std::vector<std::byte> sent_;
  std::vector<std::byte> received_;
  std::vector<compute::LaneGradient> own_gradients_;  // of the step in work
  std::optional<BucketPipeline> pipeline_;            // with overlap; last, so that its thread ends first
};

Gathered AllReduceStrategy::gather(const Deadline& deadline) {
  const std::span<std::byte> mine(sent_);
  const std::vector<model::TensorSlot>& tensors = options().layout.tensors();
  const ReplicaLanes share = lanes_of(rank());
  std::ranges::fill(mine, std::byte{0});
  for (std::size_t lane = share.first; lane < share.last; ++lane) {
    const HostLane& host = own(lane);
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
      if (host.area.present[tensor] != 0) message_.marks(mine)[tensor] = std::byte{1};
    }
    std::memcpy(message_.result(mine, lane - share.first).data(), host.result, sizeof(LaneResult));
    std::ranges::copy(host.area.buffers, message_.buffers(mine, lane - share.first).begin());
  }
  timed([&] {
    group().all_gather({comm::ElementType::kUint8, sent_.data(), sent_.size()},
                       comm::View(comm::ElementType::kUint8, received_.data(), received_.size()), deadline);
  });

  Gathered all;
  all.present.resize(tensors.size());
  for (std::size_t worker = 0; worker < workers(); ++worker) {
    const auto theirs = std::span<const std::byte>(received_).subspan(worker * message_.bytes(), message_.bytes());
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor)
      all.present[tensor] |= static_cast<std::uint8_t>(message_.marks(theirs)[tensor]);
    for (std::size_t lane = 0; lane < lanes_of(worker).size(); ++lane) {
      std::memcpy(&all.results.emplace_back(), message_.result(theirs, lane).data(), sizeof(LaneResult));
      all.buffers.push_back(message_.buffers(theirs, lane));
    }
  }
  return all;
}

StepOutcome AllReduceStrategy::commit(const compute::UpdateRule& rule, Deadline deadline) {
  const data::StepPlan& step = finished_step();
  if (pipeline_) {
    timed([&] { pipeline_->finish(deadline); });
  } else {
    for (std::size_t index = 0; index < reducer_.buckets().size(); ++index) {
      sum_bucket(index);
      timed([&] { reducer_.reduce(index, deadline); });
    }
  }
  const Gathered all = gather(deadline);
  // Only now does everybody know which of them are needed.
  for (const std::size_t index : reducer_.late_buckets_of(all.present)) {
    sum_bucket(index);
    timed([&] { reducer_.reduce(index, deadline); });
  }

  // From here on nobody waits for anybody: every worker does the same to the same bits.
  const model::FlatLayout& layout = options().layout;
  const compute::LaneGradient sum{reducer_.values().data(), all.present.data()};
  HostVersion& target = next();
  compute::examine_slice(layout, sum, all_blocks(), target.records);
  const compute::Verdict verdict = compute::judge_step(target.records, rule.clip_norm);
  if (verdict.apply) {
    if (rule.needs_norms())
      compute::measure_slice(layout, sum, rule, verdict, all_blocks(), current().state, target.norms);
    compute::update_slice(layout, sum, rule, verdict, all_blocks(), current().state, target.state, target.norms);
    std::vector<double> weights;
    for (std::size_t lane = 0; lane < step.lanes.size(); ++lane)
      weights.push_back(step.weight(lane));
    compute::merge_buffers(options().buffers, all.buffers, weights, target.buffers);
    if (rule.after != nullptr) (*rule.after)(target.state.parameters, target.buffers);
  }

  StepOutcome outcome{.applied = verdict.apply, .gradient_norm = verdict.gradient_norm, .samples = step.samples()};
  outcome.take(fold_reports(all.results));
  outcome.waited = waited();
  reducer_.commit();
  commit_step(verdict.apply);
  return outcome;
}

}  // namespace

Traits AllReduce::traits() const {
  return {.crosses_hosts = true, .lanes_meet = true, .takes_own_rules = true};
}

void AllReduce::add_keys(Section& parallel) {
  parallel.field("bucket_kb", &bucket_kb, "all_reduce: size of the pieces that gradients are summed in.")
      .range(64, 1 << 20);
  parallel.field("overlap", &overlap, "all_reduce: sum the pieces while backward goes on; the same result.");
}

StateMemory AllReduce::memory(const StateFigures& figures) const {
  return replica_memory(figures);
}

std::vector<std::pair<std::string, std::string>> AllReduce::more() const {
  return {{"codec", codec ? "one" : "none"}};
}

std::unique_ptr<Strategy> AllReduce::make(StrategyOptions needs) const {
  return std::make_unique<AllReduceStrategy>(*this, std::move(needs));
}

template StrategyChoice::StrategyChoice(AllReduce);
template AllReduce* StrategyChoice::get();

}  // namespace muster::strategies
