// Where a run stands by its own files: for jobs that nobody can be asked about any more, whose record tells only how
// they began. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "muster/base/json.h"
#include "muster/control/job_status.h"

namespace muster::cli {

struct RunStanding {
  std::uint64_t step = 0;                        // the last one that metrics.jsonl or a checkpoint tells of
  std::optional<std::uint64_t> checkpoint = {};  // step of the newest one
  std::string last_event = {};                   // of metrics.jsonl: "finished", "interrupted", ...
  bool own_program = false;                      // of muster run: where its checkpoints are, it knows alone
  Json figures = {};                             // its last row of a step, as it is written; null: there is none
};

// Nothing of it where the run has no such files.
RunStanding read_standing(const std::filesystem::path& run);

// Turns what the record says of a job whose coordinator does not answer into what is known: the step it stood at, and,
// where nobody lives any more, that it has ended and what to do. REQUIRES: !status.live.
void correct_by_files(control::JobStatus& status, const RunStanding& standing);

}  // namespace muster::cli
