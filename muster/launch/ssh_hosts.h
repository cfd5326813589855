// Which machines a user names for a job, and what is run on each of them by ssh: words and texts, no effects. What
// starts and ends it is ssh_agents.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/launch/environment.h"

namespace muster::launch {

// A machine as ssh knows it ("b", "me@b"), and how many workers it gets; nothing: as the job says.
struct NamedHost {
  std::string name;
  std::optional<int> workers{};

  bool operator==(const NamedHost&) const = default;
};

// "a:4,b:4", "a,b", "[fd00::1]:2,me@b". Throws Error{kInvalidInput}: no name, no number, a host twice, one that ssh
// would take for an option.
std::vector<NamedHost> parse_hosts(const std::string& text);
// The same of a file's text: a line a host, as above or as mpirun has it ("a slots=4"); # begins a comment. `where` is
// its name for messages.
std::vector<NamedHost> parse_host_file(const std::string& text, const std::string& where);

// `text` as one word of a POSIX shell.
std::string shell_word(const std::string& text);

// Of one agent on another machine; or of what joins as an agent does.
struct RemoteAgent {
  std::string command = "agent";  // the words of muster before --join, "doctor" for one
  std::string join{};             // HOST:PORT of the coordinator
  std::string name{};             // in muster status
  std::optional<int> workers{};
  std::string interface {};  // there; empty: as the job says, or the way to the coordinator
  std::string folder{};      // in which it is started; empty: the login's
  Variables environment{};   // that it has beside those of the login there
  // Where the program is there, in this order: this path, if it is given, else the first of `programs` that is there
  // and what PATH has; and in any case at last that of a bundle which was brought there.
  std::string program{};
  std::vector<std::string> programs{};
  std::string bundled{};
  std::string bundle_sums{};  // the sha256 of that bundle's SHA256SUMS
  // Bytes that come on standard input first, for each file of an agent's certificates, in the order of
  // kCertificateFiles; all 0: there are none, and nothing is protected.
  std::vector<std::size_t> certificate_bytes{};
};
inline const std::vector<std::string> kCertificateFiles{"ca.crt", "cert.crt", "cert.key"};

// The exit code when no program is there.
constexpr int kNoProgramThere = 127;

// What the other machine's shell runs: takes the certificates from standard input into a folder of its own, starts the
// agent, ends it (SIGTERM) when standard input ends, because then who has started it is gone; and gives its exit code.
std::string remote_script(const RemoteAgent& agent);

// Ends with 0 where that agent's program is, and with kNoProgramThere where it is not. A bundle there counts only with
// all of its files as they were made: one that was damaged since is none.
std::string looking_script(const RemoteAgent& agent);
// Takes a bundle (muster bundle), as an archive that is not compressed, from standard input into `folder`, below that
// of the login: all of it, when its files have their checksums, or nothing; in the place of a damaged one.
// `sums`: the sha256 of its SHA256SUMS. Others that bring the same wait (a lock that ends with who holds it) and find
// it there; what one that was killed has left of its draft goes with the next.
std::string unpacking_script(const std::string& folder, const std::string& sums);

// The arguments of ssh: no questions asked, and a connection that is dead is noticed within 15 s.
std::vector<std::string> ssh_arguments(const std::string& host, const std::string& script);

}  // namespace muster::launch
