// Which faults a chaos run makes, and when: a pure function of the rates and a seed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>

namespace muster::cli {

enum class Fault {
  kKill,         // SIGKILL of a worker
  kStop,         // SIGSTOP of a worker; half of them are continued before anybody may notice
  kOom,          // the kernel kills a worker for lack of memory
  kCoordinator,  // SIGKILL of the coordinator, or of its whole host; another takes over
  kHost,         // SIGKILL of every process of a host that does not coordinate; it comes back as a new agent
  kFreeze,       // SIGSTOP of every process of a host, and SIGCONT later
  kLink,         // a host's network interface goes down, and up later
  kOneWay,       // packets from one host to another vanish
  kSplit,        // hosts fall apart into parts that do not hear each other
};
std::string_view to_string(Fault fault);

// What can happen to the workers of one host, and to the hosts of a job of several.
inline constexpr std::array kWorkerFaults{Fault::kKill, Fault::kStop, Fault::kOom, Fault::kCoordinator};
inline constexpr std::array kHostFaults{Fault::kHost,   Fault::kFreeze, Fault::kLink,
                                        Fault::kOneWay, Fault::kSplit,  Fault::kCoordinator};

using FaultRates = std::map<Fault, double>;  // a minute

// "kill,stop": `rate` in all, in equal parts; "kill=12,stop=2": a rate of its own for each. Throws kInvalidInput, also
// for one that is none of `allowed`.
FaultRates parse_faults(std::string_view text, double rate, std::span<const Fault> allowed = kWorkerFaults);

struct PlannedFault {
  Fault fault = Fault::kKill;
  double at = 0;           // seconds since the first fault might have come
  std::uint64_t draw = 0;  // what else there is to choose comes from here
};

// Each kind comes once in every interval of 60 s / rate, somewhere in the middle half of it.
class FaultPlan {
 public:
  // REQUIRES: rates above 0, at least one.
  FaultPlan(const FaultRates& rates, std::uint64_t seed);

  // In order of time, without end.
  PlannedFault next();

 private:
  struct Kind {
    double interval = 0;
    std::uint64_t count = 0;
    std::mt19937_64 random;
    PlannedFault upcoming;
  };
  static void advance(Kind& kind);
  std::map<Fault, Kind> kinds_;
};

}  // namespace muster::cli
