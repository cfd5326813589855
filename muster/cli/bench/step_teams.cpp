// Teams differ by the flags of their processes only: the program is this one, or Python's torch by a program of ours
// (ddp_peer.h).
#include "muster/cli/bench/step_teams.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/cli/bench/ddp_peer.h"
#include "muster/cli/workers.h"
#include "muster/strategies/registry.h"

namespace muster::cli {

void check_teams(const StepBench& options) {
  std::vector<std::string> names = strategies::strategy_names();
  if (options.hosts > 1)
    names.insert(names.end(), {kEarly, kWithCerts});
  else
    names.emplace_back(kOverlapped);
  for (const std::string& strategy : options.strategies) {
    if (std::find(names.begin(), names.end(), strategy) == names.end())
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("no strategy \"{}\"{}", strategy, did_you_mean(strategy, names)), "--strategies");
  }
  if (!options.against.empty() && options.against != "ddp")
    throw Error(ErrorKind::kInvalidInput, fmt::format("cannot compare with \"{}\"", options.against), "--against",
                "Peers are: ddp.");
}

std::vector<std::string> step_words(const StepBench& options, const std::string& strategy) {
  std::vector<std::string> words{"bench", "step"};
  const auto add = [&](const char* flag, std::string value) { words.insert(words.end(), {flag, std::move(value)}); };
  add("--strategies", strategy.substr(0, strategy.find('+')));
  add("--model", options.model);
  add("--batch", std::to_string(options.batch));
  add("--threads", std::to_string(options.threads));
  add("--rounds", std::to_string(options.rounds));
  add("--steps", std::to_string(options.steps));
  add("--optimizer", options.optimizer);
  add("--backend", options.backend);
  add("--slow", fmt::format("{}", options.slow));
  add("--sleep", fmt::format("{}", options.sleep));
  if (options.joins) words.insert(words.end(), {"--joins", "--width", std::to_string(options.width)});
  if (strategy == kOverlapped || strategy == kEarly) words.emplace_back("--overlap");
  return words;
}

std::unique_ptr<Team> start_team(const StepBench& options, const std::string& strategy, std::int64_t workers,
                                 const std::string& folder) {
  auto team = std::make_unique<Team>(strategy, workers);
  for (std::int64_t rank = 0; rank < workers; ++rank) {
    std::vector<std::string> words = step_words(options, strategy);
    words.insert(words.end(),
                 {"--rank-folder", folder, "--rank", std::to_string(rank), "--workers", std::to_string(workers)});
    team->start({own_program(), words, {}}, rank);
  }
  return team;
}

launch::Command ddp_command(const StepBench& options, const DdpPlace& place) {
  const std::string threads = std::to_string(options.threads);
  // Debian's packages belong to the system's Python, whatever other one comes first in PATH.
  const std::string python =
      options.python.empty() ? launch::find_program("/usr/bin/python3").value_or("python3") : options.python;
  return {python,
          {"-c", std::string(kDdpPeer), std::to_string(place.rank), std::to_string(place.size), place.meeting,
           options.model, std::to_string(options.batch), threads, std::to_string(options.steps), options.optimizer,
           place.turns},
          {{"OMP_NUM_THREADS", threads},
           {"OPENBLAS_NUM_THREADS", threads},
           {"GLOO_SOCKET_IFNAME", place.interface},
           {"PYTHONWARNINGS", "ignore"}}};
}

}  // namespace muster::cli
