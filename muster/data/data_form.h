// How the samples of a training set are made of its files: normalisation, columns with their categories and scales,
// what classes and tokens are called. Other files can then be read alike without the training files: a part of every
// model card (trainer/model_card.h).
#pragma once

#include <string>
#include <vector>

#include "muster/base/json_fwd.h"
#include "muster/data/dataset.h"
#include "muster/data/images.h"
#include "muster/data/table.h"

namespace muster::data {

struct DataForm {
  SampleSpec spec = {};
  Normalization normalization = {};      // of pictures and arrays; else empty
  Table columns = {};                    // of a table, without rows; else empty
  std::vector<ColumnScale> scales = {};  // one for each column

  Json to_json() const;
  // Throws kDamaged with `where` if something is missing, of another type or contradicts the rest.
  static DataForm from_json(const Json& json, const std::string& where);
};

}  // namespace muster::data
