// Sorts all records by step, leaves out what a resumption made void, and then proves step by step, with a bit for each
// sample of the epoch. The first thing that is wrong ends the check, by an exception of this file.
#include "muster/data/ledger_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/ledger_format.h"

namespace muster::data {
namespace {

constexpr std::uint64_t kMostEpochSamples = std::uint64_t{1} << 33;  // a bit for each is 1 GiB

// Thrown inside this file to leave the check at the first thing that is wrong.
struct Violation {
  std::string text;
};

// A record and the file it stands in.
struct Place {
  const LedgerFile* file = nullptr;
  const LedgerRecord* record = nullptr;
  const LedgerRecord* skipped = nullptr;  // of a lane, where it has one

  std::string name() const { return fmt::format("{} record {}", file->path.filename().string(), record->number); }
};

class Check {
 public:
  Check(const std::filesystem::path& folder, LedgerReport& report) : report_(report) {
    const std::vector<std::filesystem::path> paths = ledger_files(folder);
    if (paths.empty())
      throw Error(ErrorKind::kNotFound, "has no file of a ledger", folder.string(),
                  "Train with [job] ledger = true to have one.");
    // While workers write, a file that is read later may know of steps whose lanes stood, when it was read, not yet in
    // one read before. So what was committed is taken from what the files held before the first is read; every lane of
    // such a step is in its file by then.
    std::vector<std::uint64_t> sizes;
    for (const std::filesystem::path& path : paths)
      sizes.push_back(std::filesystem::file_size(path));
    for (std::size_t i = 0; i < paths.size(); ++i) {
      files_.push_back(read_ledger_file(paths[i]));
      known_until_.push_back(sizes[i]);
    }
    report_.files = files_.size();
  }

  void run(std::optional<std::uint64_t> checkpoint_step) {
    check_files();
    sort_records();
    if (checkpoint_step && *checkpoint_step > report_.steps)
      throw Violation{
          fmt::format("a checkpoint of step {} is there, and the ledger knows of {} committed steps: records are "
                      "missing at its end",
                      *checkpoint_step, report_.steps)};
    used_.assign(report_.epoch_samples, false);
    for (std::uint64_t step = 0; step < report_.steps; ++step)
      check_step(step);
    report_.skipped_ids.assign(skipped_ids_.begin(), skipped_ids_.end());
    if (used_count_ == report_.epoch_samples && used_count_ > 0)
      ++report_.whole_epochs;
    else
      report_.samples_so_far = used_count_;
  }

 private:
  void check_files() {
    bool first = true;
    for (const LedgerFile& file : files_) {
      const std::string name = file.path.filename().string();
      if (file.damage) throw Violation{fmt::format("{}: {}", name, *file.damage)};
      report_.unclosed_files += !file.closed;
      if (file.file.size < kLedgerFileHeader) continue;
      if (first) report_.epoch_samples = file.epoch_samples;
      first = false;
      if (file.epoch_samples != report_.epoch_samples)
        throw Violation{fmt::format("{}: is of an epoch of {} samples, and {} of one of {}", name, file.epoch_samples,
                                    files_.front().path.filename().string(), report_.epoch_samples)};
    }
    if (report_.epoch_samples == 0 || report_.epoch_samples > kMostEpochSamples)
      throw Violation{
          fmt::format("an epoch of {} samples; 1 to {} can be checked", report_.epoch_samples, kMostEpochSamples)};
  }

  bool is_void(const LedgerRecord& record) const {
    return std::any_of(resumes_.begin(), resumes_.end(), [&](const auto& resume) {
      return record.generation < resume.first && record.step >= resume.second;
    });
  }

  // Finds what counts: lanes and commits by step, without those that a resumption made void.
  void sort_records() {
    for (const LedgerFile& file : files_)
      for (const LedgerRecord& record : file.records)
        if (record.kind == LedgerKind::kResume) resumes_.insert({record.generation, record.step});
    report_.resumptions = resumes_.size();
    for (std::size_t i = 0; i < files_.size(); ++i) {
      const LedgerRecord* skipped = nullptr;  // the record before, if it names skipped samples
      for (const LedgerRecord& record : files_[i].records) {
        const Place place{&files_[i], &record, skipped};
        skipped = record.kind == LedgerKind::kSkipped ? &record : nullptr;
        if (skipped == nullptr) sort_record(place, record.offset <= known_until_[i]);
      }
    }
  }

