// Which part of the data each lane reads, told to whoever keeps a part of it for this host (data/copy_keeper.h), so
// that a host keeps what its lanes read. No torch here.
#pragma once

#include <memory>

#include "muster/data/dataset.h"
#include "muster/data/piece_door.h"
#include "muster/trainer/job.h"

namespace muster::trainer {

// Nothing is told where any lane reads any sample, where lanes are cut by label (each then has samples everywhere), and
// on a host that has all of the data. What the door cannot take is not an error: it is placed by hash then.
void tell_lanes(const std::shared_ptr<data::PieceDoor>& door, const ResolvedJob& resolved, const data::Dataset& train);

}  // namespace muster::trainer
