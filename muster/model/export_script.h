// A model as a TorchScript file that torch::jit::load and Python's torch.jit.load read, by tracing its forward().
//
// A trace is what forward() did for one example, in evaluation mode: batch norm by its statistics, no dropout. It is
// for prediction. Whatever forward() decides by the values or by the size of a batch is fixed in it, so the file's own
// result is compared with the model's, on batches of other sizes, before it is kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "muster/model/net.h"

namespace muster::model {

// `example` gives a batch of so many samples, other ones every time. The net is in evaluation mode afterwards. Throws
// kUnsupported when the trace does not compute what the model does, kResource or kIo; then `path` is as it was.
void export_script(Net& net, const std::function<torch::Tensor(std::int64_t samples)>& example,
                   const std::filesystem::path& path);

}  // namespace muster::model
