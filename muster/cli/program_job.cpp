// What an agent is told is all that it needs, member by member: one that is missing is an error, because coordinator
// and agents are of one version.
#include "muster/cli/program_job.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/cli/workers.h"
#include "muster/coordinator/training.h"
#include "muster/launch/child_process.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kGrace{30};

// A program that another host coordinates: the folder for commands to it has the name of the run there, so that it is
// the same one where both see it.
class ProgramElsewhere final : public coordinator::Training {
 public:
  explicit ProgramElsewhere(std::filesystem::path runs) : runs_(std::move(runs)) {}

  std::filesystem::path local_run(const std::filesystem::path& run) const override {
    const std::filesystem::path name = run.filename();
    if (name.empty() || name == "." || name == "..")
      throw Error(ErrorKind::kIo, fmt::format("\"{}\" is no folder of a run", run.string()));
    std::filesystem::path own = std::filesystem::absolute(runs_ / name);
    std::error_code code;
    std::filesystem::create_directories(own, code);
    if (code) throw Error(ErrorKind::kIo, fmt::format("cannot be made: {}", code.message()), own.string());
    return own;
  }

 private:
  const std::filesystem::path runs_;
};

}  // namespace

std::string ProgramJob::to_text() const {
  const Json json{{"program", program},
                  {"arguments", arguments},
                  {"least_workers", workers.least},
                  {"most_workers", workers.most},
                  {"threads", threads},
                  {"liveness_seconds", liveness_seconds},
                  {"hang_seconds", hang_seconds},
                  {"start_seconds", start_seconds},
                  {"interface", interface},
                  {"named", named}};
  try {
    return json.dump();
  } catch (const Json::exception&) {
    throw Error(ErrorKind::kInvalidInput, "the program's name and its arguments are not all UTF-8", {},
                "Other hosts can be told text only.");
  }
}

ProgramJob ProgramJob::from_text(const std::string& text) {
  const std::string where = "what the coordinator says of its program";
  const Json json = parse_json(text, where);
  ProgramJob job;
  job.program = json_get<std::string>(json, "program", where);
  job.arguments = json_get<std::vector<std::string>>(json, "arguments", where);
  job.workers = {json_get<std::int64_t>(json, "least_workers", where),
                 json_get<std::int64_t>(json, "most_workers", where)};
  job.threads = static_cast<int>(json_get<std::int64_t>(json, "threads", where));
  job.liveness_seconds = json_get<double>(json, "liveness_seconds", where);
  job.hang_seconds = json_get<double>(json, "hang_seconds", where);
  job.start_seconds = json_get<double>(json, "start_seconds", where);
  job.interface = json_get<std::string>(json, "interface", where);
  job.named = json_get<std::string>(json, "named", where);
  if (job.program.empty() || job.workers.least < 1 || job.workers.most < job.workers.least)
    throw Error(ErrorKind::kDamaged, "no program, or no workers", where);
  return job;
}

std::string ProgramJob::name() const {
  std::string name = named.empty() ? std::filesystem::path(program).filename().string() : named;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_'; }, '_');
  return name;
}

void require_program(const ProgramJob& program) {
  if (launch::find_program(program.program)) return;
  throw Error(ErrorKind::kNotFound, fmt::format("the job's program {} is not on this host", program.program), {},
              "Put it at the same path on every host, or a folder that all share.");
}

coordinator::CoordinatedJob coordinated_job(const ProgramJob& program, const std::filesystem::path& runs) {
  coordinator::CoordinatedJob job;
  if (!runs.empty()) job.training = std::make_shared<const ProgramElsewhere>(runs);
  job.name = program.name();
  job.least_workers = static_cast<int>(program.workers.least);
  job.most_workers = static_cast<int>(program.workers.most);
  job.grace = kGrace;
  job.watch = watch_options(program.liveness_seconds, program.hang_seconds, program.start_seconds);
  job.command = {program.program, program.arguments, {{"MUSTER_THREADS", fmt::format("{}", program.threads)}}};
  return job;
}

}  // namespace muster::cli