  void sort_record(const Place& place, bool known) {
    const LedgerRecord& record = *place.record;
    if (record.kind == LedgerKind::kClose) return;
    const bool lane = record.kind == LedgerKind::kLane || record.kind == LedgerKind::kApartLane;
    if (place.skipped != nullptr && (!lane || place.skipped->step != record.step || place.skipped->lane != record.lane))
      throw Violation{fmt::format("{}: follows skipped samples of step {}, lane {}, and is not of that lane",
                                  place.name(), place.skipped->step, place.skipped->lane)};
    if (is_void(record)) {
      ++report_.void_records;
      return;
    }
    // A lane of step s starts from s committed steps, and so does a run that goes on at s; but where workers do not
    // wait for each other a lane says nothing of the others' lanes before it.
    const bool apart = record.kind == LedgerKind::kApartLane;
    const std::uint64_t proves = record.step + (record.kind == LedgerKind::kCommit ? 1 : 0);
    if (known && !apart) report_.steps = std::max(report_.steps, proves);
    if (lane) lanes_[record.step].push_back(place);
    if (record.kind == LedgerKind::kCommit) commits_[record.step].push_back(place);
  }

  void check_step(std::uint64_t step) {
    const auto found = lanes_.find(step);
    if (found == lanes_.end())
      throw Violation{fmt::format("step {} was committed, and no lane of it is recorded", step)};
    std::map<std::uint64_t, std::vector<Place>> by_lane;
    for (const Place& place : found->second)
      by_lane[place.record->lane].push_back(place);
    // Without a commit's record (its writers died before the next instruction) the lanes must at least have no gap.
    std::uint64_t lanes = by_lane.rbegin()->first + 1;
    std::uint64_t epoch = found->second.front().record->epoch;
    if (const auto commits = commits_.find(step); commits != commits_.end()) {
      lanes = commits->second.front().record->lane;
      epoch = commits->second.front().record->epoch;
      for (const Place& place : commits->second)
        if (place.record->lane != lanes || place.record->epoch != epoch)
          throw Violation{fmt::format("{}: commits step {} with {} lanes in epoch {}, and {} with {} lanes in epoch {}",
                                      place.name(), step, place.record->lane, place.record->epoch,
                                      commits->second.front().name(), lanes, epoch)};
    }
    enter_epoch(epoch, step);
    for (std::uint64_t lane = 0; lane < lanes; ++lane)
      if (!by_lane.contains(lane))
        throw Violation{
            fmt::format("lane {} of step {} (epoch {}) was committed, and nobody has recorded it", lane, step, epoch)};
    for (const auto& [lane, places] : by_lane) {
      if (lane >= lanes)
        throw Violation{fmt::format("{}: lane {} of step {}, which was committed with {} lanes", places.front().name(),
                                    lane, step, lanes)};
      check_lane(places, epoch);
    }
  }

  void check_lane(const std::vector<Place>& places, std::uint64_t epoch) {
    const Place& first = places.front();
    const std::vector<std::uint64_t> ids = read_ledger_ids(*first.file, *first.record);
    for (const Place& place : places) {
      if (place.record->epoch != epoch)
        throw Violation{fmt::format("{}: step {} is of epoch {}, and this record says {}", place.name(),
                                    place.record->step, epoch, place.record->epoch)};
      if (&place != &first && read_ledger_ids(*place.file, *place.record) != ids)
        throw Violation{fmt::format("{}: lane {} of step {} (epoch {}) has other samples than in {}", place.name(),
                                    place.record->lane, place.record->step, epoch, first.name())};
    }
    const std::vector<std::uint64_t> skipped = skipped_of(first);
    for (const Place& place : places)
      if (skipped_of(place) != skipped)
        throw Violation{fmt::format("{}: lane {} of step {} (epoch {}) has other samples skipped than in {}",
                                    place.name(), place.record->lane, place.record->step, epoch, first.name())};
    for (const std::uint64_t id : ids)
      use(id, first);
    skip(skipped, ids, first);
    ++report_.lanes;
    report_.repeated_lanes += places.size() - 1;
  }

