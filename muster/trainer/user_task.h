// Loads tasks from a user's shared object (user_tasks.h says how one is written).
#pragma once

#include <memory>

#include "muster/base/own_options.h"
#include "muster/base/shared_object.h"
#include "muster/trainer/task.h"

namespace muster::trainer {

// The task `part` of a library, for samples of that kind. Throws as model::make_user_model; the place is the key
// ("loss.options.gamma") where an option is at fault. Error{kMismatch} out of it for losses and figures of other shapes
// than user_tasks.h says.
std::shared_ptr<const Task> make_user_task(const PartOfLibrary& part, const OwnOptions& options,
                                           const data::SampleSpec& spec);

PartHelp user_task_help(const PartOfLibrary& part);

}  // namespace muster::trainer
