// What the leader of a job's workers tells those who watch it: where it keeps the run, how far it is, what is wrong.
// The leader leaves it as text, in the arena (comm/arena.h) or in the job's store (launch/worker_words.h), and this is
// the one place that reads it.
//
// As text it is one JSON object. The leader of `muster train` puts more into the same object, for its workers
// (trainer/run_knowledge.h); a session of a user's program says how its lanes are made instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/json.h"

namespace muster::control {

// How the lanes of a session's batches are made.
struct LaneSource {
  std::uint64_t samples = 0;  // of an epoch
  std::uint64_t lanes = 1;
  std::uint64_t seed = 0;
  bool operator==(const LaneSource&) const = default;
};

struct LeaderNote {
  std::string run = {};    // the path of its folder; empty: not said
  std::uint64_t step = 0;  // that the leader has committed
  std::uint64_t total_steps = 0;
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t batch = 0;
  std::string alarm = {};  // what is wrong now; as text its beginning
  std::string doing = {};  // before anybody trains: "loading the newest checkpoint"; empty: they train
  std::optional<LaneSource> lanes = {};
  std::vector<std::string> stages = {};  // of a pipeline, by rank: Worker::stage
  // Of a job of several hosts: what the folder is that this host has of the run (kLeads, kCopy, kShared), and the step
  // of the newest checkpoint that is whole in it.
  std::string place = {};
  std::optional<std::uint64_t> saved = {};

  static constexpr const char* kLeads = "leads";    // the run's own: the leader writes it
  static constexpr const char* kCopy = "copy";      // on a disk of its own
  static constexpr const char* kShared = "shared";  // the leader's, which this host sees as well

  // As members of an object.
  Json to_json() const;
  // Throws kDamaged with `where` if `json` is no object, or a member is of another type. What is not there is empty.
  static LeaderNote from_json(const Json& json, const std::string& where);
  // For those who watch: whatever somebody has left there, this does not throw. Empty for what is no note.
  static LeaderNote read(const std::string& text);

  // Counted from 1 as the progress line counts: the one in work after `committed` steps; 0: not known.
  std::uint64_t epoch_after(std::uint64_t committed) const;
  // The samples of a lane of step `at_step` (committed steps before it), as the program's data set numbers them. Empty
  // where the leader has not said how lanes are made.
  std::vector<std::uint64_t> samples_of(std::uint64_t at_step, std::size_t lane) const;

  bool operator==(const LeaderNote&) const = default;
};

}  // namespace muster::control
