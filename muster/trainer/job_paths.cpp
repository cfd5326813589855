// A list of the keys that are paths, each with the folder it is seen from. A new key that names a file belongs into
// that list.
#include "muster/trainer/job_paths.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace muster::trainer {
namespace {

namespace fs = std::filesystem;

// What stands before the path in data.partition and federated.split.
constexpr std::string_view kFile = "file:";

std::array<std::pair<const char*, std::string*>, 12> paths_of(Job& job) {
  return {{{"data.path", &job.data.path},
           {"data.test_path", &job.data.test_path},
           {"data.validation_path", &job.data.validation_path},
           {"data.labels", &job.data.labels},
           {"data.partition", &job.data.partition},
           {"data.library", &job.data.library},
           {"loss.library", &job.loss.library},
           {"model.script", &job.model.script},
           {"model.library", &job.model.library},
           {"model.init", &job.model.init},
           {"optimizer.init", &job.optimizer.init},
           {"federated.split", &job.federated.split}}};
}

}  // namespace

void complete_paths(const Schema& schema, Job& job, const fs::path& file) {
  for (const auto& [key, value] : paths_of(job)) {
    std::string before;
    if (value == &job.data.partition || value == &job.federated.split) {
      if (!value->starts_with(kFile)) continue;
      before = kFile;
    }
    const fs::path path = value->substr(before.size());
    if (path.empty() || path.is_absolute()) continue;
    const bool assigned = schema.where(key).starts_with("--set ");
    const fs::path folder = assigned ? fs::path() : file.parent_path();
    *value = before + fs::absolute(folder / path).lexically_normal().string();
  }
}

bool same_value(std::string_view key, const Json& a, const Json& b) {
  if (a == b) return true;
  const bool path = key == "model.script" || key == "model.init" || key == "optimizer.init" ||
                    key == "data.partition" || key == "federated.split";
  if (!path || !a.is_string() || !b.is_string()) return false;
  return fs::path(a.get<std::string>()).filename() == fs::path(b.get<std::string>()).filename();
}

}  // namespace muster::trainer
