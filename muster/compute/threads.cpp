// The BLAS is asked for by name at run time, because LibTorch brings its own and none is tied in at link time. Where no
// such function is there, nothing can be set, and the name of the library tells.
#include "muster/compute/threads.h"

#include <dlfcn.h>

#include <string_view>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/torch.h>

#include "muster/base/check.h"

namespace muster::compute {
namespace {

// LibTorch brings its own BLAS: asked by name at run time, so that neither OpenBLAS nor MKL is tied in at link time.
template <typename Function>
Function* find_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// LibTorch says it nowhere but in this text, in all its versions: "  - CPU capability usage: AVX2".
std::string aten_kernels() {
  constexpr std::string_view kLabel = "CPU capability usage: ";
  const std::string config = at::show_config();
  const std::size_t at = config.find(kLabel);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + kLabel.size();
  return config.substr(begin, config.find('\n', begin) - begin);
}

}  // namespace

void set_threads(int threads) {
  MUSTER_CHECK(threads > 0, "threads must be positive");
  at::set_num_threads(threads);
  if (auto* set = find_function<void(int)>("openblas_set_num_threads")) set(threads);
}

ComputeLibraries compute_libraries() {
  ComputeLibraries libraries;
  libraries.kernels.torch = TORCH_VERSION;
  libraries.kernels.aten = aten_kernels();
  if (auto* core = find_function<char*()>("openblas_get_corename")) libraries.kernels.blas = core();
  libraries.aten_threads = at::get_num_threads();
  libraries.cuda = torch::cuda::is_available();
  if (auto* config = find_function<char*()>("openblas_get_config")) {
    libraries.blas = config();
    if (auto* get = find_function<int()>("openblas_get_num_threads")) libraries.blas_threads = get();
  } else {
    libraries.blas = at::hasMKL() ? "MKL" : "unknown";
  }
  return libraries;
}

}  // namespace muster::compute
