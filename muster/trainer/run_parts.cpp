// The first worker looks at the memory and loads what the job begins from; where workers share their state the others
// get it from the strategy.
#include "muster/trainer/run_parts.h"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "muster/base/failpoint.h"
#include "muster/comm/arena_words.h"
#include "muster/compute/module_binding.h"
#include "muster/compute/threads.h"
#include "muster/control/leader_note.h"
#include "muster/model/sync_batch_norm.h"
#include "muster/trainer/build.h"
#include "muster/trainer/class_weights.h"
#include "muster/trainer/data_agreement.h"
#include "muster/trainer/initial_state.h"
#include "muster/trainer/job_check.h"
#include "muster/trainer/job_fit.h"
#include "muster/trainer/lane_places.h"
#include "muster/trainer/preflight.h"

namespace muster::trainer {

RunParts::RunParts(const ResolvedJob& of_run, const TrainingOptions& training, TrainingObserver& watcher,
                   Log& log_of_run)
    : resolved(of_run),
      job(of_run.job),
      options(training),
      observer(watcher),
      log(log_of_run),
      held_before_(process_memory()),
      sets(open_agreed_data()),
      shape{sets.train->size(), resolved.batch, resolved.lanes},
      order(lane_order(resolved, *sets.train)),
      total_steps(trainer::total_steps(job, shape)),
      task(about_key(resolved, "loss.task",
                     [&] {
                       return build_task(job, sets.train->spec(),
                                         class_weights(parse_class_weights(job.loss.class_weights), *sets.train));
                     })),
      net(build_net()),
      staged(build_stages(resolved, sets.train->spec(), net)),
      records(make_records()),
      session(net, optimizer_options(resolved), session_options(resolved, shape, options), session_parts()) {
}

SessionParts RunParts::session_parts() {
  SessionParts parts{.note = options.note,
                     .met = options.met,
                     .supervised = options.supervised,
                     .records = records,
                     .order = order,
                     .skipped_remedy =
                         "Lower optimizer.lr, set optimizer.clip_norm, or look at the data; then resume "
                         "or start again.",
                     .staged = staged};
  if (hollow_) {
    parts.first_state = [this](const model::FlatLayout& layout, std::span<float> parameters,
                               std::span<std::byte> buffers) { write_first_state(layout, parameters, buffers); };
  }
  return parts;
}

std::shared_ptr<LedgerExchange> RunParts::make_records() const {
  const bool hosts = options.met || (options.supervised && options.supervised->host);
  return job.ledger && hosts ? std::make_shared<LedgerExchange>() : nullptr;
}

void RunParts::tell_what_it_does(const std::filesystem::path& run, const std::string& doing) const {
  if (!options.note || !founds() || run.empty()) return;
  control::LeaderNote note;
  note.run = run.string();
  note.doing = doing;
  options.note(note.to_json().dump());
}

Datasets RunParts::open_agreed_data() const {
  tell_what_it_does(begun_run(), "reading the data");
  const FailpointScope scope(seat(), -1, options.supervised ? options.supervised->attempt : 0);
  MUSTER_FAILPOINT("run.data.read");
  const std::shared_ptr<data::PieceDoor> remote = remote_data(options.supervised, job, [&](const std::string& news) {
    if (options.supervised->founder) observer.warned(news);
  });
  Datasets opened = open_data(resolved, remote);
  if (options.supervised) agree_on_data(*options.supervised, job, opened, remote);
  if (remote && job.data.access == "copy") tell_lanes(remote, resolved, *opened.train);
  return opened;
}

std::shared_ptr<model::Net> RunParts::build_net() {
  tell_what_it_does(begun_run(), "making the model");
  // Before the first tensor: initialisation draws its numbers with the same threads on every run.
  compute::set_threads(static_cast<int>(job.threads));
  if (options.usable_memory && founds()) {
    const MemoryFigures figures = check_memory(resolved, sets, held_before_, *options.usable_memory);
    memory =
        fmt::format("about {}; {}", describe(estimate_memory(figures), figures.workers), options.usable_memory->reason);
  }
  std::shared_ptr<model::Net> made = may_be_hollow(job) ? build_hollow_net() : build_whole_net();
  // Read when there is a session, and by then there is a folder: what is wrong with it is said before.
  if (!options.resume && founds()) check_optimizer_file(resolved, *made);
  if (job.parallel.sync_batch_norm && model::synchronize_batch_norm(*made, options.group) == 0)
    throw resolved.invalid("parallel.sync_batch_norm", "the model has no batch norm");
  return made;
}

std::shared_ptr<model::Net> RunParts::build_whole_net() {
  std::shared_ptr<model::Net> made = build_fitting_model(resolved, sets.train->spec());
  begin_from_files("model.init", [&] { return initialize_model(job, *made); });
  return made;
}

std::shared_ptr<model::Net> RunParts::build_hollow_net() {
  hollow_.emplace([this] { return build_fitting_model(resolved, sets.train->spec()); });
  return hollow_->net();
}

void RunParts::write_first_state(const model::FlatLayout& layout, std::span<float> parameters,
                                 std::span<std::byte> buffers) {
  std::map<std::string_view, float*> places;
  for (const model::TensorSlot& slot : layout.tensors())
    places.emplace(slot.name, parameters.data() + slot.offset);
  const std::shared_ptr<model::Net> made = hollow_->make_at([&](const std::string& name) {
    const auto found = places.find(name);
    return found == places.end() ? nullptr : found->second;
  });
  begin_from_files("model.init", [&] { return initialize_model(job, *made); });
  const compute::ModuleBinding values(made);
  values.read_parameters(parameters);
  values.read_buffers(buffers);
}

// Loads what the job begins from. Of workers that share their state the first one does it. A run that is resumed has a
// checkpoint and does not need the files; if it has none after all, what they lacked is said then.
template <typename Load>
void RunParts::begin_from_files(std::string_view key, const Load& load) {
  if (options.supervised && !founds()) return;
  try {
    const std::vector<std::string> lines = about_key(resolved, key, load);
    init.insert(init.end(), lines.begin(), lines.end());
  } catch (const Error& error) {
    if (!options.resume) throw;
    init_failure = error;
  }
}

const std::filesystem::path& RunParts::begun_run() const {
  return options.resume ? options.run : options.begun;
}

bool RunParts::abandoned() const {
  return session.membership().abandoned_for() > std::chrono::duration<double>(job.parallel.orphan_seconds);
}

int RunParts::seat() const {
  if (!options.supervised) return options.group.rank();
  const strategies::Supervised& supervised = *options.supervised;
  const std::uint64_t before = supervised.host ? supervised.host->number - control::kFirstHost : 0;
  return static_cast<int>(before) * comm::kMostArenaRanks + supervised.seat;
}

void RunParts::begin_optimizer() {
  begin_from_files("optimizer.init", [&] { return initialize_optimizer(job, session); });
}

}  // namespace muster::trainer
