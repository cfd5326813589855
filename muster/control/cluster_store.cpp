// A client of the relay. Waits are cut into pieces that the relay allows; that the coordinator is away for a moment is
// the agent's to mend.
#include "muster/control/cluster_store.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/base/store_key.h"
#include "muster/base/text.h"
#include "muster/control/cluster_client.h"
#include "muster/control/local_service.h"

namespace muster::control {
namespace {

constexpr std::string_view kFileScheme = "file:";
constexpr std::chrono::seconds kSetTime{1};  // for a coordinator that is away for a moment
constexpr std::chrono::milliseconds kSetPause{100};

class RelayedStore final : public comm::Store {
 public:
  explicit RelayedStore(std::string address) : address_(std::move(address)) { client(); }

  void set(std::string_view key, std::string_view value) override {
    require_store_key(key);
    for (const Deadline deadline = Deadline::after(kSetTime);;) {
      try {
        return client()->store_set(0, key, value);
      } catch (const Error& error) {
        if (!comes_back(error) || deadline.remaining() <= kSetPause) throw;
      }
      system_clock().sleep_for(kSetPause);
    }
  }

  std::string get(std::string_view key, const Deadline& deadline) override {
    require_store_key(key);
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.remaining());
      try {
        if (auto value = client()->store_get(0, key, std::min(left, kLongestWait))) return *std::move(value);
      } catch (const Error& error) {
        if (!comes_back(error)) throw;
        system_clock().sleep_for(std::min<std::chrono::nanoseconds>(kSetPause, deadline.remaining()));
      }
      if (deadline.passed())
        throw Error(ErrorKind::kTimeout, fmt::format("nobody has put \"{}\" into the store in time", key));
    }
  }

 private:
  // The relay answers, and says that the coordinator did not. Any other loss is the caller's to deal with; whoever
  // takes the agent's place listens under the same name, so the next call connects anew.
  bool comes_back(const Error& error) {
    if (error.kind() == ErrorKind::kTimeout) return true;
    const MutexLock lock(mutex_);
    client_.reset();
    return false;
  }

  std::shared_ptr<ClusterClient> client() {
    const MutexLock lock(mutex_);
    if (!client_) {
      const LocalChannel relay = connect_to(address_);
      client_ = std::make_shared<ClusterClient>(relay.channel, relay.socket, relay.token);
    }
    return client_;
  }

  const std::string address_;
  Mutex mutex_;
  std::shared_ptr<ClusterClient> client_ MUSTER_GUARDED_BY(mutex_);  // null: the last one was lost
};

}  // namespace

std::shared_ptr<comm::Store> open_cluster_store(const std::string& address) {
  if (address.starts_with(kFileScheme)) return comm::make_file_store(address.substr(kFileScheme.size()));
  if (!is_local_service(address))
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no store of a job's hosts", excerpt(address, 80)),
                "environment variable MUSTER_CLUSTER", "Agents set it for their workers; nobody else should.");
  return std::make_shared<RelayedStore>(address);
}

}  // namespace muster::control
