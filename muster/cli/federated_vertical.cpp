// muster federated vertical: one party of training on columns that several parties hold. The label holder listens and
// has a run's folder as a server has; who has other columns joins it, and keeps its state in a folder of its own.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/base/log.h"
#include "muster/base/mutex.h"
#include "muster/base/text.h"
#include "muster/cli/command.h"
#include "muster/cli/federated_run.h"
#include "muster/cli/workers.h"
#include "muster/control/certificates.h"
#include "muster/control/cluster_server.h"
#include "muster/control/trust_files.h"
#include "muster/federated/vertical/column_party.h"
#include "muster/federated/vertical/label_holder.h"
#include "muster/federated/vertical/vertical_listener.h"
#include "muster/federated/vertical/vertical_stub.h"
#include "muster/launch/child_process.h"
#include "muster/launch/stop_signal.h"
#include "muster/observe/metrics_log.h"
#include "muster/trainer/job.h"
#include "muster/trainer/party_table.h"
#include "muster/trainer/run_folder.h"
#include "muster/trainer/run_lock.h"
#include "muster/trainer/split_nets.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kVerticalLockPatience{5};
constexpr std::chrono::seconds kPartiesLastWords{20};  // of parties that were started with --with
constexpr std::uint64_t kMostPartyJobBytes = 1 << 20;

// What both kinds of party are told.
struct PartyFlags {
  std::string job;
  std::vector<std::string> assignments;
  std::string certs;
  bool insecure = false;
  double wait_seconds = 3600;
  bool quiet = false;

  std::chrono::nanoseconds patience() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(wait_seconds));
  }
};

struct LabelsFlags : PartyFlags {
  std::string listen = "127.0.0.1:7430";
  std::vector<std::string> with;
  bool resume = false;
  std::string run;
  bool json = false;
};

struct ColumnsFlags : PartyFlags {
  std::string join;
  std::string name;
  std::string state = "vertical-state";
};

trainer::ResolvedJob load_vertical(const PartyFlags& flags) {
  trainer::ResolvedJob resolved = trainer::load_job(flags.job, flags.assignments);
  if (!resolved.job.is_vertical())
    throw resolved.invalid("data.partition", "the job's columns are not with several parties",
                           "Set data.partition = \"vertical\" and vertical.id.");
  if (flags.insecure && !flags.certs.empty())
    throw Error(ErrorKind::kInvalidInput, "--insecure beside --certs", {}, "Leave --insecure out.");
  return resolved;
}

// --- The label holder.

