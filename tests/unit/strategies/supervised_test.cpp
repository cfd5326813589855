// shared_sync under a supervisor: workers are processes that die where failpoints say so, the test is the supervisor.
// Every worker compares what it ends with, and what each of its steps gave, with an undisturbed run.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/random.h"
#include "muster/comm/arena_address.h"
#include "muster/comm/roster.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "support/sandbox.h"
#include "unit/strategies/replica_training.h"

namespace muster::strategies {
namespace {

using namespace std::chrono_literals;
using testing::compute_lane;
using testing::slurp;
using testing::Trained;
using testing::Training;

constexpr std::uint64_t kSteps = 8;
constexpr auto kPatience = 30s;

Training undisturbed() {
  Training training;
  training.strategy = SharedSync{};
  training.layout = model::FlatLayout({{"first", {70000}}, {"second", {300, 100}}, {"third", {5}}});
  training.shape = {.samples = 100, .batch = 30, .lanes = 5};
  training.steps = kSteps;
  training.work = compute_lane;
  return training;
}

data::Cursor cursor_at(const data::BatchShape& shape, std::uint64_t step) {
  data::Cursor cursor;
  while (cursor.step < step)
    cursor = data::plan_step(cursor, shape).next;
  return cursor;
}

// How a worker process ends.
enum Exit : int { kGood = 0, kOtherBits = 10, kOtherLosses = 11, kFailed = 12 };

struct Place {
  int seat = 0;
  int seats = 1;
  int attempt = 0;
  std::string arena{};  // where it is; empty for those that start with the job
};

// A worker's life in its process.
class Worker {
 public:
  Worker(const Place& place, const std::filesystem::path& folder, const Trained& expected)
      : place_(place), folder_(folder), expected_(expected) {
    options_ = {training_.layout, testing::one_mean_and_one_count(), optimizer_->slots(), training_.shape.lanes};
    Supervised supervised;
    supervised.store = comm::make_file_store(folder / "store");
    supervised.seat = place.seat;
    supervised.seats = place.seats;
    supervised.founder = place.seat == 0 && place.arena.empty();
    supervised.arena = place.arena;
    supervised.attempt = place.attempt;
    supervised.patience = kPatience;
    options_.supervised = supervised;
    strategy_ = SharedSync{}.make(options_);
    for (const model::TensorSlot& slot : options_.layout.tensors())
      rules_.push_back({0, true, slot.trainable});
  }

  int run() {
    // Only the founder's values may count.
    testing::start(*strategy_, options_, options_.supervised->founder ? 0 : 1);
    bool lost = false;
    for (bool met = false;;) {
      try {
        if (!std::exchange(met, true)) {
          strategy_->membership().meet();
          strategy_->enter_generation();
          began_ = strategy_->committed().cursor.step;
        }
        if (std::exchange(lost, false)) recover();
        note_leader();
        while (strategy_->committed().cursor.step < kSteps)
          step();
        comm::Group group = strategy_->membership().members().group;
        group.barrier();
        return judge();
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kPeerLost) throw;
        lost = true;
      }
    }
  }

