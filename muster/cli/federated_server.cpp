// muster federated server: rounds with clients on machines of their own. The run's folder is that of a simulation, with
// the round that is under way and the clients' names beside it, so that a server that was killed goes on.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/base/log.h"
#include "muster/base/mutex.h"
#include "muster/cli/command.h"
#include "muster/cli/federated_door.h"
#include "muster/cli/federated_run.h"
#include "muster/control/cluster_server.h"
#include "muster/control/trust_files.h"
#include "muster/federated/round_server.h"
#include "muster/federated/run_state.h"
#include "muster/launch/stop_signal.h"
#include "muster/observe/metrics_log.h"
#include "muster/trainer/client_training.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/federated_check.h"
#include "muster/trainer/job_fit.h"
#include "muster/trainer/run_lock.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kServerLockPatience{5};
constexpr std::chrono::seconds kFarewell{10};
constexpr std::chrono::seconds kStatusEvery{1};

struct FederatedServerFlags {
  std::vector<std::string> jobs;
  std::vector<std::string> assignments;
  std::string listen = "127.0.0.1:7420";
  std::string certs;
  bool insecure = false;
  bool resume = false;
  std::string run;
  bool json = false;
  bool quiet = false;
};

// What only a simulation can do to its clients.
void require_real_clients(const trainer::ResolvedJob& resolved) {
  const federated::Options& o = resolved.job.federated;
  const auto refuse = [&](bool chosen, const char* key) {
    if (chosen)
      throw resolved.invalid(fmt::format("federated.{}", key), "is for simulations: real clients are as they are",
                             "Remove it.");
  };
  refuse(o.attack != "none", "attack");
  refuse(o.drop > 0, "drop");
  refuse(o.availability < 1, "availability");
  refuse(o.speed_spread > 0, "speed_spread");
}

control::ClusterListen listen_for_clients(const FederatedServerFlags& flags) {
  if (flags.insecure && !flags.certs.empty())
    throw Error(ErrorKind::kInvalidInput, "--insecure beside --certs", {}, "Leave --insecure out.");
  control::require_may_listen(flags.listen, !flags.certs.empty(), flags.insecure);
  control::ClusterListen listen;
  listen.address = flags.listen;
  listen.trust.certs = flags.certs;
  return listen;
}

// Keeps status.json true while the server computes: a thread of its own.
class StatusWriter {
 public:
  StatusWriter(std::filesystem::path path, std::function<Json()> look)
      : path_(std::move(path)), look_(std::move(look)), thread_([this] { run(); }) {}
  StatusWriter(const StatusWriter&) = delete;
  StatusWriter& operator=(const StatusWriter&) = delete;
  ~StatusWriter() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      end_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }

 private:
  void run() {
    std::string written;
    std::unique_lock<std::mutex> lock(mutex_);
    // Once more when it ends: what is left is what was.
    for (bool last = false;; last = end_) {
      const std::string text = look_().dump();
      try {
        if (text != written) write_atomically(path_, text + "\n");
        written = text;
      } catch (const Error&) {  // a full disk: what is looked at is older
      }
      if (last) return;
      ended_.wait_for(lock, kStatusEvery, [this] { return end_; });
    }
  }

  const std::filesystem::path path_;
  const std::function<Json()> look_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

// The folder of a run that was just made goes again unless the server begins to serve: what was refused leaves nothing,
// and --resume does not find it.
class NewRun {
 public:
  NewRun(std::filesystem::path path, bool made) : path_(std::move(path)), made_(made) {}
  NewRun(const NewRun&) = delete;
  NewRun& operator=(const NewRun&) = delete;
  ~NewRun() {
    std::error_code ignored;
    if (made_) std::filesystem::remove_all(path_, ignored);
  }
  void keep() { made_ = false; }

 private:
  const std::filesystem::path path_;
  bool made_;
};

// Inside of the door, for as long as it lives.
class InDoor {
 public:
  InDoor(FederatedDoor& door, const federated::OfferedModel& model) : door_(door), address_(door.enter(model)) {}
  InDoor(const InDoor&) = delete;
  InDoor& operator=(const InDoor&) = delete;
  ~InDoor() { door_.leave(); }
  const std::string& address() const { return address_; }

