// That all hosts of a job read the same data: a host with other files would train something that nobody asked for, and
// nobody would notice. Compared in the store of all hosts before a worker's session begins. No torch here.
//
// A print has, for every key of the job that names files to read (data.path, data.test_path, ..., model.script), how
// many files, how many bytes and a hash of all names and sizes and of pieces of the contents (run_inputs.h); and for
// each set the number of samples and data::fingerprint. What changes between these pieces and samples is not noticed.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/comm/store.h"
#include "muster/strategies/membership.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/job.h"

namespace muster::trainer {

struct PrintedInput {
  std::string what;   // "data.path", "training set"
  std::string place;  // on this host; empty: none
  std::string print;  // in words
  bool operator==(const PrintedInput&) const = default;
};
using DataPrint = std::vector<PrintedInput>;

// With `remote` the packed shards are known by the fingerprint of whoever has them (data/shard_files.h), and sets are
// not looked at: nothing has to be fetched for it. Throws as stamp_of and PieceDoor::open, and what reading samples
// throws.
DataPrint print_data(const Job& job, const Datasets& sets, const std::shared_ptr<data::PieceDoor>& remote = {});

// The first host to come says what it has under "agreement/files", and the others have to have the same. `host` is its
// number and name. Throws kMismatch, naming both hosts, the place and what to do; before that `refused` is told the
// same.
void compare_data(comm::Store& store, const std::string& host, const DataPrint& mine,
                  const std::function<void(const Error&)>& refused);

// Both for a worker whose job may have several hosts; else nothing is done. A refusal is told to this host's supervisor
// and to the coordinator: before the job has begun it ends the job, later this host.
void agree_on_data(const strategies::Supervised& supervised, const Job& job, const Datasets& sets,
                   const std::shared_ptr<data::PieceDoor>& remote);

// The same door; while no host has the data, open() waits for one to come, for as long as a supervisor lives that has
// left its sign in the store of `folder` (comm/supervisor_sign.h). `tell` hears once that it waits.
std::shared_ptr<data::PieceDoor> wait_for_data(std::shared_ptr<data::PieceDoor> door, std::filesystem::path folder,
                                               std::function<void(const std::string&)> tell);

// Where a worker gets data that its host has not, if the job allows it and it has several hosts; else empty. Hosts are
// waited for without limit, and so is their data. Throws as control::open_depot.
std::shared_ptr<data::PieceDoor> remote_data(const std::optional<strategies::Supervised>& supervised, const Job& job,
                                             std::function<void(const std::string&)> tell);

}  // namespace muster::trainer
