// No secret is an argument anywhere: certificates go through standard input. Everything of a user's in the script is
// quoted.
#include "muster/launch/ssh_hosts.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/launch/bundle.h"

namespace muster::launch {
namespace {

constexpr int kMostWorkers = 64;
constexpr int kPatienceWithCopies = 1500;  // seconds, while another start copies the same bundle

Error no_host(const std::string& text, const std::string& why, const std::string& where) {
  return Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" names no host: {}", excerpt(text), why), where,
               "Hosts are written as a:4,b:4 (4 workers on each), or a,b.");
}

int workers_in(const std::string& number, const std::string& text, const std::string& where) {
  int value = 0;
  const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (code != std::errc() || end != number.data() + number.size() || value < 1 || value > kMostWorkers)
    throw no_host(text, fmt::format("\"{}\" is no number of workers from 1 to {}", excerpt(number), kMostWorkers),
                  where);
  return value;
}

NamedHost parse_host(const std::string& text, const std::string& where) {
  NamedHost host;
  const std::size_t bracket = text.rfind(']');
  const std::size_t colon = text.find(':', bracket == std::string::npos ? 0 : bracket);
  host.name = text.substr(0, colon);
  std::erase_if(host.name, [](char c) { return c == '[' || c == ']'; });
  if (colon != std::string::npos) host.workers = workers_in(text.substr(colon + 1), text, where);
  if (host.name.empty()) throw no_host(text, "it is empty", where);
  // ssh would take it for an option.
  if (host.name.front() == '-') throw no_host(text, "it begins with -", where);
  if (std::any_of(host.name.begin(), host.name.end(), [](unsigned char c) { return c <= ' ' || c == 127; }))
    throw no_host(text, "a blank", where);
  return host;
}

void add_host(std::vector<NamedHost>& hosts, NamedHost host, const std::string& where) {
  for (const NamedHost& other : hosts)
    if (other.name == host.name) throw no_host(host.name, "it is named twice", where);
  hosts.push_back(std::move(host));
}

// Leaves the agent's program in $program, or nothing.
std::string finding_lines(const RemoteAgent& agent) {
  std::string lines = "program=\n";
  const auto try_each = [&](const std::vector<std::string>& programs) {
    for (const std::string& one : programs)
      lines += fmt::format("[ -n \"$program\" ] || [ ! -x {0} ] || program={0}\n", shell_word(one));
  };
  if (agent.program.empty()) {
    try_each(agent.programs);
    lines += "[ -n \"$program\" ] || program=$(command -v muster) || program=\n";
  } else {
    try_each({agent.program});
  }
  return lines;
}

// whole FOLDER: whether a bundle is all there, its list of checksums among it.
std::string whole_function(const std::string& sums) {
  return fmt::format(
      "whole() {{ (cd \"$1\" && [ -x bin/muster ] && echo '{}  {}' | sha256sum --check --status - && "
      "sha256sum --check --quiet --strict {}); }}\n",
      sums, kBundleSums, kBundleSums);
}

}  // namespace

std::vector<NamedHost> parse_hosts(const std::string& text) {
  std::vector<NamedHost> hosts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    add_host(hosts, parse_host(text.substr(begin, comma - begin), "--hosts"), "--hosts");
    begin = comma + 1;
  }
  return hosts;
}

std::vector<NamedHost> parse_host_file(const std::string& text, const std::string& where) {
  std::vector<NamedHost> hosts;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string place = fmt::format("{}:{}", where, ++number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    NamedHost host = parse_host(word, place);
    while (words >> word) {
      constexpr std::string_view kSlots = "slots=";
      if (!word.starts_with(kSlots)) throw no_host(line, fmt::format("what is \"{}\"?", excerpt(word)), place);
      host.workers = workers_in(word.substr(kSlots.size()), line, place);
    }
    add_host(hosts, std::move(host), place);
  }
  if (hosts.empty()) throw no_host("", "the file has none", where);
  return hosts;
}

