#include "muster/trainer/evaluation.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/data/loader.h"

namespace muster::trainer {
namespace {

constexpr std::chrono::seconds kLoadTimeout{60};
constexpr std::size_t kAhead = 3;  // batches

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
  data::Loader loader(dataset, {.threads = options.loader_threads});
  std::deque<data::Loader::Ticket> tickets;
  std::uint64_t submitted = 0;
  Evaluation evaluation;
  double loss_sum = 0;
  double correct = 0;
  try {
    while (evaluation.samples < dataset->size()) {
      while (tickets.size() < kAhead && submitted < dataset->size()) {
        std::vector<std::uint64_t> ids(std::min(options.batch, dataset->size() - submitted));
        std::iota(ids.begin(), ids.end(), submitted);
        submitted += ids.size();
        tickets.push_back(loader.submit(std::move(ids)));
      }
      data::Batch batch = loader.take(tickets.front(), Deadline::after(kLoadTimeout));
      tickets.pop_front();
      const auto count = static_cast<std::int64_t>(batch.labels.size());
      const torch::Tensor input = torch::from_blob(batch.features.data(), batch.shape, torch::kFloat32);
      const torch::Tensor target = torch::from_blob(batch.labels.data(), {count}, torch::kInt64);
      const torch::Tensor logits = forward(input);
      loss_sum += torch::nn::functional::cross_entropy(logits, target).item<double>() * static_cast<double>(count);
      correct += static_cast<double>(logits.argmax(1).eq(target).sum().item<std::int64_t>());
      evaluation.samples += batch.labels.size();
      loader.recycle(std::move(batch));
      if (options.progress && !options.progress(evaluation.samples)) return std::nullopt;
    }
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kCompute, error.what_without_backtrace(), "evaluation");
  }
  if (evaluation.samples > 0) {
    evaluation.loss = loss_sum / static_cast<double>(evaluation.samples);
    evaluation.accuracy = correct / static_cast<double>(evaluation.samples);
  }
  return evaluation;
}

}  // namespace muster::trainer