 private:
  FederatedDoor& door_;
  const std::string address_;
};

// One model, from its data to its last round; a server with several has a thread for each.
class ServedRun {
 public:
  ServedRun(const FederatedServerFlags& flags, std::string job, const trainer::ResolvedJob& resolved,
            const launch::StopSignal& signal, FederatedDoor& door)
      : flags_(flags),
        resolved_(resolved),
        job_(std::move(job)),
        options_(resolved.job.federated),
        submodels_(trainer::submodel_jobs(resolved)),
        signal_(signal),
        door_(door) {}

  // In the log of its run. From any thread.
  void note(const std::string& line) {
    const MutexLock lock(mutex_);
    log_.info(line);
  }

  int run() {
    const trainer::Datasets sets = trainer::open_data(resolved_);
    trainer::check_client_model(resolved_, sets);
    const trainer::RunFolder folder = open_federated_run(flags_.resume, flags_.run, resolved_);
    NewRun made(folder.path(), !flags_.resume && flags_.run.empty());
    const trainer::RunLock lock(folder.path(), Deadline::after(kServerLockPatience));
    log_.open_file(folder.log_file());
    const std::unique_ptr<federated::LocalTraining> training = trainer::make_client_training(resolved_, sets);
    federated::RoundServer server(server_options(sets, folder), *training);
    const federated::StateFile state(folder.path() / "state.safetensors");
    if (const auto kept = state.read()) {
      server.restore(*kept);
      mend_rows(folder.metrics_file(), *kept);
    }
    observe::MetricsLog metrics(folder.metrics_file());
    const std::uint64_t parameters = federated::trained_numbers(training->tensors(), training->parameters());
    write_federated_card(folder.path(), resolved_, sets, parameters, nullptr);
    const InDoor in(door_, {{.name = resolved_.job.name,
                             .model_floats = training->size(),
                             .source = resolved_.job.data.source,
                             .task = resolved_.job.loss.task,
                             .narrower_floats = server.narrower_floats()},
                            &server});
    made.keep();
    write_atomically(folder.path() / "address", in.address() + "\n");
    const StatusWriter status(folder.path() / "status.json", [&] { return status_of(server, in.address()); });
    tell(fmt::format("listens on {} for {} clients, {} a round, {}; run {}", in.address(), options_.clients,
                     options_.per_round, options_.algorithm, folder.path().string()));
    if (server.rounds() > 0) tell(fmt::format("goes on after round {}", server.rounds()));
    try {
      go_through_rounds(server, state, metrics);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInterrupted) {
        log_.error(error.what());
        door_.fail();
        throw;
      }
    }
    if (signal_.number() != 0) return stopped(server, in.address(), folder);
    if (!door_.going_on()) return 1;  // another model has said why
    const bool ended = last_.round == 0 && has_ended(folder.metrics_file(), server.rounds());
    if (server.rounds() < static_cast<std::uint64_t>(options_.rounds) && !has_trained(folder.metrics_file()))
      throw resolved_.invalid("federated.sample_epsilon", "no update has come of it: " + ending_,
                              "Raise it, or federated.sample_noise; a client's own --set counts for it.");
    last_.round = server.rounds();
    if (!last_.test) last_.test = server.evaluate();  // it is not known before that a round is the last
    server.save(folder.path() / "model.safetensors");
    write_federated_card(folder.path(), resolved_, sets, parameters, &last_);
    server.finish(ending_, kFarewell);
    tell_end(server, folder, metrics, !ended);
    return 0;
  }

 private:
  federated::RoundServerOptions server_options(const trainer::Datasets& sets, const trainer::RunFolder& folder) {
    federated::RoundServerOptions options;
    options.federated = options_;
    options.seed = static_cast<std::uint64_t>(resolved_.job.seed);
    options.folder = folder.path();
    options.job = resolved_.text;
    options.make_submodel = [this, &sets](std::size_t index) {
      return trainer::make_client_training(submodels_.at(index), sets);
    };
    options.data_form = sets.form.to_json().dump();
    options.run = folder.path().filename().string();
    if (!flags_.certs.empty()) options.authorities = control::read_certificate_files(flags_.certs).authorities;
    options.tell = [this](const std::string& line) { tell(line); };
    return options;
  }

  Json status_of(const federated::RoundServer& server, const std::string& address) const {
    const federated::ServerStanding standing = server.standing();
    return {{"address", address},          {"rounds", standing.rounds},
            {"of", options_.rounds},       {"enrolled", standing.enrolled},
            {"present", standing.present}, {"left", standing.left},
            {"asked", standing.asked},     {"accepted", standing.accepted},
            {"refused", standing.refused}, {"doing", standing.doing}};
  }

  void go_through_rounds(federated::RoundServer& server, const federated::StateFile& state,
                         observe::MetricsLog& metrics) {
    while (server.rounds() < static_cast<std::uint64_t>(options_.rounds)) {
      if (const auto ending = server.ending()) {
        ending_ = *ending;
        tell(ending_);
        return;
      }
      try {
        last_ = server.round(keep_on_, [&](federated::State& after, const federated::RoundReport& report) {
          after.row = row_of_round(report).dump();
          state.write(after);
        });
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kInterrupted || !keep_on_()) throw;
        continue;  // clients have left while it waited: is there an ending?
      }
      MUSTER_FAILPOINT("federated.server.before_row");
      metrics.write(row_of_round(last_));
      const std::string line = line_of_round(last_, options_.rounds);
      note(line);
      if (flags_.json)
        print_row(row_of_round(last_));
      else if (!flags_.quiet)
        say(line);
    }
    ending_ = fmt::format("all {} rounds are done", server.rounds());
  }

  void tell_end(const federated::RoundServer& server, const trainer::RunFolder& folder, observe::MetricsLog& metrics,
                bool with_row) {
    Json row{{"event", "finished"}, {"rounds", server.rounds()}, {"reason", ending_}, {"run", folder.path().string()}};
    if (last_.test) {
      row["test_loss"] = last_.test->loss;
      for (const auto& [name, value] : last_.test->metrics)
        row[name] = value;
    }
    if (with_row) metrics.write(row);
    if (flags_.json)
      print_row(row);
    else if (!flags_.quiet)
      say(fmt::format("{}; model in {}", ending_, (folder.path() / "model.safetensors").string()));
  }

  int stopped(const federated::RoundServer& server, const std::string& address, const trainer::RunFolder& folder) {
    std::string command = fmt::format("muster federated server {} --listen {}", job_, address);
    if (!flags_.certs.empty()) command += fmt::format(" --certs {}", flags_.certs);
    if (flags_.insecure) command += " --insecure";
    for (const std::string& assignment : flags_.assignments)
      command += fmt::format(" --set '{}'", assignment);
    tell(fmt::format("stopped after round {}; go on with: {} --run {}", server.rounds(), command,
                     folder.path().string()));
    return 128 + signal_.number();
  }

  // From any thread: calls of clients tell, too.
  void tell(const std::string& line) {
    note(line);
    if (!flags_.json && !flags_.quiet) say(line);
  }
  // Of several models each says which it is.
  void say(const std::string& line) const {
    print_line(flags_.jobs.size() > 1 ? fmt::format("{}: {}", resolved_.job.name, line) : line);
  }
  void print_row(Json row) const {
    if (flags_.jobs.size() > 1) row["model"] = resolved_.job.name;
    print_line(row.dump());
  }

  const FederatedServerFlags& flags_;
  const trainer::ResolvedJob& resolved_;
  const std::string job_;
  const federated::Options& options_;
  const std::vector<trainer::ResolvedJob> submodels_;
  const launch::StopSignal& signal_;
  FederatedDoor& door_;
  const std::function<bool()> keep_on_ = [this] { return signal_.number() == 0 && door_.going_on(); };
  Mutex mutex_;
  Log log_{LogLevel::kOff};
  federated::RoundReport last_;
  std::string ending_;
};

