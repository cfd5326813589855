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
#include "muster/control/trust_files.h"
#include "muster/data/copy_keeper.h"
#include "muster/data/depot.h"
#include "muster/data/depot_shards.h"
#include "muster/data/packed_dataset.h"
#include "muster/data/shard_files.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::seconds kSecretsTime{30};

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
  DataHosts(const HostReporter& reporter, control::TrustOptions trust)
      : reporter_(reporter), trust_(std::move(trust)) {}

  // But for this one.
  std::vector<data::ShardSource> sources() {
    std::vector<control::DataHost> hosts = reporter_.orders().data;
    std::erase_if(hosts, [own = reporter_.host()](const control::DataHost& host) { return host.host == own; });
    std::vector<data::ShardSource> made;
    const MutexLock lock(mutex_);
    std::erase_if(clients_, [&](const auto& client) {
      return std::none_of(hosts.begin(), hosts.end(), [&](const auto& host) { return host.address == client.first; });
    });
    for (const control::DataHost& host : hosts) {
      std::shared_ptr<data::ShardCalls>& client = clients_[host.address];
      if (!client) client = control::make_shard_client({host.address, trust_});
      made.push_back({name_of(host), client});
    }
    return made;
  }

  // With this one.
  data::CopyView view() const {
    const control::Orders orders = reporter_.orders();
    data::CopyView view;
    view.self = reporter_.host();
    for (const control::DataHost& host : orders.data) {
      data::CopyHost& made = view.hosts.emplace_back();
      made.member = {host.name, host.host, 0, 0};
      made.source = name_of(host);
      made.whole = host.whole;
      made.held = host.held;
      if (!orders.generation) continue;
      for (const control::JobHost& member : orders.generation->hosts)
        if (member.number == host.host) {
          made.member.first_lane = member.first_lane;
          made.member.last_lane = member.last_lane;
        }
    }
    std::ranges::sort(view.hosts, {}, [](const data::CopyHost& host) { return host.member.number; });
    return view;
  }

 private:
  static std::string name_of(const control::DataHost& host) {
    return fmt::format("host {} ({}) at {}", host.name, host.host, host.address);
  }

  const HostReporter& reporter_;
  const control::TrustOptions trust_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<data::ShardCalls>> clients_ MUSTER_GUARDED_BY(mutex_);  // by address
};

}  // namespace

struct HostData::Parts {
  control::TrustOptions trust;
  // of a host that has the data
  std::optional<data::ShardFiles> files;
  std::optional<OwnShards> own;
  // of one that has not
  std::optional<DataHosts> hosts;
  std::optional<data::Depot> depot;
  std::optional<data::DepotShards> part;  // and keeps some of it
  // of those that give
  std::optional<control::ShardServer> server;
  std::optional<data::CopyKeeper> keeper;
  // of all
  std::optional<control::DepotDoor> door;

  void serve(data::ShardCalls& calls, const HostDataOptions& options) {
    server.emplace(calls, control::ClusterListen{address_for_others(options.interface) + ":0", trust, options.note});
  }
};

HostData::HostData(HostReporter& reporter, HostDataOptions options) : parts_(std::make_unique<Parts>()) {
  Parts& parts = *parts_;
  if (options.secrets) {
    parts.trust.certs = reporter.folder() / "data";
    std::filesystem::remove_all(parts.trust.certs);
    control::write_certificate_files(parts.trust.certs,
                                     {options.secrets->authority, options.secrets->certificate, options.secrets->key});
  }
  const bool whole = data::PackedDataset::exists(options.data.folder, "train");
  const bool keeps = options.data.copies > 0;
  if (whole) {
    parts.files.emplace(options.data.folder);
    parts.own.emplace(*parts.files);
    parts.serve(*parts.files, options);
    options.tell(fmt::format("giving data to hosts that have none, at {}", parts.server->address()));
    parts.door.emplace(*parts.own, reporter.folder());
  } else {
    parts.hosts.emplace(reporter, parts.trust);
    data::DepotOptions depot;
    depot.cache = std::filesystem::absolute(options.data.cache);
    depot.cache_bytes = options.data.cache_bytes;
    depot.keeps_a_part = keeps;
    depot.kept_as = options.data.folder.string();
    depot.sources = [hosts = &*parts.hosts] { return hosts->sources(); };
    depot.tell = options.tell;
    parts.depot.emplace(std::move(depot));
    if (keeps) parts.serve(parts.part.emplace(*parts.depot), options);
    parts.door.emplace(*parts.depot, reporter.folder());
  }
  reporter.set_data(parts.server ? parts.server->address() : "", whole, parts.door->address());
  if (!keeps || whole) return;
  data::CopyKeeperOptions keeper;
  keeper.copies = options.data.copies;
  keeper.look = [hosts = &*parts.hosts] { return hosts->view(); };
  keeper.held = [&reporter](const std::string& plan) { reporter.set_held(plan); };
  keeper.tell = options.tell;
  parts.keeper.emplace(*parts.depot, std::move(keeper));
}

control::JobSecrets leave_data_secrets(control::ClusterCalls& calls, std::uint64_t host, control::WallTime now) {
  control::JobSecrets secrets = control::make_job_secrets("data", true, now);
  calls.store_set(host, control::kDataSecretsKey, secrets.to_text());
  return secrets;
}

control::JobSecrets find_data_secrets(control::ClusterCalls& calls, std::uint64_t host) {
  const Deadline deadline = Deadline::after(kSecretsTime);
  while (!deadline.passed())
    if (const std::optional<std::string> text = calls.store_get(host, control::kDataSecretsKey, control::kLongestWait))
      return control::JobSecrets::from_text(*text);
  throw Error(ErrorKind::kTimeout, "the coordinator does not say how data is encrypted between hosts");
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
