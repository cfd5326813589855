// A user's program with a session, small enough to train in a moment, that goes wrong on request: own_session MODE
//   train          as it should; the last line is the hash of the weights. 5 epochs of 20 steps
//   batch          the second worker has another batch
//   data           the second worker has fewer samples
//   write          writes to a parameter after synchronize()
//   write-later    the same, once it has met the others
//   missing        a file is not there, and nobody catches the error
//   early          the second worker returns after the first epoch, and the first one is killed once after that
//   evaluate       shares evaluations; evaluate-killed: the leader of the first one is killed in the middle of it
//   long           so many epochs that somebody has to stop it; checkpoints into "kept" after each epoch
//   resume         goes on from "kept", says from which step on, and ends
//   unkept         as long, without checkpoints
//   late           the second worker takes for ever to load; the first one says when it waits
//   deadly         lane 1 of step 6 kills whoever computes it, which says its samples before
//   fails          throws before its first step, one worker after the other
//   both           as unkept, and writes its checkpoints into "kept"; ends by itself if somebody else does
//   two            makes a second session
//   stopped        as unkept, by step() and without exceptions; says what a step after `muster stop` says
//   write-servers  as write, with a parameter server
//   steps          as train, by step(); steps-killed: the second worker is killed in the middle of one
//   tied           a net in two stages whose last layer's weight is the first one's; the hash as for train
//   tied-killed    the same by step(); the second worker is killed in the middle of one
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "muster/muster.h"

namespace {

// A layer whose weight is another one's, the other way round.
struct TurnedImpl final : torch::nn::Module {
  explicit TurnedImpl(const torch::Tensor& other) : weight(register_parameter("weight", other)) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::linear(x, weight.t()); }

  torch::Tensor weight;
};
TORCH_MODULE(Turned);

void train_tied(muster::Worker& worker, const muster::data::Data& data, bool by_step, bool dies) {
  const torch::nn::Linear first(6, 8);
  const torch::nn::Sequential net(
      {{"first", first}, {"bend", torch::nn::Functional(torch::tanh)}, {"last", Turned(first->weight)}});
  auto staged =
      muster::synchronize_stages(worker, net, muster::Sgd{.lr = 0.05, .momentum = 0.9}, {.batch = 16, .lanes = 4},
                                 {.stages = 2, .sample = torch::zeros({1, 6}), .cut = {"last"}});
  staged.session().meet(data.train);
  const auto loss = [&](const torch::Tensor& answer, const torch::Tensor& target) {
    if (dies && staged.session().cursor().step == 10) ::raise(SIGKILL);
    return torch::nn::functional::cross_entropy(answer, target);
  };
  while (by_step && staged.session().cursor().step < 20)
    staged.step(data.train, loss);
  staged.train_until(20, data.train, loss);
  if (staged.session().members().leads()) std::printf("weights %s\n", staged.session().weights_hash().c_str());
}

int run(const std::string& mode, int argc, char** argv) {
  auto worker = muster::join(argc, argv);
  const bool second = worker.rank() == 1;
  const bool replaced = std::atoi(std::getenv("MUSTER_ATTEMPT") == nullptr ? "0" : std::getenv("MUSTER_ATTEMPT")) > 0;
  if (mode == "missing") muster::open_source({.source = "idx", .path = "nowhere"});
  torch::manual_seed(1);
  muster::data::SourceOptions source;
  source.source = "synthetic";
  source.shape = {6};
  source.classes = 3;
  source.samples = mode == "data" && second ? 300 : 320;
  source.test_samples = 64;
  const auto data = muster::open_source(source);
  while (mode == "late" && second)
    ::pause();
  if (mode.starts_with("tied")) {
    const bool killed = mode == "tied-killed";
    train_tied(worker, data, killed, killed && second && !replaced);
    return 0;
  }
  torch::nn::Sequential net(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 3));
  muster::SessionOptions options;
  options.batch = mode == "batch" && second ? 20 : 16;
  options.lanes = 2;
  options.throw_when_stopped = mode != "stopped";
  if (mode == "write-servers") options.strategy = muster::ParameterServer{};
  auto session = muster::synchronize(worker, net, muster::Sgd{.lr = 0.05, .momentum = 0.9}, options);
  if (mode == "two") muster::synchronize(worker, torch::nn::Linear(6, 3), muster::Sgd{.lr = 0.05}, options);
  const auto write = [&] {
    const torch::NoGradGuard no_grad;
    net->parameters()[0].fill_(0.5);
  };
  if (mode == "write" || mode == "write-servers") write();
  if (mode == "resume") {
    const bool found = session.resume("kept");
    std::printf("%s %lu\n", found ? "resumed at" : "nothing at", session.cursor().step);
    return 0;
  }
  if (mode == "late") std::fprintf(stderr, "waiting\n");
  session.meet(data.train);
  if (mode == "write-later") write();
  if (mode == "fails") {
    ::usleep(second ? 300000 : 0);  // sleeps: so that the first one is replaced before this one fails
    throw muster::Error(muster::ErrorKind::kIo, "nothing can be done here");
  }
  if (mode == "stopped") {
    const auto compute = [&](muster::Lane& lane) {
      ::usleep(20000);  // sleeps: so that somebody who watches sees it happen
      lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
    };
    while (!session.stop_requested())
      session.step(data.train, compute);
    session.save("stopped.safetensors");
    session.step(data.train, compute);
  }
  if (mode.starts_with("steps")) {
    while (session.cursor().step < 100) {
      session.step(data.train, [&](muster::Lane& lane) {
        if (mode == "steps-killed" && second && !replaced && lane.step == 30) ::raise(SIGKILL);
        lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
      });
    }
  }
  const bool endless = mode == "long" || mode == "unkept" || mode == "both";
  while (session.cursor().epoch < (endless ? 100000 : 5)) {
    const std::uint64_t epoch = session.cursor().epoch;
    for (auto& lane : session.lanes(data.train)) {
      lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
      // sleeps: so that somebody who watches sees it happen
      ::usleep(endless ? 20000 : 1000);
      if (mode == "deadly" && session.cursor().step == 5 && lane.index == 1) {
        for (const std::uint64_t id : lane.ids)
          std::fprintf(stderr, "%lu, ", id);
        std::fprintf(stderr, "are deadly\n");
        ::raise(SIGKILL);
      }
      if (mode == "early" && worker.rank() == 0 && !replaced && epoch == 3) ::raise(SIGKILL);
    }
    if (mode == "early" && second && epoch == 0) return 0;
    if (mode.starts_with("evaluate")) {
      const bool dies = mode == "evaluate-killed" && !replaced && epoch == 0 && session.members().leads();
      const auto doomed = [&](const torch::Tensor& x) {
        if (dies) ::raise(SIGKILL);
        return net->forward(x);
      };
      const auto result = session.evaluate(doomed, data.test, {.batch = 8});
      if (session.members().leads()) std::printf("epoch %lu: %.6f\n", epoch + 1, result->loss);
      std::fflush(stdout);
    }
    if (mode == "long" || mode == "both") session.checkpoint("kept");
  }
  if (session.members().leads()) std::printf("weights %s\n", session.weights_hash().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argv[1];
  if (mode == "missing") return run(mode, argc, argv);  // as a program that catches nothing
  try {
    return run(mode, argc, argv);
  } catch (const muster::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
