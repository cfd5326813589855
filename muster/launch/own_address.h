// By which address, on which interface, this machine is met by others: found by the way the kernel would take to one of
// them. No packet is sent. Thread safety: safe from any thread.
#pragma once

#include <string>
#include <vector>

namespace muster::launch {

struct OwnAddress {
  std::string address{};     // in numbers
  std::string interface {};  // that has it
  std::string towards{};     // to whom the way was looked for
};

// The first of `towards` (names or addresses in numbers) that there is a way to decides. Throws kNotFound when there is
// none, saying what to do.
OwnAddress address_towards(const std::vector<std::string>& towards);

// Whether a name or an address in numbers leads to this machine.
bool is_this_machine(const std::string& host);

// Whether an address in numbers is this machine's own alone (127.0.0.0/8, ::1).
bool is_loopback_address(const std::string& address);
// Whether an address in numbers is of a network that is not the Internet: loopback, link-local, 10.0.0.0/8,
// 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, fc00::/7. Pure.
bool is_private_address(const std::string& address);

// The interface for what hosts send to each other without encryption. One that was named counts; else that of `own`, as
// long as it is of a private network, which is then said by the caller; none is needed on loopback. Throws
// kInvalidInput where it is of no such network: then somebody has to name it. Pure.
std::string choose_interface(const std::string& named, const OwnAddress& own);

}  // namespace muster::launch
