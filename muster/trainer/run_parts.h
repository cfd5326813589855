// What a run is made of before anybody trains: data, task, model and session, from a job; the same in every worker.
//
// Made in an order: whatever is wrong with the job, its data or its model is found before anything is written.
// Thread safety: one thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/process_memory.h"
#include "muster/data/lane_order.h"
#include "muster/data/lane_plan.h"
#include "muster/model/flat_layout.h"
#include "muster/model/hollow.h"
#include "muster/model/net.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/job.h"
#include "muster/trainer/ledger_exchange.h"
#include "muster/trainer/session_core.h"
#include "muster/trainer/task.h"
#include "muster/trainer/trainer.h"

namespace muster::trainer {

class RunParts {
 public:
  // All must outlive it. Throws Error.
  RunParts(const ResolvedJob& resolved, const TrainingOptions& options, TrainingObserver& observer, Log& log);

  // The worker that is there before the others.
  bool founds() const { return options.supervised ? options.supervised->founds_job() : options.group.rank() == 0; }
  // The worker that writes and speaks for all.
  bool leads() const { return session.members().leads(); }
  // Nobody watches these workers, and they have waited long enough for somebody to take over.
  bool abandoned() const;
  // Whether training ends after the step in work, and nobody waits for anything new.
  bool stop_requested() const { return options.stop_requested() || abandoned(); }
  // Of workers whose fellows may be replaced their seat, else their rank: the same for their whole life. Seats of other
  // hosts than the first come after all of that one's.
  int seat() const;

  // For those who watch, by the worker that founds the job, where it has a run: what takes long before the first step.
  void tell_what_it_does(const std::filesystem::path& run, const std::string& doing) const;

  // Puts the optimizer's state of a file into the session, if the job names one.
  void begin_optimizer();

  // Constant after construction.
  const ResolvedJob& resolved;
  const Job& job;
  const TrainingOptions& options;
  TrainingObserver& observer;
  Log& log;

 private:
  const ProcessMemory held_before_;

 public:
  const Datasets sets;
  const data::BatchShape shape;
  const std::shared_ptr<const data::LaneOrder> order;
  const std::uint64_t total_steps;
  std::string memory{};                 // what the preflight found
  std::vector<std::string> init{};      // what was loaded from files
  std::optional<Error> init_failure{};  // of a run that is resumed

 private:
  std::optional<model::HollowModel> hollow_{};  // of a job with a mesh: `net` is that of it

 public:
  const std::shared_ptr<const Task> task;
  const std::shared_ptr<model::Net> net;
  const std::shared_ptr<const StagedModel> staged;  // of a job whose workers compute lanes together; else empty
  const std::shared_ptr<LedgerExchange> records;    // of a job of several hosts that has a ledger; else empty
  SessionCore session;

 private:
  // What all hosts of the job have.
  Datasets open_agreed_data() const;
  std::shared_ptr<model::Net> build_net();
  std::shared_ptr<model::Net> build_whole_net();
  std::shared_ptr<model::Net> build_hollow_net();
  SessionParts session_parts();
  // The first values of a hollow model, where they stay.
  void write_first_state(const model::FlatLayout& layout, std::span<float> parameters, std::span<std::byte> buffers);
  // As far as it is known before anything is loaded; else empty.
  const std::filesystem::path& begun_run() const;
  std::shared_ptr<LedgerExchange> make_records() const;
  template <typename Load>
  void begin_from_files(std::string_view key, const Load& load);
};

}  // namespace muster::trainer
