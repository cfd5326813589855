// Before a run starts: does it fit into this host's memory?
//
// A model like the job's is built and trained on five samples while torch's allocator reports; the rest is counted
// (memory_estimate.h). Nothing is written, and the model is gone again when this returns. No torch here.
#pragma once

#include "muster/base/memory.h"
#include "muster/base/process_memory.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/job.h"
#include "muster/trainer/memory_estimate.h"

namespace muster::trainer {

// `before` is what this process held before it opened `sets`. A model that cannot be measured (it fails on samples that
// are made up) is said to be so in the figures. Sets the threads of a lane. Throws as make_model, and kUnsupported when
// the model alone does not fit into `usable`.
MemoryFigures measure_memory(const ResolvedJob& resolved, const Datasets& sets, const ProcessMemory& before,
                             const Memory& usable);

// The same, and throws memory_refusal() when that is more than `usable`.
MemoryFigures check_memory(const ResolvedJob& resolved, const Datasets& sets, const ProcessMemory& before,
                           const Memory& usable);

}  // namespace muster::trainer
