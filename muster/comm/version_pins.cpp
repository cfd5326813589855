// Pin first, then look whether the version is still the committed one, else try again: with the writer's order (flip,
// then look for pins) one of the two always sees the other.
#include "muster/comm/version_pins.h"

#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/process.h"

namespace muster::comm {
namespace {

bool is_dead(std::uint64_t owner) {
  return owner != 0 && !ProcessWord::unpack(owner).lives();
}

}  // namespace

VersionPin VersionPins::pin() const {
  const std::uint64_t self = ProcessWord::of(this_process()).pack();
  clear_the_dead();
  for (Slot& slot : slots_) {
    std::uint64_t nobody = 0;
    MUSTER_FAILPOINT("arena.pin.before_claim");
    if (!slot.owner.compare_exchange_strong(nobody, self)) continue;
    MUSTER_FAILPOINT("arena.pin.after_claim");
    VersionPin pin;
    pin.bell_ = bell_;
    pin.owner_ = &slot.owner;
    CommitWord now = CommitWord::unpack(commit_.load());
    for (bool again = true; again;) {
      pin.version_ = {now.step, now.buffer};
      MUSTER_FAILPOINT("arena.pin.before_store");
      slot.version.store(pin.version_.pack());
      MUSTER_FAILPOINT("arena.pin.after_store");
      const CommitWord then = std::exchange(now, CommitWord::unpack(commit_.load()));
      again = then.step != now.step;
      if (again) pin.bell_->ring_all();  // somebody may have waited for the pin that now moves on
    }
    return pin;
  }
  throw Error(ErrorKind::kResource, fmt::format("{} versions are being read already", kSlots), "arena",
              "Read fewer at a time.");
}

std::optional<std::string> VersionPins::holder(std::uint64_t buffer, bool look_for_the_dead) const {
  for (Slot& slot : slots_) {
    std::uint64_t owner = slot.owner.load();
    const std::uint64_t version = slot.version.load();
    if (owner == 0 || version == 0 || PinWord::unpack(version).buffer != buffer) continue;
    if (look_for_the_dead && is_dead(owner)) {
      slot.owner.compare_exchange_strong(owner, 0);
      continue;
    }
    return fmt::format("process {} let go of version {}", ProcessWord::unpack(owner).pid,
                       PinWord::unpack(version).step);
  }
  return std::nullopt;
}

void VersionPins::clear_the_dead() const {
  for (Slot& slot : slots_) {
    std::uint64_t owner = slot.owner.load();
    if (is_dead(owner)) slot.owner.compare_exchange_strong(owner, 0);
  }
}

VersionPin::VersionPin(VersionPin&& other) noexcept
    : region_(std::move(other.region_)),
      bell_(std::move(other.bell_)),
      owner_(std::exchange(other.owner_, nullptr)),
      version_(other.version_),
      bytes_(other.bytes_) {
}

VersionPin::~VersionPin() {
  if (owner_ == nullptr) return;
  owner_->store(0);
  bell_->ring_all();
}

}  // namespace muster::comm
