// Everything here works around what releases of Gloo do by themselves: looking up names without a deadline, listening
// for ever, leaving descriptors open to children, raising SIGPIPE. Each remark says which.
#include "muster/comm/gloo_device.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gloo/transport/tcp/device.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"

namespace muster::comm {
namespace {

[[noreturn]] void throw_unusable(const std::string& message, const char* remedy) {
  throw Error(ErrorKind::kInvalidInput, "gloo: " + message, {}, remedy);
}

// Gloo would look names up, without a deadline, and crashes on one that nobody knows.
void require_own_address(const std::string& address) {
  sockaddr_in four{};
  sockaddr_in6 six{};
  four.sin_family = AF_INET;
  six.sin6_family = AF_INET6;
  const bool is_four = ::inet_pton(AF_INET, address.c_str(), &four.sin_addr) == 1;
  const bool is_six = !is_four && ::inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) == 1;
  if (!is_four && !is_six)
    throw_unusable(fmt::format("\"{}\" is no numeric address", excerpt(address, 60)),
                   "Give an address of this machine, as `ip address` shows them, or the name of an interface.");
  if ((is_four && four.sin_addr.s_addr == INADDR_ANY) || (is_six && IN6_IS_ADDR_UNSPECIFIED(&six.sin6_addr)))
    throw_unusable(fmt::format("{} would open ports on all interfaces", address),
                   "Give the address of the one interface that the job's hosts share.");
  const FileDescriptor probe(::socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* const where =
      is_four ? reinterpret_cast<const sockaddr*>(&four) : reinterpret_cast<const sockaddr*>(&six);
  const socklen_t length = is_four ? sizeof(four) : sizeof(six);
  if (!probe.valid() || ::bind(probe.get(), where, length) != 0)
    throw_unusable(fmt::format("{} cannot be used: {}", address, std::strerror(errno)),
                   "Give an address of this machine, as `ip address` shows them.");
}

// What names a connection's local end: family, port and address, and nothing that is only padding.
std::string end_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &address, sizeof(four));
    return fmt::format("4 {} {}", four.sin_port, four.sin_addr.s_addr);
  }
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, &address, sizeof(six));
    return fmt::format("6 {} {}", six.sin6_port,
                       std::string_view(reinterpret_cast<const char*>(&six.sin6_addr), sizeof(six.sin6_addr)));
  }
  return {};
}

struct IdleHandler : gloo::transport::tcp::Handler {
  // Releases of Gloo pass different things: of these two, one overrides theirs.
  // NOLINTBEGIN(modernize-use-override): which one does is not known here.
  void handleEvents(int) {}
  void handleEvents(gloo::transport::tcp::Loop&, int) {}
  // NOLINTEND(modernize-use-override)
};

bool listens(int descriptor) {
  int value = 0;
  socklen_t size = sizeof(value);
  return ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == 0 && value != 0;
}

// Since 2023 a device of Gloo listens for as long as it lives, and takes its socket out of its loop by number at its
// end. So another descriptor takes that number, on which nothing ever happens. Shut down first: a program that was
// started meanwhile may have a copy.
void stop_listening(gloo::transport::Device& device, int descriptor) {
  auto* const tcp = dynamic_cast<gloo::transport::tcp::Device*>(&device);
  const FileDescriptor silent(::eventfd(0, EFD_CLOEXEC));
  if (tcp == nullptr || !silent.valid())
    throw Error(ErrorKind::kResource, "gloo: the port cannot be closed again after all ranks have come");
  static IdleHandler idle;
  {
    const QuickTurns quick(device);
    tcp->unregisterDescriptor(descriptor, &idle);
  }
  ::shutdown(descriptor, SHUT_RDWR);
  MUSTER_CHECK(::dup3(silent.get(), descriptor, O_CLOEXEC) == descriptor, "one open descriptor takes another's place");
  tcp->registerDescriptor(descriptor, EPOLLIN, &idle);
}

void set_policy(int policy) {
  const sched_param parameters{};
  ::sched_setscheduler(0, policy, &parameters);  // of this thread; refused at worst
}

sigset_t pipe_signal() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGPIPE);
  return set;
}

}  // namespace

std::shared_ptr<gloo::transport::Device> open_gloo_device(const GlooOptions& options) {
  gloo::transport::tcp::attr attributes;
  if (!options.interface.empty()) {
    if (::if_nametoindex(options.interface.c_str()) == 0)
      throw_unusable(fmt::format("there is no network interface \"{}\"", excerpt(options.interface, 60)),
                     "See `ip address` for the interfaces of this machine.");
    attributes.iface = options.interface;
  } else {
    require_own_address(options.address);
    attributes.hostname = options.address;
  }
  const BackgroundThreads background;
  try {
    return gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    throw_unusable(fmt::format("{} cannot be used: {}", options.interface.empty() ? options.address : options.interface,
                               excerpt(error.what(), 200)),
                   "Name an interface of this machine that has an address.");
  }
}

void close_to_others(gloo::transport::Device& device, const std::vector<std::vector<char>>& local_addresses) {
  std::vector<std::string> ends;
  for (const std::vector<char>& bytes : local_addresses) {
    sockaddr_storage address{};
    std::memcpy(&address, bytes.data(), std::min(bytes.size(), sizeof(address)));
    ends.push_back(end_of(address));
  }
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string name = entry.path().filename().string();
    int descriptor = -1;
    std::from_chars(name.data(), name.data() + name.size(), descriptor);
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) continue;
    if (std::find(ends.begin(), ends.end(), end_of(address)) == ends.end()) continue;
    if (listens(descriptor))
      stop_listening(device, descriptor);
    else
      ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  }
}

struct QuickTurns::State final : IdleHandler {
  explicit State(gloo::transport::tcp::Device& its_device)
      : device(its_device), always_ready(::eventfd(1, EFD_CLOEXEC)) {}

  gloo::transport::tcp::Device& device;
  FileDescriptor always_ready;
};

QuickTurns::QuickTurns(gloo::transport::Device& device) {
  auto* const tcp = dynamic_cast<gloo::transport::tcp::Device*>(&device);
  if (tcp == nullptr) return;
  auto state = std::make_unique<State>(*tcp);
  if (!state->always_ready.valid()) return;
  tcp->registerDescriptor(state->always_ready.get(), EPOLLIN, state.get());
  state_ = std::move(state);
}

QuickTurns::~QuickTurns() {
  if (state_) state_->device.unregisterDescriptor(state_->always_ready.get(), state_.get());
}

BackgroundThreads::BackgroundThreads() : policy_before_(::sched_getscheduler(0)) {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &signals_before_);
  if (policy_before_ == SCHED_OTHER) set_policy(SCHED_BATCH);
}

BackgroundThreads::~BackgroundThreads() {
  if (policy_before_ == SCHED_OTHER) set_policy(SCHED_OTHER);
  ::pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
}

PipeSignalBlocked::PipeSignalBlocked() {
  sigset_t pending;
  ::sigpending(&pending);
  pending_before_ = ::sigismember(&pending, SIGPIPE) == 1;
  const sigset_t pipe = pipe_signal();
  ::pthread_sigmask(SIG_BLOCK, &pipe, &before_);
}

PipeSignalBlocked::~PipeSignalBlocked() {
  // One that came meanwhile is Gloo's and goes nowhere.
  const sigset_t pipe = pipe_signal();
  const timespec now{};
  if (!pending_before_) ::sigtimedwait(&pipe, nullptr, &now);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace muster::comm
