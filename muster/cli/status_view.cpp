// Texts from a status and nothing else:
// no clock, no files. What is not known is a dash, never a zero.
#include "muster/cli/status_view.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include "muster/base/text.h"

namespace muster::cli {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as their longest text, two spaces apart.
std::string table(const std::vector<Row>& rows, const std::string& indent) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line = indent;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string steps(const control::JobStatus& status) {
  if (status.total_steps == 0) return fmt::format("{}", status.step);
  return fmt::format("{} of {} ({:.0f} %)", status.step, status.total_steps,
                     100.0 * static_cast<double>(status.step) / static_cast<double>(status.total_steps));
}

std::string workers(const control::JobStatus& status) {
  if (!status.hosts.empty()) {
    int all = 0;
    for (const control::HostStatus& host : status.hosts)
      all += host.workers;
    return fmt::format("{} on {} host{}, {} wanted on each", all, status.hosts.size(),
                       status.hosts.size() == 1 ? "" : "s", status.target_workers);
  }
  const auto running = std::count_if(status.members.begin(), status.members.end(),
                                     [](const control::Worker& member) { return member.member(); });
  std::string text = fmt::format("{} of {}", running, status.target_workers);
  if (status.min_workers != status.max_workers)
    text += fmt::format(" (may be {} to {})", status.min_workers, status.max_workers);
  return text;
}

std::string servers(const control::JobStatus& status) {
  if (!status.live) return fmt::format("- of {}", status.target_servers);
  std::string text = fmt::format("{} of {}", status.servers, status.target_servers);
  if (status.leaving_servers > 0) text += fmt::format(", {} leaving", status.leaving_servers);
  return text;
}

std::string rate(const control::JobStatus& status) {
  return status.live && status.samples_per_second > 0 ? fmt::format("{:.0f}", status.samples_per_second) : "-";
}

// "loss 0.25, kl 0.01 (step 400)": what a row of metrics says of how training goes.
std::string figures(const Json& row) {
  std::string told;
  const auto add = [&](const std::string& name, const Json& value) {
    if (value.is_number()) told += fmt::format("{}{} {:.4g}", told.empty() ? "" : ", ", name, value.get<double>());
  };
  if (!row.is_object()) return {};
  for (const char* const name : {"loss", "accuracy", "mae"})
    if (row.contains(name)) add(name, row[name]);
  if (row.contains("reports") && row["reports"].is_object())
    for (const auto& [name, value] : row["reports"].items())
      add(name, value);
  if (told.empty() || !row.contains("step")) return {};
  return fmt::format("{} (step {})", told, row["step"].dump());
}

std::string coordinator(const control::JobStatus& status) {
  if (status.coordinator_pid == 0) return "none";
  return fmt::format("pid {}{}{}", status.coordinator_pid,
                     status.coordinator_host.empty() ? "" : " on " + status.coordinator_host,
                     status.live ? "" : ", does not answer");
}

std::string alarms(const control::JobStatus& status, const std::string& indent) {
  std::string text;
  for (const std::string& alarm : status.alarms)
    text += fmt::format("{}! {}\n", indent, alarm);
  return text;
}

std::string optional_number(const std::optional<std::uint64_t>& number) {
  return number ? fmt::format("{}", *number) : "-";
}

std::string lanes(const control::HostStatus& host) {
  if (host.first_lane == host.last_lane) return "-";
  return fmt::format("{} to {}", host.first_lane, host.last_lane - 1);
}

std::string duration(double seconds) {
  return human_duration(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e9))));
}

}  // namespace

std::string jobs_table(const std::vector<control::JobStatus>& jobs) {
  std::vector<Row> rows{{"JOB", "RUN", "STATE", "STEP", "EPOCH", "SAMPLES/S", "WORKERS"}};
  std::string below;
  for (const control::JobStatus& status : jobs) {
    const std::string run = std::filesystem::path(status.run).filename().string();
    rows.push_back({status.job, run, status.state, steps(status), status.live ? fmt::format("{}", status.epoch) : "-",
                    rate(status), workers(status)});
    for (const std::string& alarm : status.alarms)
      below += fmt::format("! {}: {}\n", run, alarm);
  }
  return table(rows, "") + below;
}

std::string job_page(const control::JobStatus& status, const Json& row) {
  std::string text = fmt::format("{}  {}\n", status.job, status.run);
  std::vector<Row> facts{
      {"state", status.reason.empty() ? status.state : fmt::format("{}: {}", status.state, status.reason)},
      {"step", steps(status)}};
  if (status.live) {
    facts.push_back({"epoch", fmt::format("{}", status.epoch)});
    facts.push_back({"rate", rate(status) + " samples/s"});
  }
  if (const std::string text = figures(row); !text.empty()) facts.push_back({"figures", text});
  facts.push_back({"workers", workers(status)});
  if (status.max_servers > 0) facts.push_back({"servers", servers(status)});
  facts.push_back({"generation", fmt::format("{}", status.hosts.empty() ? status.generation : status.job_generation)});
  facts.push_back({"coordinator", coordinator(status)});
  if (!status.started.empty()) facts.push_back({"started", status.started});
  text += table(facts, "  ");
  if (!status.hosts.empty()) {
    std::vector<Row> rows{{"HOST", "NUMBER", "WORKERS", "LANES", "STEP", "HEARD OF", "RUN FOLDER", "CHECKPOINT"}};
    for (const control::HostStatus& host : status.hosts)
      rows.push_back({host.name, fmt::format("{}", host.number), fmt::format("{}", host.workers), lanes(host),
                      fmt::format("{}", host.step), fmt::format("{} ago", duration(host.silent_seconds)),
                      host.place.empty() ? "-" : host.place, optional_number(host.checkpoint)});
    text += "\n" + table(rows, "  ");
  }
  if (!status.members.empty()) {
    const bool staged = std::ranges::any_of(status.members, [](const auto& member) { return !member.stage.empty(); });
    std::vector<Row> rows{{"RANK", "PID", "STATE", "RESTARTS", "STEP", "LANE", "WAITS FOR"}};
    const bool teams = std::ranges::any_of(
        status.members, [](const auto& member) { return std::ranges::count(member.stage, '.') > 1; });
    if (staged) rows.front().insert(rows.front().begin() + 1, teams ? "ROW.STAGE.MEMBER" : "ROW.STAGE");
    for (const control::Worker& member : status.members) {
      std::string waits = member.waits_for.empty() ? "-" : member.waits_for;
      if (!member.waits_for.empty() && member.seconds > 0) waits += " for " + duration(member.seconds);
      rows.push_back({fmt::format("{}", member.rank), fmt::format("{}", member.process.pid),
                      std::string(to_string(member.state)), fmt::format("{}", member.restarts),
                      optional_number(member.step), optional_number(member.lane), waits});
      if (staged) rows.back().insert(rows.back().begin() + 1, member.stage.empty() ? "-" : member.stage);
    }
    text += "\n" + table(rows, "  ");
  }
  if (!status.changes.empty()) {
    std::vector<Row> rows{{"CHANGE", "", "FROM STEP"}};
    for (const control::Change& change : status.changes)
      rows.push_back({fmt::format("{}", change.number), change.assignment, optional_number(change.applied_at_step)});
    text += "\n" + table(rows, "  ");
  }
  if (!status.alarms.empty()) text += "\n" + alarms(status, "  ");
  return text;
}

}  // namespace muster::cli
