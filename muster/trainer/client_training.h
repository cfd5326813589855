// How a client of federated training trains: the model, the loss and the optimizer of a job, on the client's samples,
// from the round's model and with fresh state of the optimizer.
#pragma once

#include <memory>

#include "muster/federated/local_training.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/job.h"

namespace muster::trainer {

// `sets` are the job's. Sets the threads of LibTorch. Throws Error. Thread safety: one thread.
std::unique_ptr<federated::LocalTraining> make_client_training(const ResolvedJob& resolved, const Datasets& sets);

}  // namespace muster::trainer
