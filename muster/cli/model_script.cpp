// The one part of `muster model` that needs torch: writing TorchScript. A file of its own, so that the rest of the
// command stays on this side of the wall.
#include <memory>

#include "muster/base/error.h"
#include "muster/cli/model_files.h"
#include "muster/model/export_script.h"
#include "muster/model/initialize.h"
#include "muster/trainer/build.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/model_card.h"

namespace muster::cli {
namespace {

// The shape of the model's data: what the run's card says, or else the data itself.
data::SampleSpec spec_of(const trainer::ResolvedJob& job, const ModelFile& file) {
  if (file.checkpoint) {
    try {
      return trainer::ModelCard::read(file.checkpoint->path.parent_path().parent_path()).form.spec;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNotFound) throw;  // of an older release, or no longer in its run
    }
  }
  return trainer::open_data(job.job).train->spec();
}

}  // namespace

void write_script(const trainer::ResolvedJob& job, const ModelFile& file, const std::filesystem::path& path) {
  const data::SampleSpec spec = spec_of(job, file);
  const std::shared_ptr<model::Net> net = trainer::build_model(job.job, spec);
  model::initialize(*net, file.weights, {}, file.path.string());
  torch::manual_seed(1);
  const auto example = [&](std::int64_t samples) {
    std::vector<std::int64_t> shape{samples};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    return spec.input == data::InputKind::kTokens ? torch::randint(spec.vocabulary, shape, torch::kInt64)
                                                  : torch::randn(shape);
  };
  model::export_script(*net, example, path);
}

}  // namespace muster::cli
