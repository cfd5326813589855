// The names are those of the tasks (task.h) in the rows of run_report.h; a test compares them with what tasks tell.
// Where the job leaves the task to its data any of them may come.
#include "muster/trainer/figure_names.h"

#include <algorithm>
#include <utility>

namespace muster::trainer {

std::vector<std::string> validation_figures(const Job& job) {
  const std::pair<const char*, std::vector<std::string>> tasks[] = {
      {"classification", {"accuracy", "top5", "auc", "train_accuracy"}},
      {"regression", {"mae", "mse", "r2", "train_mae"}},
      {"language", {"accuracy", "perplexity", "train_accuracy"}},
  };
  const std::string& named = job.loss.task;
  std::vector<std::string> names;
  for (const auto& [task, figures] : tasks) {
    if (!named.empty() && named != task) continue;
    for (const std::string& name : figures) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  if (!names.empty()) names.insert(names.begin(), {"loss", "train_loss"});
  return names;
}

}  // namespace muster::trainer
