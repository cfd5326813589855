// Weights by name from any file that has them: safetensors, PyTorch's .pth state dicts, TorchScript. No torch here, and
// nothing of a file is executed.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/model/pth.h"
#include "muster/model/safetensors.h"

namespace muster::model {

enum class WeightsFormat { kSafetensors, kPth, kTorchScript };

// "safetensors", "pth", "torchscript".
std::string_view to_string(WeightsFormat format);
// Of such a word. Throws kInvalidInput.
WeightsFormat parse_weights_format(const std::string& word);
// By the extension: .safetensors; .pth, .bin; .pt, .ts. Throws kInvalidInput for another.
WeightsFormat weights_format_of(const std::filesystem::path& path);

struct Weights {
  WeightsFormat format = WeightsFormat::kSafetensors;
  std::vector<TensorView> tensors;     // names are not repeated
  std::vector<std::string> notes;      // what a person should know of how they were found
  std::shared_ptr<const void> memory;  // what the tensors look into
};

// The tensors of a file, whose first bytes say which format it is. Of a .pth file: the state dict, also one inside
// {"state_dict": ...} or {"model": ...}, and without the "module." that DataParallel puts before every name; notes say
// so. Throws what SafetensorsFile, PthFile and the next throw.
Weights read_weights(const std::filesystem::path& path);
// Throws kInvalidInput (no dictionary of tensors in it), kDamaged (a name twice).
Weights weights_of(std::shared_ptr<PthFile> file);

}  // namespace muster::model
