// muster federated vertical labels --predict: what the net that all parties have trained together says of new rows. The
// parties find the common rows among the new ones as they did for training; the answers are the label holder's alone.
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/cli/answer_rows.h"
#include "muster/cli/federated_parties.h"
#include "muster/cli/federated_run.h"
#include "muster/control/cluster_server.h"
#include "muster/federated/vertical/label_holder.h"
#include "muster/federated/vertical/party_files.h"
#include "muster/federated/vertical/vertical_listener.h"
#include "muster/launch/stop_signal.h"
#include "muster/trainer/party_table.h"
#include "muster/trainer/run_folder.h"
#include "muster/trainer/run_lock.h"
#include "muster/trainer/split_nets.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kPredictLockPatience{5};
constexpr std::uint64_t kMostFormBytes = 64 << 20;
constexpr const char* kFormFile = "form.json";
constexpr const char* kNetFile = "model.safetensors";

void require_predictable(const LabelsFlags& flags, const trainer::ResolvedJob& resolved) {
  if (flags.out.empty())
    throw Error(ErrorKind::kInvalidInput, "--predict without --out", "--out", "Name the CSV file to write.");
  if (!flags.with.empty())
    throw Error(ErrorKind::kInvalidInput, "--predict beside --with", "--with",
                "Start the other parties yourself: muster federated vertical columns --predict FILE.");
  if (resolved.job.vertical.parties.empty())
    throw resolved.invalid("vertical.parties", "nothing says who has the other columns", "Give the job of the run.");
  control::require_may_listen(flags.listen, !flags.certs.empty(), flags.insecure);
  const AtomicFile can_be_written(flags.out);  // else that is said before anybody computes
}

// A row of the file for each common row, in their order; one that comes again is the same.
class Answers {
 public:
  Answers(const trainer::PartyTable& table, const data::DataForm& form, bool probabilities)
      : table_(table), spec_(form.spec), probabilities_(probabilities) {}

  void begin(const federated::Alignment& alignment) {
    alignment_ = alignment;
    lines_.assign(alignment.rows.size(), {});
  }
  void add(std::span<const std::uint64_t> rows, std::span<const float> answers) {
    const std::size_t width = answers.size() / rows.size();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string& id = table_.ids().at(alignment_.rows.at(rows[i]));
      lines_.at(rows[i]) = answer_row(id, answers.data() + i * width, spec_, probabilities_);
    }
  }
  std::string text() const {
    std::string text;
    for (const std::string& line : lines_)
      text += line;
    return text;
  }
  std::size_t count() const { return lines_.size(); }

 private:
  const trainer::PartyTable& table_;
  const data::SampleSpec spec_;
  const bool probabilities_;
  federated::Alignment alignment_;
  std::vector<std::string> lines_;
};

// What is there while it predicts, and nothing of it afterwards.
struct WorkFolder {
  explicit WorkFolder(std::filesystem::path its_path) : path(std::move(its_path)) {}
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  const std::filesystem::path path;
};

}  // namespace

data::DataForm form_of_net(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder / kNetFile, ignored))
    throw Error(ErrorKind::kNotFound, "no net was trained here to its end", folder.string(),
                "Train first, with all parties.");
  const std::filesystem::path path = folder / kFormFile;
  return data::DataForm::from_json(parse_json(read_text(path, kMostFormBytes), path.string()), path.string());
}

void write_form(const std::filesystem::path& folder, const data::DataForm& form) {
  write_atomically(folder / kFormFile, form.to_json().dump() + "\n");
}

federated::NetMark mark_of_net(const std::filesystem::path& folder) {
  const auto finished = federated::PartyFiles(folder).finished();
  if (!finished || finished->alignment.empty())
    throw Error(ErrorKind::kMismatch, "training has not come to its end here: nothing says of which epoch the net is",
                folder.string(), "Train to the end first, with all parties; or predict with another run.");
  return {.alignment = finished->alignment, .epochs = finished->epochs};
}

std::filesystem::path newest_net(const std::filesystem::path& state, const std::string& name) {
  std::filesystem::path newest;
  std::filesystem::file_time_type newest_time;
  std::error_code none;
  for (std::filesystem::directory_iterator entry(state, none); !none && entry != std::filesystem::directory_iterator();
       entry.increment(none)) {
    std::error_code code;
    const auto time = std::filesystem::last_write_time(entry->path() / name / kNetFile, code);
    if (code || (!newest.empty() && time <= newest_time)) continue;
    newest = entry->path() / name;
    newest_time = time;
  }
  if (newest.empty())
    throw Error(ErrorKind::kNotFound, fmt::format("there is no net of {} that was trained to its end", name),
                state.string(), "Give --state with the folder of training, or --net.");
  return newest;
}

int predict_as_label_holder(const LabelsFlags& flags) {
  const trainer::ResolvedJob resolved = load_party_job(flags);
  require_predictable(flags, resolved);
  const trainer::RunFolder folder = open_federated_run(true, flags.run, resolved);
  const trainer::RunLock lock(folder.path(), Deadline::after(kPredictLockPatience));
  const data::DataForm form = form_of_net(folder.path());
  const trainer::PartyTable table(resolved, flags.predict, form);
  const launch::StopSignal signal;
  const auto tell = [&](const std::string& line) {
    if (!flags.quiet) fmt::print(stderr, "{}\n", line);
  };
  const std::string name = fmt::format("predict-{}", time_stamp(system_clock().wall()));
  const WorkFolder work(folder.path() / name);
  Answers answers(table, form, flags.probabilities);
  federated::LabelHolderOptions options;
  options.run = name;
  options.folder = work.path;
  options.parties = resolved.job.vertical.parties;
  options.batch = resolved.batch;
  options.patience = flags.patience();
  options.tell = tell;
  options.net = mark_of_net(folder.path());
  options.aligned = [&](const federated::Alignment& alignment) { answers.begin(alignment); };
  const auto make_net = [&](const federated::Alignment& alignment, std::span<const std::uint64_t> widths) {
    return trainer::load_top_net(
        resolved, table.aligned(alignment), widths, folder.path() / kNetFile,
        [&](std::span<const std::uint64_t> rows, std::span<const float> given) { answers.add(rows, given); });
  };
  bool written = false;
  options.before_end = [&] {
    write_atomically(flags.out, answers_header(form, resolved.job.vertical.id, flags.probabilities) + answers.text());
    written = true;
  };
  federated::LabelHolder holder(options, table.ids(), make_net);
  control::ClusterListen listen;
  listen.address = flags.listen;
  listen.trust.certs = flags.certs;
  const federated::VerticalListener listener(holder, listen);
  write_atomically(folder.path() / "address", listener.address() + "\n");
  tell(fmt::format("listens on {} for {}, to predict with the net in {}", listener.address(),
                   join_words(resolved.job.vertical.parties), folder.path().string()));
  try {
    holder.run([&] { return signal.number() == 0; }, [](std::uint64_t, const federated::EpochFigures&) {});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInterrupted) throw;
    tell(written ? "stopped" : "stopped; nothing is written");
    return 128 + signal.number();
  }
  tell(fmt::format("wrote {} predictions to {}", grouped(answers.count()), flags.out));
  return 0;
}

}  // namespace muster::cli
