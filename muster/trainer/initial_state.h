// What a job begins from instead of fresh weights: model.init and optimizer.init.
#pragma once

#include <string>
#include <vector>

#include "muster/model/net.h"
#include "muster/trainer/job.h"
#include "muster/trainer/session_core.h"

namespace muster::trainer {

// Loads model.init into the net. Gives what there is to tell, line by line: what was loaded, left, missing; nothing
// without such a key. Throws what model::read_weights and model::initialize throw.
std::vector<std::string> initialize_model(const Job& job, model::Net& net);

// Puts optimizer.init into the session, whose parameters, buffers and cursor stay. Lines as above. Throws what
// model::read_torch_optimizer throws. REQUIRES: as Session::restore.
std::vector<std::string> initialize_optimizer(const Job& job, SessionCore& session);

}  // namespace muster::trainer
