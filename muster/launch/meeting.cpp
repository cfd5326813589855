// The folder's owner and mode are what is trusted: a file system that all nodes share keeps other users out of it on
// each of them.
#include "muster/launch/meeting.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/control/trust_files.h"

namespace muster::launch {
namespace {

constexpr const char* kPrefix = ".muster-";
constexpr const char* kAddress = "address";
constexpr const char* kEnded = "ended";
constexpr const char* kAgent = "agent";
constexpr std::uint64_t kMostText = 4096;
constexpr std::size_t kLongestName = 200;
constexpr int kDays = 30;  // that a job may last
constexpr std::chrono::milliseconds kPoll{20};
constexpr std::chrono::hours kOld{24};

std::filesystem::path place_of(const std::filesystem::path& folder, const std::string& name) {
  const bool fits = !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (!fits)
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no name for a meeting", excerpt(name)), {},
                "It has letters, digits, -, _ and . alone.");
  return std::filesystem::absolute(folder) / (kPrefix + name);
}

// Ours alone, or there is nothing.
void require_private(const std::filesystem::path& place) {
  struct stat facts {};
  if (::lstat(place.c_str(), &facts) != 0) return;
  if (S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid() && (facts.st_mode & 077) == 0) return;
  throw Error(ErrorKind::kInvalidInput, "where the nodes should meet is somebody else's, or others may enter it",
              place.string(), "Remove it, or name another folder that all nodes see: --shared FOLDER.");
}

// What meetings that went wrong have left. Those of others cannot be removed, and need not be.
void sweep(const std::filesystem::path& folder) {
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    const auto age = std::filesystem::file_time_type::clock::now() - entry.last_write_time(code);
    if (!code && age > kOld && std::filesystem::exists(entry.path() / kEnded, code))
      std::filesystem::remove_all(entry.path(), code);
  }
}

std::optional<std::string> text_of(const std::filesystem::path& file) {
  std::error_code code;
  if (!std::filesystem::exists(file, code)) return std::nullopt;
  return read_text(file, kMostText);
}

}  // namespace

MeetingHost::MeetingHost(const std::filesystem::path& folder, const std::string& name, bool protect)
    : place_(place_of(folder, name)) {
  make_folder(folder);
  sweep(folder);
  require_private(place_);
  std::error_code ignored;
  std::filesystem::remove_all(place_, ignored);
  if (::mkdir(place_.c_str(), 0700) != 0)
    throw Error(ErrorKind::kIo, fmt::format("cannot make the folder: {}", std::strerror(errno)), place_.string(),
                "Name a folder that all nodes see and that you may write to: --shared FOLDER.");
  if (!protect) return;
  own_.emplace("muster-trust-");
  const std::filesystem::path made = own_->path() / "made";
  control::create_certificates(made, {.hosts = {}, .days = kDays, .now = std::chrono::system_clock::now()});
  control::write_certificate_files(place_ / kAgent, control::read_certificate_files(made / kAgent));
  // Nobody needs another certificate of this authority.
  std::filesystem::remove(made / "ca.key");
}

MeetingHost::~MeetingHost() {
  std::error_code ignored;
  if (open_) {
    std::filesystem::remove_all(place_, ignored);
    return;
  }
  try {
    std::filesystem::remove_all(place_ / kAgent, ignored);
    write_atomically(place_ / kEnded, reason_.substr(0, kMostText));
  } catch (const std::exception&) {
    // The others wait until their deadline, and say so.
  }
}

std::filesystem::path MeetingHost::certs() const {
  return own_ ? own_->path() / "made" / "coordinator" : std::filesystem::path();
}

void MeetingHost::open(const std::string& address) {
  write_atomically(place_ / kAddress, address);
  open_ = true;
}

std::optional<Met> find_meeting(const std::filesystem::path& folder, const std::string& name,
                                const std::filesystem::path& copy, const Deadline& deadline,
                                const std::function<bool()>& leave) {
  const std::filesystem::path place = place_of(folder, name);
  for (;; system_clock().sleep_for(kPoll)) {
    if (leave()) return std::nullopt;
    require_private(place);
    if (const auto ended = text_of(place / kEnded))
      throw Error(ErrorKind::kPeerLost, fmt::format("node 0 has ended: {}", excerpt(*ended, 1000)), {},
                  "What it has to say is in its output.");
    if (const auto address = text_of(place / kAddress)) {
      std::error_code code;
      if (!std::filesystem::exists(place / kAgent, code)) return Met{*address, {}};
      control::write_certificate_files(copy, control::read_certificate_files(place / kAgent));
      return Met{*address, copy};
    }
    if (deadline.passed())
      throw Error(ErrorKind::kTimeout, "node 0 has not come to where the nodes meet", place.string(),
                  "See its output; and whether all nodes see this folder: else name one by --shared FOLDER.");
  }
}

}  // namespace muster::launch
