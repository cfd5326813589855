// A program of a user's own as a job (`muster run`): what the flags say of its workers, as a coordinator takes it, and
// as the agents of other hosts are told it. The program is at the same path on every host. No torch here.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "muster/base/config.h"
#include "muster/coordinator/coordinated_job.h"

namespace muster::cli {

struct ProgramJob {
  std::string program{};  // a path, or a name that is looked for in PATH
  std::vector<std::string> arguments{};
  IntegerRange workers{1, 1};  // on each host
  int threads = 1;
  double liveness_seconds = 2;
  double hang_seconds = 10;
  double start_seconds = 600;
  std::string interface {};  // of the network between hosts, where one does not name another
  std::string named{};       // what the job is called by commands; empty: as the program's file

  // One JSON object. Throws kInvalidInput for words that are no text.
  std::string to_text() const;
  // Throws kDamaged.
  static ProgramJob from_text(const std::string& text);

  // `named`, or the last part of the program's path, as a name that can be a folder's.
  std::string name() const;
};

// Throws kNotFound when the program is not on this host: it has to be at the same path on all of them.
void require_program(const ProgramJob& program);

// `runs`: where this host keeps what commands to the job need, of a job that another one coordinates.
coordinator::CoordinatedJob coordinated_job(const ProgramJob& program, const std::filesystem::path& runs = {});

}  // namespace muster::cli
