// muster federated vertical: one party of training on columns that several parties hold. The label holder listens
// (federated_labels.cpp); who has other columns joins it, and keeps its state in a folder of its own.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/cli/command.h"
#include "muster/cli/federated_parties.h"
#include "muster/cli/federated_run.h"
#include "muster/control/certificates.h"
#include "muster/control/cluster_server.h"
#include "muster/control/trust_files.h"
#include "muster/federated/enrolments.h"
#include "muster/federated/vertical/column_party.h"
#include "muster/federated/vertical/vertical_stub.h"
#include "muster/launch/stop_signal.h"
#include "muster/trainer/job.h"
#include "muster/trainer/party_table.h"
#include "muster/trainer/split_nets.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kMostPartyJobBytes = 1 << 20;

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
    if (!flags.name.empty() && !federated::is_client_name(flags.name))
      throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no name of a party", excerpt(flags.name, 80)),
                  "--name", "Use letters, digits and -._ , at most 64 of them.");
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
  if (std::filesystem::exists(path, ignored)) return require_job_of_then(folder, resolved);
  write_atomically(path, resolved.text);
}

// Runs the party until `party.run` gives its folder; the exit code.
int run_party(federated::ColumnParty& party, const federated::ColumnPartyOptions& options,
              const std::function<void(const std::filesystem::path&)>& done) {
  const launch::StopSignal signal;
  try {
    done(party.run([&] { return signal.number() == 0; }));
    return 0;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInterrupted) throw;
    options.tell("stopped; the same command goes on");
    return 128 + signal.number();
  }
}

int predict_with_columns(const ColumnsFlags& flags, const trainer::ResolvedJob& resolved,
                         federated::ColumnPartyOptions options, federated::VerticalCalls& calls) {
  const std::filesystem::path net =
      flags.net.empty() ? newest_net(flags.state, options.name) : std::filesystem::path(flags.net);
  require_job_of_then(net, resolved);
  const trainer::PartyTable table(resolved, flags.predict, form_of_net(net));
  options.net = mark_of_net(net);
  options.tell(fmt::format("predicts with the net in {}", net.string()));
  federated::ColumnParty party(calls, options, table.ids(), [&](const federated::Alignment& alignment) {
    return trainer::load_bottom_net(resolved, table.aligned(alignment), net / "model.safetensors");
  });
  return run_party(party, options, [&](const std::filesystem::path& folder) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);  // which rows were common: of no use any more
    std::filesystem::remove(folder.parent_path(), ignored);
    options.tell("all is predicted; the label holder has the answers");
  });
}

int run_columns(const ColumnsFlags& flags) {
  const trainer::ResolvedJob resolved = load_party_job(flags);
  trainer::require_columns_job(resolved, flags.job);
  const control::ClusterTarget target = label_holder_to_join(flags);
  federated::ColumnPartyOptions options;
  options.name = name_of_party(flags);
  options.state = flags.state;
  options.width = static_cast<std::uint64_t>(resolved.job.vertical.width);
  options.patience = flags.patience();
  options.tell = [&](const std::string& line) {
    if (!flags.quiet) print_line(line);
  };
  const std::unique_ptr<federated::VerticalCalls> calls = federated::make_vertical_stub(target);
  if (!flags.predict.empty()) return predict_with_columns(flags, resolved, options, *calls);
  std::filesystem::path state;
  options.enter = [&](const std::filesystem::path& folder) {
    state = folder;
    enter_state(folder, resolved);
  };
  const trainer::PartyTable table(resolved, false);
  options.columns = table.columns();
  options.content = table.content();
  federated::ColumnParty party(*calls, options, table.ids(), [&](const federated::Alignment& alignment) {
    write_form(state, table.form(alignment));
    return trainer::make_bottom_net(resolved, table.aligned(alignment));
  });
  return run_party(party, options, [&](const std::filesystem::path& folder) {
    options.tell(fmt::format("all is done; this party's net is in {}", (folder / "model.safetensors").string()));
  });
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
  command->add_flag("--begin-anew", flags->begin_anew,
                    "Should a party have lost its state, forget what was trained and begin anew; else it is refused");
  command->add_flag("--json", flags->json, "One JSON object an epoch, and one at the end");
  CLI::Option* const predict = command->add_option(
      "--predict", flags->predict, "Train nothing: predict for the rows of this file, with the newest run, or --run");
  command->add_option("--out", flags->out, "With --predict: the CSV file to write")->needs(predict);
  command->add_flag("--probabilities", flags->probabilities, "With --predict: a column for each class")->needs(predict);
  command->footer(
      "The run's folder has metrics.jsonl (a row an epoch), log.txt and, at the end, model.safetensors: the label\n"
      "holder's nets. Kill any party at any moment: who was killed is started again (this one with --resume), and all\n"
      "go on from the newest checkpoint that they have in common, to the same weights.\n"
      "\nExamples:\n"
      "  muster federated vertical labels examples/vertical_labels.toml --with examples/vertical_columns.toml\n"
      "  muster federated vertical labels labels.toml --listen 10.0.0.1:7430 --certs certs/coordinator");
  command->callback([flags, &outcome] {
    outcome.exit_code = flags->predict.empty() ? run_label_holder(*flags) : predict_as_label_holder(*flags);
  });
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
  CLI::Option* const predict =
      command->add_option("--predict", flags->predict,
                          "Train nothing: give what the label holder needs to predict for the rows of this file");
  command->add_option("--net", flags->net, "With --predict: the folder of the trained net; else the newest in --state")
      ->needs(predict);
  command->footer(
      "Ids, columns and weights stay here; activations leave. A label holder that is away is tried again; who was\n"
      "killed goes on with the same command.\n"
      "\nExamples:\n"
      "  muster federated vertical columns bank.toml --join 127.0.0.1:7430 --name bank\n"
      "  muster federated vertical columns bank.toml --join 10.0.0.1:7430 --certs client-bank");
  command->callback([flags, &outcome] { outcome.exit_code = run_columns(*flags); });
}

}  // namespace

trainer::ResolvedJob load_party_job(const PartyFlags& flags) {
  trainer::ResolvedJob resolved = trainer::load_job(flags.job, flags.assignments);
  if (!resolved.job.is_vertical())
    throw resolved.invalid("data.partition", "the job's columns are not with several parties",
                           "Set data.partition = \"vertical\" and vertical.id.");
  if (flags.insecure && !flags.certs.empty())
    throw Error(ErrorKind::kInvalidInput, "--insecure beside --certs", {}, "Leave --insecure out.");
  return resolved;
}

void require_job_of_then(const std::filesystem::path& folder, const trainer::ResolvedJob& resolved) {
  const std::string then = read_text(folder / "job.toml", kMostPartyJobBytes);
  if (const auto obstacle = trainer::resume_obstacle(then, resolved)) throw *obstacle;
}

void add_federated_vertical(CLI::App& federated, Outcome& outcome) {
  CLI::App* command =
      federated.add_subcommand("vertical", "Train with parties that hold other columns of the same rows.");
  command->require_subcommand(1);
  add_labels(*command, outcome);
  add_columns(*command, outcome);
  command->footer("Who learns what, and a first hour: docs/federated-vertical.md.");
}

}  // namespace muster::cli
