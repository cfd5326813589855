// muster bench tensor and bench pipeline --compute: a transformer that several workers compute together, beside the
// same one whose workers have lanes of their own, and PyTorch's.
#pragma once

#include <cstdint>
#include <string>

namespace muster::cli {

struct MeshBench {
  std::string by = "tensor";  // how the model is divided: "tensor" or "pipeline"
  std::int64_t workers = 2;
  std::int64_t layers = 2;
  std::int64_t d_model = 1024;
  std::int64_t heads = 16;
  std::int64_t context = 128;
  std::int64_t vocabulary = 1024;
  std::int64_t batch = 8;  // sequences of a step, of all workers together
  std::int64_t lanes = 4;
  std::int64_t threads = 1;  // of each worker
  std::int64_t rounds = 5;   // each team takes a turn in each
  std::int64_t steps = 1;    // timed in a turn, after one that is not
  std::string schedule = "1f1b";
  std::int64_t chunks = 2;  // of interleaved
  std::string against;      // "torch"
  std::string python;       // of --against; empty: the system's
  bool json = false;
  // Of the processes that it starts.
  std::string team;
  std::string rank_folder;
  std::int64_t rank = 0;
};
void bench_mesh(const MeshBench& options);

}  // namespace muster::cli
