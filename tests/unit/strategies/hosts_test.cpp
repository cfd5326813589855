// shared_sync over several hosts: each an arena, a store and worker processes of its own, with Gloo between them over
// loopback. The test is all agents and the coordinator. However lanes and workers are divided, and whoever dies where,
// every worker must end with the bits of one worker on one host, and every step must have given what it gave there.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/eventually.h"
#include "muster/base/failpoint.h"
#include "muster/comm/arena.h"
#include "muster/comm/arena_address.h"
#include "muster/control/job_generation.h"
#include "muster/strategies/shared_sync/chunk_grid.h"
#include "muster/strategies/shared_sync/host_state.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "support/sandbox.h"
#include "unit/strategies/replica_training.h"

namespace muster::strategies {
namespace {

using namespace std::chrono_literals;
using testing::slurp;
using testing::Trained;
using testing::Training;

constexpr std::uint64_t kHostSteps = 8;
constexpr auto kHostPatience = 60s;

// Every lane has other tensors without a gradient, in some steps all lanes one and the same.
void compute_with_gaps(const StrategyOptions& options, const CommittedState& state, const data::StepPlan& plan,
                       std::size_t lane, const compute::LaneArea& area) {
  testing::compute_lane(options, state, plan, lane, area);
  if ((lane + plan.at.step) % 3 == 0) area.present[1] = 0;
  if (plan.at.step % 2 == 0) area.present[2] = 0;
  if (lane != 1) area.present[3] = 0;
}

// Several chunks, a tensor that never trains, a last batch of an epoch that is short: 5, 5, 5 and 2 lanes.
Training on_one_host() {
  Training training;
  training.strategy = SharedSync{};
  training.layout = model::FlatLayout({{"first", {70000}},
                                       {"second", {300, 100}},
                                       {"third", {5}},
                                       {"frozen", {1000}, false},
                                       {"fourth", {40000}},
                                       {"fifth", {70000}}});
  training.shape = {.samples = 100, .batch = 30, .lanes = 5};
  training.steps = kHostSteps;
  training.work = testing::compute_lane;
  return training;
}

data::Cursor host_cursor(const data::BatchShape& shape, std::uint64_t step) {
  return data::cursor_at_step(step, shape);
}

constexpr const char* kSumsSent = "hosts.sums.sent";

// How a worker process ends.
enum HostExit : int { kGoodBits = 0, kOtherHostBits = 10, kOtherHostLosses = 11, kHostFailed = 12 };

struct WorkerPlace {
  std::uint64_t host = 1;
  int seat = 0;
  int seats = 1;
  int attempt = 0;
  std::string arena{};
  std::filesystem::path store;    // of the host
  std::filesystem::path cluster;  // of all
  std::filesystem::path notes;
  std::string backend;
  std::optional<std::uint64_t> breaks_at{};
  bool waits_for_sums = false;  // in backward: some leave for other hosts when the first gradient is there
  bool holds = false;           // goes no further than half-way before those who come late are there
  std::chrono::seconds step_timeout = kHostPatience;
};

// A worker's life in its process.
class HostWorker {
 public:
  HostWorker(const WorkerPlace& place, const Training& training, const Trained& expected)
      : place_(place), training_(training), expected_(expected) {
    options_ = {training_.layout, testing::one_mean_and_one_count(), optimizer_->slots(), training_.shape.lanes};
    Supervised supervised;
    supervised.store = comm::make_file_store(place.store);
    supervised.seat = place.seat;
    supervised.seats = place.seats;
    supervised.founder = place.seat == 0 && place.arena.empty();
    supervised.arena = place.arena;
    supervised.attempt = place.attempt;
    supervised.patience = kHostPatience;
    supervised.host = HostPlace{comm::make_file_store(place.cluster), place.host, "lo", place.backend};
    options_.supervised = supervised;
    options_.claims = training.claims;
    options_.step_timeout = place.step_timeout;
    strategy_ = training.strategy.make(options_);
    for (const model::TensorSlot& slot : options_.layout.tensors())
      rules_.push_back({compute::weight_decay(training_.optimizer), true, slot.trainable});
  }

