// The columns that a party of vertical training has: a table with an id for each row, of which the rows that all
// parties have become samples.
//
// Numbers are scaled by the rows that are trained on, as a job alone does (data/table_dataset.h). Thread safety: const
// methods from any thread. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/data/data_form.h"
#include "muster/data/dataset.h"
#include "muster/data/table.h"
#include "muster/federated/vertical/party_files.h"
#include "muster/trainer/job.h"

namespace muster::trainer {

class PartyTable {
 public:
  // Reads the job's data.path, with the target or, of a party without labels, without. Throws as data::read_table, with
  // the key, and for a table without a column to learn from. REQUIRES: a vertical job.
  PartyTable(const ResolvedJob& resolved, bool labelled);

  const std::vector<std::string>& ids() const { return table_.ids; }
  // Those that are read, the target too; and a digest of their names and values, by which a table is known again.
  std::uint64_t columns() const { return columns_; }
  std::string content() const;
  // New rows in another file, which are read as those of `form` were; what is to be predicted is not read, and need not
  // be there. Throws as above.
  PartyTable(const ResolvedJob& resolved, const std::filesystem::path& path, data::DataForm form);

  // Samples in the order of the alignment.
  std::shared_ptr<const data::Dataset> aligned(const federated::Alignment& alignment) const;
  // How these are made of the table, so that others can be read alike. REQUIRES: not of new rows.
  data::DataForm form(const federated::Alignment& alignment) const;

 private:
  std::vector<data::ColumnScale> scales(const data::Table& rows, const federated::Alignment& alignment) const;

  data::TableOptions options_;
  data::Table table_;
  std::optional<data::DataForm> form_;  // of new rows
  std::uint64_t columns_ = 0;
};

// Whether the job is the label holder's: it names the others.
bool is_label_holder(const Job& job);

// Throws Error{kInvalidInput} for a key of `resolved`, read from `file`, that is for the label holder to say: in the
// job of a party with columns it has no effect.
void require_columns_job(const ResolvedJob& resolved, const std::string& file);

}  // namespace muster::trainer
