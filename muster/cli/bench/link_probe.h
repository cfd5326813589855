// What a link between two hosts carries: plain TCP, one connection, both directions at once. The ceiling for whatever
// goes over it. No torch here.
#pragma once

#include <cstdint>
#include <string>

namespace muster::cli {

// Bytes that take about a quarter of a second each way; `link` as StepBench's.
std::uint64_t probe_bytes(const std::string& link);

// One end listens at `address` ("10.0.0.2:7300", numeric), the other connects to it; each sends `bytes` to the other.
// Seconds from the first byte to the last, of both directions. Throws Error{kIo, kTimeout}.
double probe_link_from(const std::string& address, std::uint64_t bytes);
double probe_link_to(const std::string& address, std::uint64_t bytes);

}  // namespace muster::cli
