// The lane promise on real pictures: a job ends with the same bits for any number of workers, static or dynamic claims,
// and again. With what makes that hard: BatchNorm, dropout, momentum, clipping, a short last batch, validation.
#include <zlib.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"
#include "support/scripts.h"

namespace muster {
namespace {

constexpr const char* kJob = R"([job]
name = "promise"
steps = {steps}
lanes = 4
[data]
source = "idx"
path = "pictures"
batch = 120
{data}
[model]
{model}
[optimizer]
lr = 0.05
momentum = 0.9
clip_norm = 1.0
)";

// The first `count` items of a gzipped IDX file, as a smaller IDX file. `head` is the length of its header, `item` the
// bytes of an item; the number of items stands behind the magic number, most significant byte first.
void cut(const std::string& from, const std::filesystem::path& to, std::uint32_t count, std::size_t head,
         std::size_t item) {
  std::string bytes(head + count * item, '\0');
  const gzFile file = ::gzopen(from.c_str(), "rb");
  ASSERT_NE(file, nullptr) << from;
  ASSERT_EQ(::gzread(file, bytes.data(), static_cast<unsigned>(bytes.size())), static_cast<int>(bytes.size()));
  ::gzclose(file);
  for (int i = 0; i < 4; ++i)
    bytes[static_cast<std::size_t>(4 + i)] = static_cast<char>((count >> (24 - 8 * i)) & 0xffU);
  testing::spill(to, bytes);
}

// 650 real pictures to train with, so that the last batch of an epoch has 50, and 130 to test with.
void make_pictures(const std::filesystem::path& folder) {
  std::filesystem::create_directory(folder);
  const std::string source = "/usr/share/datasets/fashion-mnist/";
  for (const auto& [name, count] : {std::pair("train", 650U), std::pair("t10k", 130U)}) {
    const std::string images = std::string(name) + "-images-idx3-ubyte";
    const std::string labels = std::string(name) + "-labels-idx1-ubyte";
    cut(source + images + ".gz", folder / images, count, 16, 784);
    cut(source + labels + ".gz", folder / labels, count, 8, 1);
  }
}

Json train(const testing::TemporaryFolder& folder, int workers, const char* claims) {
  const testing::Finished result = testing::run_program(
      folder.path(), {"train", "job.toml", "--json", "--set", fmt::format("parallel.workers={}", workers), "--set",
                      fmt::format("parallel.claims={}", claims)});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.exit_code == 0 ? testing::rows(result.out).back() : Json::object();
}

void expect_promise(const std::string& model, int steps, const std::vector<std::pair<int, const char*>>& ways,
                    const std::string& data = {}) {
  const testing::TemporaryFolder folder;
  testing::spill(folder / "job.toml", fmt::format(fmt::runtime(kJob), fmt::arg("steps", steps),
                                                  fmt::arg("model", model), fmt::arg("data", data)));
  make_pictures(folder / "pictures");
  testing::save_script_classifier(folder / "model.ts", 784, 10, 0.3);
  const Json alone = train(folder, 1, "static");
  for (const auto& [workers, claims] : ways) {
    const Json together = train(folder, workers, claims);
    EXPECT_EQ(together.at("weights"), alone.at("weights")) << model << ", " << workers << " workers, " << claims;
    EXPECT_EQ(together.at("best_loss"), alone.at("best_loss")) << model << ", " << workers << " workers, " << claims;
    EXPECT_EQ(together.at("test_loss"), alone.at("test_loss")) << model << ", " << workers << " workers, " << claims;
  }
}

TEST(LanePromise, HoldsWithBatchNorm) {
  expect_promise("name = \"resnet20\"", 9,
                 {{2, "static"}, {2, "dynamic"}, {3, "static"}, {3, "dynamic"}, {4, "dynamic"}, {4, "dynamic"}});
}

TEST(LanePromise, HoldsWithDropout) {
  expect_promise("name = \"cnn\"\ndropout = 0.3", 12, {{2, "dynamic"}, {3, "dynamic"}, {4, "static"}});
}

TEST(LanePromise, HoldsForATorchScriptModelWithBatchNormAndDropout) {
  // One worker again is the re-run.
  expect_promise(
      "script = \"model.ts\"", 12,
      {{1, "static"}, {2, "static"}, {2, "dynamic"}, {3, "static"}, {3, "dynamic"}, {4, "static"}, {4, "dynamic"}});
}

TEST(LanePromise, HoldsWithAugmentationMixupAndDataThatIsLocalToLanes) {
  expect_promise("name = \"cnn\"", 8, {{2, "static"}, {3, "dynamic"}},
                 "augment = [\"flip\", \"crop:3\", \"rotate:10\", \"jitter:0.3\", \"cutout:6\", \"mixup:0.4\"]\n"
                 "placement = \"local\"\npartition = \"stratified\"");
}

}  // namespace
}  // namespace muster
