// A group that stays as it is: one generation, nobody is replaced, the first rank leads.
//
// There is no memory that outlives the workers, so the leader's note goes to whoever takes it, for people who watch: a
// file, as a rule, and so not at every step. Nobody reads it back. Thread safety: one thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "muster/base/clock.h"
#include "muster/strategies/membership.h"

namespace muster::strategies {

// What a loss means where nobody is replaced: throws kUnsupported.
[[noreturn]] void refuse_replacement();

class FixedMembers final : public Membership {
 public:
  static constexpr std::chrono::milliseconds kNoteInterval{200};

  explicit FixedMembers(comm::Group group, NoteWriter write = {}, const Clock& clock = system_clock())
      : members_{1, std::move(group), 0}, write_(std::move(write)), clock_(clock) {}

  bool replaces() const override { return false; }
  bool founds() const override { return members_.leads(); }
  const Members& members() const override { return members_; }
  void meet() override {}
  void rejoin() override { refuse_replacement(); }
  bool wants_note(bool last) const override {
    return write_ && (last || !noted_ || clock_.now() - *noted_ >= kNoteInterval);
  }
  void write_note(const std::string& text) override;

 private:
  // Constant after construction.
  const Members members_;
  const NoteWriter write_;
  const Clock& clock_;
  std::optional<Clock::Instant> noted_;
};

}  // namespace muster::strategies
