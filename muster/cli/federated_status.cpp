// muster federated status: how far a server is, from what it leaves in its run's folder; no server is asked, so that
// one that was killed can be looked at, too.
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/cli/command.h"
#include "muster/cli/federated_run.h"
#include "muster/trainer/run_lock.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kMostStatusBytes = 64 << 10;

struct FederatedStatusFlags {
  std::string run;
  bool json = false;
};

// The run's lock goes with the server.
bool runs_now(const std::filesystem::path& run) {
  try {
    const trainer::RunLock lock(run, Deadline::after(std::chrono::nanoseconds(0)));
    return false;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kMismatch) return true;
    throw;
  }
}

void run_federated_status(const FederatedStatusFlags& flags) {
  const std::filesystem::path run = trainer::RunFolder::open(flags.run).path();
  const std::filesystem::path file = run / "status.json";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    throw Error(ErrorKind::kNotFound, "is no run of muster federated server", run.string(),
                "A simulation's rounds are in its metrics.jsonl.");
  Json status = parse_json(read_text(file, kMostStatusBytes), file.string());
  status["runs"] = runs_now(run);
  if (flags.json) {
    print_line(status.dump());
    return;
  }
  const auto number = [&](const char* key) { return json_get<std::uint64_t>(status, key, file.string()); };
  fmt::print("{}\n  server    {}, {}\n", run.string(), json_get<std::string>(status, "address", file.string()),
             status["runs"].get<bool>() ? "runs" : "does not run: muster federated server JOB --run goes on");
  fmt::print("  rounds    {} of {} done; {}\n", number("rounds"), number("of"),
             json_get<std::string>(status, "doing", file.string()));
  // Runs of versions before this one do not say who has left.
  const auto left = status.value("left", std::uint64_t{0});
  fmt::print("  clients   {} enrolled, {} there{}\n", number("enrolled"), number("present"),
             left > 0 ? fmt::format(", {} have left for good", left) : "");
  fmt::print("  round     {} asked, {} updates, {} refused\n", number("asked"), number("accepted"), number("refused"));
}

}  // namespace

void add_federated_status(CLI::App& federated) {
  CLI::App* command = federated.add_subcommand("status", "How far a server is.");
  auto flags = std::make_shared<FederatedStatusFlags>();
  command->add_option("run", flags->run, "The folder of its run")->required();
  command->add_flag("--json", flags->json, "As one JSON object");
  command->footer("Example:\n  muster federated status runs/federated-20260115-193427");
  command->callback([flags] { run_federated_status(*flags); });
}

}  // namespace muster::cli
