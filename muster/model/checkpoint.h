// The checkpoints of one run: a folder of folders, each complete or not there.
//
//   checkpoints/step-000000001234/model.safetensors      parameters and buffers
//                                 optimizer.safetensors  optimizer state, "<slot>/<parameter>", and what a
//                                                        strategy keeps beyond it, "extra/<name>"
//                                 manifest.json          what and which (manifest.h), written last
//   checkpoints/best.json                                the step of the best one, and its metric
//
// A save is written into a hidden folder, fsynced file by file, renamed into place, and the rename fsynced: a crash
// at any instruction leaves the old checkpoints or the old and the new. Nothing is handed out before its hash was
// verified. Thread safety: one thread at a time; one writing process a folder, any number of readers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/model/manifest.h"
#include "muster/model/safetensors.h"

namespace muster::model {

struct CheckpointOptions {
  std::size_t keep = 3;  // newest ones that stay when a new one is saved, besides the best; 0: all
  // For fault tests: called at every point of writing with its name ("before fsync manifest.json"). May
  // throw, which is a disk that fails there, or kill the process.
  std::function<void(std::string_view point)> at = {};
};

struct CheckpointContent {
  Manifest manifest;  // `files` is filled in by save
  std::vector<TensorView> model;
  std::vector<TensorView> optimizer;
};

struct LoadedCheckpoint {
  std::filesystem::path path;
  Manifest manifest;
  TensorSet model;
  TensorSet optimizer;
};

struct RejectedCheckpoint {
  std::filesystem::path path;
  std::string reason;
};

struct BestCheckpoint {
  std::uint64_t step = 0;
  double metric = 0;
};

class CheckpointStore {
 public:
  // `folder` need not exist. Removes what writers that died have left in it; never what is being written.
  explicit CheckpointStore(std::filesystem::path folder, CheckpointOptions options = {});

  // Durable when it returns, replacing one of the same step; then older ones go as `keep` says (those that
  // cannot be removed stay until the next save). Throws kResource (disk full), kIo or kInvalidInput
  // (manifest.h, safetensors.h); then every checkpoint that was there still loads, and nothing that is not
  // complete stands under a final name.
  void save(const CheckpointContent& content);

  // The newest checkpoint that is whole, or nothing. Each newer one that is not goes to `rejected` with its
  // reason. Throws only what is no checkpoint's fault: kResource.
  std::optional<LoadedCheckpoint> load_newest(std::vector<RejectedCheckpoint>& rejected);
  // Throws kNotFound (no such step), kDamaged, kUnsupported, kIo or kResource.
  LoadedCheckpoint load(std::uint64_t step) const;

  // Steps that have a folder, ascending, unverified.
  std::vector<std::uint64_t> list() const;
  std::filesystem::path path_of(std::uint64_t step) const;

  // Removes all but the newest `keep` and `protected_steps`. Ones that load_newest rejected do not count as
  // kept. With keep 0 nothing is removed. Throws kIo.
  void prune(std::size_t keep, std::span<const std::uint64_t> protected_steps = {});

  // Removes those of later steps: of a history that was left. Throws kIo.
  void remove_after(std::uint64_t step);

  // Durable when it returns. Throws kNotFound if there is no such checkpoint, kInvalidInput if `metric` is
  // not finite, kResource or kIo.
  void mark_best(std::uint64_t step, double metric);
  // Nothing if none was marked or its folder is gone. Throws kDamaged if best.json is not what was written.
  std::optional<BestCheckpoint> best() const;

 private:
  void at(std::string_view when, std::string_view what) const;
  void remove_leftovers() const;
  void remove_checkpoint(std::uint64_t step) const;

  std::filesystem::path folder_;
  CheckpointOptions options_;
  std::set<std::uint64_t> rejected_;  // by load_newest, and not saved anew since
};

}  // namespace muster::model