class LabelsRun {
 public:
  LabelsRun(const LabelsFlags& flags, const trainer::ResolvedJob& resolved) : flags_(flags), resolved_(resolved) {
    const std::vector<std::string>& parties = resolved.job.vertical.parties;
    if (parties.empty())
      throw resolved.invalid("vertical.parties", "nothing says who has the other columns",
                             "Name everybody who joins, as vertical.parties = [\"bank\"].");
    if (!flags.with.empty() && flags.with.size() != parties.size())
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("--with names {} jobs, and the job {} parties", flags.with.size(), parties.size()),
                  "--with", "Give the job of each, in the order of vertical.parties.");
    if (!flags.with.empty() && !flags.certs.empty())
      throw Error(ErrorKind::kInvalidInput, "--with beside --certs", "--with", "It is to try it on one machine.");
    control::require_may_listen(flags.listen, !flags.certs.empty(), flags.insecure);
  }

  int run() {
    const trainer::PartyTable table(resolved_, true);
    const trainer::RunFolder folder = open_federated_run(flags_.resume, flags_.run, resolved_);
    const trainer::RunLock lock(folder.path(), Deadline::after(kVerticalLockPatience));
    {
      const MutexLock guard(mutex_);
      log_.open_file(folder.log_file());
    }
    metrics_.emplace(folder.metrics_file());
    epochs_written_ = epochs_in(folder.metrics_file());
    federated::LabelHolder holder(holder_options(folder), table.ids(),
                                  [&](const federated::Alignment& alignment, std::span<const std::uint64_t> widths) {
                                    return trainer::make_top_net(resolved_, table.aligned(alignment), widths);
                                  });
    const federated::VerticalListener listener(holder, listen());
    write_atomically(folder.path() / "address", listener.address() + "\n");
    tell(fmt::format("listens on {} for {}; run {}", listener.address(), join_words(resolved_.job.vertical.parties),
                     folder.path().string()));
    start_parties(listener.address(), folder);
    try {
      holder.run([this] { return keep_on(); },
                 [this](std::uint64_t epoch, const federated::EpochFigures& figures) { tell_epoch(epoch, figures); });
    } catch (const Error& error) {
      note(error.what());
      if (error.kind() != ErrorKind::kInterrupted) throw;
      return stopped(listener.address(), folder);
    }
    wait_for_parties();
    tell_end(folder);
    return 0;
  }

 private:
  federated::LabelHolderOptions holder_options(const trainer::RunFolder& folder) {
    const trainer::Job& job = resolved_.job;
    federated::LabelHolderOptions options;
    options.run = folder.path().filename().string();
    options.folder = folder.path();
    options.parties = job.vertical.parties;
    options.test_fraction = job.data.test_fraction;
    options.batch = resolved_.batch;
    options.epochs = static_cast<std::uint64_t>(job.epochs);
    options.seed = static_cast<std::uint64_t>(job.seed);
    options.checkpoint_steps = static_cast<std::uint64_t>(job.vertical.checkpoint_steps);
    options.patience = flags_.patience();
    options.tell = [this](const std::string& line) { tell(line); };
    return options;
  }

  control::ClusterListen listen() {
    control::ClusterListen listen;
    listen.address = flags_.listen;
    listen.trust.certs = flags_.certs;
    listen.note = [this](const std::string& line) { note(line); };
    return listen;
  }

  // All parties on this machine, to try it: each is a process as it would be elsewhere.
  void start_parties(const std::string& address, const trainer::RunFolder& folder) {
    for (std::size_t i = 0; i < flags_.with.size(); ++i) {
      const std::string& name = resolved_.job.vertical.parties[i];
      launch::Command command;
      command.program = own_program();
      command.arguments = {"federated", "vertical", "columns", flags_.with[i], "--join",
                           address,     "--name",   name,      "--state",      (folder.path() / "parties").string()};
      command.log = (folder.path() / fmt::format("{}.log", name)).string();
      command.own_group = true;  // Ctrl-C is for the label holder, which ends them
      started_.emplace_back(command);
    }
  }

  bool keep_on() {
    for (std::size_t i = 0; i < started_.size(); ++i) {
      const auto ending = started_[i].poll();
      if (ending && !ending->good()) throw bad_ending(i, *ending);
    }
    return signal_.number() == 0;
  }

  void wait_for_parties() {
    if (started_.empty()) return;
    if (const auto first = launch::wait_for_all(started_, Deadline::after(kPartiesLastWords)))
      throw bad_ending(first->index, first->ending);
  }

  Error bad_ending(std::size_t party, const launch::Ending& ending) const {
    const std::string& name = resolved_.job.vertical.parties[party];
    return {ErrorKind::kPeerLost, fmt::format("{} has ended: {}", name, launch::to_string(ending)), flags_.with[party],
            fmt::format("{}.log in the run's folder says why.", name)};
  }

  // Of epochs that stand there already nothing is written: a run that goes on comes to the same figures again.
  static std::uint64_t epochs_in(const std::filesystem::path& metrics) {
    std::uint64_t epochs = 0;
    std::ifstream lines(metrics);
    for (std::string line; std::getline(lines, line);) {
      const Json row = parse_json(line, metrics.string());
      if (row.value("event", "") == "epoch") epochs = std::max(epochs, row.value("epoch", std::uint64_t{0}));
    }
    return epochs;
  }

  void tell_epoch(std::uint64_t epoch, const federated::EpochFigures& figures) {
    const std::uint64_t number = epoch + 1;
    Json row{
        {"event", "epoch"}, {"epoch", number}, {"train_loss", figures.train_loss}, {"test_loss", figures.test_loss}};
    std::string line = fmt::format("epoch {}/{}: train loss {:.4f}, test loss {:.4f}", number, resolved_.job.epochs,
                                   figures.train_loss, figures.test_loss);
    for (const auto& [name, value] : figures.metrics) {
      row[name] = value;
      line += fmt::format(", {} {:.4f}", name, value);
    }
    last_ = row;
    if (number <= epochs_written_) return;
    epochs_written_ = number;
    metrics_->write(row);
    note(line);
    if (flags_.json)
      print_line(row.dump());
    else if (!flags_.quiet)
      print_line(line);
  }

  void tell_end(const trainer::RunFolder& folder) {
    Json row = last_;
    row["event"] = "finished";
    row["run"] = folder.path().string();
    if (flags_.json)
      print_line(row.dump());
    else if (!flags_.quiet)
      print_line(fmt::format("all {} epochs are done; the label holder's nets are in {}", resolved_.job.epochs,
                             (folder.path() / "model.safetensors").string()));
  }

  int stopped(const std::string& address, const trainer::RunFolder& folder) {
    std::string command = fmt::format("muster federated vertical labels {} --listen {}", flags_.job, address);
    if (!flags_.certs.empty()) command += fmt::format(" --certs {}", flags_.certs);
    if (flags_.insecure) command += " --insecure";
    for (const std::string& with : flags_.with)
      command += fmt::format(" --with {}", with);
    for (const std::string& assignment : flags_.assignments)
      command += fmt::format(" --set '{}'", assignment);
    tell(fmt::format("stopped; go on with: {} --run {}", command, folder.path().string()));
    return 128 + signal_.number();
  }

  void note(const std::string& line) {
    const MutexLock lock(mutex_);
    log_.info(line);
  }
  // From any thread: calls of parties tell, too.
  void tell(const std::string& line) {
    note(line);
    if (!flags_.json && !flags_.quiet) print_line(line);
  }

  const LabelsFlags& flags_;
  const trainer::ResolvedJob& resolved_;
  const launch::StopSignal signal_;
  Mutex mutex_;
  Log log_ MUSTER_GUARDED_BY(mutex_){LogLevel::kOff};
  std::optional<observe::MetricsLog> metrics_;
  std::uint64_t epochs_written_ = 0;
  Json last_ = Json::object();
  std::vector<launch::ChildProcess> started_;
};

