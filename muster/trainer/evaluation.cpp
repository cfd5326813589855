#include "muster/trainer/evaluation.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/data/loader.h"
#include "muster/trainer/batch_tensors.h"

namespace muster::trainer {
namespace {

constexpr std::chrono::seconds kLoadTimeout{60};
constexpr std::chrono::seconds kOthersTimeout{300};  // for the shares of other workers
constexpr std::size_t kAhead = 3;                    // batches

class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module) : module_(module), was_training_(module.is_training()) {
    module_.eval();
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;
  ~EvaluationMode() { module_.train(was_training_); }

 private:
  torch::nn::Module& module_;
  bool was_training_;
};

}  // namespace

std::optional<Evaluation> evaluate(torch::nn::Module& module, const ForwardFunction& forward,
                                   const std::shared_ptr<const data::Dataset>& dataset,
                                   const EvaluationOptions& options) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(module);
  comm::Group group = options.group;
  const auto workers = static_cast<std::uint64_t>(group.size());
  const std::uint64_t batches = (dataset->size() + options.batch - 1) / options.batch;
  const std::shared_ptr<const Task> task = options.task ? options.task : make_task({}, dataset->spec());
  // Figures of each batch, of each sample, and whether somebody broke off. What other workers fill in is 0 here, and a
  // sum with zeros has the bits of what is not zero.
  const std::size_t width = task->batch_figures();
  const std::size_t sample_width = task->sample_figures();
  std::vector<double> results(width * batches + sample_width * dataset->size() + 1);
  const std::span<double> batch_figures = std::span(results).first(width * batches);
  const std::span<double> sample_figures =
      std::span(results).subspan(batch_figures.size(), sample_width * dataset->size());
  data::Loader loader(dataset, {.threads = options.loader_threads});
  std::deque<data::Loader::Ticket> tickets;
  std::uint64_t submitted = static_cast<std::uint64_t>(group.rank());
  std::uint64_t done = 0;
  try {
    for (std::uint64_t index = submitted; index < batches; index += workers) {
      for (; tickets.size() < kAhead && submitted < batches; submitted += workers) {
        const std::uint64_t first = submitted * options.batch;
        std::vector<std::uint64_t> ids(std::min(options.batch, dataset->size() - first));
        std::iota(ids.begin(), ids.end(), first);
        tickets.push_back(loader.submit(std::move(ids)));
      }
      data::Batch batch = loader.take(tickets.front(), Deadline::after(kLoadTimeout));
      tickets.pop_front();
      const torch::Tensor answer = forward(input_tensor(batch));
      task->measure(answer, target_tensor(batch), batch_figures.subspan(width * index, width),
                    sample_figures.subspan(sample_width * options.batch * index, sample_width * batch.size()));
      loader.recycle(std::move(batch));
      done = std::min(dataset->size(), done + options.batch * workers);
      if (options.progress && !options.progress(done)) {
        results.back() = 1;
        break;
      }
    }
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kCompute, error.what_without_backtrace(), "evaluation");
  }
  options.share_done();
  group.all_reduce(std::span(results), comm::Reduction::kSum, Deadline::after(kOthersTimeout));
  if (results.back() > 0) return std::nullopt;
  return task->judge(batch_figures, sample_figures);
}

}  // namespace muster::trainer
