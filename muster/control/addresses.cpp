// What has to be known of an address before anybody listens there or calls it (cluster_server.h). Apart from the
// server, so that programs that only call need none of it.
#include <arpa/inet.h>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/control/cluster_server.h"

namespace muster::control {
namespace {

// The host's part of "HOST:PORT", without brackets.
std::string host_part(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  const bool number = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (!number || std::stoi(port) > 65535 || colon == 0)
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no address with a port", excerpt(address, 80)), {},
                "Give a host and a port, as 10.0.0.1:7400.");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return host;
}

}  // namespace

bool is_loopback(const std::string& address) {
  const std::string host = host_part(address);
  if (host == "localhost") return true;
  in_addr four{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

void require_may_listen(const std::string& address, bool protected_by_credentials, bool insecure) {
  if (is_loopback(address) || protected_by_credentials || insecure) return;
  throw Error(ErrorKind::kInvalidInput, "others can reach this address, and nothing would tell friend from foe",
              address,
              "Give --certs with a folder that `muster certs create` makes for the coordinator; or listen on "
              "127.0.0.1; or, on a network where you trust every machine, type --insecure.");
}

void require_may_join(const std::string& address, bool protected_by_credentials, bool insecure) {
  if (is_loopback(address) || protected_by_credentials || insecure) return;
  throw Error(ErrorKind::kInvalidInput, "whoever answers there could run programs here: nothing tells who it is",
              address,
              "Give --certs with a folder that `muster certs create` makes for an agent; or, on a network where you "
              "trust every machine, type --insecure.");
}

}  // namespace muster::control
