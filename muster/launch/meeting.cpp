// The folder's owner and mode are what is trusted: a file system that all nodes share keeps other users out of it on
// each of them.
#include "muster/launch/meeting.h"

#include <fcntl.h>
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
constexpr std::chrono::hours kLongest{24 * (kDays + 1)};  // certificates do not count for longer

std::filesystem::path place_of(const std::filesystem::path& folder, const std::string& name) {
  const bool fits = !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (!fits)
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no name for a meeting", excerpt(name)), {},
                "It has letters, digits, -, _ and . alone.");
  return std::filesystem::absolute(folder) / (kPrefix + name);
}

// The place, open: ours alone, or there is nothing.
FileDescriptor open_private(const std::filesystem::path& place) {
  FileDescriptor folder(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid() && errno != ENOTDIR && errno != ELOOP && errno != EACCES) return folder;
  struct stat facts {};
  if (folder.valid() && ::fstat(folder.get(), &facts) == 0 && facts.st_uid == ::geteuid() && (facts.st_mode & 077) == 0)
    return folder;
  throw Error(ErrorKind::kInvalidInput, "where the nodes should meet is somebody else's, or others may enter it",
              place.string(), "Remove it, or name another folder that all nodes see: --shared FOLDER.");
}

// A path to what is open, whatever stands at its name now.
std::filesystem::path inside(const FileDescriptor& folder) {
  return fmt::format("/proc/self/fd/{}", folder.get());
}

// What meetings that went wrong, or lasted longer than any job, have left. Those of others cannot be removed, and need
// not be.
void sweep(const std::filesystem::path& folder) {
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    const auto age = std::filesystem::file_time_type::clock::now() - entry.last_write_time(code);
    const bool ended = std::filesystem::exists(entry.path() / kEnded, code);
    if (!code && age > (ended ? kOld : kLongest) && entry.is_directory(code))
      std::filesystem::remove_all(entry.path(), code);
  }
}

std::optional<std::string> text_of(const std::filesystem::path& file) {
  std::error_code code;
  if (!std::filesystem::exists(file, code)) return std::nullopt;
  return read_text(file, kMostText);
}

// What node 0 has left in that folder, with the certificates copied. Nothing: it is not all there, or not any more.
std::optional<Met> met_in(const FileDescriptor& folder, const std::filesystem::path& copy) {
  try {
    const auto address = text_of(inside(folder) / kAddress);
    std::error_code code;
    if (!address) return std::nullopt;
    if (!std::filesystem::exists(inside(folder) / kAgent, code)) return Met{*address, {}};
    const control::CertificateFiles files = control::read_certificate_files(inside(folder) / kAgent);
    // Those of a node 0 that did not answer may be there from the look before.
    std::filesystem::remove_all(copy);
    control::write_certificate_files(copy, files);
    return Met{*address, copy};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    return std::nullopt;
  }
}

}  // namespace

MeetingHost::MeetingHost(const std::filesystem::path& folder, const std::string& name, bool protect)
    : place_(place_of(folder, name)) {
  make_folder(folder);
  sweep(folder);
  open_private(place_);
  std::error_code ignored;
  std::filesystem::remove_all(place_, ignored);
  if (::mkdir(place_.c_str(), 0700) != 0)
    throw Error(ErrorKind::kIo, fmt::format("cannot make the folder: {}", std::strerror(errno)), place_.string(),
                "Name a folder that all nodes see and that you may write to: --shared FOLDER.");
  folder_ = open_private(place_);
  if (!folder_.valid()) throw_system_error("cannot be opened", place_);
  if (!protect) return;
  own_.emplace("muster-trust-");
  const std::filesystem::path made = own_->path() / "made";
  control::create_certificates(made, {.hosts = {}, .days = kDays, .now = std::chrono::system_clock::now()});
  control::write_certificate_files(inside(folder_) / kAgent, control::read_certificate_files(made / kAgent));
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
    std::filesystem::remove_all(inside(folder_) / kAgent, ignored);
    write_atomically(inside(folder_) / kEnded, reason_.substr(0, kMostText));
  } catch (const std::exception&) {
    // The others wait until their deadline, and say so.
  }
}

std::filesystem::path MeetingHost::certs() const {
  return own_ ? own_->path() / "made" / "coordinator" : std::filesystem::path();
}

void MeetingHost::open(const std::string& address) {
  write_atomically(inside(folder_) / kAddress, address);
  open_ = true;
}

std::optional<Met> find_meeting(const std::filesystem::path& folder, const std::string& name,
                                const std::filesystem::path& copy, const Deadline& deadline,
                                const std::function<bool()>& leave, const Answers& answers) {
  const std::filesystem::path place = place_of(folder, name);
  std::string silent;  // an address at which nobody answers
  for (;; system_clock().sleep_for(kPoll)) {
    if (leave()) return std::nullopt;
    // Opened anew each time: node 0 may have been started again, and have made another one.
    if (const FileDescriptor open = open_private(place); open.valid()) {
      if (const auto ended = text_of(inside(open) / kEnded))
        throw Error(ErrorKind::kPeerLost, fmt::format("node 0 has ended: {}", excerpt(*ended, 1000)), {},
                    "What it has to say is in its output.");
      if (const std::optional<Met> met = met_in(open, copy)) {
        if (answers(*met)) return met;
        silent = met->address;
      }
    }
    if (!deadline.passed()) continue;
    if (!silent.empty())
      throw Error(ErrorKind::kTimeout, fmt::format("nobody answers at {}, where node 0 has listened", excerpt(silent)),
                  place.string(), "It may have been killed: start it again. Or a firewall stands between the nodes.");
    throw Error(ErrorKind::kTimeout, "node 0 has not come to where the nodes meet", place.string(),
                "See its output; and whether all nodes see this folder: else name one by --shared FOLDER.");
  }
}

void clear_meeting(const std::filesystem::path& folder, const std::string& name, const Met& met,
                   const Answers& answers) noexcept {
  try {
    const std::filesystem::path place = place_of(folder, name);
    const FileDescriptor open = open_private(place);
    if (!open.valid() || text_of(inside(open) / kAddress) != met.address || answers(met)) return;
    std::error_code ignored;
    // The keys of this one, whatever stands at its name by now; then the rest.
    std::filesystem::remove_all(inside(open) / kAgent, ignored);
    std::filesystem::remove(inside(open) / kAddress, ignored);
    std::filesystem::remove(place, ignored);  // if it is empty
  } catch (const std::exception&) {
    // The next meeting there sweeps it.
  }
}

}  // namespace muster::launch
