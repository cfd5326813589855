// Rows are brought into the common order first, so that what is measured on them does not depend on the order in which
// a party happens to have them.
#include "muster/trainer/party_table.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/hash.h"
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
  std::uint64_t features = 0;
  for (std::size_t c = 0; c < table_.columns.size(); ++c) {
    if (table_.columns[c].kind == data::ColumnKind::kIgnored) continue;
    ++columns_;
    if (!table_.is_target(c)) ++features;
  }
  if (features == 0)
    throw resolved.invalid("data.path",
                           fmt::format("{} has no column to learn from beside \"{}\"{}", source.path.string(),
                                       options_.id, labelled ? " and what is to be predicted" : ""),
                           "Every party needs one at least: look at data.ignore and data.delimiter.");
}

std::string PartyTable::content() const {
  Sha256 hash;
  const auto add_number = [&](std::uint64_t number) { hash.update(std::as_bytes(std::span(&number, 1))); };
  const auto add_text = [&](const std::string& text) {
    add_number(text.size());
    hash.update(std::as_bytes(std::span(text)));
  };
  for (const data::Column& column : table_.columns) {
    if (column.kind == data::ColumnKind::kIgnored) continue;
    add_text(column.name);
    add_number(static_cast<std::uint64_t>(column.kind));
    add_number(column.values.size());
    hash.update(std::as_bytes(std::span(column.values)));
    add_number(column.categories.size());
    for (const std::string& category : column.categories)
      add_text(category);
  }
  for (const std::size_t target : table_.targets)
    add_number(target);
  return hash.finish();
}

PartyTable::PartyTable(const ResolvedJob& resolved, const std::filesystem::path& path, data::DataForm form)
    : form_(std::move(form)) {
  const data::SourceOptions source = source_options(resolved.job);
  options_ = source.table;
  data::Table like;
  for (std::size_t c = 0; c < form_->columns.columns.size(); ++c) {
    if (!form_->columns.is_target(c)) like.columns.push_back(form_->columns.columns[c]);
  }
  data::BadSamples bad(source.bad_samples);
  table_ = data::read_table(path, options_, bad, &like);
  columns_ = static_cast<std::uint64_t>(std::ranges::count_if(
      table_.columns, [](const data::Column& column) { return column.kind != data::ColumnKind::kIgnored; }));
}

std::vector<data::ColumnScale> PartyTable::scales(const data::Table& rows,
                                                  const federated::Alignment& alignment) const {
  std::vector<bool> training(alignment.rows.size());
  for (std::uint64_t row = 0; row < alignment.train_rows; ++row)
    training[row] = true;
  return data::measure(rows, training, options_);
}

std::shared_ptr<const data::Dataset> PartyTable::aligned(const federated::Alignment& alignment) const {
  data::Table rows = data::take_rows(table_, alignment.rows);
  if (!form_) {
    const std::vector<data::ColumnScale> of_rows = scales(rows, alignment);
    return std::make_shared<data::TableDataset>(std::move(rows), of_rows, options_);
  }
  // Targets that mean nothing, where those of the rows of then were.
  rows.targets = form_->columns.targets;
  for (std::size_t c = 0; c < form_->columns.columns.size(); ++c) {
    if (!form_->columns.is_target(c)) continue;
    const auto place = rows.columns.begin() + static_cast<std::ptrdiff_t>(c);
    rows.columns.insert(place, form_->columns.columns[c])->values.assign(rows.rows, 0.0F);
  }
  return std::make_shared<data::TableDataset>(std::move(rows), form_->scales, options_);
}

data::DataForm PartyTable::form(const federated::Alignment& alignment) const {
  data::Table rows = data::take_rows(table_, alignment.rows);
  data::DataForm form;
  form.scales = scales(rows, alignment);
  form.columns.targets = rows.targets;
  for (const data::Column& column : rows.columns)
    form.columns.columns.push_back({.name = column.name, .kind = column.kind, .categories = column.categories});
  form.spec = data::TableDataset(std::move(rows), form.scales, options_).spec();
  return form;
}

bool is_label_holder(const Job& job) {
  return !job.vertical.parties.empty();
}

void require_columns_job(const ResolvedJob& resolved, const std::string& file) {
  for (const char* key :
       {"vertical.parties", "vertical.checkpoint_steps", "job.epochs", "data.batch", "data.target", "data.targets",
        "data.test_fraction", "model.hidden", "loss.task", "loss.error", "loss.label_smoothing"}) {
    if (resolved.places.at(key) != file)
      throw resolved.invalid(key, "is for the label holder to say", "Remove it from the job of a party with columns.");
  }
}

}  // namespace muster::trainer
