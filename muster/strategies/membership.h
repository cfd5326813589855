// Membership: who trains together now, and how this worker comes to be one of them.
//
// Members change in generations: somebody is lost, somebody comes. What a generation is decided by is behind the
// interface: nobody (a fixed group), or whoever supervises the workers of a host (members/host_members.h), or, for jobs
// of several hosts, their coordinator through the agents that supervise (control/job_generation.h). Strategies hold the
// state and are told when this worker has entered a generation (strategy.h); they do not ask how.
//
// Thread safety: one thread of the worker; abandoned_for() and throw_if_interrupted() from any. No torch here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/comm/board.h"
#include "muster/comm/group.h"
#include "muster/comm/store.h"
#include "muster/control/job_generation.h"
#include "muster/strategies/members.h"

namespace muster::strategies {

constexpr std::uint64_t kFirstGeneration = 1;

// How long a worker of several hosts that was told to end waits for the next generation, and for others in a step or a
// meeting: shares of the time that it has (Supervised::grace_used). As a rule all end together, after a step; the rest
// of the time is for a checkpoint where they cannot.
constexpr double kGraceForGeneration = 0.25;
constexpr double kGraceForOthers = 0.5;

// The host of a worker, where a job may have several.
struct HostPlace {
  std::shared_ptr<comm::Store> store;  // of all workers of all hosts (control/cluster_store.h)
  std::uint64_t number = 0;            // of the host, when this worker was started
  std::string interface {};            // of the network that leads to the other hosts
  std::string backend = "auto";        // of the group of all workers (comm/connect.h)
  std::string data{};  // where data of other hosts is to be had (control/depot_client.h); empty: nowhere
};

// A worker whose fellows may be lost and replaced while it trains: somebody outside watches the processes and decides
// who is a member (launch/supervisor.h).
struct Supervised {
  std::shared_ptr<comm::Store> store;  // of the job
  std::string folder{};                // of the store, where it has one
  int seat = 0;                        // this worker's place, of `seats`
  int seats = 1;
  bool founder = false;             // is there before the others, and has the first state
  std::string arena{};              // where the host's arena is to be had; empty: ask the store
  int attempt = 0;                  // how many processes were on this seat before
  std::optional<HostPlace> host{};  // of a job that may have several hosts; then `store` is this host's
  // How long to wait for somebody to decide on members while no supervisor lives; one that lives is waited for.
  std::chrono::nanoseconds patience = std::chrono::seconds(60);
  // Called now and then while it waits for its first generation; what it throws ends the wait.
  std::function<void()> interruption = [] {};
  // How much of the time that this worker has to end is over, once it was told to; 0: nobody has told it. From any
  // thread. Where hosts wait for each other, and for a coordinator that may be gone, it decides how long they do.
  std::function<double()> grace_used = [] { return 0.0; };

  // Whether this worker has the job's first state: on another host than the first one the founder has room for it only.
  bool founds_job() const { return founder && (!host || host->number == control::kFirstHost); }
};

// Takes the leader's note where the workers share no memory that could hold it.
using NoteWriter = std::function<void(const std::string& text)>;

class Membership {
 public:
  virtual ~Membership() = default;

  // Whether members that are lost are replaced, so that rejoin() has a meaning.
  virtual bool replaces() const = 0;
  // Whether it is this worker that gives the state before the first step.
  virtual bool founds() const = 0;
  // Before the first meeting with replaces(): alone.
  virtual const Members& members() const = 0;

  // Becomes one of those who train, once, before the first step. Throws kTimeout.
  virtual void meet() = 0;
  // After kPeerLost: becomes a member of the next generation. Throws kUnsupported where nobody is replaced, kTimeout
  // (nobody decides on members any more, or this worker was told to end and none has begun meanwhile).
  virtual void rejoin() = 0;
  // Throws kPeerLost when a later generation than this worker's has begun: to be asked in long waits.
  virtual void throw_if_interrupted() const {}

  // For how long nobody has decided on members any more: the supervisor is gone. Zero while there is one, and where
  // there never is. The workers go on, and settle losses among themselves.
  virtual std::chrono::nanoseconds abandoned_for() const { return {}; }
  // What this worker begins now, for those who watch it. Signs of life are given without a call.
  virtual void begin(comm::Activity /*activity*/) {}
  // Failpoints of this thread are those of `step` from now on.
  virtual void enter_step(std::int64_t /*step*/) {}
  // Whether a note is worth making now: somebody may read it, and where one costs something the last is old enough.
  // `last`: none will follow.
  virtual bool wants_note(bool /*last*/) const { return replaces(); }
  // A text for those who watch; where something outlives all workers the leader's successor reads it, too.
  virtual void write_note(const std::string& /*text*/) {}
  virtual std::string note() const { return {}; }
};

}  // namespace muster::strategies
