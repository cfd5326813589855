// The session of a worker: what the worker knows of the others becomes what its session is told of them. Not installed.
#pragma once

#include "muster/trainer/model_parts.h"
#include "muster/trainer/session.h"
#include "muster/trainer/session_parts.h"
#include "muster/trainer/worker.h"

namespace muster::trainer {

Session worker_session(const Worker& worker, ModelParts model, SessionOptions options, SessionParts parts = {});

}  // namespace muster::trainer
