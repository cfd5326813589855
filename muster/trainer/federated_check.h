// Whether a job can be trained by clients: what shows only beside its data and its model. `muster check`, simulations
// and servers ask the same functions before anything is written. No torch here.
#pragma once

#include <vector>

#include "muster/data/dataset.h"
#include "muster/federated/client_split.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/job.h"

namespace muster::trainer {

// Which samples of the training set each virtual client has. Throws Error{kInvalidInput} about federated.split.
federated::ClientSplit make_client_split(const ResolvedJob& resolved, const data::Dataset& train);

// The jobs of federated.submodels. Throws Error{kInvalidInput} with the one that is none.
std::vector<ResolvedJob> submodel_jobs(const ResolvedJob& resolved);

// Builds what a client trains, and throws, with key and place, what that would throw: parts to keep that there are not,
// narrower models that are no part of the whole one, statistics of batch norm beside noise, no test set. Computes with
// LibTorch: not for a process whose copies are to.
void check_client_model(const ResolvedJob& resolved, const Datasets& sets);
// Throws, with key and place, where virtual clients could not share the data, or budgets of their samples allow nobody
// a round.
void check_virtual_clients(const ResolvedJob& resolved, const Datasets& sets);

}  // namespace muster::trainer
