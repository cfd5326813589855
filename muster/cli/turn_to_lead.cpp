// The lead is taken before the process becomes another program, and taken again by that one: whoever else stands by
// sees no moment without it, as long as the lease is longer than a start of the program.
#include "muster/cli/turn_to_lead.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/cli/take_over.h"
#include "muster/cli/workers.h"
#include "muster/control/job_json.h"

namespace muster::cli {

TurnToLead::TurnToLead(ClusterFlags listening, StoreFlags store)
    : listening_(std::move(listening)), store_(std::move(store)), etcd_(*etcd_by(store_)) {
  listen_by(listening_);
}

TurnToLead::~TurnToLead() {
  ends_ = true;
  const MutexLock lock(mutex_);
  if (thread_.joinable()) thread_.join();
}

void TurnToLead::begin(const std::filesystem::path& run) {
  const MutexLock lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this, run] { stand_by(run); });
}

void TurnToLead::stand_by(const std::filesystem::path& run) {
  try {
    stand_by_beside(
        run, listening_, etcd_, [this] { return ends_.load(); },
        [&](const control::Lease& before) { become_coordinator(run, before); });
  } catch (const std::exception& error) {
    tell(fmt::format("this host does not stand by for the job any more: {}", error.what()));
  }
}

void TurnToLead::become_coordinator(const std::filesystem::path& run, const control::Lease& before) const {
  tell("nobody coordinates the job: this agent does from now on, with its workers");
  std::vector<std::string> words{own_program(), "coordinator",    run.string(),
                                 "--standby",   "--turn",         control::to_json(before).dump(),
                                 "--listen",    listening_.listen};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  add("--certs", listening_.trust.certs.string());
  add("--interface", listening_.interface);
  if (listening_.insecure) words.emplace_back("--insecure");
  add("--store", store_.url);
  add("--store-ca", store_.authority.string());
  add("--store-cert", store_.certificate.string());
  add("--store-key", store_.key.string());
  add("--store-user", store_.user);
  add("--store-password", store_.password.string());
  add("--store-lease", std::to_string(store_.lease_seconds));
  if (store_.insecure) words.emplace_back("--store-insecure");
  std::vector<char*> arguments;
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(arguments.front(), arguments.data());
  throw Error(ErrorKind::kIo, fmt::format("cannot be started: {}", std::strerror(errno)), words.front());
}

}  // namespace muster::cli
