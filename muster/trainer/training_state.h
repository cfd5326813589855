// The whole committed state of a session as named tensors: what a checkpoint holds, and the way back.
//
//   model.safetensors      every parameter and buffer under its own name
//   optimizer.safetensors  "<slot>/<parameter>" for each slot of state, and "updates/<parameter>", an int64;
//                          "extra/<name>", as bytes, for what the strategy keeps beyond (strategies::ExtraPart)
#pragma once

#include <vector>

#include "muster/model/checkpoint.h"
#include "muster/strategies/strategy.h"
#include "muster/trainer/session_core.h"

namespace muster::trainer {

// Parameters and buffers of a committed state, in the session's layout. Views: valid as long as `state` is.
std::vector<model::TensorView> model_tensors(const SessionCore& session, const strategies::CommittedState& state);

// A copy of the committed state that stays as it is while training goes on. Movable.
class TrainingState {
 public:
  model::Manifest manifest;  // step, epoch and position are set; the rest is the caller's

  // Views into this object.
  model::CheckpointContent content() const;

 private:
  friend TrainingState capture(const SessionCore& session, TrainingState memory);
  struct Copy;
  std::shared_ptr<Copy> copy_;
};

// `memory` is a state of the same session that nobody needs any more: its memory is used again.
TrainingState capture(const SessionCore& session, TrainingState memory = {});

// Puts a checkpoint's state into the session. Throws Error{kMismatch} naming the first tensor that is missing, has
// another shape or type, or is not the model's; the session is unchanged then.
void restore(SessionCore& session, const model::LoadedCheckpoint& loaded);

}  // namespace muster::trainer
