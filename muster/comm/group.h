// Group: ranks that talk to each other, and the collectives they do. A small value; copies are the same group.
//
// One interface over shared memory, Gloo, MPI and their combination; costs of every algorithm: docs/collectives.md.
// Deterministic: the same inputs give the same bits at any timing and on every backend. A group of one rank is the
// identity and touches nothing.
//
// Every call has a deadline (the group's time-out unless one is given). Errors: kPeerLost and kTimeout name the rank,
// kMismatch lists what every rank called, kInvalidInput means arguments that cannot be right on this rank alone (the
// group is then unharmed). Any other failure is sticky: each later call gives the first error at once, and the data
// of the call that failed is unspecified. Retry by making a new group.
//
// Thread safety: one call at a time per group; abort() may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/deadline.h"
#include "muster/comm/backend.h"
#include "muster/comm/element.h"

namespace muster::comm {

// A send or receive that goes on while the caller does something else. Moves on in test() and wait(), and while this
// rank waits in another call of the group. Dropping it unfinished cancels it (Transfer in backend.h).
class Pending {
 public:
  Pending();  // finished
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();

  bool test();
  void wait(std::optional<Deadline> deadline = {});

 private:
  friend class Group;
  struct State;
  explicit Pending(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Memory of one rank that the group can combine in place without copying it first: all_reduce of (a part of) it is
// several times faster on one host. The memory lives as long as any copy of this value.
class SharedArray {
 public:
  SharedArray() = default;

  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(memory_.get()), bytes_ / sizeof(T)};
  }
  std::size_t bytes() const { return bytes_; }

 private:
  friend class Group;
  SharedArray(std::shared_ptr<std::byte> memory, std::size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}

  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_ = 0;
};

class Group {
 public:
  static constexpr std::chrono::seconds kDefaultTimeout{30};

  // The group of one.
  Group();
  // Used by make_group (connect.h) and by tests. `timeout` is the deadline of calls that are not given one.
  explicit Group(std::shared_ptr<Backend> backend, std::chrono::nanoseconds timeout = kDefaultTimeout);

  int rank() const;
  int size() const;
  // "shm", "gloo", "mpi", "hierarchical"; "self" for a group of one.
  std::string_view backend() const;

  // Spans of float, double, Half, Bfloat16, int32, int64 or uint8 convert to views.

  // Every rank ends with the combination of all inputs.
  void all_reduce(View data, Reduction reduction = Reduction::kSum, std::optional<Deadline> deadline = {});
  void all_reduce(ConstView input, View output, Reduction reduction = Reduction::kSum,
                  std::optional<Deadline> deadline = {});
  // `input` is size() parts as long as `output`; rank r ends with part r of the combination.
  void reduce_scatter(ConstView input, View output, Reduction reduction = Reduction::kSum,
                      std::optional<Deadline> deadline = {});
  // `output` is size() parts as long as `input`: rank r's input becomes part r.
  void all_gather(ConstView input, View output, std::optional<Deadline> deadline = {});
  void broadcast(View data, int root, std::optional<Deadline> deadline = {});
  // Part p of `input` becomes part rank() of rank p's output.
  void all_to_all(ConstView input, View output, std::optional<Deadline> deadline = {});
  // `output` is used at the root only.
  void gather(ConstView input, View output, int root, std::optional<Deadline> deadline = {});
  // `input` is used at the root only.
  void scatter(ConstView input, View output, int root, std::optional<Deadline> deadline = {});
  void barrier(std::optional<Deadline> deadline = {});

  // Messages of one tag (below 0xffffff00) between two ranks arrive in order. A receive of another length or type than
  // the message's is kMismatch. A rank may send to itself.
  void send(ConstView data, int peer, std::uint32_t tag = 0, std::optional<Deadline> deadline = {});
  void receive(View data, int peer, std::uint32_t tag = 0, std::optional<Deadline> deadline = {});
  Pending start_send(ConstView data, int peer, std::uint32_t tag = 0);
  Pending start_receive(View data, int peer, std::uint32_t tag = 0);

  // A shared array of `bytes` zero bytes for each rank. Every rank must call it, with the same length; from then on an
  // all_reduce in place of a part of it must be of the same part on every rank.
  SharedArray share(std::size_t bytes, std::optional<Deadline> deadline = {});

  // Cuts the group into one for each colour, ranks ordered by (key, rank here). Every rank must call it.
  Group split(int colour, int key = 0, std::optional<Deadline> deadline = {});

  // Tells every rank that can be told that `rank` is lost: their waits end with kPeerLost and `reason`.
  void abort(int rank, const std::string& reason);

 private:
  friend class Pending;
  struct State;
  Deadline deadline_or_default(const std::optional<Deadline>& deadline) const;

  std::shared_ptr<State> state_;
};

}  // namespace muster::comm
