// The names are those of the tasks (task.h) in the rows of run_report.h; a test compares them with what tasks tell.
// Some come with some data only: auc of two classes, top5 of more than five.
#include "muster/trainer/figure_names.h"

#include <utility>

namespace muster::trainer {

std::vector<std::string> validation_figures(const Job& job) {
  const std::pair<const char*, std::vector<std::string>> tasks[] = {
      {"classification", {"loss", "accuracy", "top5", "auc", "train_loss", "train_accuracy"}},
      {"regression", {"loss", "mae", "mse", "r2", "train_loss", "train_mae"}},
      {"language", {"loss", "accuracy", "perplexity", "train_loss", "train_accuracy"}},
  };
  for (const auto& [task, figures] : tasks) {
    if (job.loss.task == task) return figures;
  }
  return {};
}

}  // namespace muster::trainer
