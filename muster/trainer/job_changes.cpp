// A change is tried on a copy of the whole job: it is allowed if the job could have been started with it. Keys that a
// running job cannot change are refused with the reason and what to do instead.
#include "muster/trainer/job_changes.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/compute/optimizer.h"
#include "muster/trainer/job.h"

namespace muster::trainer {
namespace {

// Why a key cannot change, and what to do instead.
std::string reason_for_fixed(const std::string& key) {
  if (key == "parallel.workers") return "Use muster scale JOB N.";
  if (key == "job.ledger") return "A ledger with a gap proves nothing. Start a new run.";
  if (key == "optimizer.name") return "The optimizer's state belongs to it. Start a new run.";
  if (may_differ_when_resumed(key))
    return "It is read once, when the run begins. Stop the job and resume it with --set.";
  return "It says what is trained, and every step so far was computed with it. Start a new run.";
}

}  // namespace

const std::vector<std::string>& changeable_keys() {
  static const std::vector<std::string> keys{"checkpoint.every_epochs", "checkpoint.every_steps", "optimizer.beta1",
                                             "optimizer.beta2",         "optimizer.clip_norm",    "optimizer.dampening",
                                             "optimizer.eps",           "optimizer.lr",           "optimizer.momentum",
                                             "optimizer.trust",         "optimizer.weight_decay"};
  return keys;
}

void check_change(std::string_view job_text, const std::vector<std::string>& earlier, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is not of the form key=value", excerpt(assignment, 100)),
                {}, "For example: muster set JOB optimizer.lr=0.01");
  const std::string key = assignment.substr(0, equals);
  const std::vector<std::string>& keys = changeable_keys();
  std::vector<std::string> assignments = earlier;
  assignments.push_back(assignment);
  if (!std::binary_search(keys.begin(), keys.end(), key)) {
    // What the job file's description says of an unknown key is better than what can be said here.
    Job any;
    job_schema(any).set(assignment);
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} cannot change while a job runs", key), {},
                fmt::format("{} Keys that can: {}.", reason_for_fixed(key), join_words(keys)));
  }
  const auto slots = [&](const std::vector<std::string>& changes) {
    return compute::make_optimizer(optimizer_options(parse_job(job_text, "the run's job", changes)))->slots();
  };
  if (slots(assignments) != slots(earlier))
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} would give the optimizer other state", assignment), {},
                "A momentum that is 0 has to stay 0, and one that is not has to stay above 0. Start a new run.");
}

}  // namespace muster::trainer
