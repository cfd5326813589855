// muster federated client: trains on the data of this machine for a server elsewhere. The server says which model and
// how; which files are read is said here, because whoever chooses a file can learn what stands in it.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/base/version.h"
#include "muster/cli/command.h"
#include "muster/cli/federated_run.h"
#include "muster/control/cluster_server.h"
#include "muster/control/trust_files.h"
#include "muster/data/open_alike.h"
#include "muster/federated/client_lock.h"
#include "muster/federated/client_split.h"
#include "muster/federated/enrolments.h"
#include "muster/federated/federated_client.h"
#include "muster/federated/federated_stub.h"
#include "muster/launch/stop_signal.h"
#include "muster/trainer/client_training.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/federated_check.h"
#include "muster/trainer/job.h"
#include "muster/trainer/job_fit.h"

namespace muster::cli {
namespace {

struct FederatedClientFlags {
  std::string join;
  std::string data;
  std::optional<std::uint64_t> as;
  std::string name;
  std::string certs;
  bool insecure = false;
  std::vector<std::string> assignments;
  std::uint64_t submodel = 0;
  std::vector<std::string> models;
  std::optional<std::uint64_t> most_parameters;
  std::string state = "federated-state";
  double wait_seconds = 600;
  bool secure = false;
  bool quiet = false;
};

// What a client trains on.
struct OwnData {
  trainer::Datasets sets;
  federated::ClientSamples samples;
};

control::ClusterTarget server_to_join(const FederatedClientFlags& flags) {
  if (flags.insecure && !flags.certs.empty())
    throw Error(ErrorKind::kInvalidInput, "--insecure beside --certs", {}, "Leave --insecure out.");
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

std::string name_of_client(const FederatedClientFlags& flags) {
  if (!flags.certs.empty()) {
    const control::CertificateFiles files = control::read_certificate_files(flags.certs);
    const auto identity = control::read_certificate(files.certificate, flags.certs).identity;
    if (!identity || identity->role != control::CallerRole::kClient)
      throw Error(ErrorKind::kInvalidInput, "is no certificate of a client", flags.certs,
                  "`muster certs add CERTS client NAME` makes one.");
    if (!flags.name.empty() && flags.name != identity->name)
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("--name {} beside the certificate of {}", flags.name, identity->name), {},
                  "Leave --name out: with certificates a client is who its certificate says.");
    return identity->name;
  }
  if (!flags.name.empty()) return flags.name;
  if (flags.as) return fmt::format("client-{}", *flags.as);
  throw Error(ErrorKind::kInvalidInput, "the client needs a name that stays the same", {}, "Give --name.");
}

// The server's job as this machine runs it. No file of this machine is opened because the server names it.
trainer::ResolvedJob job_of_client(const federated::Enrolled& enrolled, const FederatedClientFlags& flags,
                                   std::uint64_t submodel) {
  const std::string name = "the server's job";
  trainer::ResolvedJob resolved = trainer::parse_job(enrolled.job, name, flags.assignments);
  std::vector<std::string> assignments = flags.assignments;
  const auto own = [&](const char* key) {
    return std::ranges::any_of(flags.assignments,
                               [&](const std::string& one) { return one.starts_with(fmt::format("{}=", key)); });
  };
  // The first values are the server's to send.
  if (!resolved.job.model.init.empty() && !own("model.init")) assignments.emplace_back("model.init=");
  if (!resolved.job.optimizer.init.empty() && !own("optimizer.init")) assignments.emplace_back("optimizer.init=");
  if (assignments.size() != flags.assignments.size()) resolved = trainer::parse_job(enrolled.job, name, assignments);
  for (const auto& [key, value] :
       {std::pair<const char*, const std::string&>("model.script", resolved.job.model.script),
        {"model.library", resolved.job.model.library},
        {"data.library", resolved.job.data.library},
        {"loss.library", resolved.job.loss.library}}) {
    if (!value.empty() && !own(key))
      throw Error(ErrorKind::kInvalidInput, fmt::format("the server's job names code on this machine: {}", value), key,
                  fmt::format("If you know what it is: --set {}=PATH.", key));
  }
  require_federated(resolved);
  if (submodel == 0) return resolved;
  std::vector<trainer::ResolvedJob> narrower = trainer::submodel_jobs(resolved);
  if (submodel > narrower.size())
    throw Error(ErrorKind::kInvalidInput, fmt::format("the server offers {} narrower models", narrower.size()),
                "--submodel", "0 is the whole one.");
  return narrower[submodel - 1];
}

// What a server says, as a folder of this machine: nothing outside of --state is ever touched.
std::string folder_of_run(const std::string& run) {
  if (!federated::is_client_name(run))
    throw Error(ErrorKind::kInvalidInput, fmt::format("the server says its run is called \"{}\"", excerpt(run, 80)),
                "--join", "That is no name of a run: do not trust it.");
  return run;
}

OwnData open_own_data(const FederatedClientFlags& flags, const federated::Enrolled& enrolled,
                      const trainer::ResolvedJob& resolved) {
  OwnData own;
  std::vector<std::uint64_t> samples;
  if (flags.as) {
    own.sets = trainer::open_data(resolved);
    samples = trainer::make_client_split(resolved, *own.sets.train).samples(*flags.as);
  } else {
    const std::string where = "the server's form of data";
    const data::DataForm form = data::DataForm::from_json(parse_json(enrolled.data_form, where), where);
    data::Alike alike = data::open_alike(trainer::source_options(resolved.job), form, flags.data, {.train = true});
    if (!alike.labelled)
      throw Error(ErrorKind::kInvalidInput, "has no targets to train for", flags.data, "Give labelled data.");
    own.sets.train = alike.samples;
    own.sets.test = alike.samples;  // the server evaluates
    own.sets.form = form;
    samples.resize(alike.samples->size());
    std::iota(samples.begin(), samples.end(), std::uint64_t{0});
  }
  if (samples.empty())
    throw Error(ErrorKind::kInvalidInput, "there are no samples to train on",
                flags.as ? fmt::format("--as {}", *flags.as) : flags.data);
  const std::uint64_t held_out = resolved.job.federated.held_out(samples.size());
  own.samples =
      federated::hold_out(std::move(samples), held_out, static_cast<std::uint64_t>(resolved.job.seed), enrolled.number);
  return own;
}

// One model that this client trains.
struct Membership {
  std::string model{};
  std::unique_ptr<federated::FederatedCalls> server{};
  OwnData own{};
  std::unique_ptr<federated::LocalTraining> training{};
  std::unique_ptr<federated::FederatedClient> client{};
};

class ClientProgram {
 public:
  explicit ClientProgram(const FederatedClientFlags& flags)
      : flags_(flags), target_(server_to_join(flags)), name_(name_of_client(flags)) {}

