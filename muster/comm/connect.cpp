// Every rank runs choose_backend on the same places and comes to the same answer, so nobody has to announce one. What a
// rank leaves is compared as text: one that was started with another size or backend is named, not waited for.
#include "muster/comm/connect.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/comm/checked_transport.h"
#include "muster/comm/hierarchical.h"
#include "muster/comm/network_backend.h"
#include "muster/comm/self_backend.h"
#include "muster/comm/shm_backend.h"

namespace muster::comm {
namespace {

constexpr std::uint64_t kMostBootIdBytes = 256;

ino_t inode_of(const char* path) {
  struct stat status {};
  // A kernel without namespaces has one of each kind.
  return ::stat(path, &status) == 0 ? status.st_ino : 0;
}

std::vector<int> host_numbers(const std::vector<Place>& places) {
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  for (const Place& place : places)
    hosts.push_back(numbers.try_emplace(place.host, static_cast<int>(numbers.size())).first->second);
  return hosts;
}

[[noreturn]] void throw_no_gloo(const MissingGloo& missing) {
  throw Error(ErrorKind::kUnsupported, fmt::format("this build of Muster has no gloo backend: {}", missing.reason), {},
              missing.remedy);
}

void require_shared_memory(const std::vector<Place>& places) {
  for (std::size_t rank = 1; rank < places.size(); ++rank) {
    if (places[rank].host != places[0].host)
      throw Error(
          ErrorKind::kInvalidInput,
          fmt::format("the shm backend needs all ranks on one host, and rank {} is elsewhere than rank 0 (another "
                      "machine, user, or network or process namespace)",
                      rank),
          {}, "Choose auto, which combines shared memory with a network.");
  }
}

void require_mpi(const std::vector<Place>& places, const AvailableBackends& available) {
  if (!available.mpi)
    throw Error(ErrorKind::kUnsupported, "this build of Muster has no mpi backend", {},
                "Install libopenmpi-dev and build again, or choose another backend.");
  const std::string remedy = fmt::format("Start the ranks with mpirun -n {}.", places.size());
  std::map<int, std::size_t> seen;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const int mpi_rank = places[rank].mpi_rank;
    if (mpi_rank < 0)
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("the mpi backend needs MPI in every rank; rank {} has none", rank), {}, remedy);
    const auto found = seen.try_emplace(mpi_rank, rank);
    if (!found.second)
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("ranks {} and {} are not of one MPI world: both are rank {} there", found.first->second,
                              rank, mpi_rank),
                  {}, remedy);
  }
}

// What connects hosts when nobody said.
std::string choose_network(const std::vector<Place>& places, const AvailableBackends& available) {
  if (!available.missing_gloo) return "gloo";
  const bool under_mpi =
      std::all_of(places.begin(), places.end(), [](const Place& place) { return place.mpi_rank >= 0; });
  if (!available.mpi || !under_mpi) throw_no_gloo(*available.missing_gloo);
  require_mpi(places, available);
  return "mpi";
}

}  // namespace

Place this_place() {
  std::string boot = read_text("/proc/sys/kernel/random/boot_id", kMostBootIdBytes);
  std::erase_if(boot, [](char c) { return c == '\n'; });
  return {fmt::format("{}.net{}.pid{}.uid{}", boot, inode_of("/proc/self/ns/net"), inode_of("/proc/self/ns/pid"),
                      ::geteuid()),
          -1};
}

AvailableBackends available_backends() {
  return {missing_gloo(), mpi_available()};
}

BackendChoice choose_backend(const std::vector<Place>& places, const std::string& requested,
                             const AvailableBackends& available) {
  static const std::vector<std::string> kNames{"auto", "shm", "gloo", "mpi", "hierarchical"};
  if (std::find(kNames.begin(), kNames.end(), requested) == kNames.end())
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("there is no backend \"{}\"{}", requested, did_you_mean(requested, kNames)), {},
                fmt::format("Choose one of {}.", join_words(kNames)));
  if (places.size() == 1) return {"self", "", "a group of one rank"};
  if (requested == "shm") {
    require_shared_memory(places);
    return {"shm", "", "asked for"};
  }
  if (requested == "mpi") {
    require_mpi(places, available);
    return {"mpi", "mpi", "asked for"};
  }
  if (requested == "gloo") {
    if (available.missing_gloo) throw_no_gloo(*available.missing_gloo);
    return {"gloo", "gloo", "asked for"};
  }
  const HostLayout layout(host_numbers(places));
  const std::size_t hosts = layout.hosts.size();
  if (hosts == 1) return {"shm", "", fmt::format("all {} ranks are on one host", places.size())};
  const std::string network = choose_network(places, available);
  if (hosts == places.size())
    return {network, network, fmt::format("each of the {} ranks is on a host of its own", hosts)};
  return {"hierarchical", network,
          fmt::format("{} ranks are on {} hosts: shared memory inside, {} between", places.size(), hosts, network)};
}

