// A record (type 22, version 3.x, length) with a handshake message (type 1, length, version) in it; RFC 8446, 4.1.2 and
// 5.1. TLS 1.3 says 1.2 in that place, so that one comparison serves for both.
#include "muster/control/tls_greeting.h"

namespace muster::control {
namespace {

constexpr unsigned kHandshakeRecord = 22;
constexpr unsigned kClientHello = 1;
constexpr unsigned kTls12 = 0x0303;
constexpr std::size_t kRecordHeader = 5;

}  // namespace

TlsGreeting examine_greeting(std::span<const std::byte> bytes) {
  const auto at = [&](std::size_t index) { return std::to_integer<unsigned>(bytes[index]); };
  if (!bytes.empty() && at(0) != kHandshakeRecord) return {0, "what it says is not TLS"};
  if (bytes.size() > 1 && at(1) != 3) return {0, "what it says is not TLS"};
  if (bytes.size() < TlsGreeting::kFirstBytes) return {TlsGreeting::kFirstBytes - bytes.size(), {}};
  const std::size_t length = kRecordHeader + at(3) * 256 + at(4);
  if (length < TlsGreeting::kFirstBytes || at(kRecordHeader) != kClientHello)
    return {0, "its TLS begins with no greeting"};
  if (length > TlsGreeting::kMostBytes) return {0, "its greeting is longer than 4 KiB"};
  if (at(9) * 256 + at(10) < kTls12) return {0, "its TLS is older than 1.2"};
  if (bytes.size() < length) return {length - bytes.size(), {}};
  return {};
}

}  // namespace muster::control
