// Errors of the layers below are given the job's key that they are about: people look for a mistake in their job file,
// not in a data set's class.
#include "muster/trainer/job_fit.h"
#include "muster/strategies/strategy_traits.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace muster::trainer {
namespace {

// Which key of the job names what is wrong with a library of the user's: the part's name where the file has no such
// part, else the file. Several parts may be of one file: that of `key` is meant then. Nothing: the error is about none.
std::optional<std::string> key_of_library(const Job& job, std::string_view key, const Error& error) {
  std::optional<std::string> found;
  for (const auto& [section, library] : {std::pair("data", &job.data.library), std::pair("model", &job.model.library),
                                         std::pair("loss", &job.loss.library)}) {
    if (library->empty()) continue;
    const std::filesystem::path file = std::filesystem::absolute(*library);
    if (error.where() != *library && error.where() != file.string()) continue;
    std::error_code code;
    const bool no_such_part = error.kind() == ErrorKind::kNotFound && std::filesystem::exists(file, code);
    if (!found || key.starts_with(section)) found = fmt::format("{}.{}", section, no_such_part ? "name" : "library");
  }
  return found;
}

}  // namespace

Error at_key(const ResolvedJob& resolved, std::string_view key, const Error& error) {
  switch (error.kind()) {
    case ErrorKind::kInvalidInput:
    case ErrorKind::kNotFound:
    case ErrorKind::kMismatch:
    case ErrorKind::kUnsupported:
      break;
    default:
      return error;
  }
  const std::optional<std::string> of_library = key_of_library(resolved.job, key, error);
  if (of_library) key = *of_library;
  const bool names_key = resolved.places.contains(error.where());
  if (names_key) key = error.where();
  const std::string message =
      names_key || error.where().empty() ? error.message() : fmt::format("{}: {}", error.where(), error.message());
  const Error placed = resolved.invalid(key, message, error.remedy());
  return {error.kind(), placed.message(), placed.where(), placed.remedy()};
}

std::string_view model_key(const Job& job) {
  if (!job.model.script.empty()) return "model.script";
  return job.model.library.empty() ? "model.name" : "model.library";
}

namespace {

// Whether `where` ("t.csv", "t.csv:7", "pictures/cat") is at or in `path`.
bool is_in(std::string_view where, std::string_view path) {
  while (path.ends_with('/'))
    path.remove_suffix(1);
  if (path.empty() || !where.starts_with(path)) return false;
  return where.size() == path.size() || where[path.size()] == ':' || where[path.size()] == '/';
}

// Which of the job's files a place is in: of one inside of another the inner one.
std::string_view data_key(const Job& job, std::string_view where) {
  std::string_view key = "data.path";
  std::size_t longest = is_in(where, job.data.path) ? job.data.path.size() : 0;
  for (const auto& [other, path] :
       {std::pair("data.test_path", &job.data.test_path), std::pair("data.validation_path", &job.data.validation_path),
        std::pair("data.labels", &job.data.labels)}) {
    if (!is_in(where, *path) || path->size() <= longest) continue;
    key = other;
    longest = path->size();
  }
  return key;
}

}  // namespace

Datasets open_data(const ResolvedJob& resolved, const std::shared_ptr<data::PieceDoor>& remote) {
  try {
    return open_data(resolved.job, remote);
  } catch (const Error& error) {
    throw at_key(resolved, data_key(resolved.job, error.where()), error);
  }
}

std::shared_ptr<const data::LaneOrder> lane_order(const ResolvedJob& resolved, const data::Dataset& train) {
  const data::BatchShape shape{train.size(), resolved.batch, resolved.lanes};
  if (resolved.job.parallel.sync_batch_norm && data::fewest_lanes(shape) < shape.lanes)
    throw resolved.invalid("parallel.sync_batch_norm",
                           "the last batch of an epoch is too small for a lane on every worker",
                           "Choose another data.batch.");
  return about_key(resolved, "data.partition", [&] { return lane_order(resolved.job, train, shape); });
}

std::vector<std::string> doubts(const ResolvedJob& resolved, const data::BatchShape& shape, std::int64_t classes) {
  const Job& job = resolved.job;
  std::vector<std::string> found;
  const auto doubt = [&](std::string_view key, const std::string& message, const std::string& remedy = {}) {
    found.push_back(resolved.invalid(key, message, remedy).what());
  };
  constexpr std::int64_t kFewClasses = 20;
  if (classes > kFewClasses && 2 * static_cast<std::uint64_t>(classes) > shape.samples) {
    const bool numbers = job.data.source == "csv" || job.data.source == "numpy";
    doubt(numbers ? "loss.task" : "data.path",
          fmt::format("there are {} classes in {} training samples, so that hardly any comes twice", classes,
                      shape.samples),
          numbers ? "If they are numbers to predict, set loss.task = \"regression\"." : "");
  }
  if (resolved.batch > shape.samples) {
    const std::uint64_t lanes = data::fewest_lanes(shape);
    doubt(
        job.data.lane_batch ? "data.lane_batch" : "data.batch",
        fmt::format("a batch is {} samples, and the training set has {}: every step takes all of them, in {} lane{}{}",
                    resolved.batch, shape.samples, lanes, lanes == 1 ? "" : "s",
                    static_cast<std::uint64_t>(job.parallel.workers.most) > lanes
                        ? fmt::format(", and of {} workers {} have nothing to do", job.parallel.workers.most,
                                      static_cast<std::uint64_t>(job.parallel.workers.most) - lanes)
                        : ""));
  }
  const std::uint64_t steps = total_steps(job, shape);
  const double epochs = static_cast<double>(steps) / static_cast<double>(data::steps_per_epoch(shape));
  for (const double milestone : job.optimizer.milestones) {
    if (milestone >= epochs)
      doubt("optimizer.milestones",
            fmt::format("{} is never reached: training ends after {:.4g} epochs", milestone, epochs));
  }
  if (job.optimizer.warmup_epochs > 0 && job.optimizer.warmup_epochs >= epochs)
    doubt("optimizer.warmup_epochs", fmt::format("the rate never gets to its full value: training ends after {:.4g} "
                                                 "epochs",
                                                 epochs));
  for (const strategies::Doubt& of_strategy : job.parallel.chosen().doubts(steps))
    doubt(of_strategy.key, of_strategy.message);
  return found;
}

}  // namespace muster::trainer