  int run() {
    // Only the first values of the first host's founder may count.
    testing::start(*strategy_, options_, options_.supervised->founds_job() ? 0 : 1);
    for (bool met = false;;) {
      try {
        if (!std::exchange(met, true))
          strategy_->membership().meet();
        else
          strategy_->membership().rejoin();
        enter();
        while (strategy_->committed().cursor.step < kHostSteps)
          step();
        comm::Group group = strategy_->membership().members().group;
        group.barrier();
        return judge();
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kPeerLost) throw;
      }
    }
  }

 private:
  void append(const char* name, const std::string& line) const {
    const FileDescriptor file(::open((place_.notes / name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    (void)!::write(file.get(), line.data(), line.size());
  }
  void enter() {
    const std::optional<StepOutcome> outcome = strategy_->enter_generation();
    if (!began_) {
      began_ = strategy_->committed().cursor.step;
    } else if (outcome) {
      losses_.push_back(outcome->loss);
      append("committed_after_all", fmt::format("{}\n", place_.host));
    }
    const Members members = strategy_->membership().members();
    if (members.leads())
      append("leaders", fmt::format("{} {}.{}.{}\n", members.generation, place_.host, place_.seat, place_.attempt));
  }
  void step() {
    const CommittedState state = strategy_->committed();
    const data::StepPlan plan = data::plan_step(host_cursor(training_.shape, state.cursor.step), training_.shape);
    // However slow the machine is.
    if (place_.holds && plan.at.step >= kHostSteps / 2)
      wait_until([&] { return std::filesystem::exists(place_.notes / "all_joined"); });
    strategy_->begin_step(plan);
    if (place_.breaks_at == plan.at.step && !std::exchange(broke_, true)) {
      comm::Group group = strategy_->membership().members().group;
      group.abort(group.rank(), "somebody pulled the cable");
    }
    while (const auto lane = strategy_->claim()) {
      append("lanes", fmt::format("{} {} {}\n", plan.at.step, *lane, place_.host));
      const bool early = strategy_->uses_ready_gradients(*lane);
      training_.work(options_, state, plan, *lane, strategy_->area(*lane));
      if (early) {
        append("early", fmt::format("{} {}\n", plan.at.step, place_.host));
        // As backward gives them.
        const std::uint64_t sent = failpoint_hits(kSumsSent);
        for (std::size_t tensor = 0; tensor < options_.layout.tensors().size(); ++tensor) {
          if (strategy_->area(*lane).present[tensor] != 0) strategy_->gradient_ready(*lane, tensor);
          if (tensor > 0 || !place_.waits_for_sums) continue;
          wait_until([&] { return failpoint_hits(kSumsSent) > sent; });
          append("left_early", fmt::format("{}\n", place_.host));
        }
      }
      strategy_->finish(
          *lane, {.report = {.loss_sum = 0.3 * static_cast<double>(*lane + plan.at.step), .score = 1}, .wishes = {}});
    }
    losses_.push_back(
        strategy_
            ->commit({optimizer_.get(), compute::base_lr(training_.optimizer), training_.clip_norm, rules_},
                     Deadline::after(place_.step_timeout))
            .loss);
  }
  template <typename Condition>
  void wait_until(const Condition& condition) {
    const auto look = [&] {
      strategy_->membership().throw_if_interrupted();
      return condition();
    };
    if (!eventually(look, Deadline::after(kHostPatience))) throw Error(ErrorKind::kTimeout, "it does not come");
  }
  int judge() const {
    if (!std::equal(losses_.begin(), losses_.end(), expected_.losses.begin() + static_cast<std::ptrdiff_t>(*began_),
                    expected_.losses.end()))
      return kOtherHostLosses;
    const std::vector<std::byte> bits = testing::bits_of(strategy_->committed());
    return std::equal(bits.begin(), bits.end() - sizeof(data::Cursor), expected_.bits.begin()) ? kGoodBits
                                                                                               : kOtherHostBits;
  }

  const WorkerPlace place_;
  const Training& training_;
  const Trained& expected_;
  const std::unique_ptr<const compute::Optimizer> optimizer_ = compute::make_optimizer(training_.optimizer);
  StrategyOptions options_;
  std::unique_ptr<Strategy> strategy_;
  std::vector<compute::TensorRule> rules_;
  std::vector<double> losses_;
  std::optional<std::uint64_t> began_;
  bool broke_ = false;
};

struct HostPlan {
  int workers = 1;
  std::size_t lanes = 1;       // its weight when lanes are divided
  std::string rules{};         // failpoints of its workers
  bool dies_whole = false;     // with one worker of it all are lost, and its arena; if it stops they are out of reach
  std::uint64_t joins_at = 0;  // the committed step of the first host
  std::optional<std::uint64_t> breaks_at{};  // the step in which its connections end
  bool waits_for_sums = false;               // as of a WorkerPlace
  std::chrono::seconds step_timeout = kHostPatience;
};

// The agents of all hosts and the coordinator.
class HostsJob {
 public:
  HostsJob(std::vector<HostPlan> hosts, const Training& training, const Trained& expected, std::string backend = "gloo")
      : training_(training), expected_(expected), backend_(std::move(backend)) {
    for (const HostPlan& plan : hosts) {
      Host& host = hosts_.emplace_back();
      host.plan = plan;
      host.number = hosts_.size();
      host.store_folder = folder_ / fmt::format("store-{}", host.number);
    }
  }
  HostsJob(const HostsJob&) = delete;
  HostsJob& operator=(const HostsJob&) = delete;
  ~HostsJob() {
    for (Host& host : hosts_) {
      host.workers.merge(host.out_of_reach);
      end(host);
    }
  }

  // Until all have ended.
  void run() {
    for (const Deadline deadline = Deadline::after(kHostPatience);;) {
      ASSERT_FALSE(deadline.passed()) << "the job does not end";
      for (Host& host : hosts_) {
        if (!host.started && !host.lost && !finished_ && step() >= host.plan.joins_at) start(host);
        bury(host);
        find_arena(host);
      }
      if (::testing::Test::HasFailure()) return;
      if (std::all_of(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.workers.empty(); })) return;
      if (!begin_generation_if_due()) system_clock().sleep_for(200us);  // sleeps: between two turns of the coordinator
    }
  }

  int deaths() const { return deaths_; }
  std::uint64_t generations() const { return generation_; }
  std::string file(const char* name) const { return slurp(folder_ / name); }

 private:
  struct Host {
    HostPlan plan;
    std::uint64_t number = 0;
    std::filesystem::path store_folder;
    std::shared_ptr<comm::Store> store{};
    std::map<int, pid_t> workers{};
    std::map<int, pid_t> out_of_reach{};
    std::map<int, int> attempts{};
    std::optional<comm::Arena> arena{};
    comm::ArenaAddress address{};
    pid_t server = 0;
    std::uint64_t generation = 0;
    std::uint64_t members = 0;
    bool started = false;
    bool lost = false;
  };

  std::uint64_t step() const { return hosts_.front().arena ? hosts_.front().arena->committed().step : 0; }

  void start(Host& host) {
    host.started = true;
    host.store = comm::make_file_store(host.store_folder);
    for (int seat = 0; seat < host.plan.workers; ++seat)
      start(host, seat);
  }

  void start(Host& host, int seat) {
    WorkerPlace place{
        host.number,         seat,           host.plan.workers, host.attempts[seat]++, {}, host.store_folder,
        folder_ / "cluster", folder_.path(), backend_};
    place.breaks_at = host.plan.breaks_at;
    place.waits_for_sums = host.plan.waits_for_sums;
    place.holds = host.plan.joins_at == 0 &&
                  std::ranges::any_of(hosts_, [](const Host& other) { return other.plan.joins_at > 0; });
    place.step_timeout = host.plan.step_timeout;
    if (host.arena) place.arena = host.address.text();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      int code = kHostFailed;
      try {
        arm_failpoints(host.plan.rules);
        code = HostWorker(place, training_, expected_).run();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "host %d, seat %d: %s\n", static_cast<int>(host.number), seat, error.what());
      }
      ::_exit(code);
    }
    host.workers[seat] = child;
  }

