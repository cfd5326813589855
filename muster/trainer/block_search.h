// Differentiable search of a net of blocks (FBNet, Wu et al., CVPR 2019) as a session: the weights of the super-net and
// the shares of its choices are trained in turns, by optimizers of their own, on different samples.
//
// The job says data, batch, epochs, seed and the optimizer of the weights; its model is a net of blocks with open
// places. After the first `warmup` of the steps, in which only weights are trained, every fifth step trains the shares,
// on a fifth of the training set that the weights never see, to make small
//     cross-entropy * (log time / log mean time) ^ pressure
// where time is what the shares are expected to take by the table. The temperature of the shares falls from 5 to 0.09.
//
// As every session it gives the same bits for any number of workers, is resumed from its checkpoints, and goes on when
// a worker is lost. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "muster/model/zoo/latency_table.h"
#include "muster/trainer/job.h"
#include "muster/trainer/worker.h"

namespace muster::trainer {

struct BlockSearchOptions {
  double pressure = 0.6;  // how much time counts against accuracy; 0: not at all
  double rate = 0.01;     // of Adam, for the shares; the paper's, for its hundreds of steps an epoch
  double warmup = 0.1;    // the part of all steps before shares are trained
};

// How things stand after an epoch.
struct BlockSearchState {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  double loss = 0;                                   // of the last step
  std::vector<std::size_t> chosen{};                 // the most likely choice of each open place
  std::vector<std::vector<double>> probabilities{};  // of each choice at each open place
};

// Whether step `step` of `total` trains the shares, and how hot they are drawn in it.
bool trains_shares(std::uint64_t step, std::uint64_t total, double warmup);
double temperature_at(std::uint64_t step, std::uint64_t total);

// All workers call it with the same job, table and options. `begins` is called once these are known to make a search
// and before anything is written; `tell` by the worker that leads, after each epoch. Checkpoints go to the folder
// `checkpoints`, and a search that has some there goes on. Throws kMismatch for a
// table of another net or of other images than the job's, kInvalidInput for a job that cannot be searched, and as
// Session.
BlockSearchState search_blocks(const ResolvedJob& resolved, const zoo::LatencyTable& table,
                               const BlockSearchOptions& options, const Worker& worker,
                               const std::filesystem::path& checkpoints, const std::function<void()>& begins,
                               const std::function<void(const BlockSearchState&)>& tell);

}  // namespace muster::trainer
