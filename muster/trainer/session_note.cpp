// The form is control's (leader_note.h), which reads it back: how batches are made is all that a session knows of a
// program's training.
#include "muster/trainer/session_note.h"

#include "muster/control/leader_note.h"

namespace muster::trainer {

std::string SessionNote::to_text() const {
  control::LeaderNote note;
  note.batch = shape.batch;
  note.steps_per_epoch = data::steps_per_epoch(shape);
  note.lanes = {shape.samples, shape.lanes, seed};
  return note.to_json().dump();
}

}  // namespace muster::trainer
