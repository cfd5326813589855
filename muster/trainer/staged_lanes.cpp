// The order is the schedule's; what a part of a lane is computed from, and where its result goes, is the same in any.
// So a step that was broken off can be done again by others.
#include "muster/trainer/staged_lanes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/random.h"
#include "muster/model/block.h"
#include "muster/trainer/batch_tensors.h"

namespace muster::trainer {
namespace {

using Use = compute::ModuleBinding::Use;

constexpr std::uint32_t kListTag = 0;
constexpr std::size_t kMostDimensions = 8;

// What goes with a message, so that one of another step is noticed.
struct ForwardNotice {
  std::uint64_t step = 0;
  std::uint64_t wants_gradient = 0;
  std::uint64_t dimensions = 0;
  std::array<std::int64_t, kMostDimensions> sizes{};
};
struct BackwardNotice {
  std::uint64_t step = 0;
  std::uint64_t has_gradient = 0;
  strategies::LaneResult told{};
};
static_assert(std::is_trivially_copyable_v<ForwardNotice> && std::is_trivially_copyable_v<BackwardNotice>);

template <typename Message>
std::span<std::uint8_t> bytes_of(Message& message) {
  return {reinterpret_cast<std::uint8_t*>(&message), sizeof(Message)};
}

using Seconds = std::chrono::duration<double>;

// Adds the time that `work` takes to `total`.
template <typename Work>
void timed(double& total, const Work& work) {
  const auto start = system_clock().now();
  work();
  total += Seconds(system_clock().now() - start).count();
}

}  // namespace

struct StagedLanes::Step {
  const data::StepPlan& plan;
  const Take& take;
  const GiveBack& give_back;
  const StagedCode& code;
  PhaseTimes& times;
  comm::Group group;
  pipeline::Position position;
};

// A part of a lane between its forward and its backward.
struct StagedLanes::Flight {
  Lane lane;
  data::Batch batch{};
  torch::Tensor input{};
  torch::Tensor output{};
};

StagedLanes::StagedLanes(const LaneModel& model, std::shared_ptr<const StagedModel> staged,
                         strategies::Strategy& strategy, std::chrono::seconds step_timeout)
    : model_(model), staged_(std::move(staged)), strategy_(strategy), step_timeout_(step_timeout) {
}

StagedLanes::~StagedLanes() = default;

void StagedLanes::abandon() {
  model_.binding.abandon_lane();
  flights_.clear();
}

// Who is where, and which tensors belong to which part, as the present members have it.
void StagedLanes::arrange() {
  const strategies::Members& members = strategy_.membership().members();
  if (generation_ == members.generation && !uses_.empty()) return;
  uses_.clear();
  arrangement_ = staged_->stages.arrange(members.count());
  form_team(members);
  const auto holds = [&](const pipeline::PieceRange& part, const std::string& name) {
    for (std::size_t piece = part.first; piece < part.last; ++piece) {
      if (model::holds_tensor(staged_->pieces[piece].holds, name)) return true;
    }
    return false;
  };
  const std::vector<model::TensorSlot>& tensors = model_.binding.layout().tensors();
  const std::vector<compute::BufferSlot>& buffers = model_.binding.buffer_layout().slots;
  // What all members of a team have is the first one's to leave behind.
  const compute::ModuleBinding::Shards shards = shards_of(tensors, buffers);
  const auto leaves = [&](const std::vector<std::optional<model::Shard>>& of, std::size_t index) {
    return team_.member() == 0 || of[index].has_value();
  };
  std::vector<bool> seen(tensors.size(), false);
  uses_.resize(arrangement_.parts.size());
  // Backward comes to the last part first: who computes before it adds to what it leaves.
  for (std::size_t part = uses_.size(); part-- > 0;) {
    compute::ModuleBinding::Uses& made = uses_[part];
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
      const bool used = holds(arrangement_.parts[part], tensors[tensor].name);
      const bool leaves_it = used && leaves(shards.tensors, tensor);
      made.tensors.push_back(!leaves_it ? Use::kNone : seen[tensor] ? Use::kRest : Use::kWhole);
      if (used) seen[tensor] = true;
    }
    for (std::size_t i = 0; i < buffers.size(); ++i)
      made.buffers.push_back(holds(arrangement_.parts[part], buffers[i].name) && leaves(shards.buffers, i) ? 1 : 0);
  }
  if (team_.size() > 1) model_.binding.set_shards(shards);
  generation_ = members.generation;
}

