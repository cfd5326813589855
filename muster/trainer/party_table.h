// The columns that a party of vertical training has: a table with an id for each row, of which the rows that all
// parties have become samples.
//
// Numbers are scaled by the rows that are trained on, as a job alone does (data/table_dataset.h). Thread safety: const
// methods from any thread. No torch here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/table.h"
#include "muster/federated/vertical/party_files.h"
#include "muster/trainer/job.h"

namespace muster::trainer {

class PartyTable {
 public:
  // Reads the job's data.path, with the target or, of a party without labels, without. Throws as data::read_table, with
  // the key. REQUIRES: a vertical job.
  PartyTable(const ResolvedJob& resolved, bool labelled);

  const std::vector<std::string>& ids() const { return table_.ids; }
  // Samples in the order of the alignment. Throws Error{kInvalidInput} when no column is left to learn from.
  std::shared_ptr<const data::Dataset> aligned(const federated::Alignment& alignment) const;

 private:
  data::TableOptions options_;
  data::Table table_;
};

}  // namespace muster::trainer
