// A memory group of the test's own, in which the kernel kills whom it finds no memory for.
#pragma once

#include <unistd.h>

#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/base/memory_group.h"

namespace muster::testing {

// Makes one. Else says why this machine, or this user, can have none; such a test is skipped.
inline std::string make_memory_group(std::optional<TemporaryMemoryGroup>& group) {
  if (::geteuid() != 0) return "needs root to make a memory group";
  const std::optional<MemoryGroup> own = memory_group_of(::getpid());
  if (!own) return "this machine has no memory groups";
  try {
    group.emplace(*own);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace muster::testing
