// ClusterRelay: a door for the workers of a host to the store that all hosts share, kept by the host's agent.
//
// Workers know nothing of addresses, certificates and host numbers; they reach their agent by an abstract Unix socket
// with a random name. Connections of other users are closed unread (local_listener.h); of the rest, whoever has the
// token, a file of mode 0600, may call, and only what concerns the store. A value is written once, so what was read is
// kept here; for a key that nobody has set one call waits at the coordinator, however many workers ask.
// Thread safety: every method from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "muster/control/cluster_calls.h"
#include "muster/control/cluster_values.h"

namespace muster::control {

class ClusterRelay {
 public:
  // `upstream` outlives it; `host` gives the host's number as it is now. The token goes into `folder`. Throws kIo,
  // kNotFound, kResource.
  ClusterRelay(ClusterCalls& upstream, std::function<std::uint64_t()> host, const std::filesystem::path& folder);
  // In the place of a relay whose process is gone, at its address(): its workers go on with the token that they have.
  // Throws kNotFound and kDamaged for a token that is not there, too.
  ClusterRelay(ClusterCalls& upstream, std::function<std::uint64_t()> host, const std::string& address);
  ClusterRelay(const ClusterRelay&) = delete;
  ClusterRelay& operator=(const ClusterRelay&) = delete;
  ~ClusterRelay();

  // For open_cluster_store (cluster_store.h): socket and token file.
  const std::string& address() const;

  // What the workers of this host have set or read of what all agree on.
  AgreedValues agreed() const;

  // The file of the token in an address().
  static std::filesystem::path token_of(const std::string& address);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::control
