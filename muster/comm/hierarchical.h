// Collectives between ranks on several hosts, with several ranks on a host: through shared memory inside a host and
// through a network backend between hosts.
//
// Vocabulary: `index` is a rank's place among the ranks of its host, ascending; the ranks of all hosts with the same
// index are a row; the first `owners` indexes (as many as the smallest host has ranks) own a slice of every array each;
// index 0 of a host is its leader.
//
// Before any data moves the calls are compared: ranks of a host among each other, leaders between hosts. Then
//   all_reduce      reduce-scatter on the host, owners combine their slice along their row, all-gather on the host;
//                   long arrays in segments, the network at work on one while the host reduces the next
//   reduce_scatter  reduce-scatter on the host to the ranks of the row, which then exchange what is theirs
//   all_gather      exchange along rows, all-gather on the host
//   broadcast       broadcast on the root's host, every owner sends its slice along its row, broadcast on the others
//   gather, scatter, all_to_all   directly between the two ranks, through whatever they share
//   barrier         the comparison of calls is one
// Partial results of a host travel unrounded (combine.h), so the result is rounded once; it has the bits of one flat
// group when every host's ranks are an aligned subtree of the tree over ranks (2, 4, 8, ... consecutive ranks a host),
// and is the same at every run in any case. Hosts may have different numbers of ranks, and ranks in any order.
//
// A failure on one host is told to the others (Backend::abort of both parts), with the rank that was the cause.
// Thread safety: one call at a time, but for abort(). Transfers must not outlive the backend.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/comm/backend.h"

namespace muster::comm {

// Which rank is where. Hosts are numbered by their lowest rank.
struct HostLayout {
  // `host_of_rank` may name hosts by any numbers.
  explicit HostLayout(const std::vector<int>& host_of_rank);

  std::vector<std::vector<int>> hosts;  // the ranks of each host, ascending
  std::vector<int> host_of;             // by rank
  std::vector<int> index_of;            // by rank
  std::size_t owners = 0;               // the smallest number of ranks on a host
  bool even = true;                     // every host has as many
};

// An error's text where "rank i" means members[i], said in the ranks of the whole group.
std::string with_global_ranks(std::string_view text, const std::vector<int>& members);

class HierarchicalBackend final : public Backend {
 public:
  // `network` connects all ranks, `local` those of this host in the order of their ranks (a self backend for one).
  HierarchicalBackend(std::unique_ptr<Backend> local, std::unique_ptr<Backend> network,
                      const std::vector<int>& host_of_rank);

  std::string_view name() const override { return "hierarchical"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(layout_.host_of.size()); }

  void all_reduce(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void reduce_scatter(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void all_gather(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void broadcast(const Call& call, void* data, const Deadline& deadline) override;
  void all_to_all(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void gather(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void scatter(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void barrier(const Call& call, const Deadline& deadline) override;

  // Through shared memory to a rank of this host, else through the network.
  std::unique_ptr<Transfer> send(int peer, std::uint32_t tag, ConstView data) override;
  std::unique_ptr<Transfer> receive(int peer, std::uint32_t tag, View data) override;
  std::unique_ptr<Backend> split(const std::vector<int>& members, const std::string& name,
                                 const Deadline& deadline) override;
  void abort(int rank, const std::string& reason) override;

 private:
  struct Times;
  struct Segment;
  class Message;
  class Exchange;
  using Sink = std::function<void(std::size_t begin, std::size_t count, const std::byte* result)>;

  // Run an action on a part. Its error, in the ranks of the whole group, is told to everyone before it is thrown on,
  // and so before messages that are under way are given up.
  template <typename Action>
  auto on_host(const Action& action);
  template <typename Action>
  auto between_hosts(const Action& action);
  // Runs an action on the local part and only says its error in the ranks of the whole group.
  template <typename Action>
  auto translated(const Action& action);
  void tell_failure(const Error& error);
  Error in_global_ranks(const Error& error) const;
  Call host_call(Operation operation, ElementType type, std::size_t count, int root = -1);

  // Returns when all ranks have made this call, with times that suit all ranks of this host. Throws kMismatch.
  void compare(const Call& call, Times& times);
  void collect_calls(const Call& call, std::vector<Call>& calls, Times& times);
  // Moves messages through the local part (`near`) or the network on. Whether some are still under way.
  bool move_messages(bool near);
  // Gives `sink` the combination over all ranks of `total` elements, piece by piece.
  void reduce_segments(const Call& call, const std::byte* input, std::size_t total, const Times& times,
                       const Sink& sink);
  void reduce_on_host(const Call& call, const std::byte* input, Segment& segment, const Times& times);
  void finish_segment(const Call& call, Segment& segment, const Times& times, const Sink& sink);
  void start_row(const Call& call, Segment& segment);
  void finish_row(const Call& call, Segment& segment, const Times& times);
  void reduce_scatter_rows(const Call& call, const std::byte* input, std::byte* output, const Times& times);
  // Collect `bytes` of every rank in `all`.
  void gather_by_rows(const std::byte* input, std::size_t bytes, std::byte* all, const Times& times);
  void gather_by_leaders(const std::byte* input, std::size_t bytes, std::byte* all, const Times& times);

  std::size_t hosts() const { return layout_.hosts.size(); }
  std::size_t local_ranks() const { return layout_.hosts[host_].size(); }
  int row_peer(std::size_t host) const { return layout_.hosts[host][index_]; }
  bool is_near(int peer) const {
    return static_cast<std::size_t>(layout_.host_of[static_cast<std::size_t>(peer)]) == host_;
  }
  bool owns() const { return index_ < layout_.owners; }

  // Constant after construction.
  HostLayout layout_;
  int rank_;
  std::size_t host_;
  std::size_t index_;
  std::unique_ptr<Backend> local_;
  std::unique_ptr<Backend> network_;
  // Of the calling thread.
  std::uint64_t host_calls_ = 0;
  std::vector<Message*> under_way_;
};

}  // namespace muster::comm