std::string shell_word(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text)
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string remote_script(const RemoteAgent& agent) {
  std::string script = "set -eu; umask 077; unset MUSTER_NODES MUSTER_NODE MUSTER_RANK MUSTER_SIZE || :\n";
  for (const auto& [name, value] : agent.environment)
    script += fmt::format("export {}={}\n", name, shell_word(value));
  script += finding_lines(agent);
  if (!agent.bundled.empty())
    script += fmt::format("[ -n \"$program\" ] || [ ! -x {0} ] || program={0}\n", shell_word(agent.bundled));
  script +=
      fmt::format("if [ -z \"$program\" ]; then echo 'muster: there is no muster on this machine' >&2; exit {}; fi\n",
                  kNoProgramThere);
  script += "case $program in /*) ;; *) program=$PWD/$program ;; esac\n";
  script += "folder=$(mktemp -d)\ntrap 'rm -rf \"$folder\"' EXIT\n";
  std::string words =
      fmt::format("{} --join {} --name {}", agent.command, shell_word(agent.join), shell_word(agent.name));
  if (agent.certificate_bytes.empty()) {
    words += " --insecure";
  } else {
    script += "mkdir \"$folder/certs\"\n";
    for (std::size_t i = 0; i < kCertificateFiles.size(); ++i)
      script += fmt::format("head -c {} > \"$folder/certs/{}\"\n", agent.certificate_bytes.at(i), kCertificateFiles[i]);
    words += " --certs \"$folder/certs\"";
  }
  if (agent.workers) words += fmt::format(" --workers {}", *agent.workers);
  if (!agent.interface.empty()) words += " --interface " + shell_word(agent.interface);
  if (!agent.folder.empty()) script += fmt::format("cd {} 2>/dev/null || cd \"$HOME\"\n", shell_word(agent.folder));
  // A shell gives what it runs in the background no standard input of its own: the copy keeps it.
  script += fmt::format(
      "exec 3<&0\n\"$program\" {} </dev/null 3<&- & agent=$!\n"
      "(cat <&3 >/dev/null 2>&1; kill -TERM $agent) >/dev/null 2>&1 & line=$!\n"
      "exec 3<&-\ncode=0; wait $agent || code=$?\nkill $line 2>/dev/null || :\nexit $code\n",
      words);
  return script;
}

std::string looking_script(const RemoteAgent& agent) {
  std::string script = finding_lines(agent);
  if (!agent.bundled.empty()) {
    // FOLDER/bin/muster
    const std::string folder = std::filesystem::path(agent.bundled).parent_path().parent_path().string();
    script += whole_function(agent.bundle_sums) +
              fmt::format("[ -n \"$program\" ] || ! whole {} >/dev/null 2>&1 || program={}\n", shell_word(folder),
                          shell_word(agent.bundled));
  }
  return script + fmt::format("[ -n \"$program\" ] || exit {}\n", kNoProgramThere);
}

std::string unpacking_script(const std::string& folder, const std::string& sums) {
  const std::filesystem::path path(folder);
  const std::string parent = path.parent_path().string();
  return fmt::format(
             "set -eu; cd; umask 077; mkdir -p {0}\n"
             // The kernel lets go of it with the last process that has it. A file, because folders have no locks
             // between the hosts that share a home by NFS.
             "exec 9>>{0}/.lock; flock -w {1} 9 || {{ echo 'muster: somebody else copies for {1} s' >&2; exit 1; }}\n",
             shell_word(parent), kPatienceWithCopies) +
         whole_function(sums) +
         fmt::format(
             "if whole {0} >/dev/null 2>&1; then cat >/dev/null; exit 0; fi\n"
             "new={1}; rm -rf \"$new\"; mkdir \"$new\"; trap 'rm -rf \"$new\"' EXIT\n"
             "mkdir \"$new/whole\"\n"
             "tar -x -f - -C \"$new/whole\"\n"
             // An archive has one folder at its top, which is not called as we call it.
             "[ -e \"$new/whole/bin\" ] || mv \"$new/whole\"/*/* \"$new/whole\"\n"
             "whole \"$new/whole\"\n"
             // What is in its place is damaged. Who runs from it keeps the files that it has open.
             "[ ! -e {0} ] || mv -T {0} \"$new/damaged\"\n"
             "mv -T \"$new/whole\" {0}\n",
             shell_word(folder), shell_word((path.parent_path() / ("new-" + path.filename().string())).string()));
}

std::vector<std::string> ssh_arguments(const std::string& host, const std::string& script) {
  return {"-T",
          "-o",
          "BatchMode=yes",
          "-o",
          "ServerAliveInterval=5",
          "-o",
          "ServerAliveCountMax=3",
          host,
          "--",
          "sh -c " + shell_word(script)};
}

}  // namespace muster::launch
