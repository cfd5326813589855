// A user's program against the installed package: headers, libmuster and LibTorch come with muster::muster alone.
#include <torch/torch.h>

#include <cstdio>

#include "muster/base/error.h"
#include "muster/base/random.h"

int main() {
  // A call into libmuster, one into LibTorch, and an exception that crosses the library's boundary.
  muster::RandomStream stream({.seed = 7});
  muster::RandomStream same({.seed = 7});
  const double drawn = stream.uniform();
  if (drawn != same.uniform()) return 1;
  if (torch::full({4}, drawn, torch::kFloat64).sum().item<double>() != 4 * drawn) return 2;
  try {
    throw muster::Error(muster::ErrorKind::kTimeout, "late");
  } catch (const muster::Error& error) {
    if (!error.retryable()) return 3;
  }
  std::puts("the consumer works");
  return 0;
}
