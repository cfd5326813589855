// One report in two forms, for people and as JSON. What could not be checked is told as that and counts neither way;
// one invariant that failed, or a goal that was missed, makes the run a bad one.
#include "muster/cli/chaos/report.h"

#include <algorithm>
#include <span>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace muster::cli {
namespace {

std::span<const Fault> kinds_of(const ChaosReport& report) {
  return report.hosts > 0 ? std::span<const Fault>(kHostFaults) : std::span<const Fault>(kWorkerFaults);
}

// Of those that came to something: memory that never ran out is counted apart.
int count(const std::vector<MadeFault>& faults, Fault kind) {
  return static_cast<int>(std::ranges::count_if(
      faults, [&](const MadeFault& fault) { return fault.fault == kind && (kind != Fault::kOom || fault.gone); }));
}

int woken(const std::vector<MadeFault>& faults) {
  return static_cast<int>(
      std::ranges::count_if(faults, [](const MadeFault& fault) { return fault.continued.has_value(); }));
}

std::string faults_text(const ChaosReport& report) {
  int sum = 0;
  std::vector<std::string> kinds;
  for (const Fault kind : kinds_of(report)) {
    const int made = count(report.faults, kind);
    sum += made;
    kinds.push_back(fmt::format("{} {}", made, to_string(kind)));
    if (kind == Fault::kStop) kinds.back() += fmt::format(" ({} woken in time)", woken(report.faults));
  }
  return fmt::format("faults      {} in {:.0f} s (seed {}): {}\n", sum, report.seconds, report.seed,
                     fmt::join(kinds, ", "));
}

std::string recovery_text(const ChaosReport& report) {
  std::string text = fmt::format("hosts       {}\n", report.hosts);
  if (const std::vector<double> times = times_to_commit(report.faults); !times.empty())
    text += fmt::format("recovery    from a fault to the next commit: median {:.1f} s, longest {:.1f} s\n",
                        times[times.size() / 2], times.back());
  for (const MadeFault& fault : report.faults)
    text += fmt::format(
        "            {:7.1f} s  {}: {}\n", fault.at, fault.whom,
        fault.commit ? fmt::format("{:.1f} s to the next commit", *fault.commit - fault.at) : "no commit after it");
  return text;
}

std::string throughput_text(const ChaosReport& report) {
  if (!report.throughput) return "throughput  not measured: too little time, or no undisturbed rate\n";
  const Throughput& made = *report.throughput;
  std::string text = fmt::format(
      "throughput  {:.3f} of the ideal{}: {:.0f} steps of {:.0f}\n"
      "            ideal = {:.2f} steps/s x ({:.1f} s - {:.1f} s waiting for stopped workers - {:.1f} s start-up "
      "share)\n",
      made.share, report.goal ? fmt::format(" (goal {:.2f})", *report.goal) : "", made.steps, made.ideal_steps,
      made.calm_rate, made.seconds, made.detection_seconds, made.start_up_seconds);
  if (const std::optional<double> start_up = median_start_up(report.faults))
    text += fmt::format("            from a death to a replacement at work: median {:.1f} s\n", *start_up);
  return text;
}

}  // namespace

bool ChaosReport::good() const {
  const bool broken = std::any_of(findings.begin(), findings.end(),
                                  [](const Finding& finding) { return finding.verdict == Verdict::kFailed; });
  return !broken && (!goal || (throughput && throughput->share >= *goal));
}

Json to_json(const ChaosReport& report) {
  Json findings = Json::array();
  for (const Finding& finding : report.findings)
    findings.push_back({{"name", finding.name},
                        {"what", finding.what},
                        {"verdict", to_string(finding.verdict)},
                        {"reason", finding.reason}});
  Json faults = Json::object();
  for (const Fault kind : kinds_of(report)) {
    faults[std::string(to_string(kind))] = count(report.faults, kind);
    if (kind == Fault::kStop) faults["stop_woken"] = woken(report.faults);
  }
  faults["failed"] = report.failed_faults;
  Json row{{"run", report.run},         {"good", report.good()}, {"seed", report.seed},
           {"seconds", report.seconds}, {"faults", faults},      {"invariants", findings}};
  if (report.hosts > 0) {
    row["hosts"] = report.hosts;
    row["seconds_to_commit"] = times_to_commit(report.faults);
    return row;
  }
  row["throughput"] = nullptr;
  if (report.throughput) {
    const Throughput& made = *report.throughput;
    row["throughput"] = {{"share", made.share},
                         {"steps", made.steps},
                         {"ideal_steps", made.ideal_steps},
                         {"calm_steps_per_s", made.calm_rate},
                         {"seconds", made.seconds},
                         {"detection_seconds", made.detection_seconds},
                         {"start_up_seconds", made.start_up_seconds}};
  }
  const std::optional<double> start_up = median_start_up(report.faults);
  row["median_start_up_seconds"] = start_up ? Json(*start_up) : Json();
  return row;
}

std::string to_text(const ChaosReport& report) {
  std::string text = fmt::format("run         {}\n", report.run);
  text += faults_text(report);
  text += (report.hosts > 0 ? recovery_text(report) : throughput_text(report)) + "\n";
  for (const Finding& finding : report.findings)
    text += fmt::format("{:<4}{:<13}{}\n{:17}{}\n", finding.name, to_string(finding.verdict), finding.what, "",
                        finding.reason);
  return text;
}

}  // namespace muster::cli