  static void end(Host& host) {
    if (host.server > 0) host.workers[-1] = host.server;
    host.server = 0;
    for (const auto& entry : host.workers) {
      ::kill(entry.second, SIGKILL);
      ::waitpid(entry.second, nullptr, 0);
    }
    host.workers.clear();
  }

  void bury(Host& host) {
    for (int seat = 0; seat < host.plan.workers; ++seat) {
      int status = 0;
      if (!host.workers.contains(seat)) continue;
      if (finished_ && (host.members >> seat & 1) == 0) ::kill(host.workers[seat], SIGKILL);
      if (::waitpid(host.workers[seat], &status, WNOHANG | WUNTRACED) != host.workers[seat]) continue;
      if (WIFSTOPPED(status)) {
        // Nobody closes its connections: those who wait for it hear nothing.
        for (const auto& entry : host.workers)
          ::kill(entry.second, SIGSTOP);
        host.out_of_reach = std::exchange(host.workers, {});
        ++deaths_;
        host.lost = changed_ = true;
        host.members = 0;
        return;
      }
      host.workers.erase(seat);
      changed_ |= (host.members >> seat & 1) != 0;
      host.members &= ~(std::uint64_t{1} << seat);
      if (!WIFSIGNALED(status)) {
        EXPECT_EQ(WEXITSTATUS(status), kGoodBits) << "host " << host.number << ", seat " << seat;
        finished_ = true;
        continue;
      }
      EXPECT_EQ(WTERMSIG(status), SIGKILL) << "host " << host.number << ", seat " << seat;
      if (finished_) continue;
      ++deaths_;
      if (!host.plan.dies_whole) {
        start(host, seat);
        continue;
      }
      host.lost = true;
      changed_ = true;
      end(host);
      host.members = 0;
      host.arena.reset();
      return;
    }
  }

