// A backend: one way of moving a group's bytes. Users hold a Group (group.h), which checks arguments, keeps a failure
// sticky, makes a world of one the identity, and calls a backend for the rest.
//
// Every reduction combines the ranks' elements by the fixed tree of combine.h: the same inputs give the same bits at
// any timing, and on every backend. Thread safety: one call at a time. Errors, from every blocking method:
//   kPeerLost   a rank died; the text names it
//   kTimeout    the deadline passed; the text names the rank that everyone waits for and what it is doing, if known
//   kMismatch   ranks made different calls; the text lists them rank by rank
// After one of them the backend is of no further use; destroying it is safe and does not wait for peers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/comm/call.h"
#include "muster/comm/element.h"

namespace muster::comm {

// A send or receive under way. The memory it moves must stay until it is finished or the transfer destroyed. Destroying
// an unfinished one cancels it; a message that was cancelled half-way fails the group.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Whether it is finished. Moves it on without waiting. Throws as backends do, but never kTimeout.
  virtual bool test() = 0;
  // Returns when it is finished. A send is finished when its memory may be reused.
  virtual void wait(const Deadline& deadline) = 0;
};

class FinishedTransfer final : public Transfer {
 public:
  bool test() override { return true; }
  void wait(const Deadline&) override {}
};

// REQUIRES, of all methods: sizes that fit together (Group checks them), count of the call as in call.h, `call` equal
// on all ranks (checked here: kMismatch). Input and output may be the same memory (all_reduce, broadcast) or must not
// overlap, but for all_gather's and gather's input, which may be this rank's own part of the output, and
// reduce_scatter's and scatter's output, which may be this rank's own part of the input.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "shm", "gloo", "mpi", "hierarchical"
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void all_reduce(const Call& call, const void* input, void* output, const Deadline& deadline) = 0;
  // `input` holds size() parts of call.count elements; this rank gets part rank() of the sum.
  virtual void reduce_scatter(const Call& call, const void* input, void* output, const Deadline& deadline) = 0;
  virtual void all_gather(const Call& call, const void* input, void* output, const Deadline& deadline) = 0;
  virtual void broadcast(const Call& call, void* data, const Deadline& deadline) = 0;
  // Part p of `input` goes to rank p, where it becomes part rank() of its output. call.count elements a part.
  virtual void all_to_all(const Call& call, const void* input, void* output, const Deadline& deadline) = 0;
  // `output` is null but at the root.
  virtual void gather(const Call& call, const void* input, void* output, const Deadline& deadline) = 0;
  // `input` is null but at the root.
  virtual void scatter(const Call& call, const void* input, void* output, const Deadline& deadline) = 0;
  virtual void barrier(const Call& call, const Deadline& deadline) = 0;

  // Messages with the same tag between the same two ranks arrive in order. A receive whose size is not the message's is
  // kMismatch at the receiver.
  virtual std::unique_ptr<Transfer> send(int peer, std::uint32_t tag, ConstView data) = 0;
  virtual std::unique_ptr<Transfer> receive(int peer, std::uint32_t tag, View data) = 0;

  // A group of the ranks in `members` (of this group, ascending new rank), this rank among them; every member calls it
  // with the same members and name. The new backend does not depend on this one.
  virtual std::unique_ptr<Backend> split(const std::vector<int>& members, const std::string& name,
                                         const Deadline& deadline) = 0;

  // Memory of call.count zero bytes that this backend can combine without copying it first; aligned to 64 bytes. Every
  // rank calls it with the same length. Plain memory where the backend has nothing better.
  virtual std::shared_ptr<std::byte> share(const Call& call, const Deadline& deadline);

  // Tells all ranks that `rank` is lost, as a parent that saw it die does: waits end with kPeerLost and `reason`. Where
  // the backend has no way to tell the others only this process's calls end. May be called from any thread.
  virtual void abort(int rank, const std::string& reason) = 0;
};

}  // namespace muster::comm
