// The nets of vertical training, of LibTorch: perceptrons with the job's optimizer.
//
// A bottom net has vertical.bottom as hidden layers and gives vertical.width numbers a row. The label holder's has one
// of its own; what all of them give, its own first and the others' in their order, goes through ReLU into the top net
// with model.hidden as hidden layers, whose answers are the task's. So the parts together are one net, and train as it
// would: each part's gradient is that of the mean loss of the batch. What is different is optimizer.clip_norm, which is
// of each party's part. Thread safety: as the interfaces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "muster/data/dataset.h"
#include "muster/federated/vertical/party_nets.h"
#include "muster/trainer/job.h"

namespace muster::trainer {

// `rows` are those of the alignment, in its order. Set the threads of LibTorch. Throw Error.
std::unique_ptr<federated::BottomNet> make_bottom_net(const ResolvedJob& resolved,
                                                      std::shared_ptr<const data::Dataset> rows);
// `widths`: of the others' activations.
std::unique_ptr<federated::TopNet> make_top_net(const ResolvedJob& resolved, std::shared_ptr<const data::Dataset> rows,
                                                std::span<const std::uint64_t> widths);

// Nets that are trained, of files that the above have written (PartyNet::save_model); they are not trained further.
// Throw Error, kMismatch for a file of another net.
std::unique_ptr<federated::BottomNet> load_bottom_net(const ResolvedJob& resolved,
                                                      std::shared_ptr<const data::Dataset> rows,
                                                      const std::filesystem::path& model);
// Told of each batch: rows, and their answers one behind the other, probabilities where there are classes.
using OnAnswers = std::function<void(std::span<const std::uint64_t> rows, std::span<const float> answers)>;
std::unique_ptr<federated::TopNet> load_top_net(const ResolvedJob& resolved, std::shared_ptr<const data::Dataset> rows,
                                                std::span<const std::uint64_t> widths,
                                                const std::filesystem::path& model, OnAnswers on_answers);

}  // namespace muster::trainer
