// A narrower model beside the whole one: how it trains, where its numbers stand in the whole one, and room for them.
//
// Thread safety: one thread. No torch here.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "muster/federated/local_training.h"
#include "muster/federated/slice_map.h"

namespace muster::federated {

struct Submodel {
  // Throws as SliceMap.
  Submodel(const LocalTraining& whole, std::unique_ptr<LocalTraining> narrower)
      : training(std::move(narrower)),
        map(whole.tensors(), training->tensors()),
        model(training->size()),
        update(training->size()) {}

  std::unique_ptr<LocalTraining> training;
  SliceMap map;
  std::vector<float> model;
  std::vector<float> update;
};

}  // namespace muster::federated