int run_labels(const LabelsFlags& flags) {
  const trainer::ResolvedJob resolved = load_vertical(flags);
  return LabelsRun(flags, resolved).run();
}

// --- Who has columns.

// What is the label holder's to say has no effect in another party's job.
void require_columns_job(const ColumnsFlags& flags, const trainer::ResolvedJob& resolved) {
  for (const char* key :
       {"vertical.parties", "vertical.checkpoint_steps", "job.epochs", "data.batch", "data.target", "data.targets",
        "data.test_fraction", "model.hidden", "loss.task", "loss.error", "loss.label_smoothing"}) {
    if (resolved.places.at(key) != flags.job)
      throw resolved.invalid(key, "is for the label holder to say", "Remove it from the job of a party with columns.");
  }
}

control::ClusterTarget label_holder_to_join(const ColumnsFlags& flags) {
  if (!control::is_loopback(flags.join) && flags.certs.empty() && !flags.insecure)
    throw Error(
        ErrorKind::kInvalidInput, "nothing would tell who answers there, and others could read what is sent",
        flags.join,
        "Give --certs with a folder that `muster certs add CERTS client NAME` makes; or, on a network where you "
        "trust every machine, type --insecure.");
  control::ClusterTarget target;
  target.address = flags.join;
  target.trust.certs = flags.certs;
  return target;
}

std::string name_of_party(const ColumnsFlags& flags) {
  if (flags.certs.empty()) {
    if (!flags.name.empty()) return flags.name;
    throw Error(ErrorKind::kInvalidInput, "the party needs the name that the label holder's job has for it", {},
                "Give --name.");
  }
  const control::CertificateFiles files = control::read_certificate_files(flags.certs);
  const auto identity = control::read_certificate(files.certificate, flags.certs).identity;
  if (!identity || identity->role != control::CallerRole::kClient)
    throw Error(ErrorKind::kInvalidInput, "is no certificate of a client", flags.certs,
                "`muster certs add CERTS client NAME` makes one.");
  if (!flags.name.empty() && flags.name != identity->name)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("--name {} beside the certificate of {}", flags.name, identity->name), {},
                "Leave --name out: with certificates a party is who its certificate says.");
  return identity->name;
}

// Where a party goes on, with the job of then.
void enter_state(const std::filesystem::path& folder, const trainer::ResolvedJob& resolved) {
  const std::filesystem::path path = folder / "job.toml";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    write_atomically(path, resolved.text);
    return;
  }
  if (const auto obstacle = trainer::resume_obstacle(read_text(path, kMostPartyJobBytes), resolved)) throw *obstacle;
}

