// Commands are run by a shell, in turns; each is ended as soon as it has printed the row of a step ("step": 1 or more,
// as muster train --json prints it), so that what is measured is the way there: launcher, hosts that meet, data, model,
// first step. Anything that prints such a row can be compared, torchrun for one.
#include "muster/cli/bench/start.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/base/temporary_folder.h"
#include "muster/base/text.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/start_peer.h"
#include "muster/launch/child_process.h"
#include "muster/launch/ssh_hosts.h"

namespace muster::cli {
namespace {

constexpr std::chrono::minutes kLongestStart{10};
constexpr std::chrono::seconds kFarewell{20};  // for what was started elsewhere to end, too
constexpr std::chrono::milliseconds kPoll{50};
constexpr std::size_t kLongestLine = 1 << 20;

struct StartBench {
  std::vector<std::string> commands;
  std::int64_t rounds = 5;
  std::int64_t torchrun = 0;  // processes; 0: not compared
  std::string python;
  bool json = false;
};

bool is_step(const std::string& line) {
  const Json row = Json::parse(line, nullptr, false);
  return row.is_object() && row.contains("step") && row["step"].is_number_integer() && row["step"] > 0;
}

// Whether a whole line of a step is in what was read; what is before the last line's end is forgotten.
bool take_lines(std::string& text) {
  for (std::size_t end = 0; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
    if (is_step(text.substr(0, end))) return true;
  return false;
}

// The shell is told, and with it its group; what does not end is killed.
void end_group(launch::ChildProcess& process) {
  ::kill(-process.pid(), SIGTERM);
  for (const Deadline deadline = Deadline::after(kFarewell); !process.poll() && !deadline.passed();)
    launch::wait_for_an_end({process.handle()}, kPoll);
  process.kill(SIGKILL);
}

double seconds_to_first_step(const std::string& command) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorKind::kResource, "no pipe");
  const FileDescriptor out(ends[0]);
  FileDescriptor in(ends[1]);
  const Clock::Instant began = system_clock().now();
  launch::ChildProcess process(
      {.program = "sh", .arguments = {"-c", command}, .environment = {}, .output = in.get(), .own_group = true});
  in = FileDescriptor();
  std::string text;
  char piece[4096];
  for (const Deadline deadline = Deadline::after(kLongestStart);;) {
    pollfd ready{out.get(), POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(kPoll.count())) == 1) {
      const ssize_t got = ::read(out.get(), piece, sizeof piece);
      if (got == 0 || (got < 0 && errno != EINTR))
        throw Error(
            ErrorKind::kInvalidInput, "ended without the row of a step", excerpt(command, 200),
            "It has to print {\"step\": 1} on standard output, as muster train --json does; see what it said above.");
      text.append(piece, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
      if (take_lines(text)) break;
      if (text.size() > kLongestLine) throw Error(ErrorKind::kInvalidInput, "prints no lines", excerpt(command, 200));
    }
    if (deadline.passed())
      throw Error(ErrorKind::kTimeout, fmt::format("no step within {} min", kLongestStart.count()),
                  excerpt(command, 200));
  }
  const double seconds = std::chrono::duration<double>(system_clock().now() - began).count();
  end_group(process);
  return seconds;
}

// What stands for torchrun: its own words, and a program that goes with `folder`.
std::string torchrun_command(const StartBench& options, const std::filesystem::path& folder) {
  const std::filesystem::path script = folder / "first_step.py";
  write_atomically(script, std::string(kStartPeer));
  const std::string python =
      options.python.empty() ? launch::find_program("/usr/bin/python3").value_or("python3") : options.python;
  return fmt::format("OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo exec {} -m torch.distributed.run --nproc_per_node {} {}",
                     launch::shell_word(python), options.torchrun, launch::shell_word(script.string()));
}

void run_start_bench(StartBench options) {
  std::optional<TemporaryFolder> folder;
  if (options.torchrun > 0) {
    folder.emplace("muster-bench-");
    options.commands.push_back(torchrun_command(options, folder->path()));
  }
  std::vector<std::vector<double>> seconds(options.commands.size());
  for (std::int64_t round = 0; round < options.rounds; ++round)
    for (std::size_t i = 0; i < options.commands.size(); ++i)
      seconds[i].push_back(seconds_to_first_step(options.commands[i]));
  const double first = median(seconds.front());
  for (std::size_t i = 0; i < options.commands.size(); ++i) {
    const auto [least, most] = std::minmax_element(seconds[i].begin(), seconds[i].end());
    Json row{{"bench", "start"},         {"command", options.commands[i]},
             {"rounds", options.rounds}, {"seconds", median(seconds[i])},
             {"least", *least},          {"most", *most}};
    if (i > 0) row["over_first"] = median(seconds[i]) - first;
    print_row(row, options.json);
  }
}

}  // namespace

void add_start_bench(CLI::App& bench) {
  CLI::App* start = bench.add_subcommand("start", "From typing a command to the first step of its job.");
  auto options = std::make_shared<StartBench>();
  start
      ->add_option(
          "commands", options->commands,
          "Commands for sh -c, each of which prints rows with a step; seconds over the first one's are told of "
          "the others")
      ->required();
  start->add_option("--rounds", options->rounds, "Each is run so often, in turns; medians count")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  start
      ->add_option("--torchrun", options->torchrun,
                   "Beside them torchrun with so many processes of this machine, and a small net's first step")
      ->check(CLI::Range(1, 64));
  start->add_option("--python", options->python, "Of --torchrun: a Python that has PyTorch. None: the system's");
  start->add_flag("--json", options->json, "One JSON object a row");
  start->footer(
      "Each command is ended (SIGTERM to its process group) when it has printed its first step.\n"
      "\nExamples:\n"
      "  muster bench start 'muster train job.toml --json' 'srun -N 2 --ntasks-per-node=1 muster train job.toml "
      "--json'\n"
      "  muster bench start 'muster train job.toml --json' 'muster train job.toml --json --hosts a,b' --rounds 11\n"
      "  muster bench start 'muster train job.toml --json' --torchrun 2 --python V/bin/python");
  start->callback([options] { run_start_bench(*options); });
}

}  // namespace muster::cli
