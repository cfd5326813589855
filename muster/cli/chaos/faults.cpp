// Victims are followed from the fault to what came of it (dead, replaced, woken), because the next fault has to wait
// for that. Signals go through a descriptor of the process, never by its number alone.
#include "muster/cli/chaos/faults.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/control/membership.h"

namespace muster::cli {
namespace {

// Seconds. What a status says may be two reports of the supervisor old.
constexpr double kReportDelay = 0.25;
constexpr double kSqueezeDelay = 1;  // so that the supervisor has seen in which group the worker is
constexpr double kOomPatience = 10;
constexpr int kMostQuickDeaths = 3;
constexpr std::uint64_t kSmallLimit = std::uint64_t{64} * 1024;

}  // namespace

bool send_signal(const ProcessId& process, int signal) {
  const FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!handle.valid()) return false;
  // The descriptor holds on to whoever has the number now; if that is the one that was meant, nobody else can be hit.
  if (!(process_of(process.pid) == process) || state_of(process) == ProcessState::kGone) return false;
  return ::syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0) == 0;
}

FaultMaker::FaultMaker(FaultMakerOptions options) : options_(std::move(options)) {
}

FaultMaker::~FaultMaker() {
  for (const MadeFault& fault : faults_)
    if (fault.fault == Fault::kStop && under_way(fault)) send_signal(fault.victim, SIGCONT);
}

std::optional<std::string> FaultMaker::oom_obstacle() {
  const std::optional<MemoryGroup> own = memory_group_of(this_process().pid);
  if (!own) return "this machine has no memory control groups";
  try {
    TemporaryMemoryGroup probe(*own);
    return probe.set_limit(kSmallLimit) ? std::nullopt : std::optional("a group's limit cannot be set");
  } catch (const Error& error) {
    return error.message();
  }
}

void FaultMaker::look(const control::JobStatus& status, double now) {
  status_ = status;
  now_ = now;
  if (status.live) {
    for (const control::Worker& member : status.members) {
      if (!member.member()) continue;
      if (trains_as_[member.rank] == member.process.pid) continue;
      trains_as_[member.rank] = member.process.pid;
      trains_since_[member.rank] = now;
      for (MadeFault& fault : faults_)
        if (fault.rank == member.rank && fault.gone && !fault.replaced) fault.replaced = now;
    }
    if (lost_coordinator_ && status.coordinator_pid != *lost_coordinator_) lost_coordinator_.reset();
  }
  look_at_trap(now);
  look_at_victims(now);
  if (status.live && last_death_ && !step_after_death_ && now - *last_death_ >= kReportDelay)
    step_after_death_ = status.step;
}

void FaultMaker::look_at_victims(double now) {
  for (auto wake = wake_.begin(); wake != wake_.end();) {
    MadeFault& fault = faults_[wake->first];
    if (now >= wake->second && !fault.hit_again && send_signal(fault.victim, SIGCONT)) fault.continued = now;
    wake = now >= wake->second ? wake_.erase(wake) : std::next(wake);
  }
  for (MadeFault& fault : faults_) {
    if (fault.rank < 0 || fault.gone || fault.hit_again) continue;
    // One that was woken lives on; it is watched for as long as its stop might still cost its life.
    if (fault.continued && now > *fault.continued + options_.liveness) continue;
    if (state_of(fault.victim) == ProcessState::kGone) note_death(fault, now);
  }
}

void FaultMaker::note_death(MadeFault& fault, double now) {
  fault.gone = now;
  last_death_ = now;
  step_after_death_.reset();
  const double trained = fault.at - trains_since_[fault.rank];
  int& quick = quick_deaths_[fault.rank];
  quick = trained < std::chrono::duration<double>(control::kForgiven).count() ? quick + 1 : 0;
}

// The worker is moved first and squeezed a moment later, when the supervisor knows where it is.
void FaultMaker::look_at_trap(double now) {
  if (!trap_) return;
  MadeFault& fault = faults_[trap_->fault];
  // Again and again: what it gives back in between it does not get again.
  if (!fault.gone && now - trap_->set >= kSqueezeDelay) trap_->group->squeeze();
  if (fault.gone && !trap_->empty) trap_->empty = now;
  if (trap_->empty && now - *trap_->empty >= kSqueezeDelay) trap_.reset();
  if (trap_ && !fault.gone && now - trap_->set >= kOomPatience) {
    options_.tell(fmt::format("worker {} needed no more memory: it is let go", fault.rank));
    fault.hit_again = true;  // nothing follows from this one
    ++failed_;
    trap_.reset();
  }
}

