// Where the record of a run is: in a file of its folder, or in an etcd, of which a small file there says which
// (control.store). So whoever knows the folder finds the record, as before.
//
// While a job runs with an etcd the record is there and nowhere else. Its coordinator leaves a copy in the folder when
// the job ends, and takes the pointer away: a run that is over needs no etcd to be looked at.
// Thread safety: every function from any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "muster/control/etcd_options.h"
#include "muster/control/job_record.h"
#include "muster/control/store.h"

namespace muster::control {

// The etcd of that run, with the keys of that run alone: those of `etcd` below the name of its folder.
EtcdOptions etcd_of_run(const EtcdOptions& etcd, const std::filesystem::path& run);

// Whether the folder has a record, or says where it is.
bool has_record(const std::filesystem::path& folder);
// What the folder says of an etcd; nothing: the record is, or would be, in a file. Throws kDamaged.
std::optional<EtcdOptions> etcd_in(const std::filesystem::path& folder);
// The store with the record of that folder. Throws kNotFound when there is none, and as the makers of stores.
std::unique_ptr<Store> open_record_store(const std::filesystem::path& folder);

// Who leads and where its service listens, as the coordinator leaves it in the folder (control.leader) beside a record
// in an etcd: so that its own machine reaches it while the etcd does not answer. Whether it counts still its process
// tells. Nothing: there is no such file, or it is of another machine.
struct NotedLeader {
  Lease lease;
  std::string address;
};
void note_leader(const std::filesystem::path& folder, const NotedLeader& leader);
std::optional<NotedLeader> noted_leader(const std::filesystem::path& folder);

// From now on the record of that folder is in that etcd (etcd_of_run). Throws kIo, kResource.
void keep_record_in(const std::filesystem::path& folder, const EtcdOptions& of_run);
// A file again, with all that `store` holds. Throws as both stores.
void bring_record_back(const std::filesystem::path& folder, Store& store);

}  // namespace muster::control
