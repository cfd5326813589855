// Tensors by name over the flat arrays of the committed version: views for writing, checked copies for reading.
// Everything is compared before anything is changed, so that a wrong file leaves the session as it was.
#include "muster/trainer/training_state.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/version.h"
#include "muster/comm/region.h"

namespace muster::trainer {
namespace {

template <typename T>
std::span<const std::byte> bytes_at(std::span<const T> all, std::size_t begin, std::size_t count) {
  return std::as_bytes(all.subspan(begin, count));
}

// The bytes of tensor `name`, after checking that it is what the model expects.
std::span<const std::byte> tensor_bytes(const model::TensorSet& set, const std::string& name, model::Dtype dtype,
                                        const std::vector<std::int64_t>& shape, std::size_t bytes,
                                        const std::string& where) {
  const model::TensorEntry* entry = set.header().find(name);
  if (entry == nullptr) {
    throw Error(ErrorKind::kMismatch, fmt::format("has no tensor {}", name), where,
                "It is of another model or optimizer.");
  }
  if (entry->dtype != dtype || entry->shape != shape || entry->bytes() != bytes) {
    throw Error(ErrorKind::kMismatch,
                fmt::format("tensor {} is {} of shape [{}], expected {} of shape [{}]", name, to_string(entry->dtype),
                            fmt::join(entry->shape, ", "), to_string(dtype), fmt::join(shape, ", ")),
                where, "It is of another model.");
  }
  return set.data(*entry);
}

void expect_count(const model::TensorSet& set, std::size_t expected, const std::string& where) {
  if (set.header().tensors.size() != expected) {
    throw Error(ErrorKind::kMismatch, fmt::format("has {} tensors, expected {}", set.header().tensors.size(), expected),
                where, "It is of another model or optimizer.");
  }
}

}  // namespace

// The state itself is in shared memory, as what it is a copy of: it belongs to what a host needs for the job, and not
// to what a worker needs for its part. (Not in a region, whose file a limit on the size of files would meet.)
struct TrainingState::Copy {
  struct Extra {
    std::string name;
    std::vector<std::byte> bytes;
  };
  comm::Mapping memory;
  std::span<float> parameters;
  std::array<std::span<float>, 2> state;
  std::span<std::uint64_t> updates;
  std::span<std::byte> buffers;
  std::vector<Extra> extra;
  std::vector<model::TensorView> model;
  std::vector<model::TensorView> optimizer;

  void make_room(const strategies::CommittedState& committed);
  void name_tensors(const SessionCore& session);
};

void TrainingState::Copy::make_room(const strategies::CommittedState& committed) {
  constexpr std::size_t kLine = 64;
  std::size_t bytes = 0;
  const auto reserve = [&](std::size_t size) {
    const std::size_t begin = bytes;
    bytes += (size + kLine - 1) / kLine * kLine;
    return begin;
  };
  const std::size_t first = reserve(committed.parameters.size_bytes());
  const std::array<std::size_t, 2> slots{reserve(committed.state[0].size_bytes()),
                                         reserve(committed.state[1].size_bytes())};
  const std::size_t counts = reserve(committed.updates.size_bytes());
  const std::size_t rest = reserve(committed.buffers.size());
  void* const made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) throw std::bad_alloc();
  memory = comm::Mapping(made, bytes);
  std::byte* const base = memory.base();
  parameters = {reinterpret_cast<float*>(base + first), committed.parameters.size()};
  for (std::size_t slot = 0; slot < slots.size(); ++slot)
    state[slot] = {reinterpret_cast<float*>(base + slots[slot]), committed.state[slot].size()};
  updates = {reinterpret_cast<std::uint64_t*>(base + counts), committed.updates.size()};
  buffers = {base + rest, committed.buffers.size()};
}

std::vector<model::TensorView> model_tensors(const SessionCore& session, const strategies::CommittedState& state) {
  std::vector<model::TensorView> tensors;
  for (const model::TensorSlot& slot : session.layout().tensors()) {
    tensors.push_back({slot.name, model::Dtype::kF32, slot.shape, bytes_at(state.parameters, slot.offset, slot.count)});
  }
  for (const compute::BufferSlot& slot : session.buffer_layout().slots) {
    tensors.push_back({slot.name, slot.dtype, slot.shape, state.buffers.subspan(slot.offset, slot.bytes)});
  }
  return tensors;
}

// The views into the copy, whose sizes are the session's.
void TrainingState::Copy::name_tensors(const SessionCore& session) {
  const strategies::CommittedState view{parameters, {}, updates, buffers, {}};
  model = model_tensors(session, view);
  const std::vector<model::TensorSlot>& tensors = session.layout().tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::size_t slot = 0; slot < session.slot_names(i).size(); ++slot) {
      optimizer.push_back({session.slot_names(i)[slot] + "/" + tensors[i].name, model::Dtype::kF32, tensors[i].shape,
                           bytes_at(std::span<const float>(state[slot]), tensors[i].offset, tensors[i].count)});
    }
    optimizer.push_back({"updates/" + tensors[i].name, model::Dtype::kI64, {}, bytes_at(view.updates, i, 1)});
  }
  for (const Extra& part : extra) {
    const auto size = static_cast<std::int64_t>(part.bytes.size());
    optimizer.push_back({std::string(model::kExtraPrefix) + part.name, model::Dtype::kU8, {size}, part.bytes});
  }
}

