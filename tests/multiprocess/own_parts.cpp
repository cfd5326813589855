// A user's program with a model in parts, a function after each commit and figures of its own: own_parts MODE
//   train            60 steps; the last line is the hash of the weights; saves "all.safetensors"
//   commit-killed    the worker that writes after step 30 is killed in the middle of it, once
//   measure-killed   the leader is killed in the first measuring, once
//   differ           the second worker has no after_commit
//   tell             trains until it is stopped, and says so itself
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "muster/muster.h"

namespace {

struct Models {
  torch::nn::Linear maker{6, 6}, judge{6, 1}, average{6, 6};
};

void train_lane(muster::Lane& lane, Models& models) {
  const torch::Tensor made = models.maker->forward(lane.data + 0.1 * torch::randn_like(lane.data));
  if (lane.step % 3 == 2) {
    lane.backward(-models.judge->forward(made).mean(), "maker");
  } else {
    const torch::Tensor distance =
        models.judge->forward(lane.data).mean() - models.judge->forward(made.detach()).mean();
    lane.report("distance", distance);
    lane.backward(-distance, "judge");
  }
}

int run(const std::string& mode, int argc, char** argv) {
  auto worker = muster::join(argc, argv);
  const bool replaced = std::atoi(std::getenv("MUSTER_ATTEMPT") == nullptr ? "0" : std::getenv("MUSTER_ATTEMPT")) > 0;
  torch::manual_seed(1);
  muster::data::SourceOptions source;
  source.source = "synthetic";
  source.shape = {6};
  source.classes = 3;
  source.samples = 320;
  source.test_samples = 64;
  const auto data = muster::open_source(source);
  Models models;
  muster::SessionOptions options{.batch = 16, .lanes = 2};
  options.throw_when_stopped = mode != "tell";
  options.after_commit = [&](const muster::Cursor& after) {
    for (torch::Tensor& weight : models.judge->parameters())
      weight.clamp_(-0.1, 0.1);
    models.average->weight.lerp_(models.maker->weight, 0.25);
    if (mode == "commit-killed" && !replaced && worker.rank() == 0 && after.step == 30) ::raise(SIGKILL);
    models.average->bias.add_(torch::randn({6}), 0.01);
  };
  if (mode == "differ" && worker.rank() == 1) options.after_commit = {};
  auto session = muster::synchronize(worker,
                                     {{"maker", models.maker, muster::Adam{.lr = 0.01}},
                                      {"judge", models.judge, muster::Sgd{.lr = 0.05, .momentum = 0.9}},
                                      {"average", models.average}},
                                     options);
  const bool resumed = session.resume("kept");
  if (resumed) std::printf("resumed at %lu\n", session.cursor().step);
  session.meet(data.train);
  const std::uint64_t last = mode == "tell" && !resumed ? 1'000'000 : 60;
  while (session.cursor().step < last && !session.stop_requested()) {
    const std::uint64_t next = (session.cursor().step / 20 + 1) * 20;
    session.train_until(std::min(next, last), data.train, [&](muster::Lane& lane) {
      train_lane(lane, models);
      if (mode == "tell") ::usleep(5000);  // sleeps: so that somebody who watches sees it happen
    });
    if (mode == "tell") continue;
    const bool dies = mode == "measure-killed" && !replaced && session.cursor().step == 20 && session.members().leads();
    const auto figures = session.measure(
        [&](muster::Lane& batch) {
          if (dies && batch.index > 2) ::raise(SIGKILL);
          batch.report("score", models.judge->forward(batch.data + torch::randn_like(batch.data)).mean());
        },
        data.test, {.batch = 8});
    if (session.members().leads()) std::printf("step %lu: %.17g\n", session.cursor().step, *figures.mean("score"));
    std::fflush(stdout);
  }
  if (session.stop_requested()) {
    session.checkpoint("kept");
    if (session.members().leads()) std::printf("told after step %lu\n", session.cursor().step);
    return 0;
  }
  session.save("all.safetensors");
  if (session.members().leads()) std::printf("weights %s\n", session.weights_hash().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argv[1], argc, argv);
  } catch (const muster::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
