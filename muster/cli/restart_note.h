// Which run belongs to a job of a batch system, so that the job goes on with it when it is started again: a file beside
// the runs, named by what stays of the job (Surroundings::job). No torch here.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "muster/launch/surroundings.h"

namespace muster::cli {

class RestartNote {
 public:
  // Of a job that nothing starts again there is no note, and the rest does nothing.
  RestartNote(const std::filesystem::path& runs, const launch::Surroundings& surroundings);

  // The run to go on with, if this is such a start and there is one. Throws kIo.
  std::optional<std::filesystem::path> run() const;
  // Throws kIo.
  void remember(const std::filesystem::path& run) const;
  // The job is done.
  void forget() const;

 private:
  std::filesystem::path file_;  // empty: there is none
  bool again_ = false;
};

}  // namespace muster::cli
