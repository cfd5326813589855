// The job's server maps as its processes read them from the store.
//
// Clients take the newest: it says where a chunk is. Servers take one after the other: what a server has of a chunk
// depends on every map since it was filled, and one that held a chunk, lost it and is to hold it again must know.
#pragma once

#include <memory>
#include <string>

#include "muster/base/deadline.h"
#include "muster/comm/store.h"
#include "muster/control/server_map.h"

namespace muster::strategies {

class ServerMaps {
 public:
  explicit ServerMaps(std::shared_ptr<comm::Store> store) : store_(std::move(store)) {}

  // Generation 0 before the first look().
  const control::ServerMap& current() const { return map_; }
  // Takes the newest map there is. True if that is another one than before.
  bool look();
  // Takes the one after the current; false if there is none.
  bool advance();
  // Until there is a later one than `generation`. Throws kTimeout.
  void wait_after(std::uint64_t generation, const Deadline& deadline);

 private:
  std::shared_ptr<comm::Store> store_;
  control::ServerMap map_;
};

}  // namespace muster::strategies
