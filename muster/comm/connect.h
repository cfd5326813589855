// From ranks that know only a store to a Group: who is where, which backend fits, and the connections.
//
// Steps: every rank leaves its place in the store and reads the others'; all decide the same by choose_backend, a pure
// function; the backend is built through the store. Thread safety: safe from any thread, one group a call.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/comm/gloo_transport.h"
#include "muster/comm/group.h"
#include "muster/comm/mpi_transport.h"
#include "muster/comm/store.h"

namespace muster::comm {

// Where a rank is, as far as it decides what it can share with others.
struct Place {
  // Equal for ranks that can share memory: the same boot of the same kernel, the same network namespace (abstract Unix
  // sockets, by which regions are handed over, belong to one), process namespace (liveness is told by process numbers)
  // and user (regions are private to one).
  std::string host;
  int mpi_rank = -1;  // in the MPI world of the process; -1: MPI is not running in it

  bool operator==(const Place&) const = default;
};

Place this_place();

struct AvailableBackends {
  std::optional<MissingGloo> missing_gloo;  // nothing: Gloo is there
  bool mpi = false;
};
AvailableBackends available_backends();

struct BackendChoice {
  std::string backend;  // "self", "shm", "gloo", "mpi" or "hierarchical"
  std::string network;  // "gloo" or "mpi": what the backend uses between hosts; empty for none
  std::string reason;   // why, in words
};

// Which backend ranks at these places use; the same on every rank, because it depends on nothing else.
//   "auto"          one host: shm; one rank a host: the network; else hierarchical. The network is Gloo, or MPI in a
//                   build without Gloo whose ranks run under mpirun
//   "hierarchical"  as auto
//   "shm", "gloo", "mpi"   that one
// Throws kInvalidInput (an unknown name, with the nearest; ranks that cannot use what was asked for) and kUnsupported
// (not in this build), saying what to do.
BackendChoice choose_backend(const std::vector<Place>& places, const std::string& requested,
                             const AvailableBackends& available);

struct GroupOptions {
  int rank = 0;
  int size = 1;
  // Common to all ranks. May be empty for a group of one.
  std::shared_ptr<Store> store;
  // Keys of the group begin with it. A name serves one group of a store, once: a group that is made again takes
  // another.
  std::string name = "group";
  std::string backend = "auto";
  // For connecting, and the default of every call of the group.
  std::chrono::nanoseconds timeout = Group::kDefaultTimeout;
  // For connecting alone, where ranks come from work of very different length. 0: as `timeout`.
  std::chrono::nanoseconds connect_timeout{0};
  // The network interface to other hosts, "eth0" for one. Must be given as soon as ranks are on several hosts: nothing
  // listens on an interface that nobody named.
  std::string interface;
  // MPI, when the process runs it already. Started here when "mpi" is asked for.
  std::shared_ptr<MpiRuntime> mpi;
  // Called now and then while this rank waits, for the others to come and, but over MPI, in every call of the group;
  // what it throws ends the wait. Between hosts a thread of the group calls it as well, for as long as a copy of the
  // group lives.
  std::function<void()> interruption{};
  // Filled with what was decided and why, if given.
  BackendChoice* choice = nullptr;
};

// Connects this rank. Returns when all ranks have come. Throws as choose_backend; kTimeout and kPeerLost naming a rank;
// kMismatch when ranks were given other sizes or backends, or the name was used before.
Group make_group(const GroupOptions& options);

}  // namespace muster::comm
