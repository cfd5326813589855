// What the servers of a job have to know: the model's layout, its optimizer, how it is cut into chunks, and in which
// manner lanes become updates. The first worker makes it and leaves it in the job's store; from there on it is
// constant.
//
// A chunk is a range of whole blocks of the flat layout, the unit that is placed on servers, pulled and pushed. The
// book (book.h) is one chunk more: it has no parameters and says what has been applied. Its number follows those of the
// layout's chunks, and after it come the partitions of embedding tables, each a chunk as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/comm/store.h"
#include "muster/compute/buffer_layout.h"
#include "muster/compute/optimizer.h"
#include "muster/compute/slice_update.h"
#include "muster/model/flat_layout.h"
#include "muster/strategies/parameter_server/consistency.h"
#include "muster/strategies/parameter_server/table_options.h"

namespace muster::strategies {

struct TransportLimits;  // transport.h

struct ServerChunk {
  compute::BlockRange blocks;
  std::uint64_t begin = 0;  // floats of the flat array
  std::uint64_t end = 0;
  std::uint32_t first_tensor = 0;
  std::uint32_t last_tensor = 0;  // one past
  std::size_t floats() const { return end - begin; }
};

struct ServerTable {
  TableOptions options;
  std::uint32_t partitions = 1;  // partition_of() says which has a key
};

struct ServerPlan {
  model::FlatLayout layout;
  compute::BufferLayout buffers;
  compute::OptimizerOptions optimizer;
  std::vector<compute::TensorRule> rules;  // one per tensor of the layout
  std::size_t chunk_floats = 256 * 1024;
  bool separate_tensors = false;  // no chunk has parts of two tensors: programs push them by name
  std::vector<ServerTable> tables{};
  std::uint32_t lanes = 1;  // most of a step
  std::vector<Phase> phases{{}};
  std::uint64_t bound = 0;      // of ssp
  std::uint32_t backups = 0;    // of backup
  bool staleness_rate = false;  // an update that comes n versions late has 1/n of the rate
  std::uint32_t workers = 1;    // most; clients 0 .. workers-1
  std::uint32_t servers = 1;    // most; as clients of each other they follow
  std::uint32_t copies = 1;     // of every chunk
  bool grpc = false;            // calls travel by gRPC streams; else through shared memory
  bool hosts = false;           // servers and workers are on several hosts (then grpc)
  double snapshot_seconds = 0;  // how often a server writes its chunks down; 0: never
  std::string folder{};         // for snapshots; empty: none
  std::string event_log{};      // file for what the book decides; empty: none

  // The chunks of the layout. Tensors stay whole where the optimizer needs their norms.
  std::vector<ServerChunk> chunks() const;
  // With the book and all partitions.
  std::uint32_t chunk_count() const;
  // The chunk of a table's first partition; the others follow. REQUIRES: table < tables.size().
  std::uint32_t first_partition(std::size_t table) const;
  // Whose partition the chunk is; null if it is none.
  const TableOptions* table_of(std::uint32_t chunk) const;
  Consistency consistency_at(std::uint64_t step) const;
  TransportLimits limits() const;

  std::string to_text() const;
  // Throws kDamaged.
  static ServerPlan from_text(const std::string& text);
};

// Whether there are steps whose lanes are taken together.
bool any_synchronous(const std::vector<Phase>& phases);

// Leaves the plan in the store, where get_plan() finds it.
void put_plan(comm::Store& store, const ServerPlan& plan);
ServerPlan get_plan(comm::Store& store, const Deadline& deadline);

// Of a job whose servers stay as they are, with nobody who replaces them: leaves the map in the store as soon as all
// have said where they are. Throws kTimeout.
void put_first_map(comm::Store& store, const ServerPlan& plan, const Deadline& deadline);

}  // namespace muster::strategies
