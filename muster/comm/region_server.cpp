// The server and its client: connecting is asking, and the answer is one message, so the server reads nothing. A client
// that sends garbage or nothing at all has no way to hold it up.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/comm/region.h"

namespace muster::comm {
namespace {

constexpr std::string_view kPrefix = "muster-";
constexpr std::size_t kDigits = 32;
constexpr char kGranted = 'g';
constexpr char kRefused = 'r';
constexpr const char* kServerPlace = "region server";

std::string random_address() {
  std::array<unsigned char, kDigits / 2> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw_system_error("no random numbers for its address", kServerPlace);
  std::string text(kPrefix);
  for (const unsigned char byte : bytes)
    text += fmt::format("{:02x}", byte);
  return text;
}

bool looks_like_address(std::string_view text) {
  return text.size() == kPrefix.size() + kDigits && text.substr(0, kPrefix.size()) == kPrefix &&
         text.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string_view::npos;
}

// An abstract address: the name begins with a zero byte and is exactly as long as the length says.
struct SocketAddress {
  sockaddr_un name{};
  socklen_t size = 0;
};
SocketAddress abstract_name(std::string_view address) {
  SocketAddress result;
  result.name.sun_family = AF_UNIX;
  std::memcpy(result.name.sun_path + 1, address.data(), address.size());
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.size());
  return result;
}

FileDescriptor open_socket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) throw_system_error("no socket", kServerPlace);
  return socket;
}

// Who is at the other end, as the kernel saw it when the connection was made.
uid_t user_of_peer(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return static_cast<uid_t>(-1);
  return credentials.uid;
}

// One message of one byte, which may carry a descriptor.
struct DescriptorMessage {
  explicit DescriptorMessage(char text) : byte(text), part{&byte, 1} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }

  char byte;
  iovec part;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
};

void answer(int socket, char verdict, int descriptor) {
  DescriptorMessage message(verdict);
  if (verdict == kGranted) {
    cmsghdr* const attached = CMSG_FIRSTHDR(&message.header);
    attached->cmsg_level = SOL_SOCKET;
    attached->cmsg_type = SCM_RIGHTS;
    attached->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(attached), &descriptor, sizeof(int));
  } else {
    message.header.msg_controllen = 0;
  }
  // A new connection has room for one byte; a client that is gone again is its own affair.
  (void)::sendmsg(socket, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Waits until `socket` can be read. False at the deadline.
bool wait_readable(int socket, const Deadline& deadline) {
  while (!deadline.passed()) {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining()).count();
    pollfd one{socket, POLLIN, 0};
    const int count = ::poll(&one, 1, static_cast<int>(std::min<std::int64_t>(rest, INT_MAX)));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) throw_system_error("cannot wait for the server", kServerPlace);
  }
  return false;
}

[[noreturn]] void time_out(std::string_view address) {
  throw Error(ErrorKind::kTimeout, "no answer before the deadline", std::string(address),
              "See whether the process that made the region is stopped.");
}

FileDescriptor connect_to(std::string_view address, const Deadline& deadline) {
  const SocketAddress target = abstract_name(address);
  FileDescriptor socket = open_socket();
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target.name), target.size) != 0) {
    if (errno == ECONNREFUSED) {
      throw Error(ErrorKind::kPeerLost, "nobody offers a region there: the process that did has ended",
                  std::string(address));
    }
    // EAGAIN: more clients wait than the server's queue holds.
    if (errno != EAGAIN && errno != EINTR) throw_system_error("cannot be reached", std::string(address));
    if (deadline.passed()) time_out(address);
    system_clock().sleep_for(std::min<std::chrono::nanoseconds>(deadline.remaining(), std::chrono::milliseconds(1)));
  }
  return socket;
}

}  // namespace

class RegionServer::Loop {
 public:
  Loop(const SharedRegion& region, uid_t allowed_user, std::string_view address)
      : allowed_user_(allowed_user),
        region_(::fcntl(region.descriptor(), F_DUPFD_CLOEXEC, 0)),
        stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        listener_(open_socket()) {
    if (!region_.valid() || !stop_.valid()) throw_system_error("no descriptor", kServerPlace);
    const SocketAddress own = abstract_name(address);
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&own.name), own.size) != 0 ||
        ::listen(listener_.get(), SOMAXCONN) != 0)
      throw_system_error("cannot listen", kServerPlace);
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      throw Error(ErrorKind::kResource, fmt::format("no thread: {}", error.what()), kServerPlace);
    }
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() {
    const std::uint64_t one = 1;
    MUSTER_CHECK(::write(stop_.get(), &one, sizeof(one)) == sizeof(one), "an eventfd takes its first write");
    thread_.join();
  }

 private:
  void run() {
    bool exhausted = false;  // no descriptors for another connection: look again later instead of spinning
    while (true) {
      pollfd both[2] = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      const int count = ::poll(both, exhausted ? 1 : 2, exhausted ? 20 : -1);
      if (count < 0 && errno != EINTR) return;
      if (count > 0 && both[0].revents != 0) return;
      exhausted = false;
      const FileDescriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (client.valid()) {
        answer(client.get(), user_of_peer(client.get()) == allowed_user_ ? kGranted : kRefused, region_.get());
      } else {
        exhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      }
    }
  }

  // Constant after construction.
  uid_t allowed_user_;
  FileDescriptor region_;
  FileDescriptor stop_;
  FileDescriptor listener_;
  std::thread thread_;
};

RegionServer::RegionServer(const SharedRegion& region, uid_t allowed_user)
    : address_(random_address()), loop_(std::make_unique<Loop>(region, allowed_user, address_)) {
}

RegionServer::~RegionServer() = default;

SharedRegion fetch_region(std::string_view address, const Deadline& deadline) {
  if (!looks_like_address(address)) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is not the address of a region", excerpt(address, 60)),
                {}, "It is \"muster-\" and 32 hexadecimal digits, as the process that made the region gives it.");
  }
  const std::string where(address);
  const FileDescriptor socket = connect_to(address, deadline);
  const uid_t server = user_of_peer(socket.get());
  if (server != ::geteuid()) {
    throw Error(ErrorKind::kMismatch, fmt::format("the region is offered by user {}, not by this one", server), where,
                "Run all processes of a job as the same user.");
  }
  if (!wait_readable(socket.get(), deadline)) time_out(address);
  DescriptorMessage message(0);
  const ssize_t count = ::recvmsg(socket.get(), &message.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (count <= 0)
    throw Error(ErrorKind::kPeerLost, "the process that offers the region ended before it answered", where);
  FileDescriptor descriptor;
  const cmsghdr* const attached = CMSG_FIRSTHDR(&message.header);
  if (attached != nullptr && attached->cmsg_level == SOL_SOCKET && attached->cmsg_type == SCM_RIGHTS &&
      attached->cmsg_len == CMSG_LEN(sizeof(int))) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(attached), sizeof(int));
    descriptor = FileDescriptor(received);
  }
  if (message.byte == kRefused) {
    throw Error(ErrorKind::kMismatch, fmt::format("the region is not given to user {}", ::geteuid()), where,
                "Run all processes of a job as the same user.");
  }
  if (message.byte != kGranted || !descriptor.valid()) {
    throw Error(ErrorKind::kMismatch, "whoever answers there does not offer a region", where,
                "If this process has no descriptor left, raise the limit (ulimit -n).");
  }
  return SharedRegion::attach(std::move(descriptor));
}

}  // namespace muster::comm
