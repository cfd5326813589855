// One thing that happened in a study: what its log is made of. Replaying all of them gives the history, which is all
// that searchers and schedulers know, and the notes beside it, which only those who act look at.
//
// Thread safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/json.h"
#include "muster/tuning/trial.h"

namespace muster::tuning {

enum class EventKind { kAdd, kRun, kLose, kReport, kPause, kFinish, kStop, kFail };

struct StudyEvent {
  EventKind kind = EventKind::kAdd;
  std::uint64_t number = 0;          // of the trial
  Assignment values{};               // kAdd
  std::optional<Lineage> lineage{};  // kAdd
  std::uint64_t group = 0;           // kAdd
  std::uint64_t resource = 0;        // kReport, kLose
  std::vector<double> objectives{};  // kReport, kFinish
  std::string reason{};              // kAdd, kLose, kPause, kStop, kFail
  std::string owner{};               // kRun: who runs it
  bool died = false;                 // kLose: the trial itself died, not who ran it
  double seconds = 0;                // kLose, kPause, kFinish, kStop, kFail: that it ran since kRun
  double processor_seconds = 0;      // likewise, of all its processes
  double start_seconds = 0;          // likewise, until its processes had told something
  std::int64_t at = 0;               // seconds since 1970, for people

  Json json() const;
  // Throws kDamaged with `where`.
  static StudyEvent from_json(const Json& json, const std::string& where);
};

// What is known of a trial beside its history.
struct TrialNotes {
  std::string owner{};       // who runs it; empty while nobody does
  std::uint64_t deaths = 0;  // of the trial itself
  double seconds = 0;        // that it has run, in all
  double processor_seconds = 0;
  double start_seconds = 0;  // that its processes needed until they told something, in all
  std::int64_t begun = 0;    // seconds since 1970; 0: not yet
  std::int64_t run_at = 0;   // likewise: the last time
  // Likewise: when it was run by somebody who is gone and has not said how long it ran; 0: that is known of its last
  // run.
  std::int64_t unheard_since = 0;
  std::int64_t ended = 0;
};

// Throws kDamaged with `where` if the event cannot follow what is in `history`.
void apply(const StudyEvent& event, History& history, std::vector<TrialNotes>& notes, const std::string& where);

}  // namespace muster::tuning
