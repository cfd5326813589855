// What decides the result of a session, as names and values, and the test that all workers mean the same by it: before
// they train, because workers with other batches, seeds, rates or data would train something that nobody asked for.
// What only decides who does it, and how fast, is not in it. No torch here.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/comm/group.h"
#include "muster/comm/store.h"
#include "muster/compute/buffer_layout.h"
#include "muster/compute/optimizer.h"
#include "muster/data/dataset.h"
#include "muster/data/lane_order.h"
#include "muster/model/flat_layout.h"
#include "muster/trainer/part_options.h"
#include "muster/trainer/session_options.h"

namespace muster::trainer {

// In a fixed order, every name once: equal for equal results.
using Agreement = std::vector<std::pair<std::string, std::string>>;

Agreement describe_session(const SessionOptions& options, std::size_t lanes, std::span<const PartOptions> parts,
                           const model::FlatLayout& layout, const compute::BufferLayout& buffers);
Agreement describe_data(const data::Dataset& dataset, const data::LaneOrder& order);
// A digest of what some samples are, evenly spread: another file of the same size shows. Reads them; one that cannot be
// read counts as that.
std::pair<std::string, std::string> describe_contents(const data::Dataset& dataset);

// Every rank calls it. Throws kMismatch on all of them, naming a worker and what differs, with both values, unless all
// say the same.
void agree(comm::Group group, const Agreement& mine, const Deadline& deadline);

// For workers that come one after the other: the first to come says it under `key`, and the others have to say the
// same. `worker` is a name that no other worker has. Throws kMismatch as above; before that `refused` is called, to
// tell whoever watches the workers. Waits only for a store that does not answer.
void agree(comm::Store& store, const std::string& key, const std::string& worker, const Agreement& mine,
           const std::function<void()>& refused);

// Leaves `value` under `key` unless somebody has left another one there: gives that one. A store that does not answer
// is asked again.
std::optional<std::string> set_or_find(comm::Store& store, const std::string& key, const std::string& value);

// The refusal of the worker on `seat`, for its supervisor (launch::kRefusedKey).
void leave_refusal(comm::Store& store, int seat);

}  // namespace muster::trainer
