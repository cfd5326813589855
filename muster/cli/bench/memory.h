// muster bench memory: the memory that jobs take, and what was estimated before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/strategies/registry.h"

namespace muster::cli {

struct MemoryBench {
  std::vector<std::string> models{"mlp", "cnn", "resnet18", "transformer", "lstm"};
  std::vector<std::int64_t> workers{1, 2};
  std::string strategy = strategies::default_strategy().name();
  std::string optimizer = "sgd";
  bool json = false;
};
void bench_memory(const MemoryBench& options);

}  // namespace muster::cli
