// What programs do with parameter servers: push, pull and wait, of parameters by name and of rows by key.
//
// A push is applied on the server as it comes, once, whatever is lost on the way: by the plan's optimizer or by an
// update of the program's own (ServerOptions::update). Calls start at once, to all servers that have a part in them,
// and are over with wait(); a client's calls of the same parameters or keys take effect in the order in which they were
// made. Servers in threads: local_servers.h; in processes: server.h.
//
// Thread safety: one thread. What is given to a call must stay as it is until wait().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/strategies/parameter_server/client.h"
#include "muster/strategies/parameter_server/row_merger.h"
#include "muster/strategies/parameter_server/server_plan.h"

namespace muster::strategies {

class ParameterClient {
 public:
  using Ticket = std::uint64_t;
  using Initial = std::function<void(const std::string& name, std::span<float> values)>;

  // Waits until the job has a plan and servers. No call takes longer than `timeout`, which is also how long a server
  // that is lost may take to be replaced. Throws kTimeout; kInvalidInput (plan.separate_tensors is not set).
  explicit ParameterClient(ClientOptions options, std::chrono::nanoseconds timeout = std::chrono::seconds(60));
  ~ParameterClient();
  ParameterClient(const ParameterClient&) = delete;
  ParameterClient& operator=(const ParameterClient&) = delete;

  const ServerPlan& plan() const { return plan_; }

  // Once in a job, by one client, while no call is under way: parameters as `initial` leaves them, which finds zeros,
  // and tables without rows. Others' calls wait for it.
  void fill(const Initial& initial = {});

  // A checkpoint of everything that the servers have: parameters, optimizer state, tables, what was applied. By one
  // client, while nobody pushes. Whole or not there: `folder` must not be there yet. Throws kInvalidInput, kIo,
  // kResource, and what wait() throws; nothing is left then.
  void save(const std::filesystem::path& folder);
  // Instead of fill(), in a job with the same plan. The number of servers may be another. Throws kNotFound, kDamaged
  // (names what is missing), kMismatch (of another plan).
  void load(const std::filesystem::path& folder);

  // Names are those of plan().layout and plan().tables: throws kInvalidInput for another, or for a wrong length.
  // Of pulls `to` and `rows` are complete after wait().
  Ticket push(const std::string& name, std::span<const float> gradient, double rate);
  Ticket pull(const std::string& name, std::span<float> to);
  // Both, part by part: faster than one after the other.
  Ticket push_pull(const std::string& name, std::span<const float> gradient, double rate, std::span<float> to);

  // One row of gradients for each key. A key that comes twice is pushed once, with the sum. `step` is the job's, in
  // which tables with evict_after count.
  Ticket push_rows(const std::string& table, std::span<const std::int64_t> keys, std::span<const float> gradients,
                   double rate, std::uint64_t step = 0);
  // One row for each key, again if it comes twice.
  Ticket pull_rows(const std::string& table, std::span<const std::int64_t> keys, std::span<float> rows);

  // Until the call has taken effect. Throws kTimeout, kMismatch (refused, with the server's reason), and what the
  // interruption throws; whether a push took effect is not known then, and later calls do not depend on it.
  void wait(Ticket ticket);

 private:
  struct Piece {
    Client::Ticket call = 0;
    std::uint32_t chunk = 0;
    std::optional<std::uint64_t> update{};  // its id
  };
  // A call of the program's. Memory is used again for later ones.
  struct Batch {
    std::vector<Piece> pieces;
    std::vector<std::byte> bodies;      // keys, or keys and gradients, piece by piece
    std::vector<float> replies;         // rows, sorted by partition
    std::vector<std::uint32_t> places;  // by position in the program's batch: where in `replies` its row is
    std::span<float> to;                // where rows go then; empty: they are where they belong
    std::size_t width = 0;
  };
  // The client's updates of a chunk.
  struct Updates {
    std::uint64_t next = 0;
    std::set<std::uint64_t> open{};  // not acknowledged
  };
  struct Table {
    const ServerTable* plan;
    std::uint32_t first;  // chunk
  };
  struct Tensor {
    const model::TensorSlot* slot;
    std::vector<std::uint32_t> chunks;
  };

  // A position of the program's batch whose key came before.
  struct Repeat {
    std::uint32_t place;  // of the key's row
    std::uint32_t position;
  };

  Deadline deadline() const { return Deadline::after(timeout_); }
  const Tensor& tensor(const std::string& name, std::size_t floats) const;
  const Table& table(const std::string& name, std::size_t keys, std::size_t floats) const;
  std::unique_ptr<Batch> new_batch();
  class Beginning;
  void start_piece(Batch& batch, const Header& header, std::span<const std::byte> body, std::span<std::byte> reply);
  void abandon(const Batch& batch);
  Header update_header(Verb verb, std::uint32_t chunk, double rate);
  void start_push(Batch& batch, std::uint32_t chunk, std::span<const float> gradient, double rate);
  void start_pull(Batch& batch, std::uint32_t chunk, std::span<float> to);
  std::vector<std::uint32_t> sort_keys(const Table& table);
  void find_repeats();

  // Constant after construction.
  const std::chrono::nanoseconds timeout_;
  const ServerPlan plan_;
  const std::vector<ServerChunk> chunks_;
  const std::size_t most_body_;
  const std::size_t rows_body_;  // of calls with rows; longer only if one row is
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, Table> tables_;
  // What moves.
  Client client_;
  std::unordered_map<std::uint32_t, Updates> updates_;
  std::map<Ticket, std::unique_ptr<Batch>> under_way_;
  std::vector<std::unique_ptr<Batch>> spare_;
  Ticket next_ = 1;
  RowMerger merger_;
  std::vector<std::uint32_t> order_;   // scratch: the merged keys, sorted by partition
  std::vector<std::uint32_t> places_;  // scratch: of a merged key among them
  std::vector<Repeat> repeats_;        // scratch
};

}  // namespace muster::strategies
