// A small checkpoint whose content is a function of its step, and comparisons with what was loaded.
#pragma once

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/model/checkpoint.h"

namespace muster::model {

class ExampleCheckpoint {
 public:
  // Checkpoints of one step and another `variant` have the same shapes and other values.
  explicit ExampleCheckpoint(std::uint64_t step, int variant = 0) {
    for (int i = 0; i < 37; ++i)
      values_.push_back(static_cast<float>(step) + 0.25f * static_cast<float>(i + variant));
    counts_ = {static_cast<std::int64_t>(step)};
    content_.manifest.step = step;
    content_.manifest.generation = 1;
    content_.manifest.seed = 7;
    content_.manifest.epoch = step / 10;
    content_.manifest.position = step % 10 * 100;
    content_.manifest.job = "[job]\nname = \"example\"\n";
    content_.manifest.progress = {{"loss", 0.5 / static_cast<double>(step + 1)}, {"variant", variant}};
    content_.manifest.muster_version = "0.1.0";
    const auto floats = std::as_bytes(std::span(values_));
    content_.model = {{"conv.weight", Dtype::kF32, {5, 6}, floats.first(4 * 30)},
                      {"bn.num_batches_tracked", Dtype::kI64, {}, std::as_bytes(std::span(counts_))},
                      {"bn.bias", Dtype::kF32, {7}, floats.last(4 * 7)}};
    content_.optimizer = {{"momentum/conv.weight", Dtype::kF32, {5, 6}, floats.last(4 * 30)}};
  }
  ExampleCheckpoint(const ExampleCheckpoint&) = delete;
  ExampleCheckpoint& operator=(const ExampleCheckpoint&) = delete;

  const CheckpointContent& content() const { return content_; }

  bool equals(const LoadedCheckpoint& loaded) const {
    const Manifest& a = content_.manifest;
    const Manifest& b = loaded.manifest;
    return a.step == b.step && a.generation == b.generation && a.seed == b.seed && a.epoch == b.epoch &&
           a.position == b.position && a.job == b.job && a.progress == b.progress &&
           a.muster_version == b.muster_version && equals(content_.model, loaded.model) &&
           equals(content_.optimizer, loaded.optimizer);
  }

 private:
  static bool equals(const std::vector<TensorView>& views, const TensorSet& set) {
    if (views.size() != set.header().tensors.size()) return false;
    for (const TensorView& view : views) {
      const TensorView other = set.tensor(view.name);
      if (other.dtype != view.dtype || other.shape != view.shape || other.data.size() != view.data.size()) return false;
      if (std::memcmp(other.data.data(), view.data.data(), view.data.size()) != 0) return false;
    }
    return true;
  }

  std::vector<float> values_;
  std::vector<std::int64_t> counts_;
  CheckpointContent content_;
};

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void put_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::remove(path);  // a file cut to nothing and rewritten is flushed by ext4, which takes milliseconds
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// Names in a folder, sorted.
inline std::vector<std::string> names_of(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace muster::model
