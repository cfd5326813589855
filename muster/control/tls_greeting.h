// The first bytes of a TLS connection, as far as a gate has to understand them: is this the whole ClientHello of a
// version that we speak? A pure function; every byte may come from a stranger.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace muster::control {

struct TlsGreeting {
  static constexpr std::size_t kFirstBytes = 11;  // up to the version
  static constexpr std::size_t kMostBytes = 4096;

  std::size_t missing = 0;  // bytes that must still come before more can be said
  std::string refusal;      // why it is none; empty, and nothing missing: let it in
};

TlsGreeting examine_greeting(std::span<const std::byte> bytes);

}  // namespace muster::control
