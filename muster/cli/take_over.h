// Taking over a job whose coordinator is gone: `muster attach` by hand, `muster coordinator --standby` by itself.
// No torch here.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "muster/cli/cluster_flags.h"
#include "muster/control/etcd_options.h"
#include "muster/control/job_record.h"

namespace muster::cli {

// Goes on in the place of a coordinator that is gone, until the job has ended. Of a job of several hosts it listens
// where that one did, unless the flags say where. On the host of an agent whose coordinator is lost it ends the agent
// and coordinates in its place, with its workers. `etcd` holds the record; nothing: as the run's folder says. Throws
// kMismatch (it is not gone), kNotFound (the run says nothing of its workers), kPeerLost (no worker lives),
// kInvalidInput (as listen_by()), and as supervise_workers.
int take_over_workers(const std::filesystem::path& run, const ClusterFlags& flags,
                      const std::optional<control::EtcdOptions>& etcd);

// Waits until that etcd says that nobody coordinates the job, and does the same; 0 when the job has come to its end
// before. `wait`: for a run of that name to begin.
int stand_by_for(const std::string& job, const std::string& runs, const ClusterFlags& flags,
                 const control::EtcdOptions& etcd, std::chrono::duration<double> wait);

// As a part of an agent of that run: waits likewise, and calls `lead` once this process leads in the place of the
// holder of `before`. Returns after it, or when the job is over or a stop was requested. Throws as stand_by_for().
void stand_by_beside(const std::filesystem::path& run, const ClusterFlags& flags, const control::EtcdOptions& etcd,
                     const std::function<bool()>& stop_requested,
                     const std::function<void(const control::Lease& before)>& lead);
// In the program that this process has become then (turn_to_lead.h): goes on as the coordinator. Throws as
// take_over_workers().
int take_turn(const std::filesystem::path& run, const ClusterFlags& flags, const control::EtcdOptions& etcd,
              const control::Lease& before);

}  // namespace muster::cli
