// Measures a model like the job's on a few made-up samples, and leaves the counting to memory_estimate.cpp. What cannot
// be measured is left out: a job is refused only for what is known.
#include "muster/trainer/preflight.h"

#include <malloc.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include <fmt/format.h>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/compute/threads.h"
#include "muster/model/hollow.h"
#include "muster/model/profile.h"
#include "muster/trainer/build.h"
#include "muster/trainer/evaluation.h"
#include "muster/trainer/job_fit.h"

namespace muster::trainer {
namespace {

bool may_recompute(const Job& job) {
  if (job.model.recompute || !job.model.name || !job.model.library.empty()) return false;
  const std::vector<std::string> options = model::find_model(*job.model.name).options;
  return std::ranges::find(options, "recompute") != options.end();
}

// Floats and tokens as data::Batch keeps them, with labels.
std::uint64_t sample_bytes(const data::SampleSpec& spec) {
  const bool tokens = spec.input == data::InputKind::kTokens;
  const bool values = spec.target == data::TargetKind::kValues;
  return spec.elements() * (tokens ? sizeof(std::int64_t) : sizeof(float)) +
         spec.target_elements() * (values ? sizeof(float) : sizeof(std::int64_t)) + sizeof(std::uint64_t);
}

std::uint64_t difference(std::uint64_t more, std::uint64_t less) {
  return more - std::min(more, less);
}

void measure_model(const ResolvedJob& resolved, const data::SampleSpec& spec, const Memory& usable,
                   MemoryFigures& figures) {
  try {
    figures.model = model::measure_model_memory(model_options(resolved.job, spec), usable.usable_bytes,
                                                may_be_hollow(resolved.job));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kResource) {
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("the model and a few samples alone take more memory than there is: {}", usable.reason),
                  {}, "Choose a smaller model or a host with more memory. --ignore-memory starts it all the same.");
    }
    if (error.kind() != ErrorKind::kCompute) throw at_key(resolved, model_key(resolved.job), error);
    figures.unmeasured = error.message();
  } catch (const std::exception& error) {
    // Of torch, or of a user's model that wants other samples than made-up ones.
    const std::string_view words(error.what());
    figures.unmeasured = words.substr(0, words.find('\n'));
  }
}

}  // namespace

MemoryFigures measure_memory(const ResolvedJob& resolved, const Datasets& sets, const ProcessMemory& before,
                             const Memory& usable) {
  const Job& job = resolved.job;
  const data::SampleSpec& spec = sets.train->spec();
  MemoryFigures figures;
  figures.strategy = job.parallel.chosen();
  figures.hollow = may_be_hollow(job);
  figures.workers = static_cast<std::uint64_t>(job.parallel.workers.most);
  figures.batch = resolved.batch;
  figures.lanes = resolved.lanes;
  figures.slots = static_cast<std::uint64_t>(compute::make_optimizer(optimizer_options(resolved))->slots());
  figures.may_recompute = may_recompute(job);
  figures.evaluation_samples = std::min(kEvaluationBatch, std::max(sets.validation->size(), sets.test->size()));
  figures.sample_bytes = sample_bytes(spec);
  figures.prefetch = static_cast<std::uint64_t>(job.data.prefetch);
  ::malloc_trim(0);  // what reading the data has left is used again
  const ProcessMemory opened = process_memory();
  figures.data_bytes = difference(opened.anonymous_bytes, before.anonymous_bytes);
  compute::set_threads(static_cast<int>(job.threads));
  measure_model(resolved, spec, usable, figures);
  if (job.parallel.pipeline_mesh().shares_lanes()) {
    const auto make = [&] { return build_model(job, spec); };
    const auto staged = build_stages(resolved, spec, may_be_hollow(job) ? model::HollowModel(make).net() : make());
    figures.lanes_kept = staged->stages.lanes_kept(resolved.lanes);
    figures.passage_bytes = staged->stages.passage_bytes();
  }
  ::malloc_trim(0);
  const ProcessMemory computed = process_memory();
  figures.process_bytes = difference(computed.anonymous_bytes, figures.data_bytes);
  figures.library_bytes = computed.file_bytes;
  figures.launcher_bytes = before.anonymous_bytes;
  return figures;
}

MemoryFigures check_memory(const ResolvedJob& resolved, const Datasets& sets, const ProcessMemory& before,
                           const Memory& usable) {
  MemoryFigures figures = measure_memory(resolved, sets, before, usable);
  // What this process, or the one that starts the workers, had already taken is in the estimate as well.
  Memory room = usable;
  room.usable_bytes += std::min(before.anonymous_bytes, std::numeric_limits<std::uint64_t>::max() - room.usable_bytes);
  if (estimate_memory(figures).total() > room.usable_bytes) throw memory_refusal(figures, room);
  return figures;
}

}  // namespace muster::trainer