  int run() {
    if (!federated::is_client_name(name_))
      throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no name of a client", excerpt(name_, 80)), "--name",
                  "Letters, digits and -._ , at most 64.");
    const federated::ClientLock lock(flags_.state, name_);
    try {
      std::vector<Membership> members = join_models();
      train(members);
      return 0;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInterrupted) throw;
      tell("stopped; the server goes on without it");
      return 128 + signal_.number();
    }
  }

 private:
  void tell(const std::string& line) const {
    if (!flags_.quiet) print_line(line);
  }

  federated::ClientOptions client_options(const std::string& model) const {
    federated::ClientOptions options;
    options.name = name_;
    options.patience =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(flags_.wait_seconds));
    options.require_secure = flags_.secure;
    if (!flags_.certs.empty()) {
      const control::CertificateFiles files = control::read_certificate_files(flags_.certs);
      options.identity = {files.authorities, files.certificate, files.key};
    }
    options.tell = [this, model](const std::string& line) { tell(model.empty() ? line : model + ": " + line); };
    return options;
  }

  // A server that is not there yet is waited for, as in all that follows.
  std::vector<federated::Offer> ask_for_models() const {
    const Deadline deadline = Deadline::after(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(flags_.wait_seconds)));
    bool told = false;
    while (true) {
      if (!keep_on_()) throw Error(ErrorKind::kInterrupted, "stopped");
      try {
        return federated::list_models(target_);
      } catch (const Error& error) {
        if (!error.retryable() || deadline.passed()) throw;
        if (!std::exchange(told, true)) tell(fmt::format("{}: {}: trying again", error.where(), error.message()));
      }
      system_clock().sleep_for(kPause);
    }
  }

  // Why a model is none for this client; empty if it may be.
  std::string objection(const federated::Offer& offer) const {
    if (!flags_.models.empty() && std::ranges::find(flags_.models, offer.name) == flags_.models.end())
      return "--model names others";
    if (!submodel_of(offer))
      return fmt::format("it has {} numbers, also its narrower ones too many, and --most-parameters is {}",
                         offer.model_floats, *flags_.most_parameters);
    return {};
  }

  // What it trains of a model: the whole one (0) or a narrower one, as it is told or as there is room; nothing: none.
  std::optional<std::uint64_t> submodel_of(const federated::Offer& offer) const {
    if (flags_.submodel > 0 || !flags_.most_parameters) return flags_.submodel;
    return federated::largest_within(offer, *flags_.most_parameters);
  }

  std::vector<Membership> join_models() {
    const std::vector<federated::Offer> offers = ask_for_models();
    for (const std::string& model : flags_.models) {
      if (std::ranges::find(offers, model, &federated::Offer::name) == offers.end())
        throw Error(ErrorKind::kInvalidInput, fmt::format("the server offers no model \"{}\"", model), "--model",
                    fmt::format("It offers {}.", names_of(offers)));
    }
    std::vector<Membership> members;
    std::string why;
    for (const federated::Offer& offer : offers) {
      why = objection(offer);
      if (why.empty()) {
        // One that is asked for by name, or the only one, is trained or the reason is the program's.
        const bool must = offers.size() == 1 || !flags_.models.empty();
        try {
          members.push_back(join(offer, offers.size() > 1));
        } catch (const Error& error) {
          const bool unfit = error.kind() == ErrorKind::kInvalidInput || error.kind() == ErrorKind::kNotFound ||
                             error.kind() == ErrorKind::kDamaged || error.kind() == ErrorKind::kMismatch;
          if (must || !unfit) throw;
          why = error.message();
        }
      }
      if (!why.empty()) tell(fmt::format("does not train {}: {}", offer.name, why));
    }
    if (members.empty())
      throw Error(ErrorKind::kInvalidInput, fmt::format("there is no model to train: {}", why), flags_.join,
                  fmt::format("The server offers {}.", names_of(offers)));
    return members;
  }

  static std::string names_of(const std::vector<federated::Offer>& offers) {
    std::string names;
    for (const federated::Offer& offer : offers)
      names += (names.empty() ? "" : ", ") + offer.name;
    return names;
  }

  Membership join(const federated::Offer& offer, bool several) {
    const std::string& model = offer.name;
    const std::uint64_t submodel = *submodel_of(offer);
    Membership member{.model = model, .server = federated::make_federated_stub(target_, model)};
    federated::ClientOptions options = client_options(several ? model : std::string());
    // Who enrols and then finds that the data does not fit holds nobody up: rounds ask who has asked for tasks.
    const federated::Enrolled enrolled =
        federated::FederatedClient(*member.server, options)
            .enrol({.number = flags_.as, .software = fmt::format("muster {}", version()), .submodel = submodel},
                   keep_on_);
    const trainer::ResolvedJob resolved = job_of_client(enrolled, flags_, submodel);
    member.own = open_own_data(flags_, enrolled, resolved);
    member.training = trainer::make_client_training(resolved, member.own.sets);
    options.tell(fmt::format("{} is client {} of {}, with {} samples{}", name_, enrolled.number, enrolled.run,
                             member.own.samples.train.size(),
                             submodel > 0 ? fmt::format(", and trains narrower model {}", submodel) : ""));
    options.states = std::filesystem::path(flags_.state) / folder_of_run(enrolled.run) / name_;
    options.keep = resolved.job.federated.keep;
    options.error_feedback = resolved.job.federated.error_feedback;
    options.privacy = resolved.job.federated.sample_privacy();
    options.ledger = std::filesystem::path(flags_.state) / (name_ + ".privacy.json");
    member.client = std::make_unique<federated::FederatedClient>(*member.server, options);
    member.client->begin(enrolled, *member.training, member.own.samples.train, member.own.samples.test);
    return member;
  }

  // One model's task after the other's, in turn. What is wrong with one of several is the program's error only when
  // there is something wrong with each.
  void train(std::vector<Membership>& members) {
    const bool several = members.size() > 1;
    std::optional<Error> refused;
    bool finished = false;
    while (!members.empty()) {
      const std::chrono::milliseconds wait = members.size() == 1 ? kWaitAlone : kWaitInTurn;
      std::erase_if(members, [&](Membership& member) {
        try {
          if (member.client->step(keep_on_, wait)) return false;
          tell_end(member, several);
          finished = true;
        } catch (const Error& error) {
          if (!several || error.kind() != ErrorKind::kInvalidInput) throw;
          tell(fmt::format("does not train {}: {}", member.model, error.what()));
          refused = error;
        }
        return true;
      });
    }
    if (refused && !finished) throw *refused;
  }

  void tell_end(const Membership& member, bool several) const {
    const federated::ClientSummary& summary = member.client->summary();
    tell(fmt::format("{}finished: {}; {} updates counted, {} refused, {} late", several ? member.model + ": " : "",
                     summary.ending, summary.accepted, summary.refused, summary.late));
  }

  static constexpr std::chrono::milliseconds kPause{500};
  static constexpr std::chrono::milliseconds kWaitAlone{2000};
  static constexpr std::chrono::milliseconds kWaitInTurn{200};

  const FederatedClientFlags& flags_;
  const control::ClusterTarget target_;
  const std::string name_;
  const launch::StopSignal signal_;
  const std::function<bool()> keep_on_ = [this] { return signal_.number() == 0; };
};

