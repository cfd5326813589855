// What the script decides after a stop is little, and stands in it for everybody to read: exit code 138 is SIGUSR1 and
// thus the time limit; 143 with a time of preemption is a preemption, which Slurm would otherwise take for the end of
// the job. A job that somebody stops or cancels is not started again.
#include "muster/launch/slurm_script.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/launch/ssh_hosts.h"

namespace muster::launch {
namespace {

constexpr std::int64_t kLongestTime = 1'000'000'000;

constexpr const char* kAfterwards = R"(
preempted() { scontrol show job -o "$SLURM_JOB_ID" | grep -q ' PreemptTime=[0-9]'; }
if [ "$code" -eq 138 ] || { [ "$code" -eq 143 ] && preempted; }; then
  echo "time is over or another job comes first: a checkpoint is written, and the job goes on later"
  exec scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
)";

void require_line(const std::string& text) {
  if (text.find_first_of("\r\n") != std::string::npos)
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" has a line break", excerpt(text)));
}

// `text` as one word of a line #SBATCH, where a blank would end it and # would begin a comment. sbatch takes quotes
// away, and in them, too, a backslash before any character.
std::string sbatch_word(const std::string& text) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-_.,:+=/@%[]*").find(static_cast<char>(c)) != std::string::npos;
  });
  if (plain) return text;
  std::string quoted = "\"";
  for (const char c : text)
    quoted += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return quoted + "\"";
}

// "--comment=two words": all behind the = is its value. What has none, and what is quoted already, is a user's own
// words
// ("-A physics").
std::string sbatch_option(const std::string& option) {
  const std::size_t equals = option.find('=');
  if (equals == std::string::npos || option.find_first_of("\"'", equals) == equals + 1) return option;
  return option.substr(0, equals + 1) + sbatch_word(option.substr(equals + 1));
}

// A job's name as a part of --output, where % stands for something.
std::string log_name(const std::string& name) {
  std::string text;
  for (const char c : name)
    text += c == '%' ? std::string("%%") : std::string(1, c);
  return text;
}

// "1:30:00" as numbers; nothing: it is something else.
std::optional<std::vector<std::int64_t>> numbers_in(std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (;;) {
    const std::string_view word = text.substr(0, text.find(':'));
    std::int64_t number = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (code != std::errc() || end != word.data() + word.size() || number < 0 || number > kLongestTime)
      return std::nullopt;
    numbers.push_back(number);
    if (word.size() == text.size()) return numbers;
    text.remove_prefix(word.size() + 1);
  }
}

void require_time_beyond_warning(const SlurmJob& job) {
  const std::optional<std::int64_t> seconds = slurm_seconds(job.time);
  if (!seconds || *seconds > job.warning_seconds) return;
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("--time {} is {} s, and Slurm would warn {} s before its end: at once", job.time, *seconds,
                          job.warning_seconds),
              {}, "Give more time, or --warning with fewer seconds: enough for a step and a checkpoint.");
}

}  // namespace

std::optional<std::int64_t> slurm_seconds(const std::string& time) {
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 60 * kMinute;
  constexpr std::int64_t kDay = 24 * kHour;
  const std::size_t dash = time.find('-');
  const bool days = dash != std::string::npos;
  const auto parts = numbers_in(std::string_view(time).substr(days ? dash + 1 : 0));
  if (!parts || parts->size() > 3) return std::nullopt;
  const std::size_t count = parts->size();
  const auto part = [&](std::size_t i) { return i < count ? (*parts)[i] : 0; };
  if (days) {
    const auto whole = numbers_in(time.substr(0, dash));
    if (!whole || whole->size() != 1) return std::nullopt;
    return whole->front() * kDay + part(0) * kHour + part(1) * kMinute + part(2);
  }
  if (count == 3) return part(0) * kHour + part(1) * kMinute + part(2);
  return part(0) * kMinute + part(1);
}

std::string slurm_script(const SlurmJob& job) {
  require_time_beyond_warning(job);
  std::string script = "#!/bin/bash\n";
  const auto option = [&](const std::string& text) {
    require_line(text);
    script += fmt::format("#SBATCH {}\n", text);
  };
  option("--job-name=" + sbatch_word(job.name));
  option(fmt::format("--nodes={}", job.nodes));
  option("--ntasks-per-node=1");
  option(fmt::format("--cpus-per-task={}", job.cores));
  if (!job.time.empty()) option("--time=" + sbatch_word(job.time));
  if (!job.partition.empty()) option("--partition=" + sbatch_word(job.partition));
  option(fmt::format("--signal=USR1@{}", job.warning_seconds));
  option("--requeue");
  option("--open-mode=append");
  option("--output=" + sbatch_word(log_name(job.name) + "-%j.log"));
  for (const std::string& more : job.options)
    option(sbatch_option(more));
  script += "# By muster launch slurm: a task on each node; the first coordinates, the others are its agents.\n";
  std::string words;
  for (const std::string& word : job.command) {
    require_line(word);
    words += " " + shell_word(word);
  }
  script += fmt::format("code=0\nsrun{} --ntasks-per-node=1 --cpus-per-task={}{} || code=$?\n",
                        job.ranks_of_mpi ? " --mpi=pmix" : "", job.cores, words);
  return script + (kAfterwards + 1);
}

}  // namespace muster::launch