// Every member of the generation comes here at its first step in it.
void StagedLanes::form_team(const strategies::Members& members) {
  team_ = model::TensorTeam();
  if (arrangement_.team == 1) return;
  const std::optional<pipeline::Position> position = arrangement_.position(members.index());
  const std::size_t colour =
      position ? arrangement_.team_of(*position) : arrangement_.rows * arrangement_.stages + members.index();
  comm::Group group = members.group;
  group = group.split(static_cast<int>(colour), group.rank(), Deadline::after(step_timeout_));
  if (!position) return;
  team_ = model::TensorTeam(std::move(group), step_timeout_, [&strategy = strategy_](bool waits) {
    strategy.membership().begin(waits ? comm::Activity::kWaiting : comm::Activity::kComputing);
  });
}

compute::ModuleBinding::Shards StagedLanes::shards_of(const std::vector<model::TensorSlot>& tensors,
                                                      const std::vector<compute::BufferSlot>& buffers) const {
  compute::ModuleBinding::Shards made;
  const std::vector<model::Split> splits =
      team_.size() > 1 ? staged_->divisible->splits() : std::vector<model::Split>();
  const auto shard = [&](const auto& slot) -> std::optional<model::Shard> {
    const auto split = std::ranges::find(splits, slot.name, &model::Split::name);
    if (split == splits.end()) return std::nullopt;
    return model::shard_of(*split, slot.shape, team_.member(), team_.size());
  };
  for (const model::TensorSlot& slot : tensors)
    made.tensors.push_back(shard(slot));
  for (const compute::BufferSlot& slot : buffers)
    made.buffers.push_back(shard(slot));
  return made;
}

// The model is this member's part of it for as long as it lives.
class StagedLanes::Joined {
 public:
  Joined(const StagedModel& model, compute::ModuleBinding& binding, const model::TensorTeam& team)
      : model_(team.size() > 1 ? &model : nullptr), binding_(binding) {
    if (model_ == nullptr) return;
    binding_.show_shards(true);
    model_->divisible->join(team);
  }
  ~Joined() {
    if (model_ == nullptr) return;
    model_->divisible->join({});
    binding_.abandon_lane();
    binding_.show_shards(false);
  }
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;

 private:
  const StagedModel* const model_;
  compute::ModuleBinding& binding_;
};

void StagedLanes::compute(const data::StepPlan& plan, const Take& take, const GiveBack& give_back,
                          const StagedCode& code, PhaseTimes& times) {
  arrange();
  const strategies::Members& members = strategy_.membership().members();
  const std::optional<pipeline::Position> position = arrangement_.position(members.index());
  if (!position) return;
  Step step{plan, take, give_back, code, times, members.group, *position};
  const Joined joined(*staged_, model_.binding, team_);
  const std::vector<std::size_t> lanes = agree_on_lanes(step);
  for (const pipeline::Action& action :
       pipeline::actions_of(arrangement_.schedule, arrangement_.shape(lanes.size()), position->stage)) {
    MUSTER_FAILPOINT("pipeline.action");
    if (action.forward)
      forward(step, lanes[action.lane], action.part);
    else
      backward(step, lanes[action.lane], action.part);
  }
  model_.binding.set_uses({});
}

