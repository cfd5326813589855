// What commands that use a trained model say about it, in the same words. Behind the wall, as trained_model.h is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/cli/runs.h"
#include "muster/data/bad_samples.h"
#include "muster/trainer/trained_model.h"

namespace muster::cli {

// "weights  runs/.../model.safetensors (step 120, the best of the run ...)".
inline std::string describe_weights(const trainer::TrainedModel& trained) {
  return trained.chosen.empty() ? fmt::format("weights  {}", trained.weights.string())
                                : fmt::format("weights  {} ({})", trained.weights.string(), trained.chosen);
}

// The same with a line before it about a newer run that was passed over.
inline std::string describe_weights(const FoundModel& found, const trainer::TrainedModel& trained) {
  return (found.note.empty() ? std::string() : fmt::format("note     {}\n", found.note)) + describe_weights(trained);
}

// --skip-bad: whatever the run does about bad samples, here they are left out, however many.
inline void skip_bad_samples(trainer::Job& job) {
  job.data.on_bad_sample = "skip";
  job.data.bad_sample_limit = std::numeric_limits<std::int64_t>::max();
}

// The error with what can be done here about data that cannot be read: the run is trained, and its job stays as it is.
inline Error with_remedy(const Error& error, bool skip_bad) {
  if (error.kind() != ErrorKind::kDamaged || skip_bad) return error;
  return {error.kind(), error.message(), error.where(), "Repair it, or leave out what cannot be read with --skip-bad."};
}

// What a command that uses the model must not write over: what it reads, and files that the model was trained on.
inline std::vector<std::filesystem::path> files_read(const trainer::TrainedModel& trained,
                                                     std::span<const std::string> data) {
  std::vector<std::filesystem::path> files(data.begin(), data.end());
  files.push_back(trained.weights);
  files.push_back(trained.run);
  const trainer::Job& job = trained.resolved.job;
  for (const std::string& path : {job.data.path, job.data.test_path, job.data.validation_path, job.data.labels,
                                  job.model.script, job.model.init, job.optimizer.init}) {
    std::error_code code;
    if (std::filesystem::is_regular_file(path, code)) files.emplace_back(path);
  }
  return files;
}

// Lines about what was skipped, or nothing. `asked`: by --skip-bad.
inline std::string describe_skipped(const data::BadSamples& bad, bool asked) {
  if (bad.count() == 0) return {};
  std::string text = fmt::format("{} bad sample{} skipped, as {}\n", grouped(bad.count()), bad.count() == 1 ? "" : "s",
                                 asked ? "--skip-bad says" : "the run's data.on_bad_sample says");
  for (const std::string& example : bad.examples())
    text += fmt::format("  {}\n", example);
  return text;
}

}  // namespace muster::cli
