// Changes of a job that runs (`muster set`), as its workers see them: what was asked for, and from which step on each
// change counts. Two files of JSON lines in the run's folder:
//   asked.jsonl    {"number": 1, "assignment": "optimizer.lr=0.01"}              by the coordinator
//   changes.jsonl  {"number": 1, "assignment": "optimizer.lr=0.01", "step": 13}  by the leading worker
// The step is the first one that is computed with the change, counted from 1. Every worker tells in its lanes how many
// changes it knows of, so all learn in the same step's outcome which count from the next one on. The leader writes that
// down, durably, before it begins that step, and no step is committed without the leader. So changes.jsonl alone says
// what counts: workers that lose somebody or come later, and runs that are resumed, read it and make the same changes
// at the same steps.
//
// On several hosts each has these files on its own disk. What counts there is what the leader says: it tells the others
// all that it knows whenever workers meet and whenever changes are agreed on, and they write it down before they begin
// the step, too. A step needs every host, so none that is committed has changes that a host which lives has not got.
// No torch here. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace muster::trainer {

struct JobChange {
  std::uint64_t number = 0;  // from 1
  std::string assignment;    // "optimizer.lr=0.01"
  std::uint64_t step = 0;    // 0: not known yet
};

// For the coordinator. Throws kIo, kResource.
void write_asked_changes(const std::filesystem::path& run, std::span<const JobChange> changes);

class RunChanges {
 public:
  // Reads what stands in the run's folder. Throws kDamaged, kIo.
  explicit RunChanges(const std::filesystem::path& run);

  // The highest number to propose in `step`, 0: none. Changes whose step is known and has not come yet come first.
  // Reads the file only if it has grown.
  std::uint64_t proposal(std::uint64_t step);
  // Gives changes up to number `agreed` that have no step yet this one; false if there are none. Throws kDamaged if one
  // cannot be found. The leader calls write() before it begins the step.
  bool agree(std::uint64_t agreed, std::uint64_t step);
  // The same of those that are there: the leader's, on several hosts, where a change may have come to others first.
  bool agree_on_known(std::uint64_t agreed, std::uint64_t step);
  // Durable when it returns. Throws kIo, kResource.
  void write() const;

  // All that is known, for the workers of other hosts; and what the leader has told them, in the place of what was.
  // False: it is the same. Throws kDamaged.
  std::string to_text() const;
  bool take(const std::string& text);

  // What was asked for when the file was read last.
  const std::vector<JobChange>& asked() const { return asked_; }
  // Every change whose step is known, by number; their steps do not go back.
  const std::vector<JobChange>& known() const { return known_; }
  // Whether the leader has agreed on changes up to that number.
  bool knows(std::uint64_t number) const { return number <= last_known(); }
  // Of the last change that counts in `step`, 0: none.
  std::uint64_t number_at(std::uint64_t step) const;
  // What the changes that count in `step` make of the job: the last assignment of each key.
  std::vector<std::string> assignments_at(std::uint64_t step) const;

 private:
  void read_asked();
  std::uint64_t last_known() const { return known_.empty() ? 0 : known_.back().number; }

  const std::filesystem::path run_;
  std::vector<JobChange> asked_;
  std::vector<JobChange> known_;
  std::optional<std::uintmax_t> asked_bytes_;  // of the file when it was read last: it only grows
};

}  // namespace muster::trainer