// Finished lanes of a step that is done again are kept, so only who claims knows which are left.
std::vector<std::size_t> StagedLanes::agree_on_lanes(const Step& step) {
  std::vector<std::size_t> lanes;
  const auto [row, stage, member] = step.position;
  const std::size_t most = step.plan.lanes.size() / arrangement_.rows + 1;
  std::vector<std::int64_t> list(most + 2);
  const Deadline deadline = Deadline::after(step_timeout_);
  comm::Group group = step.group;
  const auto rank = [&, row = row](std::size_t other_stage, std::size_t other_member) {
    return static_cast<int>(arrangement_.rank({row, other_stage, other_member}));
  };
  if (stage == 0 && member == 0) {
    while (const std::optional<std::size_t> lane = strategy_.claim())
      lanes.push_back(*lane);
    MUSTER_CHECK(lanes.size() <= most, "more lanes than a row has");
    list[0] = static_cast<std::int64_t>(step.plan.at.step);
    list[1] = static_cast<std::int64_t>(lanes.size());
    std::ranges::copy(lanes, list.begin() + 2);
  } else {
    const int from = member == 0 ? rank(stage - 1, 0) : rank(stage, 0);
    timed(step.times.wait, [&] { group.receive(std::span(list), from, kListTag, deadline); });
    MUSTER_CHECK(list[0] == static_cast<std::int64_t>(step.plan.at.step), "lanes of another step");
    lanes.assign(list.begin() + 2, list.begin() + 2 + list[1]);
  }
  if (member > 0) return lanes;
  if (stage + 1 < arrangement_.stages) group.send(std::span(list), rank(stage + 1, 0), kListTag, deadline);
  for (std::size_t other = 1; other < arrangement_.team; ++other)
    group.send(std::span(list), rank(stage, other), kListTag, deadline);
  return lanes;
}

// What is waited for others of the team inside of it is no computing.
template <typename Work>
void StagedLanes::computed(Step& step, std::size_t lane, std::size_t part, bool is_forward, const Work& work) {
  const double before = team_.seconds();
  const auto begin = system_clock().now();
  timed(step.times.compute, work);
  if (step.code.computed) step.code.computed({lane, part, is_forward, begin, system_clock().now()});
  const double waited = team_.seconds() - before;
  step.times.compute -= waited;
  step.times.wait += waited;
}

template <typename Message>
Message StagedLanes::receive(const Step& step, std::size_t lane, std::size_t from_part, std::size_t part,
                             bool is_forward) {
  comm::Group group = step.group;
  const auto tag = static_cast<std::uint32_t>(1 + 2 * (lane * arrangement_.parts.size() + part) + (is_forward ? 0 : 1));
  Message message;
  strategy_.membership().begin(comm::Activity::kWaiting);
  timed(step.times.wait, [&] {
    group.receive(bytes_of(message),
                  static_cast<int>(arrangement_.rank({step.position.row, arrangement_.stage_of(from_part)})), tag,
                  Deadline::after(step_timeout_));
  });
  MUSTER_CHECK(message.step == step.plan.at.step, "a message of another step");
  return message;
}

template <typename Message>
void StagedLanes::send(const Step& step, std::size_t lane, std::size_t to_part, bool is_forward,
                       const Message& message) {
  comm::Group group = step.group;
  const auto tag =
      static_cast<std::uint32_t>(1 + 2 * (lane * arrangement_.parts.size() + to_part) + (is_forward ? 0 : 1));
  Message copy = message;
  timed(step.times.wait, [&] {
    for (std::size_t member = 0; member < arrangement_.team; ++member) {
      const std::size_t rank = arrangement_.rank({step.position.row, arrangement_.stage_of(to_part), member});
      group.send(bytes_of(copy), static_cast<int>(rank), tag, Deadline::after(step_timeout_));
    }
  });
}

float* StagedLanes::place(std::size_t lane, std::size_t piece, std::size_t count) {
  const std::span<std::byte> room = staged_->stages.place(strategy_.passage(lane), piece);
  if (room.size() < count * sizeof(float))
    throw Error(ErrorKind::kUnsupported,
                fmt::format("piece {} gives {} bytes for a lane, and {} are expected", staged_->pieces[piece].name,
                            count * sizeof(float), room.size()),
                {}, "Samples of one size go through a pipeline.");
  return reinterpret_cast<float*>(room.data());
}

