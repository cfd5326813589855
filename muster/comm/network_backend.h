// Collectives over any transport (Gloo, MPI): algorithms of ours, because theirs sum in an order of their own, and the
// bits of a result must not depend on the backend.
//
// Every collective starts with the agreement: each rank sends its Call to every other and compares all of them. Data
// moves only between ranks that agree, so sizes always fit; ranks that do not agree all get kMismatch with the list of
// calls. It is also what makes every collective a barrier of its own. Costs of the algorithms: docs/collectives.md.
//
// Temporary memory is bounded: kScratchBytes in all for long arrays, (ranks - 1) times kDirectBytes for short ones. It
// is kept from call to call.
//
// Slots of the transport:
//   0        calls                      1   data of collectives                2   "I have all calls", after a mismatch
//   2^62 +   the tag: what a message is         2^62 + 2^61 +   a hash of tag, type and length: the message itself
// A receive starts both at once, because the slot of the message tells its size; the header then says whether it fits.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/comm/backend.h"
#include "muster/comm/mailbox.h"
#include "muster/comm/transport.h"

namespace muster::comm {

class NetworkBackend final : public Backend {
 public:
  // all_reduce of at most this many bytes: the data goes along with the calls.
  static constexpr std::size_t kAttachedBytes = 232;
  // all_reduce of at most this many bytes: one exchange of everything.
  static constexpr std::size_t kDirectBytes = std::size_t{8} * 1024;
  // Longer arrays are reduced in segments, the next one under way while this one is combined; two fit in here.
  static constexpr std::size_t kScratchBytes = std::size_t{8} * 1024 * 1024;
  // Broadcasts of more ranks than this go down a binomial tree, in segments.
  static constexpr int kMostDirectRanks = 4;
  static constexpr std::size_t kBroadcastSegmentBytes = std::size_t{1024} * 1024;

  // Throws kUnsupported: more than kMaxRanks ranks.
  explicit NetworkBackend(std::unique_ptr<Transport> transport);

  std::string_view name() const override { return transport_->name(); }
  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }

  void all_reduce(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void reduce_scatter(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void all_gather(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void broadcast(const Call& call, void* data, const Deadline& deadline) override;
  void all_to_all(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void gather(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void scatter(const Call& call, const void* input, void* output, const Deadline& deadline) override;
  void barrier(const Call& call, const Deadline& deadline) override;

  std::unique_ptr<Transfer> send(int peer, std::uint32_t tag, ConstView data) override;
  std::unique_ptr<Transfer> receive(int peer, std::uint32_t tag, View data) override;

  std::unique_ptr<Backend> split(const std::vector<int>& members, const std::string& name,
                                 const Deadline& deadline) override;
  void abort(int rank, const std::string& reason) override { transport_->abort(rank, reason); }

 private:
  // Transfers that belong together. Destroyed before they are done, as after an error, they are cancelled.
  class Batch {
   public:
    explicit Batch(Transport& transport) : transport_(&transport) {}
    void send(int peer, const std::byte* data, std::size_t bytes);
    void receive(int peer, std::byte* data, std::size_t bytes);
    void wait(const Deadline& deadline);

   private:
    Transport* transport_;
    std::vector<std::unique_ptr<Transfer>> transfers_;
  };
  struct Plan;  // how a long array is cut into segments and slices

  // Agrees, then runs `action`; errors say in which call they happened.
  void run(const Call& call, const Deadline& deadline, const std::function<void()>& action);
  void explain_errors(const Call& call, const std::function<void()>& action);
  // What a rank sends in the agreement: its call, and room for data that is short enough to go along.
  struct Frame {
    Call call;
    std::byte attached[kAttachedBytes] = {};
  };
  static_assert(sizeof(Frame) == 256);
  // The frames of all ranks.
  std::vector<Frame> agree(const Frame& mine, const Deadline& deadline);
  [[noreturn]] void report_mismatch(const std::vector<Call>& calls, bool complete, const Deadline& deadline);

  void reduce_attached(const Call& call, const std::byte* input, std::byte* output, const Deadline& deadline);
  void reduce_directly(const Call& call, const std::byte* input, std::byte* output, const Deadline& deadline);
  void reduce_in_segments(const Call& call, const Plan& plan, const std::byte* input, std::byte* output,
                          const Deadline& deadline);
  void broadcast_by_tree(const Call& call, std::byte* data, const Deadline& deadline);

  // The peers in the order in which this rank turns to them: the next rank first, so that not all turn to the same.
  std::vector<int> peers() const;
  std::byte* scratch(std::size_t bytes);

  std::shared_ptr<Transport> transport_;                                 // messages share it
  std::shared_ptr<Mailbox> own_messages_ = std::make_shared<Mailbox>();  // from this rank to itself
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace muster::comm
