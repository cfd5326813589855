// LibTorch's own switch, which newer releases have for every kind of device, with its cache of converted weights
// emptied when the outermost one ends.
#include "muster/compute/autocast.h"

#include <ATen/autocast_mode.h>
#include <torch/version.h>

namespace muster::compute {
namespace {

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
bool is_enabled() {
  return at::autocast::is_autocast_enabled(at::kCPU);
}
void set_enabled(bool enabled) {
  at::autocast::set_autocast_enabled(at::kCPU, enabled);
}
at::ScalarType type() {
  return at::autocast::get_autocast_dtype(at::kCPU);
}
void set_type(at::ScalarType type) {
  at::autocast::set_autocast_dtype(at::kCPU, type);
}
#else
bool is_enabled() {
  return at::autocast::is_cpu_enabled();
}
void set_enabled(bool enabled) {
  at::autocast::set_cpu_enabled(enabled);
}
at::ScalarType type() {
  return at::autocast::get_autocast_cpu_dtype();
}
void set_type(at::ScalarType type) {
  at::autocast::set_autocast_cpu_dtype(type);
}
#endif

}  // namespace

Autocast::Autocast(bool enabled) : before_(is_enabled()), type_before_(static_cast<int>(type())) {
  at::autocast::increment_nesting();
  set_enabled(enabled);
  set_type(at::kBFloat16);
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  set_type(static_cast<at::ScalarType>(type_before_));
  set_enabled(before_);
}

}  // namespace muster::compute
