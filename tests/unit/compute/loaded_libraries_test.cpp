// What LibTorch and Muster both use is in the process once. PyTorch's own builds carry Gloo and OpenMP along; of two
// copies with the same names each would be called with the other's objects.
#include <dlfcn.h>
#include <link.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "muster/comm/gloo_transport.h"
#include "muster/compute/threads.h"

namespace muster::compute {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> loaded_files() {
  std::vector<std::string> files;
  const auto add = [](dl_phdr_info* info, std::size_t, void* out) {
    static_cast<std::vector<std::string>*>(out)->emplace_back(info->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(add, &files);
  return files;
}

// The files of this process that define `name`.
std::set<std::string> definers(const char* name) {
  std::set<std::string> found;
  for (const std::string& file : loaded_files()) {
    void* const handle = dlopen(file.empty() ? nullptr : file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;  // the kernel's vdso
    Dl_info where{};
    if (void* const address = dlsym(handle, name); address != nullptr && dladdr(address, &where) != 0)
      found.insert(where.dli_fname);
    dlclose(handle);
  }
  return found;
}

TEST(LoadedLibraries, ThereIsOneOpenMp) {
  set_threads(1);  // so that the linker keeps LibTorch
  EXPECT_THAT(definers("omp_get_max_threads"), ::testing::SizeIs(1));
}

TEST(LoadedLibraries, ThereIsOneGloo) {
  // Asked of the transport, so that it is linked in, with the Gloo it was built for.
  const bool ours = comm::gloo_available();
  const auto gloo = definers("_ZN4gloo9allreduceERKNS_16AllreduceOptionsE");
  EXPECT_LE(gloo.size(), 1U) << ::testing::PrintToString(gloo);
  EXPECT_TRUE(!ours || gloo.size() == 1U);
  if (ours) return;
  // A build without says whether LibTorch is the reason: libgloo-dev would be of no use then.
  const bool of_torch = !gloo.empty() && gloo.begin()->find("libtorch") != std::string::npos;
  EXPECT_THAT(comm::missing_gloo()->reason, HasSubstr(of_torch ? "LibTorch carries a Gloo" : "libgloo-dev"));
}

}  // namespace
}  // namespace muster::compute
