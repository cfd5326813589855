// Which of the two this host does is decided once, by what is on its disk when it joins. Connections to hosts that give
// data are kept while the coordinator names them.
#include "muster/coordinator/host_data.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/control/depot_door.h"
#include "muster/control/shard_client.h"
#include "muster/control/shard_server.h"
#include "muster/data/depot.h"
#include "muster/data/packed_dataset.h"
#include "muster/data/shard_files.h"

namespace muster::coordinator {
namespace {

// "first" of "first:7400,second:7400".
std::string first_host(const std::string& addresses) {
  const std::string address = addresses.substr(0, addresses.find(','));
  const std::string host = address.substr(0, address.rfind(':'));
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

// For workers of a host that has the shards: they read these themselves, and have to know what they are.
class OwnShards final : public data::PieceDoor {
 public:
  explicit OwnShards(data::ShardFiles& files) : files_(files) {}

  data::DepotView open(const Deadline& deadline) override { return {files_.catalog(deadline), {}, 1}; }
  std::vector<std::byte> fetch(const data::PieceId&, const Deadline&) override {
    throw Error(ErrorKind::kUnsupported, "this host has the shards: nothing is fetched here");
  }
  void expect(std::span<const data::PieceId>) override {}

 private:
  data::ShardFiles& files_;
};

// The hosts that give data, by what the coordinator says; a connection to each is kept.
class DataHosts {
 public:
  DataHosts(const HostReporter& reporter, control::TrustOptions trust, std::string known_as)
      : reporter_(reporter), trust_(std::move(trust)), known_as_(std::move(known_as)) {}

  std::vector<data::ShardSource> sources() {
    const std::vector<control::DataHost> hosts = reporter_.orders().data;
    std::vector<data::ShardSource> made;
    const MutexLock lock(mutex_);
    std::erase_if(clients_, [&](const auto& client) {
      return std::none_of(hosts.begin(), hosts.end(), [&](const auto& host) { return host.address == client.first; });
    });
    for (const control::DataHost& host : hosts) {
      std::shared_ptr<data::ShardCalls>& client = clients_[host.address];
      if (!client) client = control::make_shard_client({host.address, trust_}, known_as_);
      made.push_back({fmt::format("host {} ({}) at {}", host.name, host.host, host.address), client});
    }
    return made;
  }

 private:
  const HostReporter& reporter_;
  const control::TrustOptions trust_;
  const std::string known_as_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<data::ShardCalls>> clients_ MUSTER_GUARDED_BY(mutex_);  // by address
};

}  // namespace

struct HostData::Parts {
  // of a host that has the data
  std::optional<data::ShardFiles> files;
  std::optional<OwnShards> own;
  std::optional<control::ShardServer> server;
  // of one that has not
  std::optional<DataHosts> hosts;
  std::optional<data::Depot> depot;
  // of both
  std::optional<control::DepotDoor> door;
};

HostData::HostData(HostReporter& reporter, HostDataOptions options) : parts_(std::make_unique<Parts>()) {
  if (data::PackedDataset::exists(options.data.folder, "train")) {
    parts_->files.emplace(options.data.folder);
    parts_->own.emplace(*parts_->files);
    if (options.may_serve) {
      parts_->server.emplace(*parts_->files, control::ClusterListen{address_for_others(options.interface) + ":0",
                                                                    options.listen_trust, options.note});
      options.tell(fmt::format("giving data to hosts that have none, at {}", parts_->server->address()));
    }
    if (!options.may_serve)
      options.tell("this host has the data, and cannot give it to others: that needs a coordinator's certificate");
    parts_->door.emplace(*parts_->own, reporter.folder());
  } else {
    parts_->hosts.emplace(reporter, options.call_trust, first_host(options.coordinator));
    data::DepotOptions depot;
    depot.cache = std::filesystem::absolute(options.data.cache);
    depot.cache_bytes = options.data.cache_bytes;
    depot.sources = [hosts = &*parts_->hosts] { return hosts->sources(); };
    depot.tell = options.tell;
    parts_->depot.emplace(std::move(depot));
    parts_->door.emplace(*parts_->depot, reporter.folder());
  }
  reporter.set_data(parts_->server ? parts_->server->address() : "", parts_->door->address());
}

HostData::~HostData() = default;

std::string address_for_others(const std::string& interface) {
  return interface.empty() ? "127.0.0.1" : address_of_interface(interface);
}

std::string address_of_interface(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) list = nullptr;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(list, ::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family || interface != entry->ifa_name) continue;
      char text[NI_MAXHOST] = {};
      const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      if (::getnameinfo(entry->ifa_addr, bytes, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) continue;
      return family == AF_INET ? std::string(text) : fmt::format("[{}]", text);
    }
  }
  throw Error(ErrorKind::kInvalidInput, fmt::format("this machine has no interface \"{}\" with an address", interface),
              {}, "Name one that leads to the other hosts: --interface, or parallel.interface.");
}

}  // namespace muster::coordinator