 private:
  void append(const char* name, const std::string& line) const {
    const FileDescriptor file(::open((folder_ / name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    (void)!::write(file.get(), line.data(), line.size());
  }
  void note_leader() {
    const Members members = strategy_->membership().members();
    if (members.leads()) append("leaders", fmt::format("{} {}.{}\n", members.generation, place_.seat, place_.attempt));
  }
  void recover() {
    strategy_->membership().rejoin();
    if (const std::optional<StepOutcome> outcome = strategy_->enter_generation()) {
      losses_.push_back(outcome->loss);
      append("committed_after_all", fmt::format("{}\n", place_.seat));
    }
  }
  void step() {
    const CommittedState state = strategy_->committed();
    const data::StepPlan plan = data::plan_step(cursor_at(training_.shape, state.cursor.step), training_.shape);
    strategy_->begin_step(plan);
    while (const auto lane = strategy_->claim()) {
      compute_lane(options_, state, plan, *lane, strategy_->area(*lane));
      strategy_->finish(
          *lane, {.report = {.loss_sum = 0.3 * static_cast<double>(*lane + plan.at.step), .score = 1}, .wishes = {}});
    }
    losses_.push_back(strategy_
                          ->commit({optimizer_.get(), compute::base_lr(training_.optimizer), std::nullopt, rules_},
                                   Deadline::after(kPatience))
                          .loss);
    if (strategy_->membership().members().leads())
      strategy_->membership().write_note(fmt::format("{} steps are done", plan.at.step + 1));
  }
  int judge() const {
    // Each step once, from the one on at which this worker came.
    if (!std::equal(losses_.begin(), losses_.end(), expected_.losses.begin() + static_cast<std::ptrdiff_t>(began_),
                    expected_.losses.end()))
      return kOtherLosses;
    // All but the cursor: one that came at the very end has seen no plan.
    const std::vector<std::byte> bits = testing::bits_of(strategy_->committed());
    const auto end = bits.end() - sizeof(data::Cursor);
    return std::equal(bits.begin(), end, expected_.bits.begin()) && strategy_->membership().note() == "8 steps are done"
               ? kGood
               : kOtherBits;
  }

  const Place place_;
  const std::filesystem::path folder_;
  const Trained& expected_;
  const Training training_ = undisturbed();
  const std::unique_ptr<const compute::Optimizer> optimizer_ = compute::make_optimizer(training_.optimizer);
  StrategyOptions options_;
  std::unique_ptr<Strategy> strategy_;
  std::vector<compute::TensorRule> rules_;
  std::vector<double> losses_;
  std::uint64_t began_ = 0;
};

// Starts workers, sees them die, replaces them, and begins generations.
class SupervisedJob {
 public:
  // With `patience` the others go on when the lost one's place is taken, without it at once.
  SupervisedJob(int seats, std::string rules, const Trained& expected, bool patience = false)
      : seats_(seats), rules_(std::move(rules)), expected_(expected), patience_(patience) {}
  SupervisedJob(const SupervisedJob&) = delete;
  SupervisedJob& operator=(const SupervisedJob&) = delete;
  ~SupervisedJob() {
    if (server_ > 0) workers_[-1] = server_;
    for (const auto& entry : workers_) {
      ::kill(entry.second, SIGKILL);
      ::waitpid(entry.second, nullptr, 0);
    }
  }

  // Until all have ended.
  void run() {
    for (int seat = 0; seat < seats_; ++seat)
      start(seat);
    for (const Deadline deadline = Deadline::after(kPatience); !workers_.empty();) {
      ASSERT_FALSE(deadline.passed()) << "the job does not end; " << rules_;
      bury();
      if (::testing::Test::HasFailure()) return;
      find_arena();
      const std::uint64_t ready = newcomers();
      const bool all_here = (members_ | ready) == (std::uint64_t{1} << seats_) - 1;
      const bool wait_for_all = (generation_ == 0 || patience_) && !finished_;
      if ((!lost_ && (ready == 0 || finished_)) || (wait_for_all && !all_here)) {
        system_clock().sleep_for(200us);  // sleeps: between two turns of what plays the supervisor here
        continue;
      }
      lost_ = false;
      members_ |= finished_ ? 0 : ready;
      if (members_ != 0) arena_->begin_generation(++generation_, members_);
      if (finished_ && !last_began_) last_began_ = generation_;
    }
  }

  int deaths() const { return deaths_; }
  // The generation that began when somebody had finished, or the next there would have been.
  std::uint64_t last_began() const { return last_began_.value_or(generation_ + 1); }
  const comm::Roster& arena() const { return *arena_; }
  std::string file(const char* name) const { return slurp(folder_ / name); }

 private:
  void start(int seat) {
    Place place{seat, seats_, attempts_[seat]++};
    if (arena_) place.arena = address_.text();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      int code = kFailed;
      try {
        arm_failpoints(rules_);
        code = Worker(place, folder_.path(), expected_).run();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "seat %d: %s\n", seat, error.what());
      }
      ::_exit(code);
    }
    workers_[seat] = child;
  }

  void bury() {
    for (int seat = 0; seat < seats_; ++seat) {
      int status = 0;
      if (!workers_.contains(seat)) continue;
      // Who is not a member by then came for nothing.
      if (finished_ && (members_ >> seat & 1) == 0) ::kill(workers_[seat], SIGKILL);
      if (::waitpid(workers_[seat], &status, WNOHANG) != workers_[seat]) continue;
      workers_.erase(seat);
      lost_ |= (members_ >> seat & 1) != 0;
      members_ &= ~(std::uint64_t{1} << seat);
      if (WIFSIGNALED(status)) {
        EXPECT_EQ(WTERMSIG(status), SIGKILL) << "seat " << seat << ", " << rules_;
        if (finished_) continue;
        ++deaths_;
        start(seat);
      } else {
        EXPECT_EQ(WEXITSTATUS(status), kGood) << "seat " << seat << ", " << rules_;
        finished_ = true;
      }
    }
  }

  void find_arena() {
    if (arena_) return;
    try {
      address_ = comm::ArenaAddress::parse(store_->get("arena", Deadline::after(0ns)));
    } catch (const Error&) {
      return;
    }
    auto region =
        std::make_shared<const comm::SharedRegion>(comm::fetch_region(address_.server, Deadline::after(kPatience)));
    arena_.emplace(comm::Roster::attach(region, address_.nonce, comm::kAnyRank));
    serve(*region);
  }

  // In a process of its own, which outlives the workers: this one forks, and must not have threads.
  void serve(const comm::SharedRegion& region) {
    server_ = ::fork();
    ASSERT_GE(server_, 0);
    if (server_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const comm::RegionServer server(region);
      store_->set("supervisor", server.address());
      for (;;)
        ::pause();
    }
    address_.server = store_->get("supervisor", Deadline::after(kPatience));
  }

  std::uint64_t newcomers() {
    std::uint64_t ready = 0;
    for (const auto& entry : workers_) {
      const auto occupant = arena_ ? arena_->board().occupant(entry.first) : std::nullopt;
      if (occupant && occupant->pid == entry.second) ready |= std::uint64_t{1} << entry.first;
    }
    return ready & ~members_;
  }

  const int seats_;
  const std::string rules_;
  const Trained& expected_;
  const bool patience_;
  const testing::TemporaryFolder folder_;
  const std::shared_ptr<comm::Store> store_ = comm::make_file_store(folder_ / "store");
  std::map<int, pid_t> workers_;
  std::map<int, int> attempts_;
  std::optional<comm::Roster> arena_;
  comm::ArenaAddress address_;
  pid_t server_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t members_ = 0;
  std::optional<std::uint64_t> last_began_;
  int deaths_ = 0;
  bool lost_ = false;  // a member, and no generation has begun since
  bool finished_ = false;
};

class SupervisedSync : public ::testing::Test {
 protected:
  const Trained expected_ = testing::train(undisturbed()).front();
};

TEST_F(SupervisedSync, WithoutLossesItGivesTheBitsOfOneWorker) {
  for (const int seats : {1, 2, 4}) {
    SupervisedJob job(seats, "", expected_);
    job.run();
    EXPECT_EQ(job.arena().committed().step, kSteps);
    EXPECT_EQ(job.file("leaders").substr(0, 6), "1 0.0\n");
  }
}

TEST_F(SupervisedSync, ADeathAnywhereInAStepChangesNeitherBitsNorOutcomes) {
  for (const char* point : {"arena.claim.after", "arena.start.after", "arena.finish.before", "arena.finish.after",
                            "arena.arrive.before", "arena.arrive.after", "arena.commit.before_arrival",
                            "arena.commit.after_arrival", "arena.commit.before_flip", "arena.commit.after_flip"}) {
    // The founder's place is taken when the others have gone on, the other one's before.
    for (const int victim : {0, 1}) {
      SupervisedJob job(3, fmt::format("{}=kill@rank={},step=5,attempt=0", point, victim), expected_, victim == 1);
      job.run();
      EXPECT_EQ(job.deaths(), 1) << point;
      EXPECT_EQ(job.arena().committed().step, kSteps);
      if (HasFailure()) return;
    }
  }
}

TEST_F(SupervisedSync, AStepThatWasCommittedAfterAllIsAccountedForOnce) {
  // The first has arrived and sleeps while another one flips the version and dies, and the next generation begins.
  SupervisedJob job(2,
                    "arena.commit.after_arrival=delay=2000@rank=0,step=5,attempt=0;"
                    "arena.commit.after_flip=kill@rank=1,step=5,attempt=0",
                    expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 1);
  EXPECT_EQ(job.file("committed_after_all"), "0\n");
}

TEST_F(SupervisedSync, ADeathWhileTheOthersComeTogetherIsOneMore) {
  SupervisedJob job(3,
                    "arena.start.after=kill@rank=2,step=5,attempt=0;"
                    "roster.enter.before_arrival=kill@rank=1,step=5,attempt=0",
                    expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 2);
}

TEST_F(SupervisedSync, TheStateOutlivesEverybody) {
  SupervisedJob job(2, "arena.arrive.after=kill@step=4,attempt=0", expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 2);
  EXPECT_EQ(job.arena().committed().step, kSteps);
}

TEST_F(SupervisedSync, TheOneThatIsThereLongestLeads) {
  SupervisedJob job(3,
                    "arena.arrive.before=kill@rank=0,step=4,attempt=0;arena.arrive.before=kill@rank=2,step=6,attempt=0",
                    expected_, true);
  job.run();
  ASSERT_EQ(job.deaths(), 2);
  // The process on seat 0 that comes later has the lowest rank, and still follows.
  std::map<std::uint64_t, std::string> leaders;
  std::istringstream lines(job.file("leaders"));
  std::string who;
  for (std::uint64_t generation = 0; lines >> generation >> who;)
    leaders.emplace(generation, who);
  ASSERT_GT(leaders.size(), 2U);
  EXPECT_EQ(leaders.at(1), "0.0");
  leaders.erase(1);
  // Once it has ended others may follow, to see that all is done.
  std::erase_if(leaders, [&](const auto& leader) { return leader.first >= job.last_began(); });
  for (const auto& leader : leaders)
    EXPECT_EQ(leader.second, "1.0") << "in generation " << leader.first;
}

TEST_F(SupervisedSync, NobodyWaitsForEverToBeLetIn) {
  const testing::TemporaryFolder folder;
  const Training training = undisturbed();
  StrategyOptions options{training.layout, testing::one_mean_and_one_count(), 1, training.shape.lanes};
  Supervised supervised;
  supervised.store = comm::make_file_store(folder / "store");
  supervised.founder = true;
  supervised.patience = 10ms;
  options.supervised = supervised;
  const auto strategy = SharedSync{}.make(options);
  testing::start(*strategy, options, 0);
  try {
    strategy->membership().meet();
    FAIL() << "a member of nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout) << error.what();
  }
}

TEST_F(SupervisedSync, AWorkerOfAnotherModelIsRefused) {
  const testing::TemporaryFolder folder;
  const Training training = undisturbed();
  StrategyOptions options{training.layout, testing::one_mean_and_one_count(), 1, training.shape.lanes};
  Supervised supervised;
  supervised.store = comm::make_file_store(folder / "store");
  supervised.seats = 2;
  supervised.founder = true;
  supervised.patience = 10ms;
  options.supervised = supervised;
  const auto founder = SharedSync{}.make(options);
  EXPECT_THROW(founder->membership().meet(), Error);  // nobody lets it in, but it offers its arena
  options.supervised->founder = false;
  options.supervised->seat = 1;
  options.supervised->patience = kPatience;
  EXPECT_NO_THROW(SharedSync{}.make(options));
  options.lanes += 1;
  try {
    SharedSync{}.make(options);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch) << error.what();
  }
}

}  // namespace
}  // namespace muster::strategies
