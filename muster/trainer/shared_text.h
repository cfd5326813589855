// A text that one worker has and all get, behind work on its disk: the run's knowledge, its changes, metrics, what a
// host has of the ledger.
//
// Whoever has it may be at its folder meanwhile, which others cannot see: a lock that a dying process holds, files of
// the data, a network file system. So all wait for a disk, not for the time that calls of a group have by default.
// Thread safety: one thread; every rank of the group calls it.
#pragma once

#include <chrono>
#include <string>

#include "muster/comm/group.h"

namespace muster::trainer {

// For a disk of any host, while all wait.
constexpr std::chrono::minutes kDiskPatience{10};

// Every rank's `text` becomes that of `root`. Throws as comm::Group.
void share_text(comm::Group group, std::string& text, int root);

}  // namespace muster::trainer
