// What a library's task gives of each sample becomes the sums of a batch that Task wants, after a look at its shape.
// Sums are in double, in the order of the batches, so that metrics do not depend on the workers.
#include "muster/trainer/user_task.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/trainer/user_tasks.h"

namespace muster::trainer {
namespace {

class LibraryTask final : public Task {
 public:
  LibraryTask(std::string name, std::shared_ptr<const OwnTask> own)
      : name_(std::move(name)), own_(std::move(own)), figures_(own_->figure_names()) {
    if (figures_.empty())
      throw Error(ErrorKind::kInvalidInput, fmt::format("task {} has no figures", name_), {},
                  "Its figure_names() has to give one at least.");
  }

  std::string score_name() const override { return figures_.front(); }

  torch::Tensor loss(const torch::Tensor& answer, const torch::Tensor& target) const override {
    return sample_losses(answer, target).mean();
  }

  torch::Tensor sample_losses(const torch::Tensor& answer, const torch::Tensor& target) const override {
    torch::Tensor losses = own_->losses(answer, target);
    require(losses, {target.size(0)}, "losses");
    return losses;
  }

  double score(const torch::Tensor& answer, const torch::Tensor& target) const override {
    return sums_of_figures(answer, target)[0].item<double>();
  }

  std::size_t batch_figures() const override { return 2 + figures_.size(); }

  void measure(const torch::Tensor& answer, const torch::Tensor& target, std::span<double> batch,
               std::span<double>) const override {
    batch[0] = static_cast<double>(target.size(0));
    batch[1] = sample_losses(answer, target).to(torch::kFloat64).sum().item<double>();
    const torch::Tensor sums = sums_of_figures(answer, target);
    for (std::size_t i = 0; i < figures_.size(); ++i)
      batch[2 + i] = sums[static_cast<std::int64_t>(i)].item<double>();
  }

  Evaluation judge(std::span<const double> batches, std::span<const double>) const override {
    std::vector<double> total(batch_figures());
    for (std::size_t i = 0; i < batches.size(); ++i)
      total[i % total.size()] += batches[i];
    Evaluation evaluation;
    evaluation.samples = static_cast<std::uint64_t>(total[0]);
    for (double& sum : std::span(total).subspan(1))
      sum /= std::max(total[0], 1.0);
    evaluation.loss = total[1];
    evaluation.metrics = own_->metrics(std::span(total).subspan(2));
    return evaluation;
  }

 private:
  torch::Tensor sums_of_figures(const torch::Tensor& answer, const torch::Tensor& target) const {
    const torch::Tensor rows = own_->figures(answer, target);
    require(rows, {target.size(0), static_cast<std::int64_t>(figures_.size())}, "figures");
    return rows.to(torch::kFloat64).sum(0);
  }

  void require(const torch::Tensor& given, torch::IntArrayRef shape, const char* what) const {
    if (given.defined() && given.sizes() == shape) return;
    throw Error(ErrorKind::kMismatch,
                fmt::format("task {} gives {} of the shape ({}), not ({})", name_, what,
                            given.defined() ? fmt::format("{}", fmt::join(given.sizes(), ", ")) : "none",
                            fmt::join(shape, ", ")),
                {}, "It has to give them for each sample of the batch (muster/trainer/user_tasks.h).");
  }

  std::string name_;
  std::shared_ptr<const OwnTask> own_;
  std::vector<std::string> figures_;
};

const UserTask& find(const PartOfLibrary& part) {
  const auto& library = *static_cast<const UserTasks*>(
      describe_library(part, kUserTaskSymbol, "tasks", "MUSTER_TASKS({\"name\", \"help\", make})"));
  if (library.format != kUserTaskFormat || library.spec_bytes != sizeof(data::SampleSpec))
    throw built_for_another_muster(part.library);
  if (std::string_view(library.torch) != TORCH_VERSION)
    throw built_for_another_torch(part.library, library.torch, TORCH_VERSION);
  return find_part(std::span(library.tasks, library.count), part, "task");
}

}  // namespace

PartHelp user_task_help(const PartOfLibrary& part) {
  const UserTask& task = find(part);
  return {part.name, task.help, "loss.options", task.keys};
}

std::shared_ptr<const Task> make_user_task(const PartOfLibrary& part, const OwnOptions& options,
                                           const data::SampleSpec& spec) {
  const UserTask& task = find(part);
  const std::string what = fmt::format("task {}", part.name);
  const OwnOptions complete = complete_options(task.keys, options, "loss.options", what);
  return std::make_shared<LibraryTask>(part.name, make_part(part, what, [&] { return task.make(spec, complete); }));
}

}  // namespace muster::trainer
