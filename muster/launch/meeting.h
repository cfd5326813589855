// A meeting: how the nodes of one start find their coordinator, and come to trust each other, by a folder that all see.
//
// Node 0 makes FOLDER/.muster-NAME (0700) with an authority's certificate and an agent's key for this start alone in
// `agent/`, and, when it listens, `address`. The others wait for that file, take nothing from a folder that is another
// user's or that others may enter, and copy what they need. Node 0 takes the folder away when the job ends. If it ends
// before it listens, it leaves `ended` with the reason instead. If it is killed everything stays: nobody goes to an
// address that does not answer, and who has met it takes the folder away (clear_meeting). What is left all the same is
// swept by the next meeting there after a day. The authority's own key is never in the folder.
//
// Whose the folder is and who may enter it is looked at once it is open, and all that is read or written goes through
// that descriptor: nobody can put another one in its place in between.
// Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "muster/base/deadline.h"
#include "muster/base/files.h"
#include "muster/base/temporary_folder.h"

namespace muster::launch {

// Node 0's end.
class MeetingHost {
 public:
  // `protect`: with certificates. Throws kInvalidInput (a name that is none, a folder of somebody else's) and kIo.
  MeetingHost(const std::filesystem::path& folder, const std::string& name, bool protect);
  MeetingHost(const MeetingHost&) = delete;
  MeetingHost& operator=(const MeetingHost&) = delete;
  // Takes the folder away, or leaves why nobody was let in.
  ~MeetingHost();

  // For `--certs` of the coordinator; empty without protection.
  std::filesystem::path certs() const;
  // From now on the others come: HOST:PORT.
  void open(const std::string& address);
  // What the others are told if it was not opened.
  void fail(const std::string& reason) { reason_ = reason; }

 private:
  const std::filesystem::path place_;
  FileDescriptor folder_;                       // the place, open
  std::optional<muster::TemporaryFolder> own_;  // certificates of the coordinator
  bool open_ = false;
  std::string reason_ = "it ended before the other nodes could join";
};

struct Met {
  std::string address;          // HOST:PORT of node 0
  std::filesystem::path certs;  // of an agent, copied below `copy`; empty: there is no protection
};
// Whether node 0 answers there; a parameter, so that tests need no network.
using Answers = std::function<bool(const Met& met)>;

// The others' end: waits for node 0 of that meeting, until it answers. Certificates are copied to `copy`. Nothing:
// `leave` said so. Throws kTimeout (nobody has come: the folder may not be one that all see), kPeerLost (node 0 has
// ended) and kInvalidInput (the folder is not to be trusted).
std::optional<Met> find_meeting(const std::filesystem::path& folder, const std::string& name,
                                const std::filesystem::path& copy, const Deadline& deadline,
                                const std::function<bool()>& leave, const Answers& answers);

// Once this node has ended: takes away what node 0 has left there because it was killed, and nothing of a meeting that
// somebody has opened anew. Never throws.
void clear_meeting(const std::filesystem::path& folder, const std::string& name, const Met& met,
                   const Answers& answers) noexcept;

}  // namespace muster::launch
