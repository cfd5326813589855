// Names decide, as in the rest of the job file; what they mean is looked up once, when the model is known, and from
// then on a client's own numbers are ranges of flat arrays.
#include "muster/federated/kept_parts.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::federated {
namespace {

std::string module_of(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

std::set<std::string> norms_in(std::span<const TensorPlace> tensors) {
  std::set<std::string> modules;
  for (const TensorPlace& tensor : tensors) {
    if (tensor.name.ends_with("running_mean")) modules.insert(module_of(tensor.name));
  }
  return modules;
}

std::string head_of(std::span<const TensorPlace> tensors, std::size_t parameters) {
  std::string head;
  for (const TensorPlace& tensor : tensors) {
    if (tensor.offset < parameters) head = module_of(tensor.name);
  }
  return head;
}

}  // namespace

KeptParts::KeptParts(std::span<const std::string> words, std::span<const TensorPlace> tensors, std::size_t model_floats,
                     std::size_t parameters) {
  const std::set<std::string> norms = norms_in(tensors);
  const std::string head = head_of(tensors, parameters);
  std::set<std::size_t> kept;
  for (const std::string& word : words) {
    bool fits = false;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::string& name = tensors[i].name;
      const bool named = name == word || name.starts_with(word + ".");
      if (!named && !(word == "norm" && norms.contains(module_of(name))) &&
          !(word == "head" && !head.empty() && module_of(name) == head))
        continue;
      fits = true;
      kept.insert(i);
    }
    if (!fits) {
      std::string names;
      for (const TensorPlace& tensor : tensors)
        names += (names.empty() ? "" : ", ") + tensor.name;
      throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" fits no tensor of the model", word), "federated.keep",
                  fmt::format("They are called {}.", names));
    }
  }
  for (const std::size_t i : kept) {
    const auto count = static_cast<std::size_t>(
        std::accumulate(tensors[i].shape.begin(), tensors[i].shape.end(), std::int64_t{1}, std::multiplies<>()));
    ranges_.push_back({static_cast<std::size_t>(tensors[i].offset), count});
    floats_ += count;
  }
  // Between tensors may lie numbers of nobody's.
  if (floats_ > 0 && (kept.size() == tensors.size() || floats_ >= model_floats))
    throw Error(ErrorKind::kInvalidInput, "keeps the whole model: nothing would be sent", "federated.keep",
                "Leave something out.");
}

void KeptParts::enter(std::span<const float> own, std::span<float> model) const {
  for (std::size_t at = 0; const Range& range : ranges_) {
    for (std::size_t i = 0; i < range.count; ++i)
      model[range.offset + i] += own[at++];
  }
}

void KeptParts::clear(std::span<float> update) const {
  for (const Range& range : ranges_)
    std::ranges::fill(update.subspan(range.offset, range.count), 0.0F);
}

void KeptParts::leave(std::span<float> update, std::span<float> own) const {
  for (std::size_t at = 0; const Range& range : ranges_) {
    for (std::size_t i = 0; i < range.count; ++i) {
      own[at++] += update[range.offset + i];
      update[range.offset + i] = 0;
    }
  }
}

}  // namespace muster::federated
