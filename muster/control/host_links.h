// Which hosts hear each other, and who has to go when some do not: decisions as pure functions of what hosts report.
//
// A coordinator that hears two hosts cannot see that these do not hear each other, and a step needs all hosts of its
// generation: everybody would wait for as long as the cut lasts. So agents call each other (coordinator/link_calls.h),
// and report whom they have heard. A link counts when an answer came back, so it is as good or bad for both ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace muster::control {

// What one host knows of its links to the others, by their numbers.
struct HostLinks {
  bool looks = false;                    // false: it does not, and nothing is judged by it
  std::vector<std::uint64_t> heard{};    // that have answered a moment ago
  std::vector<std::uint64_t> unheard{};  // that have not answered for as long as a host may be silent
  bool operator==(const HostLinks&) const = default;
};

struct LinkedHost {
  std::uint64_t number = 0;
  std::string name{};
  HostLinks links{};
};

// Both have an answer of the other, of a moment ago; of one that does not look it is not asked.
bool hear_each_other(const LinkedHost& a, const LinkedHost& b);

struct UnheardHost {
  std::uint64_t number = 0;
  std::string reason;  // in words: completes "host b (2) ..."
};

// The hosts that have to go so that of those who are left no two do not hear each other: always the one that hears the
// fewest others; of several with as few the one that came last, that is, of the highest number.
std::vector<UnheardHost> give_up_unheard(std::span<const LinkedHost> hosts);

}  // namespace muster::control
