// Every trial runs to its end.
#pragma once

#include <memory>
#include <string_view>

#include "muster/base/config.h"
#include "muster/tuning/scheduler.h"

namespace muster::tuning {

struct NoStopping {
  static constexpr std::string_view kName = "none";
  static constexpr std::string_view kHelp = "Every trial runs to its end.";

  void add_keys(Section&) {}
  std::unique_ptr<Scheduler> make(const ScheduleProblem& problem) const;
};

}  // namespace muster::tuning
