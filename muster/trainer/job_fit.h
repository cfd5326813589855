// Whether a job fits what it names: its data, and the model on that data. The file alone cannot tell; `muster check`
// and the start of a run ask the same functions, so that what one calls valid the other does not refuse. No torch here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/lane_plan.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/job.h"

namespace muster::trainer {

// `error` as one about a key of the job, with the key's place in the file: about the key that `error` itself names as
// its place, else about `key`. What is no mistake of the job (a damaged file, a full disk) stays as it is.
Error at_key(const ResolvedJob& resolved, std::string_view key, const Error& error);

// Does `work`; errors of it become errors about `key`.
template <typename Work>
auto about_key(const ResolvedJob& resolved, std::string_view key, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw at_key(resolved, key, error);
  }
}

// The key that says which model is meant.
std::string_view model_key(const Job& job);

// Throws as open_data, with the key that names the file at fault.
Datasets open_data(const ResolvedJob& resolved, const std::shared_ptr<data::PieceDoor>& remote = {});
// Throws as lane_order, with the key; and where lanes cannot be what the job asks of them.
std::shared_ptr<const data::LaneOrder> lane_order(const ResolvedJob& resolved, const data::Dataset& train);

// What can be trained and is hardly meant, each as "job.toml:7: data.batch: ...". `classes` are those of the training
// set, 0 if it has none.
std::vector<std::string> doubts(const ResolvedJob& resolved, const data::BatchShape& shape, std::int64_t classes);

}  // namespace muster::trainer