torch::Tensor StagedLanes::receive_input(const Step& step, std::size_t lane, std::size_t part) {
  const auto notice = receive<ForwardNotice>(step, lane, part - 1, part, true);
  const std::vector<std::int64_t> sizes(notice.sizes.begin(),
                                        notice.sizes.begin() + static_cast<std::ptrdiff_t>(notice.dimensions));
  std::size_t count = 1;
  for (const std::int64_t size : sizes)
    count *= static_cast<std::size_t>(size);
  float* const memory = place(lane, arrangement_.parts[part - 1].last - 1, count);
  return torch::from_blob(memory, sizes, torch::kFloat32).set_requires_grad(notice.wants_gradient != 0);
}

void StagedLanes::pass_output(const Step& step, std::size_t lane, std::size_t part, const torch::Tensor& output) {
  const auto dimensions = static_cast<std::size_t>(output.dim());
  if (output.scalar_type() != torch::kFloat32 || dimensions > kMostDimensions)
    throw Error(ErrorKind::kUnsupported,
                fmt::format("piece {} does not give fp32 of at most {} dimensions",
                            staged_->pieces[arrangement_.parts[part].last - 1].name, kMostDimensions));
  float* const memory = place(lane, arrangement_.parts[part].last - 1, static_cast<std::size_t>(output.numel()));
  torch::from_blob(memory, output.sizes(), torch::kFloat32).copy_(output.detach());
  ForwardNotice notice{step.plan.at.step, output.requires_grad() ? 1U : 0U, dimensions};
  std::ranges::copy(output.sizes(), notice.sizes.begin());
  send(step, lane, part + 1, true, notice);
}

torch::Tensor StagedLanes::run(const Step& step, std::size_t lane, std::size_t part, const torch::Tensor& input) {
  const pipeline::PieceRange& pieces = arrangement_.parts[part];
  std::size_t entered = 0;
  for (std::size_t piece = 0; piece < pieces.first; ++piece) {
    const auto& block = staged_->pieces[piece].block;
    entered += block && block->is_training() ? 1 : 0;
  }
  const std::uint64_t seed = derive_seed({.seed = model_.seed,
                                          .purpose = Purpose::kLane,
                                          .epoch = step.plan.at.epoch,
                                          .step = step.plan.at.step,
                                          .lane = lane});
  torch::manual_seed(model::block_seed(seed, entered));
  torch::Tensor x = input;
  for (std::size_t piece = pieces.first; piece < pieces.last; ++piece)
    x = staged_->pieces[piece].forward(x);
  return x;
}

// What the part made of its buffers; frozen ones are as they were committed.
void StagedLanes::keep_buffers(const compute::LaneArea& area, const compute::ModuleBinding::Uses& uses) {
  model_.binding.read_used_buffers(area.buffers);
  const std::span<const std::byte> committed = strategy_.committed().buffers;
  const std::vector<compute::BufferSlot>& slots = model_.binding.buffer_layout().slots;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (uses.buffers[i] == 0 || !model_.frozen.holds(slots[i].name)) continue;
    std::ranges::copy(committed.subspan(slots[i].offset, slots[i].bytes),
                      area.buffers.begin() + static_cast<std::ptrdiff_t>(slots[i].offset));
  }
}

