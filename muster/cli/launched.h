// A command that something has started on several nodes at once (launch/surroundings.h): node 0 coordinates the job,
// the others become its agents. They find and trust each other by a folder that all see (launch/meeting.h), or by what
// the variables of docs/launching.md say. `muster train` and `muster run` are the same here.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/cli/cluster_flags.h"
#include "muster/cli/gathering.h"
#include "muster/launch/meeting.h"
#include "muster/launch/own_address.h"
#include "muster/launch/surroundings.h"

namespace muster::cli {

// The surroundings that count for a command with these flags: alone, where they say themselves how hosts find each
// other. Throws kInvalidInput for surroundings that are of no use, with what to do.
launch::Surroundings surroundings_for(const ClusterFlags& flags);

// Node 0 of several. As long as it lives the others can come.
class FirstNode final : public Gathering {
 public:
  // `runs` is where the nodes meet unless flags or variables name a folder. Fills in what the flags leave open: where
  // to listen, the interface, the trust. Throws kInvalidInput, kNotFound, and as MeetingHost.
  FirstNode(const launch::Surroundings& surroundings, const std::filesystem::path& runs, ClusterFlags& flags);
  FirstNode(const FirstNode&) = delete;
  FirstNode& operator=(const FirstNode&) = delete;

  void prepare(coordinator::CoordinatedJob& job) override;
  void fail(const std::string& reason) override;

 private:
  const launch::Surroundings surroundings_;
  std::optional<launch::MeetingHost> meeting_;
};

// What both kinds of gathering need. "HOST:PORT" of an address in numbers.
std::string with_port(const std::string& address, const std::string& port);
// That of `interface`, or, if it is empty, the one on the way to the first of `towards`. Throws kInvalidInput,
// kNotFound.
launch::OwnAddress own_address(const std::string& interface, const std::vector<std::string>& towards);
// Fills in the interface, and says so. Throws as launch::choose_interface().
void choose_interface(ClusterFlags& flags, const launch::OwnAddress& own);

// Any other node: an agent, until the job is over; the exit code. Throws as find_meeting() and run_agent().
int run_other_node(const launch::Surroundings& surroundings, const std::filesystem::path& runs, ClusterFlags flags,
                   std::optional<int> workers);

}  // namespace muster::cli
