// DepotDoor: a door for the workers of a host to its depot (data/depot.h), kept by the host's agent: a socket for this
// user's processes that have the token (local_service.h). Waits are bounded:
// 20 s for a host that has the data, 60 s for a piece.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "muster/data/piece_door.h"

namespace muster::control {

class DepotDoor {
 public:
  // `depot` outlives it. The token goes into `folder`. Throws kIo, kNotFound, kResource.
  DepotDoor(data::PieceDoor& depot, const std::filesystem::path& folder);
  DepotDoor(const DepotDoor&) = delete;
  DepotDoor& operator=(const DepotDoor&) = delete;
  ~DepotDoor();

  // For open_depot (depot_client.h).
  const std::string& address() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::control
