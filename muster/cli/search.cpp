// muster search: a job whose net has open places to one whose net has none. It is a program of a session, so that
// `muster run -n 2 muster search JOB` searches with two workers.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/cli/search.h"
#include "muster/trainer/block_search.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kLargestTable = 16 << 20;

struct SearchFlags {
  std::string job;
  std::vector<std::string> assignments;
  std::string latency;
  std::string out;
  trainer::BlockSearchOptions options;
  bool json = false;
};

// What decides the result: a folder with a search of other things is not gone on with.
void agree_on_folder(const std::filesystem::path& folder, const Json& asked) {
  const std::filesystem::path file = folder / "search.json";
  make_folder(folder);
  if (!std::filesystem::exists(file)) write_atomically(file, asked.dump() + "\n");
  const Json found = parse_json(read_text(file, kLargestTable), file.string());
  for (const auto& [key, value] : asked.items()) {
    if (found.contains(key) && found[key] == value) continue;
    throw Error(ErrorKind::kMismatch, fmt::format("was begun with another {}", key), file.string(),
                "Search into another folder (--out), or change it back to go on with this one.");
  }
}

Json probabilities_json(const zoo::LatencyTable& table, const trainer::BlockSearchState& state) {
  const auto choices = zoo::choices_of(table.net);
  Json places = Json::array();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    Json row = Json::object();
    for (std::size_t c = 0; c < choices[i].size(); ++c)
      row[zoo::to_string(choices[i][c])] = state.probabilities[i][c];
    places.push_back(std::move(row));
  }
  return places;
}

void run_search(const SearchFlags& flags) {
  const trainer::ResolvedJob resolved = trainer::load_job(flags.job, flags.assignments);
  if (!std::filesystem::exists(flags.latency))
    throw Error(
        ErrorKind::kNotFound, "there is no such table of times", flags.latency,
        fmt::format("Measure it while nothing else runs: muster bench blocks {} --out {}", flags.job, flags.latency));
  const zoo::LatencyTable table =
      zoo::LatencyTable::from_json(parse_json(read_text(flags.latency, kLargestTable), flags.latency), flags.latency);
  const std::filesystem::path folder =
      flags.out.empty() ? std::filesystem::path("searches") / resolved.job.name : std::filesystem::path(flags.out);
  const trainer::Worker worker = trainer::join(0, nullptr);
  // After the job was found to be one: a folder of a search that was refused would refuse the next one.
  const auto begins = [&] {
    agree_on_folder(folder, {{"job", resolved.json},
                             {"latency", table.json()},
                             {"pressure", flags.options.pressure},
                             {"rate", flags.options.rate},
                             {"warmup", flags.options.warmup}});
  };
  const auto tell = [&](const trainer::BlockSearchState& state) {
    const std::string name = zoo::to_string(zoo::filled(table.net, state.chosen));
    if (flags.json) {
      fmt::print("{}\n", Json{{"event", "epoch"},
                              {"epoch", state.epoch},
                              {"step", state.step},
                              {"loss", state.loss},
                              {"net", name},
                              {"ms", table.of(state.chosen)},
                              {"probabilities", probabilities_json(table, state)}}
                             .dump());
    } else {
      fmt::print("epoch {}: loss {:.4f}; {} ({:.3f} ms)\n", state.epoch, state.loss, name, table.of(state.chosen));
    }
    std::fflush(stdout);
  };
  const trainer::BlockSearchState end =
      trainer::search_blocks(resolved, table, flags.options, worker, folder / "checkpoints", begins, tell);
  if (!worker.is_first()) return;
  const std::string name = zoo::to_string(zoo::filled(table.net, end.chosen));
  std::vector<std::string> assignments = flags.assignments;
  assignments.push_back(fmt::format("model.name=\"{}\"", name));
  const std::filesystem::path found = folder / "job.toml";
  write_atomically(found, trainer::load_job(flags.job, assignments).text);
  if (flags.json) {
    fmt::print("{}\n", Json{{"event", "found"},
                            {"net", name},
                            {"ms", table.of(end.chosen)},
                            {"job", found.string()},
                            {"probabilities", probabilities_json(table, end)}}
                           .dump());
  } else {
    fmt::print("found {}: {:.3f} ms by the table\ntrain it: muster train {}\n", name, table.of(end.chosen),
               found.string());
  }
}

}  // namespace

void add_block_search(CLI::App& app) {
  CLI::App* command = app.add_subcommand("search", "Search the blocks of a net that is fast here and good at the job.");
  auto flags = std::make_shared<SearchFlags>();
  command->add_option("job", flags->job, "The job file; its model has open places")->required();
  command->add_option("--latency", flags->latency, "The table of times, from muster bench blocks")->required();
  command->add_option("--set", flags->assignments, "section.key=value, over the job file")->allow_extra_args(false);
  command->add_option("--out", flags->out, "Folder of the search. Default: searches/NAME");
  command->add_option("--pressure", flags->options.pressure, "How much time counts against accuracy; 0: not at all")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 100.0));
  command->add_option("--rate", flags->options.rate, "Learning rate of the shares")
      ->capture_default_str()
      ->check(CLI::Range(1e-6, 10.0));
  command->add_option("--warmup", flags->options.warmup, "The part of the steps before shares are trained")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.9));
  command->add_flag("--json", flags->json, "One JSON object a line instead of text");
  command->footer(
      "FBNet's differentiable search: weights and the shares of the choices are trained in turns. The folder has\n"
      "checkpoints, with which the same command goes on, and job.toml, the job with the net that was found.\n"
      "\nExamples:\n"
      "  muster bench blocks search.toml --out times.json\n"
      "  muster search search.toml --latency times.json\n"
      "  muster run -n 2 muster search search.toml --latency times.json     with two workers, to the same net\n"
      "  muster train searches/search/job.toml");
  command->callback([flags] { run_search(*flags); });
}

}  // namespace muster::cli
