// A mean over the last while: what was seen long ago counts half, and half of that, and so on. A moment at which nobody
// looked says nothing, and neither does a step across two generations, which divide lanes differently.
#include "muster/coordinator/host_speed.h"

#include <utility>

namespace muster::coordinator {
namespace {

constexpr std::chrono::seconds kLongestGap{1};  // between two looks: whoever looks was kept from it
constexpr double kEnoughSeconds = 3;
constexpr double kEnoughLanes = 20;
constexpr double kRememberedSeconds = 30;

}  // namespace

void HostSpeed::see(const Moment& moment) {
  const std::optional<Moment> before = std::exchange(last_, moment);
  if (!before || before->generation != moment.generation || moment.now - before->now > kLongestGap) return;
  if (moment.step < before->step) return;
  lanes_ += static_cast<double>(moment.step - before->step) * static_cast<double>(moment.lanes);
  seconds_ += moment.computing * std::chrono::duration<double>(moment.now - before->now).count();
  if (seconds_ < kRememberedSeconds) return;
  lanes_ /= 2;
  seconds_ /= 2;
}

double HostSpeed::lanes_per_second() const {
  return seconds_ < kEnoughSeconds || lanes_ < kEnoughLanes ? 0 : lanes_ / seconds_;
}

}  // namespace muster::coordinator
