// One report in two forms, for people and as JSON. What could not be checked is told as that and counts neither way;
// one invariant that failed, or a goal that was missed, makes the run a bad one.
#include "muster/cli/chaos/report.h"

#include <algorithm>

#include <fmt/format.h>

namespace muster::cli {
namespace {

struct Counts {
  int kill = 0;
  int stop = 0;
  int woken = 0;
  int oom = 0;
  int coordinator = 0;
};

Counts count(const std::vector<MadeFault>& faults) {
  Counts counts;
  for (const MadeFault& fault : faults) {
    counts.kill += fault.fault == Fault::kKill ? 1 : 0;
    counts.stop += fault.fault == Fault::kStop ? 1 : 0;
    counts.woken += fault.continued ? 1 : 0;
    // One that was let go, because the kernel had no reason to kill it, is counted apart.
    counts.oom += fault.fault == Fault::kOom && fault.gone ? 1 : 0;
    counts.coordinator += fault.fault == Fault::kCoordinator ? 1 : 0;
  }
  return counts;
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
  const Counts counts = count(report.faults);
  Json findings = Json::array();
  for (const Finding& finding : report.findings)
    findings.push_back({{"name", finding.name},
                        {"what", finding.what},
                        {"verdict", to_string(finding.verdict)},
                        {"reason", finding.reason}});
  Json row{{"run", report.run},
           {"good", report.good()},
           {"seed", report.seed},
           {"seconds", report.seconds},
           {"faults",
            {{"kill", counts.kill},
             {"stop", counts.stop},
             {"stop_woken", counts.woken},
             {"oom", counts.oom},
             {"coordinator", counts.coordinator},
             {"failed", report.failed_faults}}},
           {"invariants", findings}};
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
  const Counts counts = count(report.faults);
  std::string text = fmt::format("run         {}\n", report.run);
  text +=
      fmt::format("faults      {} in {:.0f} s (seed {}): {} kill, {} stop ({} woken in time), {} oom, {} coordinator\n",
                  counts.kill + counts.stop + counts.oom + counts.coordinator, report.seconds, report.seed, counts.kill,
                  counts.stop, counts.woken, counts.oom, counts.coordinator);
  text += throughput_text(report) + "\n";
  for (const Finding& finding : report.findings)
    text += fmt::format("{:<4}{:<13}{}\n{:17}{}\n", finding.name, to_string(finding.verdict), finding.what, "",
                        finding.reason);
  return text;
}

}  // namespace muster::cli
