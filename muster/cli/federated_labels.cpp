// muster federated vertical labels: listens, has a run's folder as a server has, and writes a row for each epoch. With
// --with it starts the other parties, to try it on one machine. A run that has finished stays as it is.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/base/log.h"
#include "muster/base/mutex.h"
#include "muster/base/text.h"
#include "muster/cli/federated_parties.h"
#include "muster/cli/federated_run.h"
#include "muster/cli/workers.h"
#include "muster/control/cluster_server.h"
#include "muster/federated/vertical/label_holder.h"
#include "muster/federated/vertical/party_files.h"
#include "muster/federated/vertical/vertical_listener.h"
#include "muster/launch/child_process.h"
#include "muster/launch/stop_signal.h"
#include "muster/observe/metrics_log.h"
#include "muster/trainer/party_table.h"
#include "muster/trainer/run_folder.h"
#include "muster/trainer/run_lock.h"
#include "muster/trainer/split_nets.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kVerticalLockPatience{5};
constexpr std::chrono::seconds kPartiesLastWords{20};  // of parties that were started with --with

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
    check_jobs_of_others();
    const trainer::PartyTable table(resolved_, true);
    const bool resumed = flags_.resume || !flags_.run.empty();
    const trainer::RunFolder folder = open_federated_run(flags_.resume, flags_.run, resolved_);
    const trainer::RunLock lock(folder.path(), Deadline::after(kVerticalLockPatience));
    metrics_.emplace(folder.metrics_file());  // half a row of a killed process is cut off
    read_rows(folder.metrics_file());
    if (was_finished(folder)) return 0;
    try {
      return train(table, folder);
    } catch (const Error& error) {
      // Nobody goes on with it: what could not begin leaves no run.
      if (!resumed && (error.exit_code() == 2 || error.kind() == ErrorKind::kIo)) remove_unless_begun(folder);
      throw;
    }
  }

 private:
  // Mistakes in them are said before anything is made, and not in a log of a party.
  void check_jobs_of_others() const {
    for (const std::string& with : flags_.with) {
      PartyFlags party;
      party.job = with;
      const trainer::ResolvedJob resolved = load_party_job(party);
      trainer::require_columns_job(resolved, with);
      const trainer::PartyTable table(resolved, false);
    }
  }

  bool was_finished(const trainer::RunFolder& folder) {
    const auto finished = federated::PartyFiles(folder.path()).finished();
    const auto wanted = static_cast<std::uint64_t>(resolved_.job.epochs);
    if (!finished || finished->epochs < wanted) return false;
    tell(fmt::format("the run in {} has finished with epoch {}{}", folder.path().string(), finished->epochs,
                     wanted < finished->epochs ? fmt::format(", and job.epochs is {} now: it stays as it is", wanted)
                                               : std::string(": raise job.epochs to go on")));
    tell_end(folder);
    return true;
  }

  int train(const trainer::PartyTable& table, const trainer::RunFolder& folder) {
    {
      const MutexLock guard(mutex_);
      log_.open_file(folder.log_file());
    }
    federated::LabelHolder holder(holder_options(folder, table), table.ids(),
                                  [&](const federated::Alignment& alignment, std::span<const std::uint64_t> widths) {
                                    write_form(folder.path(), table.form(alignment));
                                    return trainer::make_top_net(resolved_, table.aligned(alignment), widths);
                                  });
    const federated::VerticalListener listener(holder, listen());
    write_atomically(folder.path() / "address", listener.address() + "\n");
    tell(fmt::format("listens on {} for {}; run {}", listener.address(), join_words(resolved_.job.vertical.parties),
                     folder.path().string()));
    warn_without_certificates(listener.address());
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

  void warn_without_certificates(const std::string& address) {
    if (!flags_.certs.empty()) return;
    const std::string who = control::is_loopback(address) ? "every user of this machine" : "everybody who reaches it";
    const std::string line = fmt::format(
        "nothing tells who calls {}: {} can be a party, under any name. Certificates tell (--certs)", address, who);
    note(line);
    fmt::print(stderr, "muster: warning: {}\n", line);
  }

  void remove_unless_begun(const trainer::RunFolder& folder) {
    started_.clear();  // they write there
    std::error_code code;
    if (std::filesystem::exists(folder.path() / "alignment.safetensors", code) || code) return;
    std::filesystem::remove_all(folder.path(), code);
  }

  federated::LabelHolderOptions holder_options(const trainer::RunFolder& folder, const trainer::PartyTable& table) {
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
    options.begin_anew = flags_.begin_anew;
    options.tell = [this](const std::string& line) { tell(line); };
    options.columns = table.columns();
    options.content = table.content();
    options.aligned = [this](const federated::Alignment& alignment) { tell_alignment(alignment); };
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
      started_logs_.push_back(command.log);
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

  // What the party itself said, at the front, and whose mistake it is.
  Error bad_ending(std::size_t party, const launch::Ending& ending) const {
    const std::string& name = resolved_.job.vertical.parties[party];
    const std::string said = last_error_in(started_logs_[party]);
    return {ending.exit_code == 2 ? ErrorKind::kMismatch : ErrorKind::kCompute,
            said.empty() ? fmt::format("{} has ended: {}", name, launch::to_string(ending))
                         : fmt::format("{} has ended: {}", name, said),
            flags_.with[party], said.empty() ? fmt::format("{} says more.", started_logs_[party]) : ""};
  }

  static std::string last_error_in(const std::string& log) {
    constexpr std::string_view kMark = "muster: error: ";
    std::ifstream lines(log);
    std::string said;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(kMark)) said = line.substr(kMark.size());
    }
    return said;
  }

  // Of epochs that stand there already nothing is written: a run that goes on comes to the same figures again. They are
  // those of the newest alignment.
  void read_rows(const std::filesystem::path& metrics) {
    std::ifstream lines(metrics);
    for (std::string line; std::getline(lines, line);) {
      const Json row = parse_json(line, metrics.string());
      const std::string event = row.value("event", "");
      if (event == "alignment") {
        alignment_written_ = row.value("alignment", "");
        epochs_written_ = 0;
        last_ = Json::object();
      }
      if (event != "epoch") continue;
      epochs_written_ = std::max(epochs_written_, row.value("epoch", std::uint64_t{0}));
      last_ = row;
    }
  }

  void tell_alignment(const federated::Alignment& alignment) {
    if (alignment.name == alignment_written_) return;
    alignment_written_ = alignment.name;
    epochs_written_ = 0;
    last_ = Json::object();
    metrics_->write({{"event", "alignment"},
                     {"alignment", alignment.name},
                     {"train_rows", alignment.train_rows},
                     {"test_rows", alignment.rows.size() - alignment.train_rows}});
  }

  // ": train loss 0.3, ..." of an epoch's row.
  static std::string words_of(const Json& row) {
    std::string words;
    for (const auto& [name, value] : row.items()) {
      if (value.is_number_float()) words += fmt::format(", {} {:.4f}", name, value.get<double>());
    }
    return words;
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
    if (number <= epochs_written_) return;
    last_ = row;
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
      print_line(fmt::format("all {} epochs are done{}; the label holder's nets are in {}",
                             row.value("epoch", std::uint64_t{0}), words_of(row),
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
  std::string alignment_written_;
  Json last_ = Json::object();
  std::vector<launch::ChildProcess> started_;
  std::vector<std::string> started_logs_;
};

}  // namespace

int run_label_holder(const LabelsFlags& flags) {
  const trainer::ResolvedJob resolved = load_party_job(flags);
  return LabelsRun(flags, resolved).run();
}

}  // namespace muster::cli
