// A program as a job: agents get what `muster run` was told, word for word, and nothing that makes no sense.
#include "muster/cli/program_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;

ProgramJob some_program() {
  ProgramJob program;
  program.program = "/opt/my program";
  program.arguments = {"--epochs", "3", "", "two words"};
  program.workers = {2, 5};
  program.threads = 3;
  program.liveness_seconds = 2.5;
  program.hang_seconds = 20;
  program.start_seconds = 30;
  program.interface = "eth1";
  program.named = "third try";
  return program;
}

TEST(ProgramJob, ArrivesAsItWasSent) {
  const ProgramJob arrived = ProgramJob::from_text(some_program().to_text());
  EXPECT_EQ(arrived.program, "/opt/my program");
  EXPECT_THAT(arrived.arguments, ElementsAre("--epochs", "3", "", "two words"));
  EXPECT_EQ(arrived.workers.least, 2);
  EXPECT_EQ(arrived.workers.most, 5);
  EXPECT_EQ(arrived.threads, 3);
  EXPECT_EQ(arrived.liveness_seconds, 2.5);
  EXPECT_EQ(arrived.hang_seconds, 20);
  EXPECT_EQ(arrived.start_seconds, 30);
  EXPECT_EQ(arrived.interface, "eth1");
  EXPECT_EQ(arrived.named, "third try");
}

TEST(ProgramJob, BecomesAJobWhoseWorkersAreTheProgram) {
  const coordinator::CoordinatedJob job = coordinated_job(some_program());
  EXPECT_EQ(job.name, "third_try") << "it names a folder";
  ProgramJob nameless = some_program();
  nameless.named.clear();
  EXPECT_EQ(coordinated_job(nameless).name, "my_program");
  EXPECT_EQ(job.least_workers, 2);
  EXPECT_EQ(job.most_workers, 5);
  EXPECT_EQ(job.command.program, "/opt/my program");
  EXPECT_EQ(job.command.arguments, some_program().arguments);
  EXPECT_EQ(job.command.environment.at("MUSTER_THREADS"), "3");
  EXPECT_FALSE(job.training->ours());
}

TEST(ProgramJob, RefusesWhatIsNone) {
  expect_error(ErrorKind::kDamaged, "JSON", [] { ProgramJob::from_text("no JSON"); });
  expect_error(ErrorKind::kDamaged, "program", [] { ProgramJob::from_text("{}"); });
  ProgramJob none = some_program();
  none.workers = {0, 1};
  expect_error(ErrorKind::kDamaged, "no workers", [&] { ProgramJob::from_text(none.to_text()); });
  ProgramJob no_text = some_program();
  no_text.arguments = {"\xff"};
  expect_error(ErrorKind::kInvalidInput, "UTF-8", [&] { no_text.to_text(); });
  ProgramJob missing = some_program();
  missing.program = "/no/such/program";
  expect_error(ErrorKind::kNotFound, "/no/such/program", [&] { require_program(missing); });
  missing.program = "sh";
  require_program(missing);
}

}  // namespace
}  // namespace muster::cli
