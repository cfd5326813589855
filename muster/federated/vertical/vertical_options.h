// What a job file says of vertical federated training: [vertical], with data.partition = "vertical".
//
// Every party has a job file of its own. That of the label holder says how long and with whom is trained; what the
// others' jobs say is their columns, their nets and how these learn. No torch here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster {
class Section;  // base/config.h
class Schema;
}  // namespace muster

namespace muster::federated {

// What data.partition says.
inline constexpr std::string_view kVerticalPartition = "vertical";

struct VerticalOptions {
  std::string id;                           // the column that names a row
  std::vector<std::string> parties;         // of the label holder: who holds the other columns
  std::vector<std::int64_t> bottom = {64};  // hidden layers of the net on a party's own columns
  std::int64_t width = 32;                  // numbers of a row that leave it
  std::int64_t checkpoint_steps = 200;

  void add_keys(Section& section);
  // `chosen`: the job is vertical. Keys that would do nothing are refused.
  void check(const Schema& schema, bool chosen) const;
};

}  // namespace muster::federated