model::CheckpointContent TrainingState::content() const {
  return {manifest, copy_->model, copy_->optimizer};
}

TrainingState capture(const SessionCore& session, TrainingState memory) {
  const strategies::CommittedState committed = session.committed();
  const bool again = memory.copy_.use_count() == 1;
  auto copy = again ? std::move(memory.copy_) : std::make_shared<TrainingState::Copy>();
  if (!again) copy->make_room(committed);
  std::ranges::copy(committed.parameters, copy->parameters.begin());
  std::ranges::copy(committed.updates, copy->updates.begin());
  std::ranges::copy(committed.buffers, copy->buffers.begin());
  for (std::size_t slot = 0; slot < committed.state.size(); ++slot)
    std::ranges::copy(committed.state[slot], copy->state[slot].begin());
  copy->extra.resize(committed.extra.size());
  for (std::size_t i = 0; i < committed.extra.size(); ++i) {
    copy->extra[i].name = committed.extra[i].name;
    copy->extra[i].bytes.assign(committed.extra[i].bytes.begin(), committed.extra[i].bytes.end());
  }
  if (!again) copy->name_tensors(session);
  TrainingState state;
  state.manifest.step = committed.cursor.step;
  state.manifest.epoch = committed.cursor.epoch;
  state.manifest.position = committed.cursor.position;
  state.manifest.muster_version = version();
  state.copy_ = std::move(copy);
  return state;
}

void restore(SessionCore& session, const model::LoadedCheckpoint& loaded) {
  const std::string model_where = (loaded.path / model::kModelFile).string();
  const std::string optimizer_where = (loaded.path / model::kOptimizerFile).string();
  const std::vector<model::TensorSlot>& tensors = session.layout().tensors();
  std::size_t slot_tensors = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    slot_tensors += session.slot_names(i).size();
  expect_count(loaded.model, tensors.size() + session.buffer_layout().slots.size(), model_where);
  std::vector<strategies::ExtraPart> extra;
  for (const model::TensorEntry& entry : loaded.optimizer.header().tensors) {
    if (entry.name.starts_with(model::kExtraPrefix))
      extra.push_back({entry.name.substr(model::kExtraPrefix.size()), loaded.optimizer.data(entry)});
  }
  expect_count(loaded.optimizer, tensors.size() + slot_tensors + extra.size(), optimizer_where);

  // Everything is found before anything is changed.
  struct Source {
    std::span<const std::byte> bytes;
    std::function<std::span<std::byte>(const strategies::StateToFill&)> place;
  };
  std::vector<Source> sources;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const model::TensorSlot& tensor = tensors[i];
    const auto add = [&](const model::TensorSet& set, const std::string& name, const std::string& where,
                         const auto& flat) {
      sources.push_back({tensor_bytes(set, name, model::Dtype::kF32, tensor.shape, tensor.count * sizeof(float), where),
                         [flat, &tensor](const strategies::StateToFill& to) {
                           return std::as_writable_bytes(flat(to).subspan(tensor.offset, tensor.count));
                         }});
    };
    add(loaded.model, tensor.name, model_where,
        [](const strategies::StateToFill& to) { return to.version.parameters; });
    for (std::size_t slot = 0; slot < session.slot_names(i).size(); ++slot) {
      add(loaded.optimizer, session.slot_names(i)[slot] + "/" + tensor.name, optimizer_where,
          [slot](const strategies::StateToFill& to) { return to.version.state[slot]; });
    }
    sources.push_back(
        {tensor_bytes(loaded.optimizer, "updates/" + tensor.name, model::Dtype::kI64, {}, sizeof(std::uint64_t),
                      optimizer_where),
         [i](const strategies::StateToFill& to) { return std::as_writable_bytes(to.version.updates.subspan(i, 1)); }});
  }
  for (const compute::BufferSlot& slot : session.buffer_layout().slots) {
    sources.push_back(
        {tensor_bytes(loaded.model, slot.name, slot.dtype, slot.shape, slot.bytes, model_where),
         [&slot](const strategies::StateToFill& to) { return to.buffers.subspan(slot.offset, slot.bytes); }});
  }
  const data::Cursor cursor{loaded.manifest.epoch, loaded.manifest.position, loaded.manifest.step};
  session.restore(cursor, std::move(extra), [&](const strategies::StateToFill& to) {
    // Slots that a tensor does not have, and what is between tensors.
    std::ranges::fill(to.version.parameters, 0.0F);
    for (const std::span<float> slot : to.version.state)
      std::ranges::fill(slot, 0.0F);
    for (const Source& source : sources) {
      const std::span<std::byte> place = source.place(to);
      if (!place.empty()) std::memcpy(place.data(), source.bytes.data(), place.size());
    }
  });
}

}  // namespace muster::trainer
