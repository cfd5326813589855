// Keys, limits and help of [federated]; what stands here becomes docs/job-file.md. Keys that nothing would look at
// beside the others are refused, as in the rest of the job file.
#include "muster/federated/options.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "muster/base/config.h"
#include "muster/federated/aggregate.h"
#include "muster/federated/client_split.h"
#include "muster/federated/round_change.h"
#include "muster/federated/update_codec.h"

namespace muster::federated {
namespace {

// A key that only counts with one value of another.
constexpr double kMostSecureClients = 1000;  // a word of 32 bits then has 2 million steps for each client

struct Belongs {
  const char* key;
  bool counts;
  const char* to;
};

}  // namespace

void Options::add_keys(Section& s) {
  constexpr double kMany = 1e12;
  s.field("clients", &clients, "How many clients there are. 0: the job is not federated.").range(0, kMany);
  s.field("per_round", &per_round, "Clients whose updates make a round.").range(1, 1e6);
  s.field("rounds", &rounds, "Rounds of the job.").range(1, 1e9);
  s.field("local_epochs", &local_epochs, "Passes of a client over its own samples in a round.").range(1, 1e6);
  s.field("split", &split,
          "Which samples a client has. iid, dirichlet:ALPHA (labels in unequal parts; 0.1 gives a client few of them), "
          "or file:PATH (line i: the client of sample i).");
  s.field("client_samples", &client_samples,
          "Every client draws so many samples, with repetition, instead of sharing the data set out: for more clients "
          "than samples. Not set: every sample belongs to one client.")
      .range(1, 1e9);
  s.field("algorithm", &algorithm,
          "What clients do. fedavg: train. fedprox: with a pull back to the round's model. scaffold: with controls "
          "against the drift of clients, which they keep. fedbuff: train all the time, each from the model of when it "
          "began; a round is over when per_round updates are there.")
      .one_of({"fedavg", "fedprox", "scaffold", "fedbuff"});
  s.field("prox", &prox, "fedprox: how strong the pull is.").range(0, 1e6);
  s.field("lr_decay", &lr_decay, "The clients' rate is multiplied by this after every round.").above(0).range(0, 1);
  s.field("server", &server,
          "What the server does with the clients' mean change. average: adds it. momentum, adam, yogi, adagrad: takes "
          "it as a gradient (FedAvgM, FedAdam, FedYogi, FedAdagrad).")
      .one_of({"average", "momentum", "adam", "yogi", "adagrad"});
  s.field("server_lr", &server_lr, "Rate of the server.").above(0).range(0, 1e3);
  s.field("server_momentum", &server_momentum, "momentum, adam, yogi, adagrad: of the mean change.").range(0, 0.9999);
  s.field("server_beta2", &server_beta2, "adam, yogi: of its squares.").range(0, 0.99999);
  s.field("server_tau", &server_tau, "adam, yogi, adagrad: added to the root of the squares.").above(0).range(0, 1);
  s.field("aggregate", &aggregate,
          "How updates become one. mean: by samples. median, trimmed_mean: of each number by itself. krum, multi_krum: "
          "those that lie nearest to the others.")
      .one_of({"mean", "median", "trimmed_mean", "krum", "multi_krum"});
  s.field("trim", &trim, "trimmed_mean: part of the updates that is left out at each end.").range(0, 0.49);
  s.field("byzantine", &byzantine, "krum, multi_krum: how many updates of a round may be false.").range(0, 1e6);
  s.field("krum_keep", &krum_keep, "multi_krum: how many updates are averaged.").range(1, 1e6);
  s.field("clip", &clip, "Largest norm of an update; longer ones are shortened to it. Not set: as they are.").above(0);
  s.field("most_norm", &most_norm,
          "An update that is longer is refused, counted and named. Not set: only what is not finite is refused.")
      .above(0);
  s.field("most_samples", &most_samples,
          "Nobody weighs more than a client with so many samples, whatever it says it has. Not set: by samples.")
      .range(1, 1e12);
  s.field("keep", &keep,
          "Parts of the model that stay at the client and are never sent: \"norm\" (batch norm with its statistics: "
          "FedBN), \"head\" (the last layer: personalised heads), or a name that tensors begin with.");
  s.field("client_test", &client_test,
          "Part of a client's samples that it does not train on: it measures each model that it gets on them.")
      .range(0, 0.9);
  s.field("compress", &compress,
          "How clients send updates. none; int8: a byte a number; topk:PART: the largest PART of them, as topk:0.01.");
  s.field("error_feedback", &error_feedback,
          "compress: a client keeps what it has not sent, and adds it to its next update.");
  s.field("concurrency", &concurrency, "fedbuff: clients that train at a time. Not set: twice per_round.")
      .range(1, 1e6);
  s.field("most_staleness", &most_staleness,
          "fedbuff: an update whose model is more rounds old does not count; fresher ones weigh 1 / sqrt(1 + rounds).")
      .range(0, 1000);
  s.field(
      "submodels", &submodels,
      "Narrower versions of the model for clients with less room, each as changes of the job: \"model.hidden=[64]\". "
      "A client trains one of them, or the whole; numbers are averaged over those who have them (HeteroFL).");
  s.field("secure", &secure,
          "Secure aggregation: the server learns the sum of a round's updates and no single one "
          "(docs/federated-privacy.md).");
  s.field("secure_threshold", &secure_threshold,
          "secure: so many clients have to be left for a sum to be unmasked; fewer, together with the server, learn "
          "nothing. Not set: more than two thirds of those that began.")
      .range(3, kMostSecureClients);
  s.field(
       "secure_stage_seconds", &secure_stage_seconds,
       "secure: after so long without an answer in a stage a client has dropped out; a masked update takes one, too.")
      .above(0);
  s.field(
       "noise", &noise,
       "Differential privacy of clients: normal noise of so many times clip is added to the sum of a round's updates. "
       "0: none.")
      .range(0, 1e3);
  s.field("noise_at", &noise_at,
          "Who adds the noise. server: the server, to the sum. clients: each its part, so that the server, too, learns "
          "noisy sums alone; with secure and secure_threshold.")
      .one_of({"server", "clients"});
  s.field("sample_clip", &sample_clip, "sample_noise: largest norm of a sample's gradient; longer ones are shortened.")
      .above(0);
  s.field("sample_noise", &sample_noise,
          "DP-SGD, differential privacy of a client's samples: each client shortens the gradient of every sample, and "
          "adds "
          "normal noise of so many times sample_clip to their sum. 0: none.")
      .range(0, 1e3);
  s.field("sample_epsilon", &sample_epsilon,
          "sample_noise: the budget of each client; it takes no part in a round that would exceed it.")
      .above(0);
  s.field("delta", &delta, "noise, sample_noise: the delta of (epsilon, delta).").above(0).range(0, 0.1);
  s.field("epsilon", &epsilon, "noise: the budget; training ends before the round that would exceed it.").above(0);
  s.field("sampling", &sampling,
          "Which clients are asked. uniform; size: by their samples; available: those that answer (availability).")
      .one_of({"uniform", "size", "available"});
  s.field("over_select", &over_select, "So many times per_round clients are asked; the first to answer count.")
      .range(1, 100);
  s.field("least", &least, "With fewer updates than this a round changes nothing.").range(1, 1e6);
  s.field("availability", &availability, "Mean part of the rounds in which a client can be asked.")
      .above(0)
      .range(0, 1);
  s.field("speed_spread", &speed_spread,
          "How much clients differ in speed: deviation of the logarithm, of a client's speed and of a round's.")
      .range(0, 10);
  s.field("drop", &drop, "Part of those asked that begin and never answer.").range(0, 0.999);
  s.field(
       "deadline_seconds", &deadline_seconds,
       "Seconds after which a round ends; in a simulation virtual ones: a client of mean speed trains 1,000 samples a "
       "second. Not set: it ends with the last update.")
      .above(0);
  s.field(
       "attack", &attack,
       "What false clients send, to try what holds against them. sign_flip: their update times -4. noise, huge, nan.")
      .one_of({"none", "sign_flip", "noise", "huge", "nan"});
  s.field("attackers", &attackers, "Part of the clients that are false.").range(0, 1);
  s.field("evaluate_every", &evaluate_every, "Rounds from evaluation to evaluation; the last round has one.")
      .range(1, 1e9);
  s.field(
       "wait_for", &wait_for,
       "muster federated server: a round begins when so many clients are there. Not set: per_round times over_select.")
      .range(1, 1e6);
  s.field("silence_seconds", &silence_seconds,
          "muster federated server: a client that is not heard of for so long is not there any more.")
      .range(1, 86400);
}

double Options::staleness_weight(std::uint64_t staleness) {
  return 1 / std::sqrt(1 + static_cast<double>(staleness));
}

double Options::divisor(double weight, std::uint64_t count) const {
  return buffered() ? static_cast<double>(count) : weight;
}

std::uint64_t Options::in_flight() const {
  return static_cast<std::uint64_t>(concurrency.value_or(std::min(clients, 2 * per_round)));
}

std::uint64_t Options::held_out(std::uint64_t samples) const {
  if (samples == 0) return 0;
  return std::min(samples - 1, static_cast<std::uint64_t>(client_test * static_cast<double>(samples)));
}

std::uint64_t Options::least_updates() const {
  constexpr std::int64_t kLeastInSum = 3;  // of two, each knows the other's
  return static_cast<std::uint64_t>(secure ? std::max(least, secure_threshold.value_or(kLeastInSum)) : least);
}

// Independent parts add up by their squares: those of secure_threshold clients to the noise that is asked for.
double Options::noise_of_client() const {
  return clients_add_noise() ? noise * *clip / std::sqrt(static_cast<double>(*secure_threshold)) : 0;
}

double Options::secure_range() const {
  constexpr double kDeviations = 10;  // beyond that normal noise is cut off: once in 1e23 numbers
  return *clip + kDeviations * noise_of_client();
}

double Options::weight(std::uint64_t samples) const {
  if (noise > 0) return 1;
  return static_cast<double>(most_samples ? std::min(samples, static_cast<std::uint64_t>(*most_samples)) : samples);
}

void Options::check_secure(const Schema& schema) const {
  if (!secure) return;
  const auto refuse = [&](bool chosen, const char* key, const char* why, const char* remedy) {
    if (chosen) throw schema.invalid(fmt::format("federated.{}", key), why, remedy);
  };
  refuse(needs_all_updates(), "aggregate", "needs single updates, which federated.secure hides",
         "Use aggregate = \"mean\", or leave secure out.");
  refuse(controls(), "algorithm", "scaffold's controls have no bound, and federated.secure adds numbers of a range",
         "Use algorithm = \"fedavg\" or \"fedprox\", or leave secure out.");
  refuse(most_norm.has_value(), "most_norm", "looks at single updates, which federated.secure hides", "Use clip.");
  refuse(attack != "none", "attack", "nothing at the server can tell false updates where federated.secure hides them",
         "Leave one of them out.");
  refuse(!clip, "clip", "federated.secure adds whole numbers, whose range clip is", "Set it: the largest norm.");
  refuse(!(noise > 0) && !most_samples, "most_samples",
         "is the largest weight in the sums of federated.secure, and has to be set",
         "Set it to the samples of a large client; 1 lets all count alike.");
  const auto asked = static_cast<std::int64_t>(std::ceil(static_cast<double>(per_round) * over_select));
  refuse(per_round < 3 || static_cast<double>(asked) > kMostSecureClients, "per_round",
         "federated.secure is for 3 to 1,000 clients a round", "Change it.");
  refuse(secure_threshold && *secure_threshold > per_round, "secure_threshold", "more than the clients of a round",
         "Lower it.");
}

void Options::check(const Schema& schema) const {
  if (!chosen()) {
    for (const Section& section : schema.sections()) {
      if (section.name() != "federated") continue;
      for (const Field& field : section.fields()) {
        const std::string key = "federated." + field.key();
        if (field.key() != "clients" && schema.chosen(key))
          throw schema.invalid(key, "has no effect without federated.clients", "Set how many clients there are.");
      }
    }
    return;
  }
  check_value(schema, "federated.split", [&] { parse_split(split); });
  if (per_round > clients)
    throw schema.invalid("federated.per_round", fmt::format("{} of {} clients", per_round, clients),
                         "Ask for at most as many as there are.");
  const auto asked = static_cast<std::int64_t>(std::ceil(static_cast<double>(per_round) * over_select));
  if (asked > clients)
    throw schema.invalid("federated.over_select", fmt::format("asks {} of {} clients", asked, clients),
                         "Lower it, or per_round.");
  if (least > per_round)
    throw schema.invalid("federated.least", fmt::format("{} updates of the {} of a round", least, per_round),
                         "Set it to per_round at most.");
  if (wait_for && *wait_for > clients)
    throw schema.invalid("federated.wait_for", fmt::format("{} of {} clients", *wait_for, clients),
                         "Wait for at most as many as there are.");
  const bool adaptive = server == "adam" || server == "yogi" || server == "adagrad";
  const Belongs rules[] = {
      {"prox", algorithm == "fedprox", "algorithm = \"fedprox\""},
      {"server_momentum", server != "average", "another server than \"average\""},
      {"server_beta2", server == "adam" || server == "yogi", "server = \"adam\" or \"yogi\""},
      {"server_tau", adaptive, "server = \"adam\", \"yogi\" or \"adagrad\""},
      {"trim", aggregate == "trimmed_mean", "aggregate = \"trimmed_mean\""},
      {"byzantine", aggregate == "krum" || aggregate == "multi_krum", "aggregate = \"krum\" or \"multi_krum\""},
      {"krum_keep", aggregate == "multi_krum", "aggregate = \"multi_krum\""},
      {"delta", noise > 0 || sample_noise > 0, "noise or sample_noise"},
      {"sample_clip", sample_noise > 0, "sample_noise"},
      {"sample_epsilon", sample_noise > 0, "sample_noise"},
      {"noise_at", noise > 0, "noise"},
      {"epsilon", noise > 0, "noise"},
      {"error_feedback", compress != "none", "compress"},
      {"concurrency", buffered(), "algorithm = \"fedbuff\""},
      {"most_staleness", buffered(), "algorithm = \"fedbuff\""},
      {"secure_threshold", secure, "secure"},
      {"secure_stage_seconds", secure, "secure"},
      {"attackers", attack != "none", "attack"},
  };
  for (const Belongs& rule : rules) {
    const std::string key = fmt::format("federated.{}", rule.key);
    if (!rule.counts && schema.chosen(key))
      throw schema.invalid(key, fmt::format("has no effect without {}", rule.to), "Set that, or remove this.");
  }
  check_parts(schema);
  if (aggregate == "trimmed_mean" && trimmed_at_an_end(trim, static_cast<std::size_t>(per_round)) == 0)
    throw schema.invalid("federated.trim", fmt::format("{} of {} updates leaves out nobody", trim, per_round),
                         "Raise it, or federated.per_round.");
  if (aggregate == "krum" || aggregate == "multi_krum") {
    // Blanchard et al. 2017: n >= 2 f + 3.
    if (per_round < 2 * byzantine + 3)
      throw schema.invalid(
          "federated.byzantine",
          fmt::format("krum needs at least {} updates a round against {} false ones", 2 * byzantine + 3, byzantine),
          "Raise federated.per_round.");
    if (krum_keep > per_round - byzantine)
      throw schema.invalid("federated.krum_keep",
                           fmt::format("{} of the {} that may be true", krum_keep, per_round - byzantine),
                           "Keep fewer.");
  }
  if (controls() && needs_all_updates())
    throw schema.invalid("federated.aggregate", "scaffold's controls are means", "Use aggregate = \"mean\".");
  check_secure(schema);
  if (clients_add_noise() && (!secure || !secure_threshold))
    throw schema.invalid("federated.noise_at",
                         "the parts of clients make the noise only in a sum of so many that nobody sees single ones",
                         "Set secure = true and secure_threshold.");
  if (noise > 0 && !clip)
    throw schema.invalid("federated.noise", "noise without a bound of what a client can change protects nobody",
                         "Set federated.clip.");
  if (noise > 0 && (sampling != "uniform" || aggregate != "mean" || controls()))
    throw schema.invalid("federated.noise",
                         "what is known of its privacy holds for uniform sampling and the mean, without controls",
                         "Set sampling = \"uniform\", aggregate = \"mean\" and algorithm = \"fedavg\" or \"fedprox\".");
  if (sample_noise > 0 && !sample_clip)
    throw schema.invalid("federated.sample_noise", "noise without a bound of what a sample can change protects nobody",
                         "Set federated.sample_clip.");
  if (sample_noise > 0 && client_test > 0)
    throw schema.invalid("federated.client_test", "figures of single clients tell of their samples without noise",
                         "Leave it out, or sample_noise.");
  if (epsilon && !(noise > 0))
    throw schema.invalid("federated.epsilon", "a budget without noise", "Set federated.noise.");
  if (!budget_allows(*this, 0))
    throw schema.invalid("federated.epsilon",
                         fmt::format("allows no round: the first one spends epsilon {:.3f} at delta {}",
                                     *epsilon_after(*this, 1), delta),
                         "Raise it, federated.noise or federated.clients.");
}

// What clients keep, how they send, and the narrower ones.
void Options::check_parts(const Schema& schema) const {
  check_value(schema, "federated.compress", [&] { parse_compression(compress); });
  const auto refuse = [&](bool wrong, const char* key, const char* why, const char* remedy) {
    if (wrong) throw schema.invalid(fmt::format("federated.{}", key), why, remedy);
  };
  refuse(controls() && !keep.empty(), "keep", "scaffold's controls are of the whole model",
         "Use algorithm = \"fedavg\" or \"fedprox\".");
  refuse(noise > 0 && !keep.empty(), "keep", "noise would be added to what is never sent", "Remove one of them.");
  refuse(controls() && compress != "none", "compress", "scaffold's controls are sent as they are",
         "Use algorithm = \"fedavg\" or \"fedprox\".");
  refuse(secure && (buffered() || compress != "none" || !submodels.empty()), "secure",
         "is for whole updates of one round",
         "Use another algorithm than fedbuff, compress = \"none\" and no submodels.");
  if (buffered()) {
    refuse(concurrency && *concurrency > clients, "concurrency", "more than there are clients", "Lower it.");
    refuse(concurrency && *concurrency < per_round, "concurrency", "fewer than fill a buffer (per_round)", "Raise it.");
    refuse(aggregate != "mean", "aggregate", "fedbuff weighs updates by their age", "Use aggregate = \"mean\".");
    refuse(noise > 0, "noise", "what is known of its privacy does not hold for fedbuff",
           "Use algorithm = \"fedavg\" or \"fedprox\".");
    refuse(over_select > 1, "over_select", "has no effect with fedbuff", "Use concurrency.");
    refuse(sampling != "uniform", "sampling", "has no effect with fedbuff", "Remove it.");
    refuse(least > 1, "least", "has no effect with fedbuff: a round waits for its buffer", "Remove it.");
    refuse(deadline_seconds.has_value(), "deadline_seconds", "has no effect with fedbuff: a round waits for its buffer",
           "Remove it.");
  }
  if (submodels.empty()) return;
  refuse(submodels.size() > kMostSubmodels, "submodels", "are more than 7", "Leave some out.");
  refuse(controls() || buffered() || noise > 0 || aggregate != "mean" || !keep.empty() || compress != "none",
         "submodels", "can only be averaged",
         "Use algorithm = \"fedavg\" or \"fedprox\" and aggregate = \"mean\", without noise, keep and compress.");
}

}  // namespace muster::federated
