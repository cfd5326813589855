// The page and the table word by word; of what nobody knows they claim nothing.
#include "muster/cli/status_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

control::JobStatus example() {
  control::JobStatus status;
  status.job = "fashion";
  status.run = "runs/fashion-20261115-193427";
  status.state = "running";
  status.generation = 3;
  status.step = 50;
  status.total_steps = 200;
  status.epoch = 1;
  status.samples_per_second = 5123.4;
  status.min_workers = 1;
  status.max_workers = 4;
  status.target_workers = 2;
  status.members = {{.rank = 0, .process = {101, 1}, .state = control::WorkerState::kRunning, .lane = 3, .step = 50},
                    {.rank = 1,
                     .process = {2002, 1},
                     .restarts = 2,
                     .state = control::WorkerState::kStarting,
                     .waits_for = "lane 3 of rank 0",
                     .seconds = 2.5}};
  status.coordinator_pid = 99;
  status.started = "Slurm: node 0 of 2";
  status.live = true;
  return status;
}

TEST(StatusView, PageShowsEverything) {
  EXPECT_EQ(job_page(example()),
            "fashion  runs/fashion-20261115-193427\n"
            "  state        running\n"
            "  step         50 of 200 (25 %)\n"
            "  epoch        1\n"
            "  rate         5123 samples/s\n"
            "  workers      1 of 2 (may be 1 to 4)\n"
            "  generation   3\n"
            "  coordinator  pid 99\n"
            "  started      Slurm: node 0 of 2\n"
            "\n"
            "  RANK  PID   STATE     RESTARTS  STEP  LANE  WAITS FOR\n"
            "  0     101   running   0         50    3     -\n"
            "  1     2002  starting  2         -     -     lane 3 of rank 0 for 2.5 s\n");
}

TEST(StatusView, PageHasALineForEachHostOfSeveral) {
  control::JobStatus status = example();
  EXPECT_THAT(job_page(status), Not(HasSubstr("HOST")));
  status.hosts = {{.number = 0, .name = "a", .workers = 2, .first_lane = 0, .last_lane = 5, .step = 50},
                  {.number = 3, .name = "node-b", .workers = 0, .step = 49, .silent_seconds = 1.5}};
  status.hosts[0].place = "leads";
  status.hosts[0].checkpoint = 40;
  status.job_generation = 7;
  const std::string page = job_page(status);
  EXPECT_THAT(page, HasSubstr("  workers      2 on 2 hosts, 2 wanted on each\n"));
  EXPECT_THAT(page, HasSubstr("  generation   7\n")) << "that of all hosts";
  EXPECT_THAT(page, HasSubstr("  HOST    NUMBER  WORKERS  LANES   STEP  HEARD OF   RUN FOLDER  CHECKPOINT\n"
                              "  a       0       2        0 to 4  50    0 ms ago   leads       40\n"
                              "  node-b  3       0        -       49    1.5 s ago  -           -\n"));
}

TEST(StatusView, PageTellsOfServersWhereThereAreAny) {
  control::JobStatus status = example();
  EXPECT_THAT(job_page(status), Not(HasSubstr("servers")));
  status.min_servers = 1;
  status.max_servers = 8;
  status.target_servers = 2;
  status.servers = 2;
  status.leaving_servers = 1;
  EXPECT_THAT(job_page(status), HasSubstr("  servers      2 of 2, 1 leaving\n"));
  status.live = false;
  EXPECT_THAT(job_page(status), HasSubstr("  servers      - of 2\n")) << "a record does not know";
}

TEST(StatusView, PageOfARecordClaimsNothingItCannotKnow) {
  control::JobStatus status = example();
  status.live = false;
  status.reason = "the disk is full";
  status.alarms = {"the coordinator (pid 99) is gone"};
  status.coordinator_pid = 0;
  const std::string page = job_page(status);
  EXPECT_THAT(page, HasSubstr("running: the disk is full"));
  EXPECT_THAT(page, HasSubstr("coordinator  none"));
  EXPECT_THAT(page, HasSubstr("! the coordinator (pid 99) is gone"));
  EXPECT_THAT(page, Not(HasSubstr("samples/s")));
}

TEST(StatusView, TableHasALineForEachJob) {
  control::JobStatus other = example();
  other.job = "m";
  other.run = "runs/m-1";
  other.total_steps = 0;
  other.min_workers = other.max_workers = 2;
  other.alarms = {"no disk"};
  EXPECT_EQ(jobs_table({example(), other}),
            "JOB      RUN                      STATE    STEP              EPOCH  SAMPLES/S  WORKERS\n"
            "fashion  fashion-20261115-193427  running  50 of 200 (25 %)  1      5123       1 of 2 (may be 1 to 4)\n"
            "m        m-1                      running  50                1      5123       1 of 2\n"
            "! m-1: no disk\n");
}

}  // namespace
}  // namespace muster::cli
