// What commands of federated training share: the run's folder, a row and a line for each round.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "muster/base/json.h"
#include "muster/cli/command.h"
#include "muster/federated/simulation.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/job.h"
#include "muster/trainer/run_folder.h"

namespace muster::cli {

// Parts of add_federated, in files of their own.
void add_federated_server(CLI::App& federated, Outcome& outcome);
void add_federated_client(CLI::App& federated, Outcome& outcome);
void add_federated_status(CLI::App& federated);
void add_federated_vertical(CLI::App& federated, Outcome& outcome);

// What `muster train` does with a federated job: the simulation. `resume`: as its --resume and --run.
struct ResumeChoice {
  bool newest = false;
  std::string run{};
};
int simulate_job(const std::string& job, const std::vector<std::string>& assignments, const ResumeChoice& resume,
                 bool json, bool quiet);

// Throws unless the job has clients.
void require_federated(const trainer::ResolvedJob& resolved);

// A folder to begin in or, with `resume` or a folder, the one of the run to go on with. Throws Error{kNotFound}, and
// what stands in the way of going on.
trainer::RunFolder open_federated_run(bool resume, const std::string& folder, const trainer::ResolvedJob& resolved);

Json row_of_round(const federated::RoundReport& report);
std::string line_of_round(const federated::RoundReport& report, std::int64_t rounds);
// The run's model card, from its start on; with `last` the round that it ended with. `weights`: its file, which is
// there then.
void write_federated_card(const std::filesystem::path& run, const trainer::ResolvedJob& resolved,
                          const trainer::Datasets& sets, std::uint64_t parameters, const federated::RoundReport* last);
// Whether the last row says that the run ended after so many rounds: nothing is left to do.
bool has_ended(const std::filesystem::path& metrics, std::uint64_t rounds);
// Whether an update has counted in any round, by the rows.
bool has_trained(const std::filesystem::path& metrics);
// Adds the last round's row, which the state has, where a run was killed before it stood in the file. To be called
// before anybody else writes there.
void mend_rows(const std::filesystem::path& metrics, const federated::State& state);

void print_line(const std::string& line);

}  // namespace muster::cli
