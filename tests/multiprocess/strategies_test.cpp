// The strategies beside shared_sync through the real program, with two workers: what they compute, from their weights.
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/model/safetensors.h"
#include "support/program.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// BatchNorm and dropout are in the cnn; 4 lanes on 2 workers are a power of two each.
constexpr const char* kJob = R"([job]
name = "two"
steps = 7
lanes = 4
[data]
source = "synthetic"
shape = [1, 8, 8]
samples = 300
test_samples = 64
batch = 64
[model]
name = "cnn"
[optimizer]
lr = 0.05
momentum = 0.9
clip_norm = 1.0
[parallel]
workers = 2
)";

struct Trained {
  std::string hash;
  double test_loss = 0;
  std::map<std::string, std::vector<float>> tensors;  // of the last checkpoint
};

Trained train(const std::vector<std::string>& assignments) {
  const testing::TemporaryFolder folder;
  testing::spill(folder / "job.toml", kJob);
  std::vector<std::string> arguments{"train", "job.toml", "--json"};
  for (const std::string& assignment : assignments) {
    arguments.emplace_back("--set");
    arguments.push_back(assignment);
  }
  const testing::Finished result = testing::run_program(folder.path(), arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  if (result.exit_code != 0) return {};
  const Json row = testing::rows(result.out).back();
  Trained trained{row.at("weights"), row.at("test_loss"), {}};
  const model::SafetensorsFile file(folder.path() / row.at("checkpoint").get<std::string>() / "model.safetensors");
  for (const model::TensorEntry& entry : file.header().tensors) {
    if (entry.dtype != model::Dtype::kF32) continue;
    std::vector<float>& values = trained.tensors[entry.name];
    values.resize(entry.bytes() / sizeof(float));
    file.read(entry.name, std::as_writable_bytes(std::span(values)));
  }
  return trained;
}

double largest_difference(const Trained& a, const Trained& b) {
  double largest = 0;
  EXPECT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, values] : a.tensors) {
    const std::vector<float>& others = b.tensors.at(name);
    for (std::size_t i = 0; i < values.size(); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(values[i]) - static_cast<double>(others[i])));
  }
  return largest;
}

TEST(Strategies, AllReduceGivesTheBitsOfSharedSync) {
  const Trained shared = train({});
  const Trained replicas = train({"parallel.strategy=all_reduce"});
  ASSERT_FALSE(shared.hash.empty());
  EXPECT_EQ(replicas.hash, shared.hash);
  EXPECT_EQ(replicas.test_loss, shared.test_loss);
}

TEST(Strategies, LocalSgdThatAveragesEveryStepIsSynchronousSgd) {
  // A step of SGD is linear in the gradient, momentum included: the mean of the workers' steps is the step by the mean
  // of their gradients, but for rounding. Clipping is not linear, so there is none here.
  const std::vector<std::string> unclipped{"optimizer.clip_norm=1e9"};
  const Trained shared = train(unclipped);
  const auto local = [&](const char* period) {
    std::vector<std::string> assignments = unclipped;
    assignments.insert(assignments.end(), {"parallel.strategy=local_sgd", std::string("parallel.period=") + period});
    return train(assignments);
  };
  const Trained every_step = local("1");
  ASSERT_FALSE(every_step.tensors.empty());
  EXPECT_LT(largest_difference(every_step, shared), 1e-4);
  EXPECT_NEAR(every_step.test_loss, shared.test_loss, 1e-4);
  // And the comparison can tell: workers that stay apart for three steps end elsewhere.
  EXPECT_GT(largest_difference(local("3"), shared), 1e-3);
}

TEST(Strategies, SynchronizedBatchNormTrainsAsOneLaneWithTheWholeBatch) {
  const std::string no_dropout = "model.dropout=0";  // which belongs to lanes
  const Trained whole = train({no_dropout, "parallel.workers=1", "job.lanes=1"});
  const std::vector<std::string> replicas{no_dropout, "parallel.strategy=all_reduce", "job.lanes=2"};
  std::vector<std::string> synchronized = replicas;
  synchronized.emplace_back("parallel.sync_batch_norm=true");
  const Trained together = train(synchronized);
  ASSERT_FALSE(together.tensors.empty());
  EXPECT_LT(largest_difference(together, whole), 1e-4);
  EXPECT_NEAR(together.test_loss, whole.test_loss, 1e-4);
  EXPECT_GT(largest_difference(train(replicas), whole), 1e-3) << "each worker by itself";
}

TEST(Strategies, SynchronizedBatchNormIsRefusedWhereWorkersCouldNotMeet) {
  const testing::TemporaryFolder folder;
  testing::spill(folder / "job.toml", kJob);
  const auto refusal = [&](const std::vector<std::string>& assignments) {
    std::vector<std::string> arguments{"train", "job.toml", "--set", "parallel.sync_batch_norm=true"};
    for (const std::string& assignment : assignments)
      arguments.insert(arguments.end(), {"--set", assignment});
    const testing::Finished result = testing::run_program(folder.path(), arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "runs")) << "a refused job leaves nothing behind";
    return result.err;
  };
  EXPECT_THAT(refusal({}), HasSubstr("cannot go with shared_sync"));
  const std::string all_reduce = "parallel.strategy=all_reduce";
  EXPECT_THAT(refusal({all_reduce}), HasSubstr("needs one lane a worker"));
  EXPECT_THAT(refusal({all_reduce, "job.lanes=2", "model.name=mlp"}), HasSubstr("no batch norm"));
  EXPECT_THAT(refusal({all_reduce, "job.lanes=2", "data.samples=257"}), HasSubstr("last batch"));
}

}  // namespace
}  // namespace muster
