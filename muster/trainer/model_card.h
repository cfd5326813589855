// A model card: what a model was trained on, by which job and how well, for people (card.md) and programs (card.json).
// In every run's folder, from its start on; results come at the end. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "muster/base/json.h"
#include "muster/data/data_form.h"
#include "muster/trainer/metrics.h"

namespace muster::trainer {

struct ModelCard {
  struct Result {
    std::uint64_t steps = 0;
    std::uint64_t epochs = 0;
    double seconds = 0;
    Evaluation test = {};
    std::uint64_t best_step = 0;
    double best_loss = 0;  // on the validation set
    std::string weights_hash = {};
    std::uint64_t rounds = 0;  // of federated training, which has no steps and no epochs of its own
  };

  std::string name = {};            // of the job
  std::string muster_version = {};  // that trained it
  std::string job = {};             // resolved, as text
  std::string data = {};            // in words
  std::uint64_t train_samples = 0;
  data::DataForm form = {};
  std::string model = {};  // in words
  std::uint64_t parameters = 0;
  std::string task = {};
  std::optional<Result> result = {};  // empty: not at its end yet
  std::string failure = {};           // why and where it ended before its end; empty: it did not

  Json to_json() const;
  // Throws kDamaged or kUnsupported (a later format) with `where`.
  static ModelCard from_json(const Json& json, const std::string& where);
  std::string to_markdown() const;

  // Writes card.json and card.md. Throws kIo or kResource.
  void write(const std::filesystem::path& folder) const;
  // Throws kNotFound, kDamaged, kUnsupported, kIo.
  static ModelCard read(const std::filesystem::path& folder);
};

}  // namespace muster::trainer
