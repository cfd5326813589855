// Rows are brought into the common order first, so that what is measured on them does not depend on the order in which
// a party happens to have them.
#include "muster/trainer/party_table.h"

#include "muster/base/check.h"
#include "muster/data/bad_samples.h"
#include "muster/data/table_dataset.h"
#include "muster/trainer/job_fit.h"

namespace muster::trainer {

PartyTable::PartyTable(const ResolvedJob& resolved, bool labelled) {
  MUSTER_CHECK(resolved.job.is_vertical(), "a vertical job");
  const data::SourceOptions source = source_options(resolved.job);
  if (source.path.empty())
    throw resolved.invalid("data.path", "nothing says where the party's table is", "Set it to a CSV file.");
  options_ = source.table;
  options_.unlabelled = !labelled;
  data::BadSamples bad(source.bad_samples);
  table_ = about_key(resolved, "data.path", [&] { return data::read_table(source.path, options_, bad); });
}

std::shared_ptr<const data::Dataset> PartyTable::aligned(const federated::Alignment& alignment) const {
  data::Table rows = data::take_rows(table_, alignment.rows);
  std::vector<bool> training(alignment.rows.size());
  for (std::uint64_t row = 0; row < alignment.train_rows; ++row)
    training[row] = true;
  const std::vector<data::ColumnScale> scales = data::measure(rows, training, options_);
  return std::make_shared<data::TableDataset>(std::move(rows), scales, options_);
}

}  // namespace muster::trainer
