// What follows for whoever would go on in the place of a coordinator that is gone: by hand (muster attach), in its turn
// (standby.h), or out of an agent. What is known was looked up before; nothing here looks, waits or acts.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/base/process.h"
#include "muster/control/etcd_options.h"
#include "muster/control/job_record.h"

namespace muster::coordinator {

// What trains in a run, as its folder and its record say.
struct JobTakenOver {
  std::string run{};              // its folder, for people
  bool of_a_file = false;         // else a program of a user's, of which nobody knows what it does; this and the next:
  bool replaces_workers = false;  // by the job file
  bool needs_servers = false;
  bool data_from_hosts = false;                  // which get it from each other
  std::optional<control::LedCluster> cluster{};  // of a job of several hosts, as the last coordinator has left it
};
// Why nobody can go on with such a job; nothing: somebody can.
std::optional<Error> obstacle_of_job(const JobTakenOver& job);

// Whether a host whose processes are numbered in `here` (process_space()) has workers of a job that a coordinator there
// could take over: those of the coordinator before, whose lease is the record's, or those of an agent.
bool has_part(const std::optional<control::Lease>& lease, const std::string& here, bool has_agent);

// What becomes of the process that has started workers before they are another one's: two that think so would both
// replace them.
struct HolderVerdict {
  bool end = false;
  std::string reason;
};
// `lives`: whether a process of its number is there, in the space `here`.
HolderVerdict judge_holder(const std::optional<control::Lease>& holder, const ProcessId& self, const std::string& here,
                           bool lives);

// From where a coordinator would go on.
struct LeadView {
  bool moves = false;        // the last one was on another host, and an agent has the workers of this one
  bool elected = false;      // an etcd has given the lead: nobody else leads, for certain
  std::string listen{};      // where it is to listen, and the interface between hosts; empty: nobody has said
  std::string interface {};  // the same
  std::string answering{};   // where a coordinator of the job answers; empty: nobody does, or nobody was asked
};
// Why it cannot; nothing: it can, and leads as next_lead() says.
std::optional<Error> obstacle_of_place(const JobTakenOver& job, const LeadView& view);
// As the agents see it who have followed `before`: with a higher term, or none of them would follow.
struct Lead {
  control::LedCluster cluster;
  std::string listen;
  std::string interface;
};
Lead next_lead(const control::LedCluster& before, const LeadView& view);

// Which etcd has the last word on who leads; nothing: the run's own record has. `given` is what was asked for,
// `pointed` what the run's folder says: there the name of the run is a part of the prefix already.
std::optional<control::EtcdOptions> etcd_that_decides(const std::optional<control::EtcdOptions>& given,
                                                      const std::optional<control::EtcdOptions>& pointed);

// Whether a coordinator whose session in an etcd lasts so long still may decide who is lost. `lease` is the session's
// whole length, `patience` the silence after which a host is given up; 0: the job has one host. Whoever has had the
// etcd's word in the second half of such a silence was not cut off together with the hosts that are silent; that the
// lease counts still does not say it.
bool leads_for_certain(std::chrono::nanoseconds session_left, std::chrono::nanoseconds lease,
                       std::chrono::nanoseconds patience);

}  // namespace muster::coordinator
