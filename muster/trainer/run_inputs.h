// What a run read besides its job file: data and, if there is one, the model's script. Written down when the run begins
// (RUN/inputs.json) and compared when it is resumed: a run that goes on with other data would be neither the old run
// nor a new one, and its samples would have other numbers.
//
// A file is known by its size and by a hash of sixteen pieces of 64 KiB, evenly spread (small files: of everything); a
// folder by the names and sizes of its files and by sixteen of these files. So a copy elsewhere is the same, and
// looking costs moments; what changes inside a large file between the pieces is not noticed. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "muster/trainer/job.h"

namespace muster::trainer {

struct InputStamp {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::string hash{};

  bool operator==(const InputStamp&) const = default;
};

// The job's keys that name files to read, with what they name: data, and the model's script.
std::map<std::string, std::filesystem::path> inputs_of(const Job& job);

// Of a file or a folder. Throws kNotFound, kIo.
InputStamp stamp_of(const std::filesystem::path& path);

// Throws as stamp_of, and kIo, kResource.
void remember_inputs(const std::filesystem::path& run, const Job& job);
// Throws kMismatch, naming the job's key and what to do, when something is not as it was; as stamp_of, and kDamaged. A
// run of which nothing was written down is accepted.
void check_inputs(const std::filesystem::path& run, const Job& job);

}  // namespace muster::trainer
