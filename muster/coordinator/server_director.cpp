// A look is: who lives, where servers have to be, which of their processes have ended, and then what the keeper of one
// host does as well: find who has come and decide on a map.
#include "muster/coordinator/server_director.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/control/job_secrets.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::milliseconds kLookAtServers{10};

// The store of all hosts as its coordinator has it.
class OwnStore final : public comm::Store {
 public:
  OwnStore(control::ClusterCalls& calls, std::uint64_t own) : calls_(calls), own_(own) {}

  void set(std::string_view key, std::string_view value) override { calls_.store_set(own_, key, value); }
  std::string get(std::string_view key, const Deadline& deadline) override {
    const auto wait = std::min<std::chrono::nanoseconds>(deadline.remaining(), control::kLongestWait);
    if (auto found = calls_.store_get(own_, key, std::chrono::duration_cast<std::chrono::milliseconds>(wait)))
      return *std::move(found);
    throw Error(ErrorKind::kTimeout, fmt::format("nobody has put \"{}\" into the store in time", key));
  }

 private:
  control::ClusterCalls& calls_;
  const std::uint64_t own_;
};

launch::ServerKeeperOptions keeper_options(const ServerDirectorOptions& options, std::shared_ptr<comm::Store> store) {
  launch::ServerKeeperOptions keeper;
  keeper.worker_seats = static_cast<int>(options.servers);
  keeper.store = std::move(store);
  keeper.tell = options.tell;
  return keeper;
}

}  // namespace

ServerDirector::ServerDirector(control::ClusterCalls& calls, ServerDirectorOptions options, const Clock& clock)
    : calls_(calls),
      options_(std::move(options)),
      store_(std::make_shared<OwnStore>(calls, options_.own)),
      keeper_(keeper_options(options_, store_), {}, clock),
      attempts_(options_.servers) {
  store_->set(control::kServerSecretsKey,
              control::make_job_secrets("parameter-server", options_.encrypted, clock.wall()).to_text());
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

ServerDirector::~ServerDirector() {
  stop();
}

void ServerDirector::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void ServerDirector::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  do {
    try {
      look();
    } catch (const Error& error) {
      std::string lost;
      for (const auto& [host, name] : names_)
        if (!lives(host)) lost += fmt::format("{}{}", lost.empty() ? "; lost: " : ", ", words_for(host));
      const MutexLock guard(mutex_);
      failure_ = error.message() + lost;
      return;
    }
  } while (!stopped.wait_for(lock, stop, kLookAtServers, [&] { return stop.stop_requested(); }));
}

bool ServerDirector::lives(std::uint64_t host) const {
  return std::find(living_.begin(), living_.end(), host) != living_.end();
}

std::string ServerDirector::words_for(std::uint64_t host) const {
  const auto name = names_.find(host);
  return fmt::format("host {} ({})", name == names_.end() ? "?" : name->second, host);
}

void ServerDirector::require_copies_elsewhere() const {
  if (!keeper_.map() || keeper_.map()->copies > 1) return;
  for (std::uint32_t server = 0; server < places_.hosts.size(); ++server) {
    if (lives(places_.hosts[server]) || !keeper_.map()->needs(server)) continue;
    throw Error(ErrorKind::kPeerLost,
                "parameter servers of a host are lost that alone had parts of the model (with parallel.copies = 2 "
                "others would have them)");
  }
}

void ServerDirector::place() {
  // Before the job begins all its hosts are waited for, so that servers are on all of them.
  if (!keeper_.map() && living_.size() < options_.hosts) return;
  const bool settled = keeper_.map() && keeper_.map()->copies > 1 && !keeper_.map()->unsettled() &&
                       keeper_.count().serving == static_cast<int>(options_.servers);
  control::ServerPlaces next = control::place_servers(options_.servers, living_, places_, settled);
  if (next == places_) return;
  store_->set(control::server_places_key(next.revision), next.to_text());
  for (std::uint32_t server = 0; server < next.hosts.size(); ++server) {
    if (next.revisions[server] != next.revision) continue;
    attempts_[server] = next.first_attempt(server);
    if (places_.revision > 0)
      options_.tell(fmt::format("parameter server {} is started on {}", server, words_for(next.hosts[server])));
    // The process before it is no more, wherever it was.
    keeper_.set_worker(server, std::nullopt);
  }
  places_ = std::move(next);
}

void ServerDirector::look() {
  living_.clear();
  for (const control::HostStatus& host : options_.living()) {
    living_.push_back(host.number);
    names_[host.number] = host.name;
  }
  require_copies_elsewhere();
  place();
  bool whole = places_.revision > 0;  // every server has a host
  for (std::uint32_t server = 0; server < places_.hosts.size(); ++server) {
    const std::uint64_t host = places_.hosts[server];
    if (!lives(host)) {
      keeper_.set_worker(server, std::nullopt);
      whole = false;
      continue;
    }
    while (calls_.store_get(options_.own, control::server_gone_key(server, attempts_[server]), {}))
      ++attempts_[server];
    keeper_.set_host(server, std::to_string(host));
    keeper_.set_worker(server, attempts_[server]);
  }
  // The first map waits for all of them.
  if (whole || keeper_.map()) keeper_.look();
  const MutexLock lock(mutex_);
  serving_ = keeper_.count().serving;
}

std::string ServerDirector::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

int ServerDirector::serving() const {
  const MutexLock lock(mutex_);
  return serving_;
}

}  // namespace muster::coordinator
