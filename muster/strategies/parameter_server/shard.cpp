// Two buffers a chunk: an update reads the one and writes the other, and then they change places. A reader of the old
// one is told by its guard, which rises before that memory is written.
#include "muster/strategies/parameter_server/shard.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "muster/base/check.h"
#include "muster/strategies/parameter_server/chunk_state.h"

namespace muster::strategies {
namespace {

constexpr std::size_t kGuardBytes = 64;  // a line of the cache for each
constexpr int kGuardShift = 40;          // versions are below it: ten years of a hundred thousand updates a minute

std::size_t align(std::size_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

// A pointer by which a flat array would be seen of which only the part from `begin` on is there.
const float* as_flat(const void* part, std::uint64_t begin) {
  return reinterpret_cast<const float*>(reinterpret_cast<std::uintptr_t>(part) - begin * sizeof(float));
}

std::size_t slots_of(const ServerPlan& plan) {
  return static_cast<std::size_t>(compute::make_optimizer(plan.optimizer)->slots());
}

}  // namespace

struct Shard::Held {
  ChunkHistory history;
  std::atomic<std::uint64_t>* guard = nullptr;
  std::uint64_t guard_base = 0;                       // what the guard is above the version
  std::array<std::vector<std::uint64_t>, 2> updates;  // per tensor of the layout, of either buffer
  // Lanes of a step that is not closed.
  std::uint64_t kept_step = 0;
  std::uint64_t kept = 0;                          // mask
  std::vector<std::vector<std::uint8_t>> present;  // by lane
  std::optional<std::uint64_t> reduced;            // mask: their sum stands in the next buffer
  // What the lanes of the step that was reduced last came to: whoever ends a step may be lost half-way, and the next
  // one has to come to the same verdict.
  std::uint64_t records_step = ~std::uint64_t{0};
  std::uint64_t records_mask = 0;
  std::vector<compute::BlockSum> records;
};

std::size_t Shard::memory_bytes(const ServerPlan& plan) {
  return align(plan.chunks().size() * kGuardBytes) +
         2 * (1 + slots_of(plan)) * align(plan.layout.size() * sizeof(float));
}

Shard::Shard(const ServerPlan& plan, std::span<std::byte> memory, OwnUpdate own)
    : plan_(plan),
      chunks_(plan.chunks()),
      optimizer_(compute::make_optimizer(plan.optimizer)),
      slots_(static_cast<std::size_t>(optimizer_->slots())),
      memory_(memory),
      own_(std::move(own)),
      lanes_(plan.lanes),
      records_(plan.layout.blocks().size()),
      norms_(plan.layout.blocks().size()),
      present_(plan.layout.tensors().size()) {
  MUSTER_CHECK(memory.size() >= memory_bytes(plan), "too little memory for a shard");
}

Shard::~Shard() = default;

// Of either buffer: parameters, then slots.
compute::Version Shard::flat(Held& held, std::uint64_t version) const {
  const std::size_t stride = align(plan_.layout.size() * sizeof(float));
  std::byte* base = memory_.data() + align(chunks_.size() * kGuardBytes) + (version & 1) * (1 + slots_) * stride;
  compute::Version found;
  found.parameters = {reinterpret_cast<float*>(base), plan_.layout.size()};
  for (std::size_t slot = 0; slot < slots_; ++slot)
    found.state[slot] = {reinterpret_cast<float*>(base + (1 + slot) * stride), plan_.layout.size()};
  found.updates = held.updates[version & 1];
  return found;
}

Shard::View Shard::view(std::uint32_t chunk) const {
  Held& held = *held_.at(chunk);
  const std::uint64_t version = held.history.version;
  return {flat(held, version).parameters.subspan(chunks_[chunk].begin, chunks_[chunk].floats()), version, held.guard,
          held.guard_base + version + 2};
}

std::uint64_t Shard::version(std::uint32_t chunk) const {
  return held_.at(chunk)->history.version;
}

const AppliedSet& Shard::lanes(std::uint32_t chunk) const {
  return held_.at(chunk)->history.lanes;
}

std::uint64_t Shard::floor(std::uint32_t chunk) const {
  return lanes(chunk).floor();
}

// Readers of the version before the present one are told that its memory is written now.
void Shard::begin_next(Held& held) const {
  held.guard->store(held.guard_base + held.history.version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Shard::mark_present(const ServerChunk& chunk, bool some_absent, std::span<const std::byte> body,
                         std::span<std::uint8_t> present) const {
  const std::size_t tensors = chunk.last_tensor - chunk.first_tensor;
  if (!some_absent) {
    std::fill_n(present.begin() + chunk.first_tensor, tensors, std::uint8_t{1});
  } else {
    std::memcpy(present.data() + chunk.first_tensor, body.data() + chunk.floats() * sizeof(float), tensors);
  }
}

void Shard::update(Held& held, const ServerChunk& chunk, std::span<const compute::LaneGradient> lanes, double rate,
                   double scale) {
  const compute::Version current = flat(held, held.history.version);
  const compute::Version next = flat(held, held.history.version + 1);
  const compute::UpdateRule rule{optimizer_.get(), rate, {}, plan_.rules};
  compute::Verdict verdict;
  verdict.gradient_scale = static_cast<float>(scale);
  std::vector<std::uint8_t> marks;
  const compute::LaneGradient sum = compute::sum_of(lanes, next.parameters, plan_.layout.tensors().size(), marks);
  if (optimizer_->needs_norms())
    compute::measure_slice(plan_.layout, sum, rule, verdict, chunk.blocks, current, norms_);
  compute::update_slice(plan_.layout, sum, rule, verdict, chunk.blocks, current, next, norms_);
  // A tensor may begin in an earlier chunk, perhaps of another server: each counts for itself.
  for (std::uint32_t tensor = chunk.first_tensor; tensor < chunk.last_tensor; ++tensor) {
    const bool changes = plan_.rules[tensor].trainable && sum.present[tensor] != 0;
    next.updates[tensor] = current.updates[tensor] + (changes ? 1 : 0);
  }
  ++held.history.version;
}

void Shard::own_update(Held& held, const ServerChunk& chunk, std::span<const float> gradient, double rate,
                       double scale) {
  const std::span<float> from = flat(held, held.history.version).parameters.subspan(chunk.begin, chunk.floats());
  const std::span<float> to = flat(held, held.history.version + 1).parameters.subspan(chunk.begin, chunk.floats());
  std::ranges::copy(from, to.begin());
  if (scale != 1) {
    scaled_.resize(gradient.size());
    std::ranges::transform(gradient, scaled_.begin(), [&](float value) { return static_cast<float>(value * scale); });
    gradient = scaled_;
  }
  own_(to, gradient, rate);
  ++held.history.version;
}

std::uint64_t Shard::next_update(std::uint32_t chunk, std::uint32_t client) const {
  return held_.at(chunk)->history.next_update(client);
}

Status Shard::push(std::uint32_t chunk, const PushLaneRequest& push, std::span<const std::byte> body) {
  const ServerChunk& place = chunks_[chunk];
  Held& held = *held_.at(chunk);
  const bool skipped = push.manner == LaneManner::kSkipped;
  const bool kept = push.manner == LaneManner::kKept;
  const std::size_t marks = push.some_absent ? place.last_tensor - place.first_tensor : 0;
  const std::size_t bytes = skipped ? 0 : place.floats() * sizeof(float) + marks;
  AppliedSet& applied = held.history.lanes;
  if (push.lane >= push.lanes || push.lanes > plan_.lanes || body.size() != bytes || (own_ && kept) ||
      (skipped && push.some_absent) || push.step >= applied.floor() + AppliedSet::kFarthest)
    return Status::kRefused;
  if (applied.contains(push.step, push.lane)) return kept ? Status::kLate : Status::kDuplicate;
  if (kept) return keep(held, place, push, body);
  if (!skipped) {
    mark_present(place, push.some_absent, body, present_);
    double rate = push.rate;
    if (plan_.staleness_rate && held.history.version > push.pulled_version + 1)
      rate /= static_cast<double>(held.history.version - push.pulled_version);
    change(held, place, body, rate, push.scale);
  }
  applied.add(push.step, push.lane, push.lanes);
  return Status::kDone;
}

Status Shard::keep(Held& held, const ServerChunk& chunk, const PushLaneRequest& push, std::span<const std::byte> body) {
  if (held.kept_step != push.step) {
    held.kept_step = push.step;
    held.kept = 0;
    held.reduced.reset();
  }
  if ((held.kept >> push.lane & 1) != 0) return Status::kDuplicate;
  std::memcpy(lane_floats(push.lane) + chunk.begin, body.data(), chunk.floats() * sizeof(float));
  held.present.resize(plan_.lanes);
  held.present[push.lane].resize(plan_.layout.tensors().size());
  mark_present(chunk, push.some_absent, body, held.present[push.lane]);
  held.kept |= std::uint64_t{1} << push.lane;
  return Status::kDone;
}

Status Shard::push(std::uint32_t chunk, std::uint32_t client, const PushUpdateRequest& push,
                   std::span<const std::byte> body) {
  const ServerChunk& place = chunks_[chunk];
  Held& held = *held_.at(chunk);
  if (client >= plan_.workers + plan_.servers || body.size() != place.floats() * sizeof(float) ||
      push.over_below > push.update)
    return Status::kRefused;
  AppliedSet& applied = held.history.own[client];
  applied.close_below(push.over_below);
  if (push.update >= applied.floor() + AppliedSet::kFarthest) return Status::kRefused;
  if (applied.contains(push.update, 0)) return Status::kDuplicate;
  mark_present(place, false, body, present_);
  change(held, place, body, push.rate, push.scale);
  applied.add(push.update, 0, 1);
  return Status::kDone;
}

// By a gradient that is applied as it comes; present_ says of which tensors it is.
void Shard::change(Held& held, const ServerChunk& chunk, std::span<const std::byte> body, double rate, double scale) {
  begin_next(held);
  held.reduced.reset();
  if (own_) {
    own_update(held, chunk, {reinterpret_cast<const float*>(body.data()), chunk.floats()}, rate, scale);
  } else {
    const compute::LaneGradient lane{as_flat(body.data(), chunk.begin), present_.data()};
    update(held, chunk, std::span(&lane, 1), rate, scale);
  }
}

float* Shard::lane_floats(std::uint32_t lane) {
  if (!lanes_[lane]) lanes_[lane] = comm::SharedRegion::create(plan_.layout.size() * sizeof(float), {.shared = false});
  return reinterpret_cast<float*>(lanes_[lane]->bytes().data());
}

std::vector<compute::LaneGradient> Shard::lanes_of(const Held& held, std::uint64_t mask) const {
  std::vector<compute::LaneGradient> lanes;
  for (std::uint32_t lane = 0; lane < plan_.lanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    lanes.push_back({reinterpret_cast<const float*>(lanes_[lane]->bytes().data()), held.present[lane].data()});
  }
  return lanes;
}

void Shard::reduce(Held& held, const ServerChunk& chunk, std::uint64_t step, std::uint64_t mask) {
  MUSTER_CHECK(held.kept_step == step && (held.kept & mask) == mask, "lanes are missing");
  begin_next(held);
  const std::vector<compute::LaneGradient> lanes = lanes_of(held, mask);
  const compute::Version next = flat(held, held.history.version + 1);
  std::vector<std::uint8_t> marks;
  const compute::LaneGradient sum = compute::sum_of(lanes, next.parameters, plan_.layout.tensors().size(), marks);
  compute::sum_and_examine_slice(plan_.layout, lanes, sum, chunk.blocks, next.parameters, records_);
  held.reduced = mask;
  held.records_step = step;
  held.records_mask = mask;
  held.records.assign(records_.begin() + static_cast<std::ptrdiff_t>(chunk.blocks.first),
                      records_.begin() + static_cast<std::ptrdiff_t>(chunk.blocks.last));
}

std::vector<compute::BlockSum> Shard::records(std::uint32_t chunk, const RecordsRequest& wanted) {
  Held& held = *held_.at(chunk);
  const std::uint64_t mask = wanted.mask;
  if (held.records_step == wanted.step && held.records_mask == mask) return held.records;
  if (mask == 0 || held.kept_step != wanted.step || (held.kept & mask) != mask) return {};
  reduce(held, chunks_[chunk], wanted.step, mask);
  return held.records;
}

Status Shard::apply(std::uint32_t chunk, const ApplyRequest& verdict) {
  const ServerChunk& place = chunks_[chunk];
  Held& held = *held_.at(chunk);
  const std::uint64_t mask = verdict.mask;
  if (verdict.step < held.history.lanes.floor()) return Status::kDuplicate;
  if (mask == 0 || held.kept_step != verdict.step || (held.kept & mask) != mask) return Status::kRefused;
  if (held.reduced != mask) reduce(held, place, verdict.step, mask);
  if (!verdict.skipped) update(held, place, lanes_of(held, mask), verdict.rate, verdict.scale);
  held.reduced.reset();
  held.kept = 0;
  held.history.lanes.close(verdict.step);
  return Status::kDone;
}

std::span<const std::byte> Shard::packed_part(std::span<const std::byte> state) {
  ByteReader reader(state);
  const auto length = reader.get<std::uint64_t>();
  return reader.take(length);
}

std::vector<std::byte> Shard::first_state(std::span<const std::byte> packed) {
  ByteWriter bytes;
  bytes.put(static_cast<std::uint64_t>(packed.size()));
  bytes.put_all(packed);
  bytes.put(~std::uint64_t{0});  // no step that was reduced
  bytes.put(std::uint64_t{0});
  bytes.put(std::uint64_t{0});
  bytes.put(std::uint64_t{0});  // no step of which lanes are kept
  bytes.put(std::uint64_t{0});
  return bytes.take();
}

void Shard::drop(std::uint32_t chunk) {
  held_.erase(chunk);
}

std::vector<std::byte> Shard::read(std::uint32_t chunk) const {
  const ServerChunk& place = chunks_[chunk];
  Held& held = *held_.at(chunk);
  const compute::Version now = flat(held, held.history.version);
  std::vector<std::byte> state = pack_chunk(place, held.history, {now.parameters, now.state, now.updates}, slots_);
  ByteWriter bytes;
  bytes.put(static_cast<std::uint64_t>(state.size()));
  bytes.put_all(std::span<const std::byte>(state));
  bytes.put(held.records_step);
  bytes.put(held.records_mask);
  bytes.put(static_cast<std::uint64_t>(held.records.size()));
  bytes.put_all(std::span<const compute::BlockSum>(held.records));
  bytes.put(held.kept_step);
  bytes.put(held.kept);
  for (std::uint32_t lane = 0; lane < plan_.lanes; ++lane) {
    if ((held.kept >> lane & 1) == 0) continue;
    bytes.put_all(std::span<const std::uint8_t>(held.present[lane])
                      .subspan(place.first_tensor, place.last_tensor - place.first_tensor));
    const auto* floats = reinterpret_cast<const float*>(lanes_[lane]->bytes().data());
    bytes.put_all(std::span(floats + place.begin, place.floats()));
  }
  return bytes.take();
}

void Shard::write(std::uint32_t chunk, std::span<const std::byte> state) {
  if (chunk >= chunks_.size()) throw Error(ErrorKind::kDamaged, "there is no such chunk");
  auto held = std::make_unique<Held>();
  for (std::vector<std::uint64_t>& updates : held->updates)
    updates.resize(plan_.layout.tensors().size());
  held->guard = reinterpret_cast<std::atomic<std::uint64_t>*>(memory_.data() + chunk * kGuardBytes);
  // Whoever reads the chunk now reads something that is about to change.
  held->guard->store(~std::uint64_t{0}, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // Both buffers: what no update ever changes (frozen tensors) must be right in either.
  ByteReader reader(state);
  const std::span<const std::byte> packed = reader.take(reader.get<std::uint64_t>());
  for (std::uint64_t buffer = 0; buffer < 2; ++buffer) {
    const compute::Version to = flat(*held, buffer);
    held->history = unpack_chunk(chunks_[chunk], packed, {to.parameters, to.state, to.updates}, slots_);
  }
  read_kept(*held, chunks_[chunk], reader);
  // A guard never goes back, also where the version does: who began to read what was there before must find out.
  held->guard_base = ++writes_ << kGuardShift;
  held->guard->store(held->guard_base + held->history.version, std::memory_order_release);
  held_[chunk] = std::move(held);
}

// Lanes of a step that was not closed when the state was read.
void Shard::read_kept(Held& held, const ServerChunk& chunk, ByteReader& reader) {
  held.records_step = reader.get<std::uint64_t>();
  held.records_mask = reader.get<std::uint64_t>();
  const auto records = reader.get<std::uint64_t>();
  if (records > chunk.blocks.last - chunk.blocks.first)
    throw Error(ErrorKind::kDamaged, "a chunk has too many records");
  held.records.resize(records);
  reader.get_all(std::span(held.records));
  held.kept_step = reader.get<std::uint64_t>();
  held.kept = reader.get<std::uint64_t>();
  if (plan_.lanes < 64 && held.kept >> plan_.lanes != 0) throw Error(ErrorKind::kDamaged, "a chunk has too many lanes");
  held.present.resize(plan_.lanes);
  for (std::uint32_t lane = 0; lane < plan_.lanes; ++lane) {
    if ((held.kept >> lane & 1) == 0) continue;
    held.present[lane].resize(plan_.layout.tensors().size());
    reader.get_all(std::span(held.present[lane]).subspan(chunk.first_tensor, chunk.last_tensor - chunk.first_tensor));
    reader.get_all(std::span(lane_floats(lane) + chunk.begin, chunk.floats()));
  }
  reader.expect_end();
}

}  // namespace muster::strategies
