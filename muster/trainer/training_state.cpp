// Tensors by name over the flat arrays of the committed version: views for writing, checked copies for reading.
// Everything is compared before anything is changed, so that a wrong file leaves the session as it was.
#include "muster/trainer/training_state.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/version.h"

namespace muster::trainer {
namespace {

template <typename T>
std::span<const std::byte> bytes_at(std::span<const T> all, std::size_t begin, std::size_t count) {
  return std::as_bytes(all.subspan(begin, count));
}

// Copies tensor `name` into `out` after checking that it is what the model expects.
void copy_tensor(const model::TensorSet& set, const std::string& name, model::Dtype dtype,
                 const std::vector<std::int64_t>& shape, std::span<std::byte> out, const std::string& where) {
  const model::TensorEntry* entry = set.header().find(name);
  if (entry == nullptr) {
    throw Error(ErrorKind::kMismatch, fmt::format("has no tensor {}", name), where,
                "It is of another model or optimizer.");
  }
  if (entry->dtype != dtype || entry->shape != shape || entry->bytes() != out.size()) {
    throw Error(ErrorKind::kMismatch,
                fmt::format("tensor {} is {} of shape [{}], expected {} of shape [{}]", name, to_string(entry->dtype),
                            fmt::join(entry->shape, ", "), to_string(dtype), fmt::join(shape, ", ")),
                where, "It is of another model.");
  }
  if (!out.empty()) std::memcpy(out.data(), set.data(*entry).data(), out.size());
}

void expect_count(const model::TensorSet& set, std::size_t expected, const std::string& where) {
  if (set.header().tensors.size() != expected) {
    throw Error(ErrorKind::kMismatch, fmt::format("has {} tensors, expected {}", set.header().tensors.size(), expected),
                where, "It is of another model or optimizer.");
  }
}

}  // namespace

struct TrainingState::Copy {
  struct Extra {
    std::string name;
    std::vector<std::byte> bytes;
  };
  std::vector<float> parameters;
  std::array<std::vector<float>, 2> state;
  std::vector<std::uint64_t> updates;
  std::vector<std::byte> buffers;
  std::vector<Extra> extra;
  std::vector<model::TensorView> model;
  std::vector<model::TensorView> optimizer;

  void name_tensors(const SessionCore& session);
};

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

// The views into the copy: they hold as long as its vectors keep their sizes, which are the session's.
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
  copy->parameters.assign(committed.parameters.begin(), committed.parameters.end());
  copy->updates.assign(committed.updates.begin(), committed.updates.end());
  copy->buffers.assign(committed.buffers.begin(), committed.buffers.end());
  for (std::size_t slot = 0; slot < committed.state.size(); ++slot)
    copy->state[slot].assign(committed.state[slot].begin(), committed.state[slot].end());
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
  std::size_t slots = 0;  // the most that a tensor has
  std::size_t slot_tensors = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    slots = std::max(slots, session.slot_names(i).size());
    slot_tensors += session.slot_names(i).size();
  }
  expect_count(loaded.model, tensors.size() + session.buffer_layout().slots.size(), model_where);
  std::vector<strategies::ExtraPart> extra;
  for (const model::TensorEntry& entry : loaded.optimizer.header().tensors) {
    if (entry.name.starts_with(model::kExtraPrefix))
      extra.push_back({entry.name.substr(model::kExtraPrefix.size()), loaded.optimizer.data(entry)});
  }
  expect_count(loaded.optimizer, tensors.size() + slot_tensors + extra.size(), optimizer_where);

  std::vector<float> parameters(session.layout().size());
  std::array<std::vector<float>, 2> state;
  for (std::size_t slot = 0; slot < slots; ++slot)
    state[slot].resize(session.layout().size());
  std::vector<std::uint64_t> updates(tensors.size());
  std::vector<std::byte> buffers(session.buffer_layout().bytes);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const model::TensorSlot& tensor = tensors[i];
    const auto place = [&](std::vector<float>& flat) {
      return std::as_writable_bytes(std::span(flat).subspan(tensor.offset, tensor.count));
    };
    copy_tensor(loaded.model, tensor.name, model::Dtype::kF32, tensor.shape, place(parameters), model_where);
    for (std::size_t slot = 0; slot < session.slot_names(i).size(); ++slot) {
      copy_tensor(loaded.optimizer, session.slot_names(i)[slot] + "/" + tensor.name, model::Dtype::kF32, tensor.shape,
                  place(state[slot]), optimizer_where);
    }
    copy_tensor(loaded.optimizer, "updates/" + tensor.name, model::Dtype::kI64, {},
                std::as_writable_bytes(std::span(updates).subspan(i, 1)), optimizer_where);
  }
  for (const compute::BufferSlot& slot : session.buffer_layout().slots) {
    copy_tensor(loaded.model, slot.name, slot.dtype, slot.shape, std::span(buffers).subspan(slot.offset, slot.bytes),
                model_where);
  }
  strategies::CommittedState committed{
      parameters, {}, updates, buffers, {loaded.manifest.epoch, loaded.manifest.position, loaded.manifest.step}};
  for (std::size_t slot = 0; slot < slots; ++slot)
    committed.state[slot] = state[slot];
  committed.extra = std::move(extra);
  session.restore(committed);
}

}  // namespace muster::trainer