// The jobs, each of another name: it is what clients know a model by.
std::vector<trainer::ResolvedJob> jobs_of_server(const FederatedServerFlags& flags) {
  std::vector<trainer::ResolvedJob> jobs;
  std::set<std::string> names;
  for (const std::string& job : flags.jobs) {
    jobs.push_back(trainer::load_job(job, flags.assignments));
    require_federated(jobs.back());
    require_real_clients(jobs.back());
    if (!names.insert(jobs.back().job.name).second)
      throw jobs.back().invalid("job.name", fmt::format("two models are called {}", jobs.back().job.name),
                                "Give each job a name of its own.");
  }
  if (jobs.size() > 1 && !flags.run.empty())
    throw Error(ErrorKind::kInvalidInput, "--run beside several jobs", {}, "--resume goes on with the newest of each.");
  return jobs;
}

int run_federated_server(const FederatedServerFlags& flags) {
  const std::vector<trainer::ResolvedJob> jobs = jobs_of_server(flags);
  const launch::StopSignal signal;
  control::ClusterListen listen = listen_for_clients(flags);
  std::vector<ServedRun*> served;
  listen.note = [&](const std::string& line) {
    if (!served.empty()) served.front()->note(line);
  };
  FederatedDoor door(jobs.size(), listen);
  std::vector<std::unique_ptr<ServedRun>> runs;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    runs.push_back(std::make_unique<ServedRun>(flags, flags.jobs[i], jobs[i], signal, door));
    served.push_back(runs.back().get());
  }
  if (runs.size() == 1) return runs.front()->run();
  std::vector<int> codes(runs.size(), 1);
  std::vector<std::exception_ptr> failures(runs.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          codes[i] = runs[i]->run();
        } catch (...) {
          door.fail();
          failures[i] = std::current_exception();
        }
      });
    }
  }
  // Whoever was interrupted was so because of another one.
  std::exception_ptr interrupted;
  for (const std::exception_ptr& failure : failures) {
    if (!failure) continue;
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInterrupted) throw;
      interrupted = failure;
    }
  }
  if (interrupted) std::rethrow_exception(interrupted);
  return *std::ranges::max_element(codes);
}

}  // namespace

