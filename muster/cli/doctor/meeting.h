// The hosts that a doctor examines together: one listens as a coordinator does, the others join as agents do, with the
// same trust (control/cluster_server.h), and all that is said goes through the store that hosts share. No torch here.
//
//   facts/N    of host N: its facts, with the address at which its links are tried
//   plan       by the first: how many hosts there are, and the word of the examination
//   turn/K     by the first, one after the other: who tries the way to whom; "end" ends it
//   result/K   by who has tried
// Thread safety: one thread for each object.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/cli/doctor/judge.h"
#include "muster/control/cluster_calls.h"
#include "muster/control/cluster_values.h"

namespace muster::cli {

// Who the hosts call: gives numbers from 1 on, and keeps what they say. When all have come, one of the name of a host
// that has said nothing yet comes in its place: it was killed, and was started again.
class DoctorDesk final : public control::ClusterCalls {
 public:
  // `job` is the text that every host is told; empty: none.
  DoctorDesk(std::size_t hosts, std::string job) : hosts_(hosts), job_(std::move(job)) {}

  control::Welcome join(const control::HostCard& card) override;
  control::Orders report(const control::HostReport& report, std::uint64_t known,
                         std::chrono::milliseconds wait) override;
  void store_set(std::uint64_t host, std::string_view key, std::string_view value) override;
  std::optional<std::string> store_get(std::uint64_t host, std::string_view key,
                                       std::chrono::milliseconds wait) override;
  void leave(std::uint64_t host, int code, const std::string& reason) override;

 private:
  const std::size_t hosts_;
  const std::string job_;
  control::ClusterValues values_;
  Mutex mutex_;
  std::vector<std::string> joined_ MUSTER_GUARDED_BY(mutex_);  // by number, from 1
};

struct Examination {
  std::vector<MachineFacts> hosts{};  // by number
  std::vector<LinkFigures> links{};
};

// As the first host, whose facts are given: until all have come and every way was tried. `tell` hears what is waited
// for; `lost` is asked meanwhile for why some cannot come any more. Throws that, and kTimeout, naming how many came.
Examination examine(
    DoctorDesk& desk, MachineFacts first, std::size_t hosts, const Deadline& deadline,
    const std::function<void(const std::string&)>& tell,
    const std::function<std::optional<Error>()>& lost = [] { return std::nullopt; });

// As another one: joins, tells its facts, tries what it is told to, until it is told the end. `look` gives the facts
// once the job is known (its text, or nothing). Until the deadline the first one is waited for. Throws as ClusterCalls,
// and kTimeout.
void be_examined(control::ClusterCalls& desk, const control::HostCard& card, const std::string& own_address,
                 const std::function<MachineFacts(const std::string& job)>& look, const Deadline& deadline);

}  // namespace muster::cli
