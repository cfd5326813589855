// A view that copies chosen columns out of each sample; the data set below is read whole, so a party saves transport
// and not reading.
#include "muster/data/partition/vertical.h"

#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/data/partition/shards.h"

namespace muster::data {

Placement place_columns(std::uint64_t columns, std::uint64_t parties) {
  const Shards parts = Shards::consecutive(columns, parties);
  Placement placement;
  for (std::uint64_t party = 0; party < parties; ++party)
    placement.member_of.insert(placement.member_of.end(), parts.size(party), static_cast<std::uint32_t>(party));
  return placement;
}

Columns::Columns(std::shared_ptr<const Dataset> dataset, const Placement& placement, std::uint32_t party)
    : dataset_(std::move(dataset)), columns_(placement.shards_of(party)), spec_(dataset_->spec()) {
  if (spec_.shape.size() != 1 || spec_.elements() != placement.member_of.size()) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} columns were placed on parties; the samples are not rows of so many",
                            placement.member_of.size()));
  }
  if (columns_.empty()) throw Error(ErrorKind::kInvalidInput, fmt::format("party {} holds no columns", party));
  spec_.shape = {static_cast<std::int64_t>(columns_.size())};
}

std::int64_t Columns::read(std::uint64_t id, std::span<float> features) const {
  MUSTER_CHECK(features.size() == columns_.size(), "features of another size than the samples");
  std::vector<float> row(dataset_->spec().elements());
  const std::int64_t label = dataset_->read(id, row);
  for (std::size_t i = 0; i < columns_.size(); ++i)
    features[i] = row[columns_[i]];
  return label;
}

}  // namespace muster::data
