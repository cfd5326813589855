// Which samples each client of a simulation has: a pure function of the split and the seed, so that a million clients
// need no table of their own.
//
// Shared out: every sample belongs to one client (iid, by Dirichlet parts of the labels, or as a file says). Drawn:
// every client draws its samples, with repetition, for more clients than samples; its mix of labels is its own draw.
// Thread safety: immutable. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "muster/data/partition/shards.h"

namespace muster::federated {

struct Split {
  enum class Kind { kIid, kDirichlet, kFile };
  Kind kind = Kind::kIid;
  double alpha = 0;                 // of kDirichlet
  std::filesystem::path file = {};  // of kFile
};

// Of "iid", "dirichlet:0.1", "file:PATH". Throws Error{kInvalidInput}.
Split parse_split(std::string_view word);

struct SplitOptions {
  Split split{};
  std::uint64_t clients = 1;
  std::uint64_t seed = 0;
  std::uint64_t drawn = 0;  // samples that every client draws; 0: the data set is shared out
};

// What a client trains on, and what it only evaluates on: `held_out` of its samples, drawn by seed and client.
// REQUIRES: held_out <= samples.size().
struct ClientSamples {
  std::vector<std::uint64_t> train{};
  std::vector<std::uint64_t> test{};
};
ClientSamples hold_out(std::vector<std::uint64_t> samples, std::uint64_t held_out, std::uint64_t seed,
                       std::uint64_t client);

class ClientSplit {
 public:
  // `labels` of all samples; called only where a split needs them. Throws Error{kInvalidInput}: more clients than
  // samples that are shared out, a file that does not fit. REQUIRES: samples > 0, clients > 0.
  ClientSplit(const SplitOptions& options, std::uint64_t samples,
              const std::function<std::vector<std::int64_t>()>& labels);

  std::uint64_t clients() const { return options_.clients; }
  // Clients may have no samples where labels or a file decide. REQUIRES: client < clients().
  std::uint64_t size(std::uint64_t client) const;
  // Numbers of samples of the data set, in the client's own order. REQUIRES: client < clients().
  std::vector<std::uint64_t> samples(std::uint64_t client) const;

 private:
  std::vector<std::uint64_t> draw(std::uint64_t client) const;

  SplitOptions options_;
  std::uint64_t samples_;
  data::Shards shards_;                               // not with drawn
  std::vector<std::vector<std::uint64_t>> by_label_;  // samples of each label, for draws by label
};

}  // namespace muster::federated
