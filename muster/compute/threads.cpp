// The BLAS is asked for by name at run time, because LibTorch brings its own and none is tied in at link time. Where no
// such function is there, nothing can be set, and the name of the library tells.
#include "muster/compute/threads.h"

#include <dlfcn.h>

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include "muster/base/check.h"

namespace muster::compute {
namespace {

// LibTorch brings its own BLAS: asked by name at run time, so that neither OpenBLAS nor MKL is tied in at link time.
template <typename Function>
Function* find_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

void set_threads(int threads) {
  MUSTER_CHECK(threads > 0, "threads must be positive");
  at::set_num_threads(threads);
  if (auto* set = find_function<void(int)>("openblas_set_num_threads")) set(threads);
}

ComputeLibraries compute_libraries() {
  ComputeLibraries libraries;
  libraries.torch = TORCH_VERSION;
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
