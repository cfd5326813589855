// --at ADDRESS:PORT: a job of several hosts that people look at and command from a machine that has no part in it, by a
// certificate or token of theirs.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "muster/control/control_calls.h"
#include "muster/control/trust_options.h"

namespace muster::cli {

struct FarFlags {
  std::string at{};  // ADDRESS:PORT of the coordinator; empty: the job is one of this machine
  control::TrustOptions trust{};
  bool insecure = false;

  bool given() const { return !at.empty(); }
};

void add_far_flags(CLI::App& command, FarFlags& flags);

// The job whose coordinator answers there. `job`: the name of the job or the beginning of its run's, so that nobody
// commands another one by a mistaken address; empty: any. `time` is that of each call. Throws kInvalidInput (no
// address, another job, nothing that tells who answers there), kPeerLost, and what the coordinator answers.
std::unique_ptr<control::ControlCalls> far_job(const FarFlags& flags, const std::string& job,
                                               std::chrono::milliseconds time);

}  // namespace muster::cli