void StagedLanes::forward(Step& step, std::size_t lane, std::size_t part) {
  const bool last = part + 1 == arrangement_.parts.size();
  const data::StepPlan& plan = step.plan;
  Flight& flight = flights_[{lane, part}];
  if (part == 0 || last) flight.batch = step.take(lane);
  flight.lane = Lane({.weight = plan.weight(lane),
                      .samples = static_cast<double>(flight.batch.size()),
                      .carries_figures = model_.carries_figures,
                      .parts = model_.parts});
  flight.lane.index = lane;
  flight.lane.epoch = plan.at.epoch;
  flight.lane.step = plan.at.step;
  flight.lane.ids = flight.batch.ids;
  step.code.begin(flight.lane);
  if (part == 0 && step.position.member == 0) step.code.loaded(flight.lane);
  flight.input = part == 0 ? input_tensor(flight.batch) : receive_input(step, lane, part);
  flight.lane.data = flight.input;
  if (last) flight.lane.target = target_tensor(flight.batch);

  strategy_.membership().begin(comm::Activity::kComputing);
  computed(step, lane, part, true, [&] {
    model_.binding.write_buffers(strategy_.committed().buffers);
    model_.binding.set_uses(uses_[part]);
    flight.output = run(step, lane, part, flight.input);
    keep_buffers(strategy_.area(lane), uses_[part]);
  });
  if (!last && step.position.member == 0) pass_output(step, lane, part, flight.output);
  strategy_.membership().begin(comm::Activity::kWaiting);
}

strategies::LaneResult StagedLanes::receive_gradient(Step& step, std::size_t lane, std::size_t part, Flight& flight) {
  const auto notice = receive<BackwardNotice>(step, lane, part + 1, part, false);
  strategy_.membership().begin(comm::Activity::kComputing);
  if (notice.has_gradient == 0) return notice.told;
  computed(step, lane, part, false, [&] {
    float* const memory =
        place(lane, arrangement_.parts[part].last - 1, static_cast<std::size_t>(flight.output.numel()));
    flight.output.backward(torch::from_blob(memory, flight.output.sizes(), torch::kFloat32));
  });
  return notice.told;
}

void StagedLanes::pass_gradient(const Step& step, std::size_t lane, std::size_t part, const torch::Tensor& input,
                                const strategies::LaneResult& told) {
  BackwardNotice notice{step.plan.at.step, 0, told};
  if (input.requires_grad() && input.grad().defined()) {
    float* const memory = place(lane, arrangement_.parts[part - 1].last - 1, static_cast<std::size_t>(input.numel()));
    torch::from_blob(memory, input.sizes(), torch::kFloat32).copy_(input.grad());
    notice.has_gradient = 1;
  }
  send(step, lane, part - 1, false, notice);
}

void StagedLanes::backward(Step& step, std::size_t lane, std::size_t part) {
  const auto found = flights_.find({lane, part});
  MUSTER_CHECK(found != flights_.end(), "backward comes after forward");
  Flight& flight = found->second;
  model_.binding.set_uses(uses_[part]);
  model_.binding.begin_lane(strategy_.area(lane));
  strategies::LaneResult told;
  if (part + 1 == arrangement_.parts.size()) {
    strategy_.membership().begin(comm::Activity::kComputing);
    computed(step, lane, part, false, [&] {
      const bool divided = team_.size() > 1 && staged_->divisible->divides_answer();
      step.code.end(flight.lane, flight.output, divided ? team_ : model::TensorTeam());
    });
    MUSTER_CHECK(flight.lane.has_backward(), "the end of a lane calls backward()");
    told = flight.lane.told();
  } else {
    told = receive_gradient(step, lane, part, flight);
    told.wishes |= flight.lane.told().wishes;
  }
  model_.binding.collect();
  flight.output = torch::Tensor();
  // What the first member writes goes to where others may still have read their input from, and what it tells is true
  // of all.
  timed(step.times.wait, [&] { team_.barrier(); });
  if (step.position.member == 0) {
    if (part > 0)
      pass_gradient(step, lane, part, flight.input, told);
    else
      strategy_.finish(lane, told);
  }
  if (flight.batch.size() > 0) step.give_back(std::move(flight.batch));
  flights_.erase(found);
  strategy_.membership().begin(comm::Activity::kWaiting);
}

}  // namespace muster::trainer