int run_federated_client(const FederatedClientFlags& flags) {
  if (!flags.data.empty() && flags.as)
    throw Error(ErrorKind::kInvalidInput, "--data beside --as", {}, "Give one of them.");
  if (flags.data.empty() && !flags.as)
    throw Error(ErrorKind::kInvalidInput, "which data is to be trained on?", {},
                "Give --data PATH; or, to try it with the job's own data, --as NUMBER.");
  return ClientProgram(flags).run();
}

}  // namespace

void add_federated_client(CLI::App& federated, Outcome& outcome) {
  CLI::App* command = federated.add_subcommand("client", "Train on the data of this machine for a server.");
  auto flags = std::make_shared<FederatedClientFlags>();
  command->add_option("--join", flags->join, "ADDRESS:PORT that muster federated server says")->required();
  command->add_option("--data", flags->data, "Labelled data of this machine, in files as the server's job has them");
  command->add_option("--as", flags->as, "To try it: train on what client NUMBER of the simulation has");
  command->add_option("--name", flags->name, "Who this is, always the same; with --certs the certificate says it");
  command->add_option("--certs", flags->certs, "This client's folder of muster certs add")
      ->check(CLI::ExistingDirectory);
  command->add_flag("--insecure", flags->insecure,
                    "Join another machine without certificates: others can read and change what is sent");
  command->add_option("--set", flags->assignments, "section.key=value for this client, over the server's job")
      ->allow_extra_args(false);
  command
      ->add_option("--model", flags->models,
                   "Of a server with several: train this one; may be repeated. Default: all that fit the data")
      ->allow_extra_args(false);
  command->add_option("--most-parameters", flags->most_parameters,
                      "Train no model with more numbers than this; of a larger one the largest narrower one that fits");
  command->add_option("--submodel", flags->submodel,
                      "Train a narrower model: the first, second, ... of the job's federated.submodels");
  command->add_option("--state", flags->state, "Folder for what the client keeps from round to round")
      ->capture_default_str();
  command->add_flag("--secure", flags->secure,
                    "Send no update but with secure aggregation, whatever the server asks for");
  command->add_option("--wait", flags->wait_seconds, "Seconds to try again when the server is away")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command->add_flag("--quiet,-q", flags->quiet, "Errors only");
  command->footer(
      "The server sends the job and the model; the data stays here, and no other file is read. It ends when the "
      "server\n"
      "says that all rounds are done. A server that is away, or was killed and started again, is tried again by "
      "itself.\n"
      "\nExamples:\n"
      "  muster federated client --join 127.0.0.1:7420 --as 0\n"
      "  muster federated client --join 10.0.0.1:7420 --certs client-hospital-1 --data patients.csv");
  command->callback([flags, &outcome] { outcome.exit_code = run_federated_client(*flags); });
}

}  // namespace muster::cli
