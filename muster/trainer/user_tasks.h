// Tasks of your own (what is minimised, what is measured) in a shared object, which `muster train` loads:
// [loss] task = "library", library = "libmine.so", name = "mine".
//
// A source file with a class derived from OwnTask and one line at its end:
//
//   std::shared_ptr<const muster::trainer::OwnTask> make_mine(const muster::data::SampleSpec& spec,
//                                                             const muster::OwnOptions& options) { ... }
//   MUSTER_TASKS({"mine", "a loss of my own", make_mine, {{"gamma", 2.0, "How much easy samples are left out.", 0}}})
//
// Several tasks are several braces; the keys at the end are those of [loss.options]. make may throw std::exception
// (muster::Error keeps its kind). examples/own_task.cpp is a whole one. Such a file is code: load only files that you
// would also run.
#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <torch/torch.h>
#include <torch/version.h>

#include "muster/base/own_options.h"
#include "muster/data/dataset.h"
#include "muster/trainer/metrics.h"

namespace muster::trainer {

// Every function is one of a batch of samples, and of each sample by itself: then any lanes and any workers add up to
// the same. Immutable; called from one thread at a time.
class OwnTask {
 public:
  virtual ~OwnTask() = default;

  // What is minimised is the mean of these: a vector, of each sample.
  virtual torch::Tensor losses(const torch::Tensor& answer, const torch::Tensor& target) const = 0;
  // What figures() gives: the first one is shown beside the loss while training. At least one.
  virtual std::vector<std::string> figure_names() const = 0;
  // Of each sample a row, with a column for each name.
  virtual torch::Tensor figures(const torch::Tensor& answer, const torch::Tensor& target) const = 0;
  // What an evaluation tells, of the means of the figures over all its samples: these as they are. One that is no mean
  // is made here of some that are (an F1 score of shares of hits, misses and false alarms).
  virtual std::vector<Metric> metrics(std::span<const double> means) const {
    std::vector<Metric> all;
    for (const std::string& name : figure_names())
      all.push_back({name, means[all.size()]});
    return all;
  }
};

struct UserTask {
  const char* name;
  const char* help;
  std::shared_ptr<const OwnTask> (*make)(const data::SampleSpec& spec, const OwnOptions& options);
  std::vector<OwnKey> keys = {};
};

// What a library tells about itself. The program looks at the first members before it trusts the rest.
struct UserTasks {
  int format;              // kUserTaskFormat of the headers it was built with
  std::size_t spec_bytes;  // sizeof(SampleSpec)
  const char* torch;       // version of LibTorch
  const UserTask* tasks;
  std::size_t count;
};

constexpr int kUserTaskFormat = 1;
constexpr const char* kUserTaskSymbol = "muster_user_tasks";

}  // namespace muster::trainer

// A library has this once.
#define MUSTER_TASKS(...)                                                                                       \
  extern "C" __attribute__((visibility("default"))) const ::muster::trainer::UserTasks* muster_user_tasks() {   \
    static const ::muster::trainer::UserTask tasks[] = {__VA_ARGS__};                                           \
    static const ::muster::trainer::UserTasks library{::muster::trainer::kUserTaskFormat,                       \
                                                      sizeof(::muster::data::SampleSpec), TORCH_VERSION, tasks, \
                                                      std::size(tasks)};                                        \
    return &library;                                                                                            \
  }
