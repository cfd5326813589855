// Models whose layers can be divided among the workers of a team (tensor parallelism), each with a part of the rows,
// columns, heads, channels or words. The parts of a layer that are not divided every member computes alike.
#pragma once

#include <vector>

#include "muster/model/shard.h"
#include "muster/model/tensor_team.h"

namespace muster::model {

// Beside Net (net.h), of which it shares the thread safety.
class Divisible {
 public:
  virtual ~Divisible() = default;

  // The parameters and buffers that are divided; others are whole with every member. Tied weights stand here once,
  // under their first name.
  virtual std::vector<Split> splits() const = 0;
  // From now on forward() is this member's part of it, and the tensors of splits() are its shards of them; every member
  // calls it with the same input. With a team of one the model is whole again.
  virtual void join(const TensorTeam& team) = 0;
  // Whether a member of a team has the scores of its share of the classes only, and not of all.
  virtual bool divides_answer() const { return false; }
};

}  // namespace muster::model
