// A row for each format: how its first bytes look, and how its tensors are found by name. Of files that hold more than
// weights the likeliest dictionary is taken.
#include "muster/model/weights.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::model {
namespace {

constexpr std::size_t kDeepestModule = 64;

// Where training programs keep the state dict inside what they save, the likeliest first.
constexpr std::string_view kUsualKeys[] = {"state_dict", "model_state_dict", "model", "module", "net"};

struct FormatRow {
  WeightsFormat format;
  std::string_view word;
  std::vector<std::string_view> extensions;
};

const std::vector<FormatRow>& formats() {
  static const std::vector<FormatRow> rows{
      {WeightsFormat::kSafetensors, "safetensors", {".safetensors"}},
      {WeightsFormat::kPth, "pth", {".pth", ".bin"}},
      {WeightsFormat::kTorchScript, "torchscript", {".pt", ".ts"}},
  };
  return rows;
}

bool has_tensors(const Pickle& pickle, const Pickle::Dictionary& dictionary) {
  return std::any_of(dictionary.items.begin(), dictionary.items.end(), [&](const auto& item) {
    return pickle.text(item.first) != nullptr && pickle.tensor(item.second) != nullptr;
  });
}

// The dictionary with the weights, in the file's or in one of its members.
const Pickle::Dictionary& find_state_dict(const PthFile& file, Weights& weights) {
  const Pickle& pickle = file.values();
  const Pickle::Dictionary* const root = pickle.dictionary(pickle.root());
  if (root != nullptr && has_tensors(pickle, *root)) return *root;
  if (root != nullptr) {
    for (const std::string_view key : kUsualKeys) {
      const Pickle::Id* const member = pickle.member(*root, key);
      const Pickle::Dictionary* const inner = member == nullptr ? nullptr : pickle.dictionary(*member);
      if (inner == nullptr || !has_tensors(pickle, *inner)) continue;
      weights.notes.push_back(
          fmt::format("the weights are those of its member \"{}\"; it has {} members", key, root->items.size()));
      return *inner;
    }
  }
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("holds {} and no dictionary of tensors by name", pickle.kind(pickle.root())), file.where(),
              "Save the state dict: torch.save(model.state_dict(), FILE).");
}

// Collects tensors under names that are not repeated.
class Collector {
 public:
  Collector(PthFile& file, Weights& weights) : file_(file), weights_(weights) {}

  void add(const std::string& name, Pickle::Id id) {
    if (weights_.tensors.size() == kMostTensors)
      throw Error(ErrorKind::kUnsupported, fmt::format("has more than {} tensors", kMostTensors), file_.where());
    if (!names_.insert(name).second) {
      throw Error(ErrorKind::kDamaged, fmt::format("tensor \"{}\" is there twice", excerpt(name)), file_.where());
    }
    weights_.tensors.push_back(file_.tensor(id, name));
  }

  // Attributes of a module and of those below it. Every name is visited once however modules share each other, and a
  // module that contains itself is too deep.
  void add_module(Pickle::Id id, const std::string& prefix, std::size_t depth) {
    const Pickle& pickle = file_.values();
    const Pickle::Dictionary* const module = pickle.dictionary(id);
    if (module == nullptr || !module->is_object) return;
    if (depth == kDeepestModule || ++modules_ > kMostTensors)
      throw Error(ErrorKind::kUnsupported, "has modules inside modules without an end", file_.where());
    for (const auto& [key, value] : module->items) {
      const std::string* const name = pickle.text(key);
      if (name == nullptr) continue;
      if (pickle.tensor(value) != nullptr)
        add(prefix + *name, value);
      else
        add_module(value, prefix + *name + ".", depth + 1);
    }
  }

 private:
  PthFile& file_;
  Weights& weights_;
  std::set<std::string> names_;
  std::size_t modules_ = 0;
};

void strip_prefix(Weights& weights) {
  constexpr std::string_view kPrefix = "module.";
  const bool all = !weights.tensors.empty() &&
                   std::all_of(weights.tensors.begin(), weights.tensors.end(),
                               [&](const TensorView& tensor) { return tensor.name.starts_with(kPrefix); });
  if (!all) return;
  for (TensorView& tensor : weights.tensors)
    tensor.name.erase(0, kPrefix.size());
  weights.notes.push_back("every name began with \"module.\" (DataParallel), which was taken off");
}

void collect_state_dict(PthFile& file, Weights& weights) {
  const Pickle& pickle = file.values();
  const Pickle::Dictionary& dictionary = find_state_dict(file, weights);
  Collector collector(file, weights);
  std::vector<std::string> others;
  for (const auto& [key, value] : dictionary.items) {
    const std::string* const name = pickle.text(key);
    if (name != nullptr && pickle.tensor(value) != nullptr) {
      collector.add(*name, value);
    } else {
      others.push_back(name == nullptr ? std::string(pickle.kind(key)) : excerpt(*name));
    }
  }
  if (!others.empty()) {
    weights.notes.push_back(fmt::format("{} of its entries are no tensors and were left out, {} among them",
                                        others.size(), others.front()));
  }
  strip_prefix(weights);
}

}  // namespace

std::string_view to_string(WeightsFormat format) {
  return formats()[static_cast<std::size_t>(format)].word;
}

WeightsFormat parse_weights_format(const std::string& word) {
  std::vector<std::string> words;
  for (const FormatRow& row : formats()) {
    if (row.word == word) return row.format;
    words.emplace_back(row.word);
  }
  throw Error(ErrorKind::kInvalidInput, fmt::format("no format \"{}\"{}", word, did_you_mean(word, words)), {},
              fmt::format("Formats are {}.", join_words(words)));
}

WeightsFormat weights_format_of(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  std::vector<std::string> known;
  for (const FormatRow& row : formats()) {
    for (const std::string_view candidate : row.extensions) {
      if (candidate == extension) return row.format;
      known.emplace_back(candidate);
    }
  }
  throw Error(ErrorKind::kInvalidInput, fmt::format("the extension \"{}\" is none of a format of weights", extension),
              path.string(), fmt::format("Extensions are {}.", join_words(known)));
}

Weights weights_of(std::shared_ptr<PthFile> file) {
  Weights weights;
  weights.format = file->is_script() ? WeightsFormat::kTorchScript : WeightsFormat::kPth;
  if (file->is_script()) {
    Collector(*file, weights).add_module(file->values().root(), "", 0);
    if (weights.tensors.empty())
      throw Error(ErrorKind::kInvalidInput, "is a TorchScript file without tensors in its modules", file->where());
  } else {
    collect_state_dict(*file, weights);
  }
  weights.memory = std::move(file);
  return weights;
}

Weights read_weights(const std::filesystem::path& path) {
  const OpenFile file = open_for_reading(path);
  AlignedBytes bytes(file.size, path.string());
  read_exactly(file, 0, bytes.span(), path);
  const auto head = bytes.span();
  const auto is = [&](std::size_t at, int value) {
    return head.size() > at && head[at] == static_cast<std::byte>(value);
  };
  // The length of a safetensors header is followed by its brace; archives and old .pth files begin with marks.
  if ((is(0, 'P') && is(1, 'K')) || (is(0, 0x80) && !is(8, '{')))
    return weights_of(std::make_shared<PthFile>(std::move(bytes), path.string()));
  const auto set = std::make_shared<TensorSet>(std::move(bytes), path.string());
  Weights weights;
  for (const TensorEntry& entry : set->header().tensors)
    weights.tensors.push_back({entry.name, entry.dtype, entry.shape, set->data(entry)});
  weights.memory = set;
  return weights;
}

}  // namespace muster::model