namespace {

// What a rank leaves in the store.
std::string describe(const Place& place, const GroupOptions& options) {
  return Json{{"host", place.host}, {"mpi_rank", place.mpi_rank}, {"size", options.size}, {"backend", options.backend}}
      .dump();
}

std::vector<Place> exchange_places(const Place& mine, const GroupOptions& options, Store& store,
                                   const Deadline& deadline) {
  store.set(fmt::format("places/{}", options.rank), describe(mine, options));
  std::vector<Place> places;
  for (int rank = 0; rank < options.size; ++rank) {
    std::string text;
    try {
      text = store.get(fmt::format("places/{}", rank), deadline);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
      throw Error(ErrorKind::kTimeout, fmt::format("rank {} has not come to group {}", rank, options.name),
                  fmt::format("rank {}", options.rank), "See whether it was started, and its log.");
    }
    const Json json = Json::parse(text, nullptr, false);
    const auto field = [&](const char* name) { return json.is_object() && json.contains(name) ? json[name] : Json(); };
    if (!field("host").is_string() || !field("mpi_rank").is_number_integer())
      throw Error(ErrorKind::kDamaged, fmt::format("what rank {} left in the store is not a place", rank));
    places.push_back({json["host"].get<std::string>(), json["mpi_rank"].get<int>()});
    if (text != describe(places.back(), options))
      throw Error(ErrorKind::kMismatch,
                  fmt::format("rank {} joins group {} with other settings: {}; this is rank {} of {}, backend {}", rank,
                              options.name, excerpt(text, 300), options.rank, options.size, options.backend),
                  {}, "Start all ranks with the same size and backend.");
  }
  return places;
}

std::unique_ptr<Backend> build_network(const BackendChoice& choice, const std::vector<Place>& places,
                                       const GroupOptions& options, const Deadline& deadline) {
  if (choice.network == "mpi") {
    std::vector<int> members;
    for (const Place& place : places)
      members.push_back(place.mpi_rank);
    return std::make_unique<NetworkBackend>(with_checksums(make_mpi_transport(options.mpi, members, options.name)));
  }
  const bool several_hosts =
      std::any_of(places.begin(), places.end(), [&](const Place& place) { return place.host != places[0].host; });
  if (several_hosts && options.interface.empty())
    throw Error(ErrorKind::kInvalidInput, "the ranks are on several hosts, and no network interface was named", {},
                "Name the interface that leads to the other hosts, \"eth0\" for one.");
  GlooOptions gloo;
  gloo.rank = options.rank;
  gloo.size = options.size;
  gloo.store = with_prefix(options.store, options.name);
  gloo.interface = options.interface;
  gloo.deadline = deadline;
  gloo.interruption = options.interruption;
  return std::make_unique<NetworkBackend>(with_checksums(make_gloo_transport(gloo)));
}

std::unique_ptr<Backend> build(const BackendChoice& choice, const std::vector<Place>& places,
                               const GroupOptions& options, const std::shared_ptr<Store>& store,
                               const Deadline& deadline) {
  if (choice.backend == "shm")
    return make_shm_backend(options.rank, options.size, store, deadline, options.interruption);
  if (choice.backend != "hierarchical") return build_network(choice, places, options, deadline);
  const std::vector<int> hosts = host_numbers(places);
  const HostLayout layout(hosts);
  const auto rank = static_cast<std::size_t>(options.rank);
  const auto host = static_cast<std::size_t>(layout.host_of[rank]);
  const int local_ranks = static_cast<int>(layout.hosts[host].size());
  auto local = local_ranks == 1
                   ? make_self_backend()
                   : make_shm_backend(layout.index_of[rank], local_ranks,
                                      with_prefix(store, fmt::format("host-{}", host)), deadline, options.interruption);
  auto network = build_network(choice, places, options, deadline);
  return std::make_unique<HierarchicalBackend>(std::move(local), std::move(network), hosts);
}

}  // namespace

Group make_group(const GroupOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("rank {} of {} is no place in a group", options.rank, options.size));
  if (options.size > 1 && !options.store)
    throw Error(ErrorKind::kInvalidInput, "a group of several ranks needs a store where they find each other");
  const Deadline deadline =
      Deadline::after(options.connect_timeout.count() > 0 ? options.connect_timeout : options.timeout);
  GroupOptions used = options;
  if (used.backend == "mpi" && used.size > 1 && !used.mpi) used.mpi = start_mpi();
  Place mine = this_place();
  if (used.mpi) mine.mpi_rank = mpi_world(*used.mpi).rank;
  const auto waiting = used.store && used.interruption ? with_interruption(used.store, used.interruption) : used.store;
  const auto store = waiting ? with_prefix(waiting, used.name) : nullptr;
  const std::vector<Place> places =
      used.size == 1 ? std::vector<Place>{mine} : exchange_places(mine, used, *store, deadline);
  const BackendChoice choice = choose_backend(places, used.backend, available_backends());
  if (used.choice != nullptr) *used.choice = choice;
  if (choice.backend == "self") return Group(make_self_backend(), used.timeout);
  return Group(build(choice, places, used, store, deadline), used.timeout);
}

}  // namespace muster::comm
