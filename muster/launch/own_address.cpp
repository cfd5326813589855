// A datagram socket that is connected has the address that packets to the other end would bear; which of this machine's
// interfaces has it is looked up.
#include "muster/launch/own_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/files.h"

namespace muster::launch {
namespace {

constexpr const char* kAnyPort = "9";  // nothing is sent there

std::string in_numbers(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* const bytes = address->sa_family == AF_INET
                                ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
                                : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  return ::inet_ntop(address->sa_family, bytes, text.data(), text.size()) == nullptr ? std::string() : text.data();
}

std::string interface_with(const std::string& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if ((family == AF_INET || family == AF_INET6) && in_numbers(entry->ifa_addr) == address) return entry->ifa_name;
  }
  return {};
}

std::optional<std::string> local_end(const addrinfo& target) {
  const FileDescriptor socket(::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::connect(socket.get(), target.ai_addr, target.ai_addrlen) != 0) return std::nullopt;
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  if (::getsockname(socket.get(), address, &size) != 0) return std::nullopt;
  return in_numbers(address);
}

// The bytes of an address in numbers; of an IPv4 address in IPv6 those of the first.
std::optional<in_addr> version4(const std::string& address) {
  in_addr bytes{};
  const std::string plain = address.starts_with("::ffff:") ? address.substr(7) : address;
  if (::inet_pton(AF_INET, plain.c_str(), &bytes) != 1) return std::nullopt;
  return bytes;
}

bool in_network(const in_addr& address, const char* network, int bits) {
  in_addr base{};
  ::inet_pton(AF_INET, network, &base);
  const std::uint32_t mask = ~std::uint32_t{0} << (32 - bits);
  return (ntohl(address.s_addr) & mask) == (ntohl(base.s_addr) & mask);
}

}  // namespace

bool is_this_machine(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), kAnyPort, &hints, &list) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const addrinfo* target = list; target != nullptr; target = target->ai_next)
    if (is_loopback_address(in_numbers(target->ai_addr)) || !interface_with(in_numbers(target->ai_addr)).empty())
      return true;
  return false;
}

OwnAddress address_towards(const std::vector<std::string>& towards) {
  for (const std::string& name : towards) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* list = nullptr;
    if (::getaddrinfo(name.c_str(), kAnyPort, &hints, &list) != 0) continue;
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
    for (const addrinfo* target = list; target != nullptr; target = target->ai_next)
      if (const std::optional<std::string> own = local_end(*target)) return {*own, interface_with(*own), name};
  }
  throw Error(ErrorKind::kNotFound,
              towards.empty() ? std::string("nothing says in which network the other nodes are")
                              : fmt::format("there is no way from here to {}", fmt::join(towards, " or ")),
              {}, "Name the interface that leads to the other nodes: --interface eth0.");
}

bool is_loopback_address(const std::string& address) {
  if (const std::optional<in_addr> four = version4(address)) return in_network(*four, "127.0.0.0", 8);
  in6_addr six{};
  return ::inet_pton(AF_INET6, address.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool is_private_address(const std::string& address) {
  if (is_loopback_address(address)) return true;
  if (const std::optional<in_addr> four = version4(address))
    return in_network(*four, "10.0.0.0", 8) || in_network(*four, "172.16.0.0", 12) ||
           in_network(*four, "192.168.0.0", 16) || in_network(*four, "100.64.0.0", 10) ||
           in_network(*four, "169.254.0.0", 16);
  in6_addr six{};
  if (::inet_pton(AF_INET6, address.c_str(), &six) != 1) return false;
  return (six.s6_addr[0] & 0xfe) == 0xfc || IN6_IS_ADDR_LINKLOCAL(&six);
}

std::string choose_interface(const std::string& named, const OwnAddress& own) {
  if (!named.empty()) return named;
  if (is_loopback_address(own.address)) return {};
  if (is_private_address(own.address)) return own.interface;
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("what hosts send to each other would go over {} ({}) without encryption, and that is no "
                          "private network",
                          own.interface, own.address),
              {},
              fmt::format("Name the interface that you trust: --interface {}, or parallel.interface.",
                          own.interface.empty() ? "eth0" : own.interface));
}

}  // namespace muster::launch
