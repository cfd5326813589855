// A session's committed state as a whole: set from outside, written to files and read from them. What is in a
// checkpoint and what a session agrees on with one that it goes on from stand here together.
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/json.h"
#include "muster/model/checkpoint.h"
#include "muster/trainer/session_core.h"
#include "muster/trainer/training_state.h"

namespace muster::trainer {
namespace {

// For what the first worker of several hosts has found; one that dies is noticed at once.
constexpr std::chrono::hours kFindingTimeout{1};
constexpr std::chrono::seconds kFolderPatience{5};  // for a leader before this one that is just dying

// Nothing where there is none. Throws when none is whole, or it is of another session.
std::optional<model::LoadedCheckpoint> newest_checkpoint_of(const std::filesystem::path& folder,
                                                            const SessionOptions& options, std::size_t lanes) {
  std::vector<model::RejectedCheckpoint> rejected;
  std::optional<model::LoadedCheckpoint> loaded = model::CheckpointStore(folder).load_newest(rejected);
  if (!loaded) {
    if (rejected.empty()) return std::nullopt;
    throw Error(ErrorKind::kDamaged, rejected.front().reason, rejected.front().path.string(),
                "No other checkpoint in this folder is whole.");
  }
  const std::string where = loaded->path.string();
  const auto agree = [&](const char* what, std::uint64_t was, std::uint64_t is) {
    if (was != is) throw Error(ErrorKind::kMismatch, fmt::format("{} was {} and is {} now", what, was, is), where);
  };
  agree("batch", json_get<std::uint64_t>(loaded->manifest.progress, "batch", where), options.batch);
  agree("lanes", json_get<std::uint64_t>(loaded->manifest.progress, "lanes", where), lanes);
  agree("seed", loaded->manifest.seed, options.seed);
  return loaded;
}

}  // namespace

void SessionCore::restore(const strategies::CommittedState& state) {
  abandon();
  feed_.reset();
  synchronized_ = false;
  strategy_->restore(state);
  show_committed();
}

void SessionCore::restore(const data::Cursor& cursor, std::vector<strategies::ExtraPart> extra,
                          const strategies::FillState& fill) {
  abandon();
  feed_.reset();
  put_state(cursor, std::move(extra), fill);
  show_committed();
}

// Where the strategy has no place for it to be written to it is made here first.
void SessionCore::put_state(const data::Cursor& cursor, std::vector<strategies::ExtraPart> extra,
                            const strategies::FillState& fill) {
  if (strategy_->restore_in_place(cursor, fill)) return;
  std::vector<float> parameters(binding_.layout().size());
  std::array<std::vector<float>, 2> state;
  std::vector<std::uint64_t> updates(binding_.layout().tensors().size());
  std::vector<std::byte> buffers(binding_.buffer_layout().bytes);
  strategies::StateToFill made{{parameters, {}, updates}, buffers};
  strategies::CommittedState committed{parameters, {}, updates, buffers, cursor, std::move(extra)};
  for (std::size_t slot = 0; slot < static_cast<std::size_t>(slots()); ++slot) {
    state[slot].resize(binding_.layout().size());
    made.version.state[slot] = state[slot];
    committed.state[slot] = state[slot];
  }
  fill(made);
  strategy_->restore(committed);
}

void SessionCore::receive_state() {
  const std::vector<float> parameters(binding_.layout().size());
  const std::vector<std::byte> buffers(binding_.buffer_layout().bytes);
  const std::vector<std::uint64_t> updates(binding_.layout().tensors().size());
  strategies::CommittedState blank{parameters, {}, updates, buffers, {}};
  for (int slot = 0; slot < slots(); ++slot)
    blank.state[static_cast<std::size_t>(slot)] = parameters;
  restore(blank);
}

void SessionCore::save(const std::filesystem::path& path) const {
  const std::vector<model::TensorView> tensors = model_tensors(*this, committed());
  model::write_safetensors(path, tensors, {{"format", "pt"}});
}

void SessionCore::checkpoint(const std::filesystem::path& folder) {
  checkpoint_folder_ = folder;
  synchronize_if_apart("checkpoint()");
  if (!members().leads()) return;
  if (!checkpoint_lock_ || checkpoint_lock_->folder() != folder) {
    checkpoint_lock_.reset();
    checkpoint_lock_ = std::make_unique<CheckpointFolderLock>(folder, Deadline::after(kFolderPatience));
  }
  TrainingState snapshot = capture(*this);
  snapshot.manifest.seed = options_.seed;
  snapshot.manifest.progress["batch"] = options_.batch;
  snapshot.manifest.progress["lanes"] = lanes_;
  model::CheckpointStore(folder).save(snapshot.content());
}

bool SessionCore::resume(const std::filesystem::path& folder) {
  checkpoint_folder_ = folder;
  // Of a fixed group on several hosts the first one has what was written; all of it get that.
  const bool hosts = parts_.met != nullptr;
  std::optional<model::LoadedCheckpoint> loaded;
  if (!hosts || members().leads()) loaded = newest_checkpoint_of(folder, options_, lanes_);
  std::int64_t found = loaded ? 1 : 0;
  comm::Group group = options_.group;
  if (hosts) group.broadcast(std::span(&found, 1), members().leader, Deadline::after(kFindingTimeout));
  if (found == 0) return false;
  if (loaded)
    trainer::restore(*this, *loaded);
  else
    receive_state();
  return true;
}

std::string SessionCore::weights_hash() const {
  std::vector<model::TensorView> tensors = model_tensors(*this, committed());
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  Sha256 hash;
  for (const model::TensorView& tensor : tensors) {
    hash.update(std::as_bytes(std::span(tensor.name)));
    hash.update(tensor.data);
  }
  return hash.finish();
}

}  // namespace muster::trainer