  static std::vector<std::uint64_t> skipped_of(const Place& place) {
    return place.skipped == nullptr ? std::vector<std::uint64_t>() : read_ledger_ids(*place.file, *place.skipped);
  }

  void skip(const std::vector<std::uint64_t>& skipped, const std::vector<std::uint64_t>& ids, const Place& place) {
    const std::set<std::uint64_t> asked(ids.begin(), ids.end());
    std::set<std::uint64_t> seen;
    for (const std::uint64_t id : skipped) {
      if (!asked.contains(id) || !seen.insert(id).second)
        throw Violation{fmt::format("{}: epoch {}, step {}, lane {}: sample {} was skipped {}", place.name(), epoch_,
                                    place.record->step, place.record->lane, id,
                                    asked.contains(id) ? "twice" : "and is not one of the lane's")};
      if (skipped_ids_.size() < kMostNamedSkips) skipped_ids_.insert(id);
    }
    report_.skipped += skipped.size();
  }

  void use(std::uint64_t id, const Place& place) {
    if (id >= report_.epoch_samples)
      throw Violation{fmt::format("{}: epoch {}, step {}, lane {}: sample {} of a data set of {}", place.name(), epoch_,
                                  place.record->step, place.record->lane, id, report_.epoch_samples)};
    if (used_[id])
      throw Violation{fmt::format("{}: epoch {}, step {}, lane {}: sample {} was used before, in {}", place.name(),
                                  epoch_, place.record->step, place.record->lane, id, user_of(id))};
    used_[id] = true;
    ++used_count_;
  }

  // The first lane of this epoch that used a sample.
  std::string user_of(std::uint64_t id) const {
    for (const auto& [step, places] : lanes_)
      for (const Place& place : places) {
        if (place.record->epoch != epoch_) continue;
        const std::vector<std::uint64_t> ids = read_ledger_ids(*place.file, *place.record);
        if (std::find(ids.begin(), ids.end(), id) != ids.end())
          return fmt::format("{} (step {}, lane {})", place.name(), step, place.record->lane);
      }
    return "a lane that cannot be found";
  }

  void enter_epoch(std::uint64_t epoch, std::uint64_t step) {
    if (epoch == epoch_) return;
    if (epoch != epoch_ + 1)
      throw Violation{fmt::format("step {} is of epoch {}, after one of epoch {}", step, epoch, epoch_)};
    if (used_count_ != report_.epoch_samples) {
      const auto never = static_cast<std::uint64_t>(std::find(used_.begin(), used_.end(), false) - used_.begin());
      throw Violation{fmt::format("epoch {} ended before step {} with {} of {} samples: sample {} was never used",
                                  epoch_, step, used_count_, report_.epoch_samples, never)};
    }
    ++report_.whole_epochs;
    epoch_ = epoch;
    used_.assign(report_.epoch_samples, false);
    used_count_ = 0;
  }

  LedgerReport& report_;
  std::vector<LedgerFile> files_;
  std::vector<std::uint64_t> known_until_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> resumes_;  // generation, step
  std::map<std::uint64_t, std::vector<Place>> lanes_;          // by step
  std::map<std::uint64_t, std::vector<Place>> commits_;
  std::uint64_t epoch_ = 0;
  std::vector<bool> used_;
  std::uint64_t used_count_ = 0;
  std::set<std::uint64_t> skipped_ids_;
};

}  // namespace

LedgerReport check_ledger(const std::filesystem::path& folder, std::optional<std::uint64_t> checkpoint_step) {
  LedgerReport report;
  Check check(folder, report);
  try {
    check.run(checkpoint_step);
  } catch (const Violation& violation) {
    report.violation = violation.text;
  }
  return report;
}

}  // namespace muster::data
