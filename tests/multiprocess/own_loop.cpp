// A user's program that keeps its own optimizer and its own loop, with two modules and checkpoints of its own:
// own_loop MODE
//   train    40 steps, a checkpoint into "kept" after every 8th; the last line is the hash of the weights
//   killed   the last worker dies once, in step 21; killed-first: the first one does, when it has written a checkpoint
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "muster/base/hash.h"
#include "muster/muster.h"

namespace {

constexpr std::uint64_t kSteps = 40;

struct ModelsImpl : torch::nn::Module {
  ModelsImpl() {
    register_module("maker", maker);
    register_module("judge", judge);
  }
  torch::nn::Linear maker{6, 6}, judge{6, 1};
};
TORCH_MODULE(Models);

// Of this worker alone: its part of what all of them see in a step.
torch::Tensor batch(const muster::Worker& worker, std::uint64_t step) {
  torch::manual_seed(1000 * step + static_cast<std::uint64_t>(worker.rank()));
  return torch::rand({8, 6});
}

void die_once() {
  if (std::filesystem::create_directory("was-killed")) ::raise(SIGKILL);
}

std::string hash_of(torch::nn::Module& module) {
  muster::Sha256 hash;
  for (const torch::Tensor& parameter : module.parameters())
    hash.update(std::as_bytes(std::span(parameter.data_ptr<float>(), static_cast<std::size_t>(parameter.numel()))));
  return hash.finish();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string mode = argv[1];
  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);
  Models models;
  torch::optim::Adam optimizer(models->parameters(), torch::optim::AdamOptions(0.01));
  std::uint64_t step = worker.resume("kept", *models, optimizer).value_or(0);
  if (step > 0 && worker.is_first()) std::printf("resumed at %lu\n", step);
  while (step < kSteps) {
    optimizer.zero_grad();
    const torch::Tensor x = batch(worker, step);
    (models->judge(models->maker(x)) - x.sum(1, true)).square().mean().backward();
    worker.all_reduce_gradients(*models->maker);
    worker.all_reduce_gradients(*models->judge);
    optimizer.step();
    if (mode == "killed" && step == 21 && worker.rank() == worker.size() - 1) die_once();
    if (++step % 8 != 0) continue;
    worker.checkpoint("kept", *models, optimizer, step);
    if (mode == "killed-first" && step == 16 && worker.is_first()) die_once();
  }
  if (worker.is_first()) std::printf("weights %s\n", hash_of(*models).c_str());
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
