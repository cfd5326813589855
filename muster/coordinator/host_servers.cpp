// Values are written once on both sides, so carrying one again is harmless: after any failure a turn begins anew, and
// for a store that was made anew all of it.
#include "muster/coordinator/host_servers.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/control/job_secrets.h"
#include "muster/control/server_map.h"
#include "muster/control/trust_files.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::milliseconds kTurn{10};
constexpr std::chrono::milliseconds kMapWait{50};
constexpr std::chrono::milliseconds kPauseAfterTrouble{100};
constexpr const char* kPlan = "plan";

}  // namespace

HostServers::HostServers(control::ClusterCalls& calls, HostServersOptions options)
    : calls_(calls), options_(std::move(options)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

HostServers::~HostServers() {
  thread_.request_stop();
  thread_.join();
}

void HostServers::see(const std::string& store) {
  const MutexLock lock(mutex_);
  seen_ = store;
}

std::vector<launch::OwnServer> HostServers::own() const {
  const std::uint64_t self = options_.number();
  const MutexLock lock(mutex_);
  std::vector<launch::OwnServer> own;
  for (std::uint32_t server = 0; server < places_.hosts.size(); ++server)
    if (places_.hosts[server] == self) own.push_back({server, places_.first_attempt(server)});
  return own;
}

void HostServers::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  std::chrono::milliseconds pause{};
  do {
    pause = kTurn;
    try {
      exchange();
    } catch (const Error& error) {
      // A coordinator that is away, or a number that was given up: the reporter says so to people. What is told of the
      // disk is told once.
      const bool away = error.retryable() || error.kind() == ErrorKind::kNotFound;
      std::error_code ignored;
      const bool ended = !folder_.empty() && !std::filesystem::exists(folder_, ignored);  // the store, with the workers
      if (!away && !ended && std::exchange(trouble_, error.message()) != error.message())
        options_.tell(fmt::format("parameter servers of this host: {}", error.message()));
      pause = kPauseAfterTrouble;
    } catch (const std::exception&) {
      pause = kPauseAfterTrouble;  // of a folder that went while it was read
    }
  } while (!stopped.wait_for(lock, stop, pause, [&] { return stop.stop_requested(); }));
}

std::optional<std::string> HostServers::find(const std::string& key, std::chrono::milliseconds wait) {
  return calls_.store_get(options_.number(), key, wait);
}

void HostServers::take_places() {
  std::uint64_t revision = 0;
  {
    const MutexLock lock(mutex_);
    revision = places_.revision;
  }
  while (const std::optional<std::string> text = find(control::server_places_key(revision + 1))) {
    control::ServerPlaces places = control::ServerPlaces::from_text(*text);
    revision = places.revision;
    const MutexLock lock(mutex_);
    places_ = std::move(places);
  }
}

void HostServers::take_secrets() {
  if (reached_) return;
  const std::optional<std::string> text = find(control::kServerSecretsKey);
  if (!text) return;
  const control::JobSecrets secrets = control::JobSecrets::from_text(*text);
  control::ServerHost reached{options_.address, {}, secrets.token};
  if (!secrets.key.empty()) {
    const std::filesystem::path certs = options_.folder / "servers";
    std::filesystem::remove_all(certs);  // of a turn that failed half-way
    control::write_certificate_files(certs, {secrets.authority, secrets.certificate, secrets.key});
    reached.certs = certs.string();
  }
  reached_ = std::move(reached);
}

void HostServers::open(const std::string& folder) {
  store_ = comm::make_file_store(folder);
  folder_ = folder;
  has_plan_ = options_.first;
  map_ = 0;
  told_.clear();
  store_->set(control::kServerHostKey, reached_->to_text());
}

void HostServers::bring_plan() {
  if (has_plan_) return;
  const std::optional<std::string> count = find("plan/count");
  if (!count) return;
  std::vector<std::string> keys{control::kChunksKey, control::kCopiesKey};
  for (int piece = 0; piece < std::stoi(*count); ++piece)
    keys.push_back(fmt::format("plan/{}", piece));
  for (const std::string& key : keys) {
    const std::optional<std::string> value = find(key, control::kLongestWait);
    if (!value) return;
    store_->set(key, *value);
  }
  store_->set("plan/count", *count);
  has_plan_ = true;
}

void HostServers::tell_news() {
  std::vector<std::string> prefixes{"servers", "filled", control::kServersGone};
  if (options_.first) prefixes.emplace_back(kPlan);
  for (const std::string& prefix : prefixes) {
    for (const auto& [key, value] : comm::values_in_file_store(folder_, prefix)) {
      if (told_.contains(key)) continue;
      calls_.store_set(options_.number(), key, value);
      told_.insert(key);
    }
  }
}

void HostServers::bring_maps() {
  for (std::chrono::milliseconds wait = kMapWait;; wait = {}) {
    const std::string key = control::map_key(map_ + 1);
    const std::optional<std::string> text = find(key, wait);
    if (!text) return;
    store_->set(key, *text);
    ++map_;
  }
}

void HostServers::exchange() {
  std::string folder;
  {
    const MutexLock lock(mutex_);
    folder = seen_;
  }
  take_places();
  take_secrets();
  if (folder.empty() || !reached_) return;
  if (folder != folder_) open(folder);
  bring_plan();
  tell_news();
  bring_maps();
}

}  // namespace muster::coordinator
