// The state of a run holds its last row, so that a row is written once, whenever the run was killed; simulations and
// servers write the same rows.
#include "muster/cli/federated_run.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/hash.h"
#include "muster/base/version.h"
#include "muster/model/manifest.h"
#include "muster/observe/metrics_log.h"
#include "muster/trainer/job_fit.h"
#include "muster/trainer/model_card.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kMostModelBytes = std::uint64_t{1} << 40;

std::uint64_t counted_in(const federated::RoundReport& report) {
  const std::uint64_t answered = report.plan.counts.size();
  return answered > report.refused ? answered - report.refused : 0;
}

}  // namespace

void require_federated(const trainer::ResolvedJob& resolved) {
  if (resolved.job.federated.chosen()) return;
  throw resolved.invalid("federated.clients", "the job does not say how many clients there are",
                         "Set [federated] clients = 100, or give --set federated.clients=100.");
}

trainer::RunFolder open_federated_run(bool resume, const std::string& folder, const trainer::ResolvedJob& resolved) {
  const trainer::Job& job = resolved.job;
  std::optional<trainer::RunFolder> run;
  if (!folder.empty())
    run = trainer::RunFolder::open(folder);
  else if (resume)
    run = trainer::RunFolder::newest(job.runs, job.name);
  else
    return trainer::RunFolder::create(job.runs, job.name, resolved.text);
  if (!run)
    throw Error(ErrorKind::kNotFound, fmt::format("there is no run of {} to go on with", job.name), job.runs,
                "Start it without --resume.");
  if (const auto obstacle = trainer::resume_obstacle(run->job(), resolved)) throw *obstacle;
  return *run;
}

Json row_of_round(const federated::RoundReport& report) {
  Json row{{"event", "round"},
           {"round", report.round},
           {"asked", report.plan.asked},
           {"counted", counted_in(report)},
           {"dropped", report.plan.dropped},
           {"late", report.plan.late},
           {"refused", report.refused},
           {"change_norm", report.change_norm},
           {"seconds", report.seconds},
           {"virtual_seconds", report.virtual_seconds}};
  if (report.client_loss) row["client_loss"] = *report.client_loss;
  if (report.repeated > 0) row["repeated"] = report.repeated;
  if (report.spent > 0) row["spent"] = report.spent;
  if (report.unmask_seconds > 0) row["unmask_seconds"] = report.unmask_seconds;
  if (report.late_updates > 0) row["late_updates"] = report.late_updates;
  if (report.update_bytes > 0) row["update_bytes"] = report.update_bytes;
  if (report.on_clients) {
    row["clients_test_loss"] = report.on_clients->loss;
    for (const auto& [name, value] : report.on_clients->metrics)
      row["clients_" + name] = value;
  }
  if (report.plan.counts.empty()) row["reason"] = report.plan.reason;
  if (report.peak_memory > 0) row["peak_memory_mb"] = std::round(static_cast<double>(report.peak_memory) / 1e5) / 10;
  if (report.epsilon) row["epsilon"] = *report.epsilon;
  if (report.sample_epsilon) row["sample_epsilon"] = *report.sample_epsilon;
  if (report.test) {
    row["test_loss"] = report.test->loss;
    for (const auto& [name, value] : report.test->metrics)
      row[name] = value;
  }
  return row;
}

std::string line_of_round(const federated::RoundReport& report, std::int64_t rounds) {
  std::string line = fmt::format("round {}/{}: {} clients", report.round, rounds, counted_in(report));
  if (report.client_loss) line += fmt::format(", their loss {:.4f}", *report.client_loss);
  if (report.plan.counts.empty()) line = fmt::format("round {}/{}: {}", report.round, rounds, report.plan.reason);
  if (report.refused > 0)
    line += fmt::format(", {} refused (client {} the first)", report.refused, *report.refused_client);
  if (report.test) {
    line += fmt::format("; test loss {:.4f}", report.test->loss);
    for (const auto& [name, value] : report.test->metrics)
      line += fmt::format(", {} {:.4f}", name, value);
  }
  if (report.on_clients) {
    line += fmt::format("; at clients: loss {:.4f}", report.on_clients->loss);
    for (const auto& [name, value] : report.on_clients->metrics)
      line += fmt::format(", {} {:.4f}", name, value);
  }
  if (report.epsilon) line += fmt::format("; epsilon {:.3f}", *report.epsilon);
  if (report.sample_epsilon) line += fmt::format("; epsilon of samples {:.3f}", *report.sample_epsilon);
  if (report.spent > 0) line += fmt::format(", {} clients have spent theirs", report.spent);
  return line + fmt::format(" ({:.1f} s)", report.seconds);
}

void mend_rows(const std::filesystem::path& metrics, const federated::State& state) {
  if (state.row.empty()) return;
  std::ifstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    if (line == state.row) return;
  }
  observe::MetricsLog(metrics).write(parse_json(state.row, "the state of the run"));
}

void write_federated_card(const std::filesystem::path& run, const trainer::ResolvedJob& resolved,
                          const trainer::Datasets& sets, std::uint64_t parameters, const federated::RoundReport* last) {
  const trainer::Job& job = resolved.job;
  trainer::ModelCard card{.name = job.name,
                          .muster_version = version(),
                          .job = resolved.text,
                          .data = sets.description,
                          .train_samples = sets.train->size(),
                          .form = sets.form,
                          .model = job.model.name.value_or(job.model.script),
                          .parameters = parameters,
                          .task = job.loss.task};
  if (last != nullptr) {
    const std::string weights = read_text(run / model::kModelFile, kMostModelBytes);
    card.result =
        trainer::ModelCard::Result{.weights_hash = sha256(std::as_bytes(std::span(weights))), .rounds = last->round};
    if (last->test) {
      card.result->test = {.loss = last->test->loss, .samples = last->test->samples};
      for (const auto& [name, value] : last->test->metrics)
        card.result->test.metrics.push_back({name, value});
    }
  }
  card.write(run);
}

bool has_ended(const std::filesystem::path& metrics, std::uint64_t rounds) {
  std::ifstream lines(metrics);
  std::string last;
  for (std::string line; std::getline(lines, line);)
    last = std::move(line);
  if (last.empty()) return false;
  const Json row = parse_json(last, metrics.string());
  return row.value("event", "") == "finished" && row.value("rounds", std::uint64_t{0}) == rounds;
}

bool has_trained(const std::filesystem::path& metrics) {
  std::ifstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    const Json row = parse_json(line, metrics.string());
    if (row.value("event", "") == "round" && row.value("counted", std::uint64_t{0}) > 0) return true;
  }
  return false;
}

void print_line(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

}  // namespace muster::cli
