// The same file from the job's folder, from the current one, and from a resolved job read elsewhere.
#include "muster/trainer/job_paths.h"

#include <gtest/gtest.h>

#include "support/sandbox.h"

#include "muster/base/json.h"

namespace muster::trainer {
namespace {

namespace fs = std::filesystem;

// Stands in a folder while it lives.
class Standing {
 public:
  explicit Standing(const fs::path& folder) : before_(fs::current_path()) { fs::current_path(folder); }
  Standing(const Standing&) = delete;
  Standing& operator=(const Standing&) = delete;
  ~Standing() { fs::current_path(before_); }

 private:
  const fs::path before_;
};

TEST(JobPaths, AreSeenFromTheJobFileAndThoseOfSetFromTheCurrentFolder) {
  const testing::TemporaryFolder folder;
  fs::create_directory(folder / "jobs");
  testing::spill(folder.path() / "jobs/table.toml",
                 "[data]\nsource = \"csv\"\npath = \"table.csv\"\ntest_path = \"../test.csv\"\n"
                 "validation_path = \"/data/v.csv\"\nplacement = \"local\"\npartition = \"file:who\"\n[model]\ninit = "
                 "\"first.safetensors\"\n");
  const Standing here(folder.path());
  const std::string seen_from = fs::current_path().string();
  const Job job = load_job("jobs/table.toml", std::vector<std::string>{"model.init=second.safetensors"}).job;
  EXPECT_EQ(job.data.path, seen_from + "/jobs/table.csv");
  EXPECT_EQ(job.data.test_path, seen_from + "/test.csv");
  EXPECT_EQ(job.data.validation_path, "/data/v.csv");
  EXPECT_EQ(job.model.init, seen_from + "/second.safetensors");
  EXPECT_EQ(job.data.partition, "file:" + seen_from + "/jobs/who");
  EXPECT_EQ(job.runs, "runs") << "where a job writes is the current folder's affair";
}

TEST(JobPaths, OfAResolvedJobAreWholeAndLeadThereFromAnywhere) {
  const testing::TemporaryFolder folder;
  testing::spill(folder / "table.toml", "[data]\nsource = \"csv\"\npath = \"table.csv\"\n");
  const ResolvedJob resolved = load_job(folder / "table.toml");
  fs::create_directories(folder / "runs/table-1");
  testing::spill(folder / "runs/table-1/job.toml", resolved.text);
  EXPECT_EQ(load_job(folder / "runs/table-1/job.toml").job.data.path, (folder / "table.csv").string());
}

TEST(JobPaths, AScriptIsTheSameOneWhereverItsFolderIs) {
  EXPECT_TRUE(same_value("model.script", "net.pt", "/home/me/net.pt"));
  EXPECT_FALSE(same_value("model.script", "net.pt", "/home/me/other.pt"));
  EXPECT_FALSE(same_value("model.name", "a/mlp", "b/mlp"));
  EXPECT_TRUE(same_value("job.seed", 1, 1));
  EXPECT_FALSE(same_value("model.script", "net.pt", Json()));
}

}  // namespace
}  // namespace muster::trainer
