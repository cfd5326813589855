// How the other hosts of a job come to the one that coordinates it, where somebody has to see to that: what started all
// of them (launched.h), or ssh from here (ssh_gathering.h). With `--listen` nobody has to: agents come by themselves.
#pragma once

#include <functional>
#include <string>

#include "muster/coordinator/coordinated_job.h"

namespace muster::cli {

class Gathering {
 public:
  virtual ~Gathering() = default;

  // Has the others come as soon as the coordinator of `job`, which has hosts, listens; which is to be started with
  // them.
  virtual void prepare(coordinator::CoordinatedJob& job) = 0;
  // The coordinator ends before anybody could come: why.
  virtual void fail(const std::string& reason) = 0;
};

// Runs what needs the others, and lets them know if it fails.
inline int run_gathered(Gathering& gathering, const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    gathering.fail(error.what());
    throw;
  }
}

}  // namespace muster::cli
