// Which samples a step gets is decided by the step alone (SessionOptions::sampling), so weights and shares never see
// each other's, whoever computes. What a lane draws (its Gumbel noise) comes from the lane's own random numbers.
#include "muster/trainer/block_search.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/compute/threads.h"
#include "muster/data/permutation.h"
#include "muster/data/sampling.h"
#include "muster/model/zoo/makers.h"
#include "muster/model/zoo/super_net.h"
#include "muster/trainer/build.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/synchronize.h"
#include "muster/trainer/task.h"

namespace muster::trainer {
namespace {

constexpr std::uint64_t kTurns = 5;  // one in so many steps is the shares', and one in so many samples
constexpr double kHottest = 5;
constexpr double kColdest = 0.09;
constexpr double kShareDecay = 5e-4;  // the paper's
constexpr double kMicroseconds = 1e3;

// Steps of all epochs, and who trains in each of them on which samples.
struct Turns {
  std::uint64_t samples = 0;
  std::uint64_t batch = 0;
  std::uint64_t seed = 0;
  std::uint64_t total = 0;  // steps
  double warmup = 0;

  std::uint64_t steps_per_epoch() const { return (samples + batch - 1) / batch; }
  std::uint64_t held_out() const { return samples / kTurns; }

  std::vector<std::uint64_t> ids(std::uint64_t epoch) const {
    const auto key = [&](Purpose purpose, std::uint64_t which) {
      return StreamKey{.seed = seed, .purpose = purpose, .epoch = epoch, .step = which};
    };
    const data::Permutation split(samples, {.seed = seed, .purpose = Purpose::kSplit});
    const data::Permutation held(held_out(), key(Purpose::kSampling, 0));
    const data::Permutation rest(samples - held_out(), key(Purpose::kSampling, 1));
    std::uint64_t of_shares = 0;
    std::uint64_t of_weights = 0;
    std::vector<std::uint64_t> all(samples);
    for (std::uint64_t position = 0; position < samples; ++position) {
      const bool shares = trains_shares(epoch * steps_per_epoch() + position / batch, total, warmup);
      all[position] =
          shares ? split(held(of_shares++ % held.size())) : split(held_out() + rest(of_weights++ % rest.size()));
    }
    return all;
  }
};

void check_job(const ResolvedJob& resolved, const zoo::LatencyTable& table, const data::SampleSpec& spec) {
  const Job& job = resolved.job;
  const std::string name = job.model.name.value_or("");
  if (!zoo::is_block_net(name) || zoo::open_places(zoo::parse_block_net(name)).empty())
    throw resolved.invalid("model.name", "there is nothing to search in this model",
                           "Name a net of blocks with open places, for example fbnet-8-16s2-16-32s2-32-128.");
  if (spec.target != data::TargetKind::kClass || spec.shape.size() != 3)
    throw resolved.invalid("data.source", "a search of blocks is for pictures of classes");
  if (zoo::parse_block_net(name) != table.net || spec.shape != table.input)
    throw Error(ErrorKind::kMismatch,
                fmt::format("the table of times is of {}, and the job has {}, or other pictures",
                            zoo::to_string(table.net), name),
                {}, "Measure it for this job: muster bench blocks JOB --out FILE.");
}

BlockSearchState state_of(const zoo::BlockShares& shares, const Session& session) {
  return {session.cursor().epoch, session.cursor().step, session.last_outcome().loss, shares.chosen(),
          shares.probabilities()};
}

// Of a net whose choices are all equally likely.
double mean_ms(const zoo::LatencyTable& table) {
  double sum = table.rest_ms;
  for (const std::vector<double>& place : table.choices_ms) {
    for (const double ms : place)
      sum += ms / static_cast<double>(place.size());
  }
  return sum;
}

}  // namespace

bool trains_shares(std::uint64_t step, std::uint64_t total, double warmup) {
  return static_cast<double>(step) >= warmup * static_cast<double>(total) && step % kTurns == kTurns - 1;
}

double temperature_at(std::uint64_t step, std::uint64_t total) {
  return kHottest * std::pow(kColdest / kHottest, static_cast<double>(step) / static_cast<double>(total));
}

BlockSearchState search_blocks(const ResolvedJob& resolved, const zoo::LatencyTable& table,
                               const BlockSearchOptions& options, const Worker& worker,
                               const std::filesystem::path& checkpoints, const std::function<void()>& begins,
                               const std::function<void(const BlockSearchState&)>& tell) {
  const Datasets sets = open_data(resolved.job);
  const data::SampleSpec& spec = sets.train->spec();
  check_job(resolved, table, spec);
  compute::set_threads(static_cast<int>(resolved.job.threads));
  Turns turns{sets.train->size(), resolved.batch, static_cast<std::uint64_t>(resolved.job.seed), 0, options.warmup};
  if (turns.held_out() == 0)
    throw resolved.invalid("data.source", fmt::format("{} samples are too few to search with", turns.samples));
  begins();
  const data::BatchShape shape{turns.samples, resolved.batch, resolved.lanes};
  turns.total = total_steps(resolved.job, shape);
  const std::shared_ptr<const Task> task = build_task(resolved.job, spec);

  torch::manual_seed(derive_seed({.seed = turns.seed, .purpose = Purpose::kModelInit}));
  const model::ModelOptions model = model_options(resolved.job, spec);
  const auto net = std::make_shared<zoo::SuperNet>(table.net, spec.shape[0], spec.classes, zoo::layers_of(model));
  const auto shares = std::make_shared<zoo::BlockShares>(table.net);

  SessionOptions session_of = session_options(resolved, shape, {});
  session_of.sampling = data::Sampling{turns.samples, [turns](std::uint64_t epoch) { return turns.ids(epoch); }};
  Session session = synchronize(
      worker,
      {{"weights", net, optimizer_options(resolved)},
       {"shares", shares, compute::Adam{.lr = options.rate, .weight_decay = kShareDecay}, compute::Schedule{}}},
      session_of);
  session.resume(checkpoints);
  const double unit = std::log1p(kMicroseconds * mean_ms(table));
  const auto compute_lane = [&](Lane& lane) {
    std::vector<torch::Tensor> drawn = shares->draw(temperature_at(lane.step, turns.total));
    if (trains_shares(lane.step, turns.total, options.warmup)) {
      const torch::Tensor time = torch::log1p(zoo::expected_ms(table, drawn) * kMicroseconds) / unit;
      const torch::Tensor error = task->loss(net->forward(lane.data, drawn), lane.target);
      lane.backward(error * torch::pow(time, options.pressure), "shares");
    } else {
      for (torch::Tensor& share : drawn)
        share = share.detach();
      lane.backward(task->loss(net->forward(lane.data, drawn), lane.target), "weights");
    }
  };
  session.meet(sets.train);
  while (session.cursor().step < turns.total) {
    const std::uint64_t epoch_end = (session.cursor().step / turns.steps_per_epoch() + 1) * turns.steps_per_epoch();
    session.train_until(std::min(epoch_end, turns.total), sets.train, compute_lane);
    session.checkpoint(checkpoints);
    if (session.members().leads()) tell(state_of(*shares, session));
  }
  return state_of(*shares, session);
}

}  // namespace muster::trainer