bool FaultMaker::ready() const {
  if (!status_.live || status_.state != "running" || lost_coordinator_ || trap_) return false;
  const bool dying = std::any_of(faults_.begin(), faults_.end(), [&](const MadeFault& fault) {
    return under_way(fault) && fault.rank >= 0 && fault.fault != Fault::kStop;
  });
  return !dying && (!last_death_ || (step_after_death_ && status_.step > *step_after_death_));
}

bool FaultMaker::settled() const {
  return !trap_ && !lost_coordinator_ && std::none_of(faults_.begin(), faults_.end(), [&](const MadeFault& fault) {
    return fault.rank >= 0 && under_way(fault);
  });
}

void FaultMaker::end(double now) {
  for (const auto& [index, time] : wake_)
    if (send_signal(faults_[index].victim, SIGCONT)) faults_[index].continued = now;
  wake_.clear();
  if (trap_ && !faults_[trap_->fault].gone) {
    faults_[trap_->fault].hit_again = true;
    trap_.reset();
  }
}

bool FaultMaker::spared(int rank) const {
  const auto quick = quick_deaths_.find(rank);
  const auto since = trains_since_.find(rank);
  if (quick == quick_deaths_.end() || quick->second < kMostQuickDeaths || since == trains_since_.end()) return false;
  return now_ - since->second < 2 * std::chrono::duration<double>(control::kForgiven).count();
}

const control::Worker* FaultMaker::choose(std::uint64_t draw) const {
  std::vector<const control::Worker*> able;
  for (const control::Worker& member : status_.members) {
    if (!member.member() || spared(member.rank)) continue;
    const bool taken = std::any_of(faults_.begin(), faults_.end(), [&](const MadeFault& fault) {
      return fault.victim == member.process && under_way(fault);
    });
    if (!taken) able.push_back(&member);
  }
  return able.empty() ? nullptr : able[draw % able.size()];
}

bool FaultMaker::kill_coordinator(double now) {
  const ProcessId process = process_of(status_.coordinator_pid);
  if (!send_signal(process, SIGKILL)) return false;
  options_.tell(fmt::format("coordinator (pid {}) is killed at step {}", process.pid, status_.step));
  faults_.push_back({.fault = Fault::kCoordinator, .at = now, .victim = process});
  lost_coordinator_ = process.pid;
  options_.replace_coordinator();
  return true;
}

bool FaultMaker::make(const PlannedFault& planned, double now) {
  MUSTER_CHECK(ready(), "a fault needs a job that has come to rest");
  if (planned.fault == Fault::kCoordinator) return kill_coordinator(now);
  const control::Worker* const member = choose(planned.draw >> 8);
  if (member == nullptr) return false;
  MadeFault fault{.fault = planned.fault, .at = now, .rank = member->rank, .victim = member->process};
  std::string what;
  if (planned.fault == Fault::kOom) {
    const std::optional<MemoryGroup> home = memory_group_of(member->process.pid);
    if (!home) return false;
    Trap trap{faults_.size(), std::make_unique<TemporaryMemoryGroup>(*home), now, {}};
    if (!(process_of(fault.victim.pid) == fault.victim) || !trap.group->add(fault.victim.pid)) return false;
    trap_ = std::move(trap);
    what = "gets no more memory";
  } else {
    if (!send_signal(fault.victim, planned.fault == Fault::kKill ? SIGKILL : SIGSTOP)) return false;
    what = planned.fault == Fault::kKill ? "is killed" : "is stopped";
    const double half = options_.liveness / 2;
    if (planned.fault == Fault::kStop && (planned.draw & 1) != 0) {
      wake_[faults_.size()] = now + half;
      what += fmt::format(" for {:.1f} s", half);
    }
  }
  for (MadeFault& earlier : faults_)
    if (earlier.victim == fault.victim) earlier.hit_again = true;
  faults_.push_back(fault);
  options_.tell(fmt::format("worker {} (pid {}) {} at step {}", fault.rank, fault.victim.pid, what, status_.step));
  return true;
}

}  // namespace muster::cli
