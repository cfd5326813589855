// Batches are dealt out to workers by number, and figures gathered by a sum in which everybody else's are zero: the
// same bits as one worker's.
#include "muster/trainer/evaluation.h"

#include <algorithm>
#include <span>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/trainer/batch_tensors.h"
#include "muster/trainer/batch_walk.h"
#include "muster/trainer/task.h"

namespace muster::trainer {
namespace {

constexpr std::chrono::seconds kOthersTimeout{300};  // for the shares of other workers

// Parts of a model may be in different modes.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module) {
    was_.emplace_back(&module, module.is_training());
    for (const auto& child : module.modules(/*include_self=*/false))
      was_.emplace_back(child.get(), child->is_training());
    module.eval();
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;
  ~EvaluationMode() {
    // Parents come before their children, whose modes they change.
    for (const auto& [module, training] : was_)
      if (module->is_training() != training) module->train(training);
  }

 private:
  std::vector<std::pair<torch::nn::Module*, bool>> was_;
};

}  // namespace

std::optional<Evaluation> evaluate(torch::nn::Module& module, const ForwardFunction& forward,
                                   const std::shared_ptr<const data::Dataset>& dataset,
                                   const EvaluationOptions& options) {
  if (!dataset)
    throw Error(ErrorKind::kInvalidInput, "there is no data set to evaluate on", "evaluate",
                "A source without a validation set gives an empty one: hold a part back, or use the test set.");
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(module);
  comm::Group group = options.group;
  const auto workers = static_cast<std::uint64_t>(group.size());
  const std::shared_ptr<const Task> task = options.task ? options.task : make_task({}, dataset->spec());
  // Figures of each batch, of each sample, and whether somebody broke off. What other workers fill in is 0 here, and a
  // sum with zeros has the bits of what is not zero.
  const std::size_t width = task->batch_figures();
  const std::size_t sample_width = task->sample_figures();
  const std::uint64_t batches = (dataset->size() + options.batch - 1) / options.batch;
  std::vector<double> results(width * batches + sample_width * dataset->size() + 1);
  const std::span<double> batch_figures = std::span(results).first(width * batches);
  const std::span<double> sample_figures =
      std::span(results).subspan(batch_figures.size(), sample_width * dataset->size());
  std::uint64_t done = 0;
  // False: broken off.
  const auto compute_share = [&](std::uint64_t share, std::uint64_t others) {
    BatchWalk walk(dataset, {options.batch, options.loader_threads, share, workers});
    while (data::Batch* const batch = walk.next()) {
      const torch::Tensor answer = forward(input_tensor(*batch));
      const torch::Tensor target = target_tensor(*batch);
      task->measure(answer, target, batch_figures.subspan(width * walk.index(), width),
                    sample_figures.subspan(sample_width * options.batch * walk.index(), sample_width * batch->size()));
      if (options.each && share == static_cast<std::uint64_t>(group.rank())) options.each(batch->ids, answer, target);
      done = std::min(dataset->size(), done + options.batch * others);
      if (options.progress && !options.progress(done)) {
        results.back() = 1;
        return false;
      }
    }
    return true;
  };
  try {
    const bool whole = compute_share(static_cast<std::uint64_t>(group.rank()), workers);
    options.share_done();
    const std::vector<double> own = workers > 1 ? results : std::vector<double>();
    try {
      group.all_reduce(std::span(results), comm::Reduction::kSum, Deadline::after(kOthersTimeout));
    } catch (const Error& error) {
      if (!options.alone_if_lost || error.kind() != ErrorKind::kPeerLost) throw;
      std::ranges::copy(own, results.begin());
      done /= workers;
      for (std::uint64_t share = 0; whole && share < workers; ++share) {
        if (share != static_cast<std::uint64_t>(group.rank()) && !compute_share(share, 1)) break;
      }
    }
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kCompute, error.what_without_backtrace(), "evaluation");
  }
  if (results.back() > 0) return std::nullopt;
  return task->judge(batch_figures, sample_figures);
}

compute::Figures measure(torch::nn::Module& module, const MeasureFunction& function,
                         const std::shared_ptr<const data::Dataset>& dataset, std::uint64_t seed,
                         const EvaluationOptions& options) {
  if (!dataset) throw Error(ErrorKind::kInvalidInput, "there is no data set to measure on", "measure");
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(module);
  comm::Group group = options.group;
  const auto workers = static_cast<std::uint64_t>(group.size());
  const auto rank = static_cast<std::uint64_t>(group.rank());
  const std::uint64_t batches = (dataset->size() + options.batch - 1) / options.batch;
  // This worker's batches, in their order; every share is as long.
  std::vector<compute::Figures> mine((batches + workers - 1) / workers);
  BatchWalk walk(dataset, {options.batch, options.loader_threads, rank, workers});
  try {
    while (data::Batch* const batch = walk.next()) {
      Lane lane({.samples = static_cast<double>(batch->size())});
      lane.index = walk.index();
      lane.ids = batch->ids;
      lane.data = input_tensor(*batch);
      lane.target = target_tensor(*batch);
      torch::manual_seed(derive_seed({.seed = seed, .purpose = Purpose::kMeasure, .lane = walk.index()}));
      function(lane);
      mine[walk.index() / workers] = lane.told().report.figures;
    }
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kCompute, error.what_without_backtrace(), "measure");
  }
  std::vector<compute::Figures> all(mine.size() * workers);
  const auto bytes_of = [](std::vector<compute::Figures>& figures) {
    return comm::View(comm::ElementType::kUint8, figures.data(), figures.size() * sizeof(compute::Figures));
  };
  static_assert(std::is_trivially_copyable_v<compute::Figures>);
  group.all_gather(bytes_of(mine), bytes_of(all), Deadline::after(kOthersTimeout));
  compute::Figures total;
  for (std::uint64_t batch = 0; batch < batches; ++batch)
    total.add(all[batch % workers * mine.size() + batch / workers]);
  return total;
}

}  // namespace muster::trainer