  void find_arena(Host& host) {
    if (host.arena || !host.started || host.lost) return;
    try {
      host.address = comm::ArenaAddress::parse(host.store->get("arena", Deadline::after(0ns)));
    } catch (const Error&) {
      return;
    }
    auto region = std::make_shared<const comm::SharedRegion>(
        comm::fetch_region(host.address.server, Deadline::after(kHostPatience)));
    host.arena.emplace(comm::Arena::attach(region, host.address.nonce, comm::kAnyRank));
    // In a process of its own, which outlives the workers: this one forks, and must not have threads.
    host.server = ::fork();
    ASSERT_GE(host.server, 0);
    if (host.server == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const comm::RegionServer server(*region);
      host.store->set("supervisor", server.address());
      for (;;)
        ::pause();
    }
    host.address.server = host.store->get("supervisor", Deadline::after(kHostPatience));
  }

  std::uint64_t newcomers(const Host& host) const {
    std::uint64_t ready = 0;
    for (const auto& entry : host.workers) {
      const auto occupant = host.arena ? host.arena->board().occupant(entry.first) : std::nullopt;
      if (occupant && occupant->pid == entry.second) ready |= std::uint64_t{1} << entry.first;
    }
    return ready & ~host.members;
  }

  // Whether somebody has lost the others although nothing has changed here.
  bool broken() const {
    try {
      comm::make_file_store(folder_ / "cluster")->get(control::broken_key(generation_), Deadline::after(0ns));
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  bool begin_generation_if_due() {
    bool due = changed_ || broken();
    for (const Host& host : hosts_) {
      const std::uint64_t ready = newcomers(host);
      const bool all_here = (host.members | ready) == (std::uint64_t{1} << host.plan.workers) - 1;
      // The first generation waits for those who are there from the start, a host that joins for all its workers.
      if (generation_ == 0 && host.plan.joins_at == 0 && !all_here) return false;
      due |= ready != 0 && (host.members != 0 || all_here) && !finished_;
    }
    if (!due) return false;
    control::JobGeneration job;
    job.number = ++generation_;
    job.lanes = training_.shape.lanes;
    std::size_t weights = 0;
    for (Host& host : hosts_) {
      const std::uint64_t ready = newcomers(host);
      const bool all_here = (host.members | ready) == (std::uint64_t{1} << host.plan.workers) - 1;
      if (!finished_ && (host.members != 0 || all_here)) host.members |= ready;
      if (host.members != 0) weights += host.plan.lanes;
    }
    std::size_t weight = 0;
    for (const Host& host : hosts_) {
      if (host.members == 0) continue;
      const std::size_t first = weight * job.lanes / weights;
      weight += host.plan.lanes;
      job.hosts.push_back({host.number, "h", host.members, first, weight * job.lanes / weights});
    }
    changed_ = false;
    if (job.hosts.empty()) return true;
    if (std::ranges::all_of(hosts_, [](const Host& host) { return host.members != 0 || host.lost; }))
      std::ofstream(folder_ / "all_joined") << "\n";
    for (Host& host : hosts_) {
      if (host.members == 0) continue;
      host.store->set(control::hosts_key(++host.generation), job.to_text());
      host.arena->begin_generation(host.generation, host.members);
    }
    return true;
  }

  const Training& training_;
  const Trained& expected_;
  const std::string backend_;
  const testing::TemporaryFolder folder_;
  std::deque<Host> hosts_;
  std::uint64_t generation_ = 0;
  bool changed_ = false;
  bool finished_ = false;
  int deaths_ = 0;
};

class SharedSyncHosts : public ::testing::Test {
 protected:
  void expect_bits_of_one(const Training& training, const std::vector<HostPlan>& hosts,
                          const std::string& backend = "gloo") {
    const Trained expected = testing::train(training).front();
    HostsJob job(hosts, training, expected, backend);
    job.run();
    EXPECT_EQ(job.generations() > 0, true);
  }

  const Training training_ = on_one_host();
  const Trained expected_ = testing::train(training_).front();
};

// Sums that leave before their lane is done.
class EarlyExchange : public SharedSyncHosts, public ::testing::WithParamInterface<std::vector<HostPlan>> {
 protected:
  EarlyExchange() { early_.strategy = SharedSync{.exchange_early = true}; }

  Training early_ = on_one_host();
};

TEST_P(EarlyExchange, GivesTheBitsOfOneWorker) {
  HostsJob job(GetParam(), early_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 0);
  EXPECT_NE(job.file("early").find("2 1\n"), std::string::npos) << "nothing was early: " << job.file("early");
}

TEST_F(SharedSyncHosts, SumsLeaveWhenTheFirstGradientsAreThere) {
  Training early = training_;
  early.strategy = SharedSync{.exchange_early = true};
  // The rule is there for its hits to be counted.
  HostPlan plan{1, 2, fmt::format("{}=delay=1@step=3", kSumsSent)};
  plan.waits_for_sums = true;
  HostsJob job({plan, plan}, early, expected_);
  job.run();
  EXPECT_THAT(job.file("left_early"), ::testing::AllOf(::testing::HasSubstr("1\n"), ::testing::HasSubstr("2\n")));
}

TEST_P(EarlyExchange, IsDoneAgainWhereOtherTensorsHaveGradientsThanBefore) {
  early_.work = compute_with_gaps;
  expect_bits_of_one(early_, GetParam());
}

TEST_P(EarlyExchange, AHostThatDiesInItIsDoneWithout) {
  for (const char* point : {"hosts.sums.sent", "hosts.result.before_send", "hosts.heads.before_send"}) {
    std::vector<HostPlan> hosts = GetParam();
    hosts.push_back({1, 2, fmt::format("{}=kill@step=5,attempt=0", point)});
    hosts.back().dies_whole = true;
    HostsJob job(hosts, early_, expected_);
    job.run();
    EXPECT_EQ(job.deaths(), 1) << point;
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, EarlyExchange,
                         ::testing::Values(std::vector<HostPlan>{{1, 2}, {1, 3}},
                                           std::vector<HostPlan>{{1, 1}, {2, 3}, {1, 1}}));

TEST_F(SharedSyncHosts, AnEarlyWorkerThatDiesIsReplaced) {
  Training early = training_;
  early.strategy = SharedSync{.exchange_early = true};
  HostsJob job({{1, 3}, {1, 2, "hosts.sums.sent=kill@rank=0,step=6,attempt=0"}}, early, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 1);
}

class Divisions : public SharedSyncHosts, public ::testing::WithParamInterface<std::vector<HostPlan>> {};

TEST_P(Divisions, GiveTheBitsOfOneWorker) {
  HostsJob job(GetParam(), training_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 0);
}

INSTANTIATE_TEST_SUITE_P(Hosts, Divisions,
                         ::testing::Values(std::vector<HostPlan>{{1, 1}, {1, 1}}, std::vector<HostPlan>{{1, 1}, {1, 4}},
                                           std::vector<HostPlan>{{2, 3}, {1, 2}},
                                           std::vector<HostPlan>{{1, 1}, {1, 1}, {1, 1}},
                                           std::vector<HostPlan>{{1, 3}, {1, 1}, {2, 1}}));

TEST_F(SharedSyncHosts, KeepTheBitsWithAbsentGradientsClippingAndNorms) {
  Training training = training_;
  training.work = compute_with_gaps;
  expect_bits_of_one(training, {{1, 2}, {1, 3}});
  training.clip_norm = 0.5;
  expect_bits_of_one(training, {{1, 2}, {2, 3}});
  training.clip_norm.reset();
  training.optimizer = compute::Lamb{.lr = 0.01};
  training.claims = Claims::kDynamic;
  expect_bits_of_one(training, {{2, 1}, {1, 3}, {1, 1}});
}

TEST_F(SharedSyncHosts, WorkOverSharedMemoryWhereHostsAreOne) {
  expect_bits_of_one(training_, {{2, 3}, {1, 2}}, "auto");
}

// Where in a step somebody dies: in its lanes, in what hosts give each other, and in the commit.
class HostLoss : public SharedSyncHosts, public ::testing::WithParamInterface<const char*> {};

TEST_P(HostLoss, AWorkerThatDiesIsReplaced) {
  HostsJob job({{2, 3, fmt::format("{}=kill@rank=0,step=5,attempt=0", GetParam())}, {1, 2}}, training_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 1);
}

TEST_P(HostLoss, AHostThatDiesIsDoneWithout) {
  HostPlan dying{2, 2, fmt::format("{}=kill@step=5,attempt=0", GetParam())};
  dying.dies_whole = true;
  // Once the first, whose worker leads, once the last of three.
  for (const bool first : {true, false}) {
    std::vector<HostPlan> hosts{{1, 2}, {1, 1}};
    hosts.insert(first ? hosts.begin() : hosts.end(), dying);
    HostsJob job(hosts, training_, expected_);
    job.run();
    EXPECT_EQ(job.deaths(), 1);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(At, HostLoss,
                         ::testing::Values("arena.start.after", "hosts.heads.before_send", "hosts.heads.received",
                                           "hosts.sums.sent", "hosts.result.before_send", "hosts.result.sent",
                                           "arena.commit.before_arrival", "arena.commit.before_flip",
                                           "arena.commit.after_flip"));

TEST_F(SharedSyncHosts, OneThatSaysNothingAnyMoreIsDoneWithout) {
  for (const char* point : {"hosts.heads.before_send", "hosts.sums.sent", "hosts.result.before_send"}) {
    HostPlan silent{2, 2, fmt::format("{}=stop@step=5", point)};
    silent.dies_whole = true;
    HostsJob job({{1, 2}, silent, {1, 1}}, training_, expected_);
    job.run();
    EXPECT_EQ(job.deaths(), 1) << point;
    if (HasFailure()) return;
  }
}

TEST_F(SharedSyncHosts, ABrokenConnectionIsToldToTheCoordinatorWhichBeginsAnew) {
  HostPlan second{1, 2};
  second.breaks_at = 3;
  HostsJob job({{1, 3}, second}, training_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 0);
  EXPECT_GT(job.generations(), 1U);
}

TEST_F(SharedSyncHosts, OneThatIsBehindByAStepTakesItFromTheOthers) {
  // Its last worker dies before it commits what the other host commits.
  HostsJob job({{1, 1}, {2, 1, "arena.commit.before_arrival=kill@rank=1,step=5,attempt=0"}}, training_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 1);
  // The other worker of that host had not seen the commit, and learned what it gave.
  EXPECT_EQ(job.file("committed_after_all"), "2\n");
}

TEST_F(SharedSyncHosts, OneThatJoinsLaterTakesPartWithTheStateOfTheOthers) {
  HostPlan late{2, 2};
  late.joins_at = 2;
  HostsJob job({{1, 2, "arena.start.after=delay=30"}, {1, 1}, late}, training_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 0);
  EXPECT_NE(job.file("lanes").find(" 3\n"), std::string::npos) << "it computed nothing";
}

// On a link on which all of it takes longer than a step may: what is under way is waited for.
TEST_F(SharedSyncHosts, AStateThatTakesLongerThanAStepIsWaitedFor) {
  // Both of the others get it from the first before the first step.
  std::vector<HostPlan> hosts{{1, 2}, {1, 1}, {1, 2, "hosts.state.receiving=delay=1500"}};
  for (HostPlan& host : hosts)
    host.step_timeout = 4s;
  HostsJob job(hosts, training_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 0);
}

TEST_F(SharedSyncHosts, SumsThatTakeLongerThanTheLanesOfAStepAreWaitedFor) {
  std::vector<HostPlan> hosts{{1, 2}, {1, 3, "hosts.sums.sent=delay=2500@step=3"}};
  for (HostPlan& host : hosts)
    host.step_timeout = 4s;
  HostsJob job(hosts, training_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 0);
}

TEST_F(SharedSyncHosts, OneThatDiesWhileItJoinsDoesNoHarm) {
  for (const char* point : {"hosts.state.receiving", "hosts.state.received", "arena.adopt.after_flip",
                            "hosts.state.before_settle", "arena.adopt.after_settle"}) {
    HostPlan late{2, 2, fmt::format("{}=kill@rank=1,attempt=0", point)};
    late.joins_at = 2;
    HostsJob job({{1, 2, "arena.start.after=delay=30"}, late}, training_, expected_);
    job.run();
    EXPECT_EQ(job.deaths(), 1) << point;
    if (HasFailure()) return;
  }
}

TEST_F(SharedSyncHosts, TheSourceOfTheStateMayDieWhileItSends) {
  HostPlan late{1, 2};
  late.joins_at = 2;
  HostsJob job({{2, 2, "hosts.state.sending=kill@rank=0,attempt=0;arena.start.after=delay=30"}, late}, training_,
               expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 1);
}

TEST_F(SharedSyncHosts, TheWorkerThatIsThereLongestLeads) {
  HostPlan first{1, 2, "arena.arrive.before=kill@rank=0,step=4,attempt=0"};
  HostsJob job({first, {1, 2}}, training_, expected_);
  job.run();
  ASSERT_EQ(job.deaths(), 1);
  // The replacement has the lowest rank, and still follows.
  EXPECT_EQ(job.file("leaders").substr(0, 8), "1 1.0.0\n");
  EXPECT_NE(job.file("leaders").find(" 2.0.0\n"), std::string::npos);
}

TEST_F(SharedSyncHosts, AreNotTrainedWithoutTheStateOfTheJob) {
  // The first host is lost when no other has the state: the founder's values of the other are nobody's.
  const control::JobGeneration job{2, 5, {{2, "b", 0b1, 0, 5}}};
  const std::vector<Standing> fresh{{0, true, false}};
  EXPECT_THROW(plan_state(job, fresh), Error);
}

TEST(StatePlan, TakesTheFurthestHostThatHasAState) {
  const control::JobGeneration job{3, 6, {{1, "a", 0b11, 0, 2}, {2, "b", 0b1, 2, 4}, {3, "c", 0b1, 4, 6}}};
  StatePlan plan = plan_state(job, std::vector<Standing>{{7, false, true}, {7, false}, {8, false}, {9, true, true}});
  EXPECT_EQ(plan.source, 1U);
  EXPECT_EQ(plan.step, 8U);
  EXPECT_EQ(plan.takes, (std::vector<bool>{true, false, true}));
  EXPECT_FALSE(plan.narrator.has_value()) << "nobody of the source saw the last step";
  plan = plan_state(job, std::vector<Standing>{{7, false, true}, {7, false}, {8, false, true}, {0, true}});
  EXPECT_EQ(plan.narrator, 2);
  plan = plan_state(job, std::vector<Standing>{{8, false, true}, {8, false}, {8, false, true}, {8, false}});
  EXPECT_EQ(plan.source, 0U);
  EXPECT_FALSE(plan.anybody_takes());
}

TEST(ChunkGrid, EveryBlockHasOneOwnerOnEveryHost) {
  const model::FlatLayout layout = on_one_host().layout;
  const ChunkGrid grid(layout);
  ASSERT_GT(grid.size(), 2U);
  std::size_t next = 0;
  for (std::size_t chunk = 0; chunk < grid.size(); ++chunk) {
    EXPECT_EQ(grid.blocks(chunk).first, next);
    EXPECT_LT(grid.begin(chunk), grid.end(chunk));
    next = grid.blocks(chunk).last;
  }
  EXPECT_EQ(next, layout.blocks().size());
  for (std::size_t workers = 1; workers <= 7; ++workers) {
    std::size_t chunk = 0;
    for (std::size_t index = 0; index < workers; ++index) {
      const ChunkGrid::Share share = grid.share_of(index, workers);
      EXPECT_EQ(share.first, chunk);
      EXPECT_LE(share.first, share.last);
      chunk = share.last;
    }
    EXPECT_EQ(chunk, grid.size());
  }
}

}  // namespace
}  // namespace muster::strategies
