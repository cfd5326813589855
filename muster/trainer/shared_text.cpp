// The length first: nobody else knows it. Both waits have the time of a disk: the second one begins when the first ends
// here, and the root may be slow in between.
#include "muster/trainer/shared_text.h"

#include <cstdint>
#include <span>

#include "muster/base/deadline.h"

namespace muster::trainer {

void share_text(comm::Group group, std::string& text, int root) {
  auto length = static_cast<std::int64_t>(text.size());
  group.broadcast(std::span(&length, 1), root, Deadline::after(kDiskPatience));
  text.resize(static_cast<std::size_t>(length));
  group.broadcast(std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size()), root,
                  Deadline::after(kDiskPatience));
}

}  // namespace muster::trainer
