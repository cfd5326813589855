// What to do when a worker is lost, in one place: whatever was under way is done again, with those who are left.
#pragma once

#include <optional>

#include "muster/base/error.h"

namespace muster::trainer {

// Gives what `work` gives. As often as somebody is lost in it, or in recovering, and lost workers are replaced:
// `recover` (which rejoins, and is told of the loss), and `work` once more. So `work` goes by the committed state, and
// does not do again what that knows to be done.
template <typename Recover, typename Work>
auto survive_losses(bool replaces, const Recover& recover, const Work& work) -> decltype(work()) {
  for (std::optional<Error> loss;;) {
    try {
      if (loss) recover(*loss);
      loss.reset();
      return work();
    } catch (const Error& error) {
      if (!replaces || error.kind() != ErrorKind::kPeerLost) throw;
      loss = error;
    }
  }
}

}  // namespace muster::trainer