int run_columns(const ColumnsFlags& flags) {
  const trainer::ResolvedJob resolved = load_vertical(flags);
  require_columns_job(flags, resolved);
  const control::ClusterTarget target = label_holder_to_join(flags);
  const launch::StopSignal signal;
  const auto tell = [&](const std::string& line) {
    if (!flags.quiet) print_line(line);
  };
  federated::ColumnPartyOptions options;
  options.name = name_of_party(flags);
  options.state = flags.state;
  options.width = static_cast<std::uint64_t>(resolved.job.vertical.width);
  options.patience = flags.patience();
  options.tell = tell;
  options.enter = [&](const std::filesystem::path& folder) { enter_state(folder, resolved); };
  const trainer::PartyTable table(resolved, false);
  const std::unique_ptr<federated::VerticalCalls> calls = federated::make_vertical_stub(target);
  federated::ColumnParty party(*calls, options, table.ids(), [&](const federated::Alignment& alignment) {
    return trainer::make_bottom_net(resolved, table.aligned(alignment));
  });
  try {
    const std::filesystem::path folder = party.run([&] { return signal.number() == 0; });
    tell(fmt::format("all is done; this party's net is in {}", (folder / "model.safetensors").string()));
    return 0;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInterrupted) throw;
    tell("stopped; the same command goes on");
    return 128 + signal.number();
  }
}

// --- Flags.

void add_party_flags(CLI::App* command, const std::shared_ptr<PartyFlags>& flags) {
  command->add_option("job", flags->job, "This party's job file (TOML), with data.partition = \"vertical\"")
      ->required();
  command->add_option("--set", flags->assignments, "section.key=value, over what the file says; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--insecure", flags->insecure,
                    "Another machine without certificates: others can read and change what is sent");
  command->add_option("--wait", flags->wait_seconds, "Seconds to wait for others that are away")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command->add_flag("--quiet,-q", flags->quiet, "Errors only");
}

void add_labels(CLI::App& vertical, Outcome& outcome) {
  CLI::App* command = vertical.add_subcommand("labels", "The party with the labels: the others join it.");
  auto flags = std::make_shared<LabelsFlags>();
  add_party_flags(command, flags);
  command->add_option("--listen", flags->listen, "ADDRESS:PORT of this machine; port 0: any that is free")
      ->capture_default_str();
  command->add_option("--certs", flags->certs, "The coordinator's folder of muster certs create")
      ->check(CLI::ExistingDirectory);
  command
      ->add_option("--with", flags->with,
                   "To try it on one machine: start the party of this job too; once for each of vertical.parties")
      ->allow_extra_args(false);
  command->add_flag("--resume", flags->resume, "Go on with the job's newest run");
  command->add_option("--run", flags->run, "Like --resume, of the run in this folder");
  command->add_flag("--json", flags->json, "One JSON object an epoch, and one at the end");
  command->footer(
      "The run's folder has metrics.jsonl (a row an epoch), log.txt and, at the end, model.safetensors: the label\n"
      "holder's nets. Kill any party at any moment: who was killed is started again (this one with --resume), and all\n"
      "go on from the newest checkpoint that they have in common, to the same weights.\n"
      "\nExamples:\n"
      "  muster federated vertical labels examples/vertical_labels.toml --with examples/vertical_columns.toml\n"
      "  muster federated vertical labels labels.toml --listen 10.0.0.1:7430 --certs certs/coordinator");
  command->callback([flags, &outcome] { outcome.exit_code = run_labels(*flags); });
}

void add_columns(CLI::App& vertical, Outcome& outcome) {
  CLI::App* command = vertical.add_subcommand("columns", "A party with other columns of the same rows.");
  auto flags = std::make_shared<ColumnsFlags>();
  add_party_flags(command, flags);
  command->add_option("--join", flags->join, "ADDRESS:PORT that the label holder says")->required();
  command->add_option("--name", flags->name, "Who this is in the label holder's job; with --certs these say it");
  command->add_option("--certs", flags->certs, "This party's folder of muster certs add client NAME")
      ->check(CLI::ExistingDirectory);
  command->add_option("--state", flags->state, "Folder for this party's net and checkpoints, by run and name")
      ->capture_default_str();
  command->footer(
      "Ids, columns and weights stay here; activations leave. A label holder that is away is tried again; who was\n"
      "killed goes on with the same command.\n"
      "\nExamples:\n"
      "  muster federated vertical columns bank.toml --join 127.0.0.1:7430 --name bank\n"
      "  muster federated vertical columns bank.toml --join 10.0.0.1:7430 --certs client-bank");
  command->callback([flags, &outcome] { outcome.exit_code = run_columns(*flags); });
}

}  // namespace

void add_federated_vertical(CLI::App& federated, Outcome& outcome) {
  CLI::App* command =
      federated.add_subcommand("vertical", "Train with parties that hold other columns of the same rows.");
  command->require_subcommand(1);
  add_labels(*command, outcome);
  add_columns(*command, outcome);
  command->footer("Who learns what, and a first hour: docs/federated-vertical.md.");
}

}  // namespace muster::cli
