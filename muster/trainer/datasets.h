// The data of a job: what trains, what validates and what tests. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/bad_samples.h"
#include "muster/data/data_form.h"
#include "muster/data/dataset.h"
#include "muster/data/lane_order.h"
#include "muster/data/tolerant.h"
#include "muster/trainer/job.h"

namespace muster::trainer {

struct Datasets {
  std::shared_ptr<const data::Dataset> train;
  std::shared_ptr<const data::Dataset> validation;
  std::shared_ptr<const data::Dataset> test;
  std::string description;
  bool held_out = false;  // validation is a part of the training files, not the test set
  std::shared_ptr<data::BadSamples> bad_samples;
  std::shared_ptr<const data::Tolerant> tolerant{};  // `train` where bad samples are skipped; else empty
  data::DataForm form{};                             // how the samples were made of the files
  std::vector<std::string> notes{};                  // what people should know of the files
};

// Throws as data::open_source and data::split. `remote`: SourceOptions::remote.
Datasets open_data(const Job& job, const std::shared_ptr<data::PieceDoor>& remote = {});

// Which samples each lane computes.
std::shared_ptr<const data::LaneOrder> lane_order(const Job& job, const data::Dataset& train,
                                                  const data::BatchShape& shape);

// The samples of a lane of step `step` (committed steps before it), as the training set numbers them. Throws as
// open_data.
std::vector<std::uint64_t> samples_of(const ResolvedJob& resolved, std::uint64_t step, std::size_t lane);

}  // namespace muster::trainer
