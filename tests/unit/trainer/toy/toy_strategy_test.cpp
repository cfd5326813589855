// That a strategy is a folder and a line: the one beside this file trains from a job file and from C++, is checked,
// estimated and compared between workers as all are, and no other file knows of it.
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/trainer/job.h"
#include "muster/trainer/memory_estimate.h"
#include "muster/trainer/session.h"
#include "muster/trainer/trainer.h"
#include "support/groups.h"
#include "support/sandbox.h"
#include "support/small_nets.h"
#include "toy.h"

namespace muster::trainer {
namespace {

using strategies::Toy;
using ::testing::HasSubstr;

std::string job(const std::filesystem::path& folder, double lr, const std::string& parallel,
                const std::string& model = "") {
  return fmt::format(
      "[job]\nname = \"toy\"\nepochs = 2\nlanes = 4\nruns = \"{}\"\n"
      "[data]\nsource = \"synthetic\"\nshape = [8]\nclasses = 3\nsamples = 96\ntest_samples = 12\nbatch = 24\n"
      "[model]\nname = \"mlp\"\nhidden = [16]\n{}\n[optimizer]\nlr = {}\nmomentum = 0.0\n"
      "[parallel]\n{}",
      folder.string(), model, lr, parallel);
}

TrainingResult train_one(const std::string& text, const comm::Group& group = {}) {
  TrainingOptions options;
  options.group = group;
  TrainingObserver silent;
  Log log(LogLevel::kOff);
  return train(parse_job(text, "job.toml"), options, silent, log);
}

// Threads share LibTorch's generator, from which a model draws its first weights: they are read from a file instead.
std::string first_weights(const std::filesystem::path& folder) {
  const TrainingResult result = train_one(job(folder, 0.1, "workers = 1\n"));
  return fmt::format("init = \"{}\"", (result.checkpoint / "model.safetensors").string());
}

// Two workers as threads; what they both ended with.
std::string train_two(const std::string& text) {
  std::vector<std::string> hashes(2);
  testing::run_group(2, testing::Network::kShm, [&](int rank, const comm::Group& group) {
    hashes[static_cast<std::size_t>(rank)] = train_one(text, group).weights_hash;
  });
  EXPECT_EQ(hashes[0], hashes[1]);
  return hashes[0];
}

TEST(ToyStrategy, TrainsFromAJobFile) {
  const testing::TemporaryFolder folder;
  const std::string model = first_weights(folder.path());
  const auto train_with = [&](double lr, const std::string& strategy) {
    return train_two(job(folder.path(), lr, "workers = 2\n" + strategy, model));
  };
  const std::string half = train_with(0.2, "strategy = \"toy\"\ntoy_gain = 0.5\n");
  // Half of the gradient is half of the rate, to the bit.
  EXPECT_EQ(half, train_with(0.1, "strategy = \"shared_sync\"\n"));
  EXPECT_NE(half, train_with(0.2, "strategy = \"toy\"\n"));
}

TEST(ToyStrategy, IsCheckedAndEstimatedAsAllAre) {
  const auto refusal = [](const std::string& parallel) -> std::string {
    try {
      parse_job("[parallel]\n" + parallel, "job.toml");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(refusal("toy_gain = 2.0\n"), HasSubstr("It belongs to toy"));
  EXPECT_THAT(refusal("strategy = \"toy\"\ntoy_gain = 0.0\n"), HasSubstr("toy_gain"));
  EXPECT_THAT(refusal("strategy = \"toy\"\nperiod = 2\n"), HasSubstr("has no effect with strategy \"toy\""));
  EXPECT_THAT(refusal("strategy = \"toi\"\n"), HasSubstr("\"toy\""));
  EXPECT_THAT(refusal("strategy = \"toy\"\nworkers = \"1:2\"\n"), HasSubstr("a range cannot go with toy"));
  EXPECT_EQ(refusal("strategy = \"toy\"\ntoy_gain = 2.0\n"), "no error");
  MemoryFigures figures;
  figures.strategy = Toy{};
  figures.workers = 2;
  figures.model.parameter_bytes = 1000;
  EXPECT_EQ(estimate_memory(figures).items.front().bytes, 2 * 2 * 1000U) << "two versions in each worker";
}

TEST(ToyStrategy, TrainsInCppAndWorkersThatDifferAreRefused) {
  namespace F = torch::nn::functional;
  const auto dataset = testing::line_data(48);
  std::vector<std::shared_ptr<testing::LinearNet>> nets{testing::make_net<testing::LinearNet>(1),
                                                        testing::make_net<testing::LinearNet>(1)};
  testing::run_group(2, testing::Network::kShm, [&](int rank, comm::Group group) {
    auto& net = *nets[static_cast<std::size_t>(rank)];
    SessionOptions options{.batch = 8, .lanes = 2, .strategy = Toy{.toy_gain = 2}};
    options.group = group;
    {
      Session session(nets[static_cast<std::size_t>(rank)], compute::Sgd{.lr = 0.1}, options);
      for (Lane& lane : session.lanes(dataset))
        lane.backward(F::cross_entropy(net.forward(lane.data), lane.target));
      EXPECT_EQ(session.cursor().step, 6U);
      EXPECT_GT(session.last_outcome().loss, 0);
      group.barrier();
    }
    if (rank == 1) options.strategy = Toy{.toy_gain = 3};
    try {
      const Session refused(nets[static_cast<std::size_t>(rank)], compute::Sgd{.lr = 0.1}, options);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("toy.toy_gain is 3"));
    }
    group.barrier();
  });
}

}  // namespace
}  // namespace muster::trainer