void add_federated_server(CLI::App& federated, Outcome& outcome) {
  CLI::App* command = federated.add_subcommand("server", "Rounds with clients on machines of their own.");
  auto flags = std::make_shared<FederatedServerFlags>();
  command
      ->add_option("jobs", flags->jobs,
                   "Job files (TOML) with a section [federated]; of several, clients decide which they train")
      ->required();
  command->add_option("--set", flags->assignments, "section.key=value, over what the file says; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--listen", flags->listen, "ADDRESS:PORT of this machine; port 0: any that is free")
      ->capture_default_str();
  command->add_option("--certs", flags->certs, "The coordinator's folder of muster certs create")
      ->check(CLI::ExistingDirectory);
  command->add_flag("--insecure", flags->insecure,
                    "Listen where others can reach it without certificates: everybody can take part under any name");
  command->add_flag("--resume", flags->resume, "Go on with the job's newest run, in the middle of a round, too");
  command->add_option("--run", flags->run, "Like --resume, of the run in this folder");
  command->add_flag("--json", flags->json, "One JSON object a round, and one at the end");
  command->add_flag("--quiet,-q", flags->quiet, "Errors only");
  command->footer(
      "A round begins when enough clients are there (federated.wait_for), and ends with its updates or after\n"
      "federated.deadline_seconds. Kill it at any moment and go on with --resume: what a client was told to count\n"
      "counts, once; clients come back by themselves. The job's test set judges the model after each round.\n"
      "Without certificates it listens for this machine only, and a client is who it says it is.\n"
      "\nExamples:\n"
      "  muster federated server examples/federated.toml\n"
      "  muster federated server small.toml large.toml\n"
      "  muster certs create certs && muster certs add certs client hospital-1\n"
      "  muster federated server job.toml --listen 10.0.0.1:7420 --certs certs/coordinator");
  command->callback([flags, &outcome] { outcome.exit_code = run_federated_server(*flags); });
}

}  // namespace muster::cli
